"""One panel as Grafana's JSON: queries, field configuration, options, transformations.

Secret kept here: Grafana's words for the kinds of panels, checked against its own schema of 11.6.
Called by `render` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from supervisor.monitoring.dashboards.model import (
    Color,
    Column,
    Kind,
    Limit,
    Named,
    Panel,
    Query,
    Style,
    Unit,
)
from supervisor.monitoring.dashboards.option import options

Json = dict[str, Any]

SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
#: Kinds that show what is now, not what was.
INSTANT = (Kind.NUMBER, Kind.DIAL, Kind.BARS, Kind.TABLE)
FORMATS = {Kind.TABLE: "table", Kind.HEATMAP: "heatmap"}
#: Each bar and cell stands for at least this long. It is near to what $__rate_interval becomes at a
#: scrape every 15 s: were it far less, the same event would be in several bars.
BAR = "1m"
#: Where there is nothing but zeros, Grafana's axis would end at 100, that of a share at 10,000 %.
SOFT = {Unit.SHORT: 1, Unit.RATIO: 0.1, Unit.PER_S: 0.1}
DASH = {"fill": "dash", "dash": [8, 6]}
#: What a legend of many leaves out: Grafana's words for series that are nothing but zeros.
ALL_ZEROS = {"reducer": "allIsZero", "op": "gte", "value": 0}
UNNAMED = {"legend": True, "tooltip": True, "viz": False}
UID = "supervisor-"


def panel_json(panel: Panel, number: int, x: int, y: int) -> Json:
    """Return a panel at a place of the grid."""
    lettered = zip(ascii_uppercase, panel.queries, strict=False)
    made: Json = {
        "id": number,
        "type": str(panel.kind),
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "pluginVersion": "11.6.0",
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "targets": [_target(panel, *one) for one in lettered],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": list(_overrides(panel))},
        "options": options(panel),
    }
    if panel.kind is Kind.TABLE:
        made["transformations"] = _as_one_table(panel)
    if panel.leads_to:
        made["links"] = [_link(panel.leads_to)]
    return made


def _target(panel: Panel, letter: str, query: Query) -> Json:
    at_once = panel.kind in INSTANT
    counted = panel.as_bars or panel.kind is Kind.HEATMAP
    return {
        **({"interval": BAR} if counted else {}),
        "refId": letter,
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": at_once,
        "range": not at_once,
        "exemplar": "_bucket" in query.expr and panel.kind is Kind.LINES,
        "format": FORMATS.get(panel.kind, "time_series"),
    }


def _link(leads_to: str) -> Json:
    kept = "${__url_time_range}&${datasource:queryparam}&${job:queryparam}&${instance:queryparam}"
    title = f"Open {leads_to}"
    return {"title": title, "url": f"/d/{UID}{leads_to}?{kept}", "targetBlank": False}


def _defaults(panel: Panel) -> Json:
    by_limit = panel.kind in (Kind.NUMBER, Kind.DIAL, Kind.BARS)
    made: Json = {
        "unit": str(panel.unit),
        "color": {"mode": "thresholds" if by_limit else "palette-classic"},
        "mappings": mappings(panel.named),
        "thresholds": steps(panel.low if panel.limits else Color.PLAIN, panel.limits),
        "custom": _custom(panel),
    }
    # Bars stand on something: an axis that begins at 8 would make 12 look four times 9.
    least = 0 if panel.as_bars and panel.minimum is None else panel.minimum
    optional = {
        "decimals": panel.decimals,
        "min": least,
        "max": panel.maximum,
        "noValue": panel.when_empty or None,
    }
    return made | {name: value for name, value in optional.items() if value is not None}


def mappings(named: Sequence[Named]) -> list[Json]:
    """Return what is shown in place of values."""
    if not named:
        return []
    shown = {
        one.value: {"text": one.text, "color": str(one.color), "index": index}
        for index, one in enumerate(named)
    }
    return [{"type": "value", "options": shown}]


def steps(low: Color, limits: Sequence[Limit]) -> Json:
    """Return thresholds: a colour for what is below the first, then one from each on."""
    above = [{"color": str(one.color), "value": one.value} for one in limits]
    return {"mode": "absolute", "steps": [{"color": str(low), "value": None}, *above]}


def _custom(panel: Panel) -> Json:
    hidden = {"legend": False, "tooltip": False, "viz": False}
    match panel.kind:
        case Kind.LINES:
            return _lines(panel)
        case Kind.TABLE:
            return {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False}
        case Kind.HEATMAP:
            return {"hideFrom": hidden, "scaleDistribution": {"type": "linear"}}
        case Kind.STATES:
            return {"fillOpacity": 80, "lineWidth": 0}
        case _:
            return {}


def _lines(panel: Panel) -> Json:
    filled = 70 if panel.as_bars else 30 if panel.stacked else 0
    ends = {"axisSoftMax": SOFT[panel.unit]} if panel.unit in SOFT else {}
    scale = {"type": "log", "log": 10} if panel.in_powers else {"type": "linear"}
    return {
        **ends,
        "drawStyle": "bars" if panel.as_bars else "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": filled,
        "gradientMode": "none",
        "showPoints": "auto" if panel.with_points else "never",
        "pointSize": 5,
        "spanNulls": False,
        "axisPlacement": "auto",
        "axisLabel": "",
        "scaleDistribution": scale,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "line" if panel.limits else "off"},
    }


def _overrides(panel: Panel) -> Sequence[Json]:
    if panel.kind is Kind.TABLE:
        named = zip(panel.columns, _names(panel), strict=True)
        return [_column(column, name) for column, name in named if column.title]
    styled = [_styled(style) for style in panel.styles]
    if panel.has_many:
        styled.append(_override("byValue", ALL_ZEROS, {"custom.hideFrom": UNNAMED}))
    return styled


def _styled(style: Style) -> Json:
    wanted: dict[str, Any] = {}
    if style.color is not None:
        wanted["color"] = {"mode": "fixed", "fixedColor": str(style.color)}
    if style.dashed:
        wanted["custom.lineStyle"] = DASH
        wanted["custom.fillOpacity"] = 0
        wanted["custom.stacking"] = {"mode": "none", "group": "A"}
    if style.on_right:
        wanted["custom.axisPlacement"] = "right"
    if style.unit is not None:
        wanted["unit"] = str(style.unit)
    return _override("byRegexp", f"^{style.series}$", wanted)


def _column(column: Column, name: str) -> Json:
    wanted: dict[str, Any] = {"displayName": column.title, "unit": str(column.unit)}
    if column.limits:
        wanted["thresholds"] = steps(Color.PLAIN, column.limits)
        wanted["color"] = {"mode": "thresholds"}
        wanted["custom.cellOptions"] = {"type": "color-text"}
    if column.named:
        wanted["mappings"] = mappings(column.named)
        wanted["custom.cellOptions"] = {"type": "color-text"}
    if column.decimals is not None:
        wanted["decimals"] = column.decimals
    if column.width is not None:
        wanted["custom.width"] = column.width
    return _override("byName", name, wanted)


def _override(matcher: str, of: str | Json, wanted: dict[str, Any]) -> Json:
    properties = [{"id": name, "value": value} for name, value in wanted.items()]
    return {"matcher": {"id": matcher, "options": of}, "properties": properties}


def _names(panel: Panel) -> list[str]:
    """Return what Grafana calls each column: a label, or the value of the query at its place."""
    alone = len(panel.queries) == 1
    letters = iter(ascii_uppercase)
    return [
        column.label or ("Value" if alone else f"Value #{next(letters)}")
        for column in panel.columns
    ]


def _as_one_table(panel: Panel) -> list[Json]:
    order = {name: index for index, name in enumerate(_names(panel))}
    untitled = [name for name, column in zip(order, panel.columns, strict=True) if not column.title]
    hidden = dict.fromkeys((*panel.hidden, *untitled), True)
    arranged = {"excludeByName": hidden, "indexByName": order, "renameByName": {}}
    organize = {"id": "organize", "options": arranged}
    return [organize] if len(panel.queries) == 1 else [{"id": "merge", "options": {}}, organize]
