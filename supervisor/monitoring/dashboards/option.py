"""The options of each kind of panel: legends, tooltips, what is reduced to one number.

Called by `panel` only.
"""

from __future__ import annotations

from typing import Any

from supervisor.monitoring.dashboards.model import Kind, Panel

Json = dict[str, Any]
#: From this width on there is room for a table beside the lines; a table below hides its rows.
WIDE = 12
#: Up to this width, and beside others, values overflow their boxes in the size of Grafana's choice.
NARROW = 4
FITTING: Json = {"titleSize": 18, "valueSize": 40}
LAST: Json = {"calcs": ["lastNotNull"], "fields": "", "values": False}


def options(panel: Panel) -> Json:
    """Return the options of a panel."""
    match panel.kind:
        case Kind.LINES:
            return _lines(panel)
        case Kind.NUMBER:
            return _number(panel)
        case Kind.DIAL:
            return _dial()
        case Kind.BARS:
            return _bars()
        case Kind.TABLE:
            return _table()
        case Kind.HEATMAP:
            return _heatmap(panel)
        case Kind.STATES:
            return _states()


def _lines(panel: Panel) -> Json:
    legend: Json = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
    if panel.width >= WIDE and not panel.as_bars:
        calcs = ["lastNotNull", "max"]
        legend |= {"displayMode": "table", "placement": "right", "calcs": calcs}
        if panel.has_many:  # most of them are below the end of the table
            legend |= {"sortBy": "Max", "sortDesc": True}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def _number(panel: Panel) -> Json:
    several = len(panel.queries) > 1
    return {
        **({"text": FITTING} if several or panel.width <= NARROW else {}),
        "reduceOptions": LAST,
        "orientation": "auto",
        "textMode": "value_and_name" if several else "auto",
        "colorMode": "background" if panel.limits else "value",
        "graphMode": "none",
        "justifyMode": "center",
        "wideLayout": True,
        "showPercentChange": False,
    }


def _dial() -> Json:
    return {
        "reduceOptions": LAST,
        "orientation": "auto",
        "showThresholdLabels": False,
        "showThresholdMarkers": True,
        "sizing": "auto",
        "minVizWidth": 75,
        "minVizHeight": 75,
    }


def _bars() -> Json:
    return {
        "reduceOptions": LAST,
        "orientation": "horizontal",
        "displayMode": "basic",
        "showUnfilled": True,
        "valueMode": "color",
        "namePlacement": "top",  # beside the bar the names of queues are cut
        "sizing": "auto",
        "minVizWidth": 8,
        "minVizHeight": 16,
        "maxVizHeight": 60,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
    }


def _table() -> Json:
    footer = {"show": False, "reducer": ["sum"], "countRows": False, "fields": []}
    return {"showHeader": True, "cellHeight": "sm", "frameIndex": 0, "footer": footer}


def _heatmap(panel: Panel) -> Json:
    return {
        "calculate": False,
        "yAxis": {"unit": str(panel.unit), "axisPlacement": "left", "reverse": False},
        "rowsFrame": {"layout": "auto"},
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "fill": "dark-orange",
            "scale": "exponential",
            "exponent": 0.5,
            "steps": 64,
            "reverse": False,
        },
        "cellGap": 1,
        "showValue": "never",
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": False},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
    }


def _states() -> Json:
    return {
        "mergeValues": True,
        "showValue": "never",
        "alignValue": "left",
        "rowHeight": 0.85,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
