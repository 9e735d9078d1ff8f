"""The pictures of the page: who waits for whom, what threads did, how memory grew.

Secret: the geometry. Colours come from the page's style by class, so that pictures follow it into
the dark and onto paper. Pure; called by `html`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from autopsy.report.markup import Markup, element, plain
from autopsy.report.part import Chart, Edge, Graph, Node, Strips

_Place = tuple[float, float]
_BOX_W, _BOX_H, _GAP_X, _GAP_Y = 300, 46, 24, 44
_LANE = 26
_TITLE, _DETAIL = 36, 39
_NARROW = 460
# The end of a path says more than its beginning; the whole is in the words.
_FOLDERS = re.compile(r"(?<![^\s(])/\S*/")
_STRIP_W, _STRIP_H, _ROW_H = 680, 16, 40
_CHART_W, _CHART_H = 680, 120
#: Colours of stacks in a strip; what is further down the list shares the last.
COLOURS = 8


def graph(picture: Graph) -> Markup:
    """Draw nodes in layers, each above what it waits for; edges back up run at the right."""
    layers = _layers(picture)
    places: dict[str, _Place] = {}
    width = max(len(layer) for layer in layers) * (_BOX_W + _GAP_X) - _GAP_X
    for depth, layer in enumerate(layers):
        left = 1 + (width - len(layer) * (_BOX_W + _GAP_X) + _GAP_X) / 2
        for column, key in enumerate(layer):
            places[key] = (left + column * (_BOX_W + _GAP_X), depth * (_BOX_H + _GAP_Y) + 6)
    lanes = sum(places[one.end][1] <= places[one.start][1] for one in picture.edges)
    height = len(layers) * (_BOX_H + _GAP_Y) - _GAP_Y + 12
    drawn: list[Markup] = []
    lane = 0
    for edge in picture.edges:
        back = places[edge.end][1] <= places[edge.start][1]
        lane += back
        far = width + lane * _LANE if back else None
        ends = places[edge.start], places[edge.end]
        drawn.append(_edge(edge, *ends, far, hot={edge.start, edge.end} <= picture.cycle))
    drawn += [
        _box(node, *places[node.key], hot=node.key in picture.cycle) for node in picture.nodes
    ]
    needed = max(
        (
            (places[edge.start][0] + places[edge.end][0] + _BOX_W) / 2 + 12 + 7 * len(edge.label)
            for edge in picture.edges
        ),
        default=0,
    )
    total = max(width, needed if not lanes else 0) + (lanes * _LANE + 96 if lanes else 0) + 8
    label = f"{len(picture.nodes)} waiters, locks and holders; the same in words below"
    return _canvas(
        total, height, label, _arrows(), *drawn, class_="narrow" if total <= _NARROW else "wide"
    )


def _layers(picture: Graph) -> list[list[str]]:
    """Put each node one layer below the highest that waits for it, circles broken once."""
    after: dict[str, list[str]] = defaultdict(list)
    for edge in picture.edges:
        after[edge.start].append(edge.end)
    depth: dict[str, int] = {}
    ends = {edge.end for edge in picture.edges}
    starts = sorted((node.key for node in picture.nodes), key=lambda key: key in ends)
    for start in starts:
        if start in depth:
            continue
        depth[start] = 0
        queue = [start]
        while queue:
            key = queue.pop(0)
            for end in after[key]:
                if end not in depth:
                    depth[end] = depth[key] + 1
                    queue.append(end)
    layers: dict[int, list[str]] = defaultdict(list)
    for node in picture.nodes:
        layers[depth[node.key]].append(node.key)
    return [layers[level] for level in sorted(layers)]


def _box(node: Node, x: float, y: float, *, hot: bool) -> Markup:
    middle = y + (19 if node.detail else 28)
    told = _FOLDERS.sub("", node.detail)
    detail = element("text", _short(told, _DETAIL), x=x + 10, y=y + 36, class_="small")
    return element(
        "g",
        element("title", f"{node.title}\n{node.detail}".strip()),
        element("rect", x=x, y=y, width=_BOX_W, height=_BOX_H, rx=22 if node.kind == "lock" else 4),
        element("text", _short(node.title, _TITLE), x=x + 10, y=middle, class_="name"),
        detail if node.detail else None,
        class_=f"node {node.kind}{' hot' if hot else ''}",
    )


def _edge(edge: Edge, start: _Place, end: _Place, far: float | None, *, hot: bool) -> Markup:
    middle = _BOX_W / 2
    if far is None:
        x1, y1, x2, y2 = start[0] + middle, start[1] + _BOX_H, end[0] + middle, end[1] - 3
        half = (y1 + y2) / 2
        way = f"M{x1:g},{y1:g} C{x1:g},{half:g} {x2:g},{half:g} {x2:g},{y2:g}"
        at = ((x1 + x2) / 2 + 8, half + 4)
    else:
        x1, y1, x2, y2 = start[0] + _BOX_W, start[1] + 23, end[0] + _BOX_W + 3, end[1] + 23
        way = f"M{x1:g},{y1:g} H{far - 8:g} Q{far:g},{y1:g} {far:g},{y1 - 8:g}"
        way += f" V{y2 + 8:g} Q{far:g},{y2:g} {far - 8:g},{y2:g} H{x2:g}"
        if y1 == y2:  # of itself, or of a neighbour
            way = f"M{x1:g},{y1 + 8:g} H{far:g} V{y2 - 8:g} H{x2:g}"
        at = (far + 6, (y1 + y2) / 2 + 4)
    marker = "url(#hot)" if hot else "url(#end)"
    return element(
        "g",
        element("path", d=way, marker_end=marker),
        element("text", edge.label, x=round(at[0]), y=round(at[1]), class_="small"),
        class_=f"edge{' held' if edge.label == 'held by' else ''}{' hot' if hot else ''}",
    )


def _arrows() -> Markup:
    def marker(name: str) -> Markup:
        head = element("path", d="M0,0 L8,4 L0,8 z", class_=f"arrow {name}")
        return element(
            "marker", head, id=name, viewBox="0 0 8 8", refX=7, refY=4,
            markerWidth=9, markerHeight=9, markerUnits="userSpaceOnUse", orient="auto",
        )  # fmt: skip

    return element("defs", marker("end"), marker("hot"))


def strips(picture: Strips) -> Markup:
    """Draw a row for each thread: a colour for each stack, the present at the right."""
    scale = _STRIP_W / picture.span_s
    drawn: list[Markup] = []
    for row, (label, runs) in enumerate(picture.rows):
        y = row * _ROW_H + 16
        drawn.append(element("text", _short(label, 90), x=0, y=y - 3, class_="small"))
        drawn.append(element("rect", x=0, y=y, width=_STRIP_W, height=_STRIP_H, class_="track"))
        for run in runs:
            x = _STRIP_W - min(run.since_s, picture.span_s) * scale
            width = max(1.0, (min(run.since_s, picture.span_s) - run.until_s) * scale)
            name = picture.stacks[run.stack] if run.stack < len(picture.stacks) else "another stack"
            drawn.append(
                element(
                    "rect",
                    element("title", f"{run.since_s:.0f} s to {run.until_s:.0f} s ago: {name}"),
                    x=round(x, 1), y=y, width=round(width, 1), height=_STRIP_H,
                    class_=f"c{min(run.stack, COLOURS - 1)}",
                )
            )  # fmt: skip
    height = len(picture.rows) * _ROW_H
    for gap in picture.gaps:
        x = _STRIP_W - min(gap.since_s, picture.span_s) * scale
        width = max(1.0, (gap.since_s - gap.until_s) * scale)
        title = element("title", f"no sample for {gap.since_s - gap.until_s:.0f} s")
        at = {"x": round(x, 1), "y": 10, "width": round(width, 1), "height": height - 10}
        drawn.append(element("rect", title, **at, class_="gap"))
    for seconds in _ticks(picture.span_s):
        x = _STRIP_W - seconds * scale
        drawn.append(element("line", x1=x, x2=x, y1=height - 4, y2=height, class_="axis"))
        anchor = "end" if seconds == 0 else "start" if x < 30 else "middle"
        told = "now" if seconds == 0 else f"-{seconds:g} s"
        drawn.append(
            element("text", told, x=round(x), y=height + 12, text_anchor=anchor, class_="small")
        )
    return _canvas(_STRIP_W, height + 18, "What each thread did; the same in words below", *drawn)


def _ticks(span_s: float) -> Sequence[float]:
    step = next((one for one in (1, 5, 10, 30, 60, 300) if span_s / one <= 6), 900)
    return [step * number for number in range(int(span_s / step) + 1)]


def chart(picture: Chart) -> Markup:
    """Draw a series with its lowest and highest value at the left."""
    ages = [age for age, _ in picture.points]
    values = [value for _, value in picture.points]
    oldest, newest, low, high = max(ages), min(ages), min(values), max(values)
    across, up = (oldest - newest) or 1, (high - low) or 1
    left, top, bottom = 86, 10, _CHART_H - 22
    points = [
        (
            left + (oldest - age) / across * (_CHART_W - left - 8),
            bottom - (value - low) / up * (bottom - top),
        )
        for age, value in picture.points
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return _canvas(
        _CHART_W,
        _CHART_H,
        f"{picture.title} from {picture.lowest} to {picture.highest}",
        element("line", x1=left, x2=_CHART_W - 8, y1=bottom, y2=bottom, class_="axis"),
        element("line", x1=left, x2=left, y1=top, y2=bottom, class_="axis"),
        element("polyline", points=line, class_="series"),
        element(
            "circle", cx=round(points[-1][0], 1), cy=round(points[-1][1], 1), r=3, class_="dot"
        ),
        *(
            element("text", told, x=left - 6, y=y + 4, text_anchor="end", class_="small")
            for told, y in ((picture.highest, top), (picture.lowest, bottom))
            if told != picture.highest or y == top
        ),
        element("text", f"-{oldest:.0f} s", x=left, y=_CHART_H - 6, class_="small"),
        element("text", "now", x=_CHART_W - 8, y=_CHART_H - 6, text_anchor="end", class_="small"),
    )


def bar(ratio: float) -> Markup:
    """Draw a confidence from 0 to 1."""
    inner = round(118 * max(0.0, min(1.0, ratio)), 1)
    return element(
        "svg",
        element("rect", x=0.5, y=0.5, width=119, height=9, rx=5, class_="track"),
        element("rect", x=1, y=1, width=inner, height=8, rx=4, class_="filled"),
        viewBox="0 0 120 10", width=120, height=10, class_="bar", aria_hidden="true",
    )  # fmt: skip


def _canvas(
    width: float, height: float, label: str, *drawn: Markup, class_: str | None = None
) -> Markup:
    return element(
        "svg",
        *drawn,
        viewBox=f"0 0 {width:g} {height:g}", width=f"{width:g}", height=f"{height:g}",
        role="img", aria_label=label, class_=class_,
    )  # fmt: skip


def _short(text: str, limit: int) -> str:
    text = plain(text).replace("\n", " ")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
