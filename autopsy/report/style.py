"""The style of the page, and the colours it is made of.

Invariant: every pair of ink and paper in `PAIRS` has a contrast of at least 4.5 in the light, in
the dark and on paper (WCAG AA); a test computes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#ffffff", "panel": "#f5f6f8", "ink": "#1b1f24", "dim": "#57606a",
        "rule": "#d0d7de", "accent": "#0a55b0", "hot": "#b3261e", "hotpanel": "#fdeceb",
        "good": "#1a6b34", "new": "#8a4b00",
        "c0": "#3b6fb5", "c1": "#c0662a", "c2": "#4d8a4a", "c3": "#a04b8c", "c4": "#8a7a1e",
        "c5": "#3f8f96", "c6": "#a34444", "c7": "#7d848d",
    }
)  # fmt: skip
DARK: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#14171b", "panel": "#1d2127", "ink": "#e6e9ed", "dim": "#a3adb8",
        "rule": "#3a414a", "accent": "#82b6ff", "hot": "#ff958c", "hotpanel": "#3a1f1e",
        "good": "#7fd398", "new": "#f0b56a",
        "c0": "#6f9fe0", "c1": "#e0935c", "c2": "#7cba78", "c3": "#cf83bd", "c4": "#c2b04c",
        "c5": "#6cc0c7", "c6": "#d87878", "c7": "#9aa2ab",
    }
)  # fmt: skip
#: Ink on paper as the style below uses them.
PAIRS = tuple(
    (ink, paper)
    for ink in ("ink", "dim", "accent", "hot", "good", "new")
    for paper in ("paper", "panel", "hotpanel")
    if paper != "hotpanel" or ink in ("ink", "dim", "hot", "new")
)

_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
 font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:20px 20px 60px}
h1{font-size:1.45rem;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:1.08rem;margin:0;display:inline}
p{margin:4px 0;overflow-wrap:anywhere}
.dim,.small{color:var(--dim)}
.cause{border:1px solid var(--rule);border-left:5px solid var(--rule);border-radius:6px;
 padding:10px 14px;margin:12px 0;background:var(--panel)}
.cause.first{border-left-color:var(--hot)}
.cause.first.good{border-left-color:var(--good)}
.cause h2{font-size:1.1rem;overflow-wrap:anywhere}
.cause .sure{white-space:nowrap;margin-left:10px;color:var(--dim)}
.cause ul{margin:6px 0 0;padding-left:20px}
.cause li{font:12.5px/1.5 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;
 overflow-wrap:anywhere;margin:2px 0}
nav{display:flex;flex-wrap:wrap;gap:2px 14px;margin:14px 0 4px;padding:8px 0;
 border-top:1px solid var(--rule);border-bottom:1px solid var(--rule);font-size:.9rem}
a{color:var(--accent);text-decoration:none}
a:hover,a:focus-visible{text-decoration:underline}
details.part{border-bottom:1px solid var(--rule);padding:10px 0}
details.part>summary{cursor:pointer;padding:2px 0}
details.stack{margin:8px 0;border-left:3px solid var(--rule);padding-left:10px}
details.stack>summary{cursor:pointer;overflow-wrap:anywhere;font-weight:600;font-size:.93rem}
details.stack>summary .dim{font-weight:400}
summary:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:3px}
ol.calls{list-style:none;margin:4px 0;padding:0;
 font:12.5px/1.45 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
ol.calls li{padding:1px 0 1px 8px;border-left:3px solid transparent;overflow-wrap:anywhere}
ol.calls li.own .function{font-weight:700}
ol.calls li.new,ol.calls li.moved{border-left-color:var(--new)}
ol.calls li.gone{opacity:.99;color:var(--dim);text-decoration:line-through}
ol.calls .change{color:var(--new);font-weight:600}
ol.calls .place{color:var(--dim)}
ol.calls code{display:block;padding-left:18px;font:inherit;color:var(--accent);white-space:pre-wrap}
pre{margin:6px 0;padding:8px 10px;background:var(--panel);border-radius:5px;overflow-x:auto;
 font:12.5px/1.45 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;
 white-space:pre-wrap;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:6px 0}
table{border-collapse:collapse;font-size:.86rem}
th,td{text-align:left;vertical-align:top;padding:3px 18px 3px 0;border-bottom:1px solid var(--rule)}
th{color:var(--dim);font-weight:600;white-space:nowrap}
td{max-width:38em;overflow-wrap:break-word;font-variant-numeric:tabular-nums;white-space:pre-wrap}
.n{text-align:right;white-space:nowrap}
ul.words{margin:6px 0;padding-left:20px;font-size:.9rem}
ul.words li{overflow-wrap:anywhere}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;padding:0;margin:6px 0;
 font-size:.82rem}
.legend svg{vertical-align:-1px;margin-right:5px}
svg{display:block;max-width:none;font:12.5px ui-monospace,"DejaVu Sans Mono",Menlo,monospace}
.legend svg,svg.bar{display:inline-block}
.fit{overflow-x:auto}
.fit svg{width:100%;min-width:540px;max-width:680px;height:auto}
svg text{fill:var(--ink)}
svg .small{fill:var(--dim);font-size:11.5px}
svg .name{font-weight:600}
svg.narrow{max-width:100%;height:auto}
.edge text{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}
.node rect{fill:var(--panel);stroke:var(--dim)}
.node.lock rect{fill:var(--paper)}
.node.hot rect{fill:var(--hotpanel);stroke:var(--hot);stroke-width:2}
.edge path{fill:none;stroke:var(--dim);stroke-width:1.4;stroke-dasharray:5 3}
.edge.held path{stroke-dasharray:none}
.edge.hot path{stroke:var(--hot);stroke-width:2.2}
svg .edge.hot text{fill:var(--hot)}
path.arrow{fill:var(--dim)}
path.arrow.hot{fill:var(--hot)}
.track{fill:var(--panel);stroke:var(--rule)}
.filled,.dot{fill:var(--accent)}
.gap{fill:var(--ink);fill-opacity:.16}
.axis{stroke:var(--dim)}
.series{fill:none;stroke:var(--accent);stroke-width:2}
.beside{display:flex;flex-wrap:wrap;gap:0 24px;align-items:flex-start}
.beside>.scroll{flex:0 1 auto;max-width:100%}.beside>ul{flex:1 1 320px;min-width:0}
footer{margin-top:24px;color:var(--dim);font-size:.85rem}
@media (max-width:560px){main{padding:12px 12px 40px}h1{font-size:1.2rem}
 .cause .sure{display:block;margin:2px 0 0}}
@media print{
 main{max-width:none;padding:0}body{font-size:10.5pt}nav{display:none}
 details::details-content{content-visibility:visible;block-size:auto}
 summary{list-style:none}h2,summary{break-after:avoid}
 .cause,svg,tr{break-inside:avoid}.scroll{overflow:visible}
 .scroll svg{max-width:100%;height:auto}pre,.cause{border:1px solid var(--rule)}
 a{color:inherit}}
"""


def _variables(colours: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


def sheet() -> str:
    """Return the whole style sheet."""
    runs = "".join(f".c{n}{{fill:var(--c{n})}}" for n in range(8))
    return (
        f":root{{color-scheme:light dark;{_variables(LIGHT)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
        f"{_RULES}{runs}"
    )
