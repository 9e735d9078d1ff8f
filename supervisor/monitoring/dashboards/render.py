"""A dashboard as Grafana's classic JSON (schema 39, read by Grafana 10 to 13), and as text.

Secret kept here: what every dashboard has: variables, annotations, links, the grid. Invariants:
rows are closed under 24 columns, ids count from 1, the text is the same for the same data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from supervisor.monitoring.dashboards.model import Dashboard, Link, Row, Variable
from supervisor.monitoring.dashboards.panel import SOURCE, panel_json
from supervisor.monitoring.dashboards.promql import JOB, RATE, firing, own
from supervisor.monitoring.rule import Links

Json = dict[str, Any]

TAG = "supervisor"
COLUMNS = 24
COMMON = (
    Variable("job", "Job", "supervisor_build_info"),
    Variable("instance", "Node", f"supervisor_build_info{{{JOB}}}"),
)
STARTS = f"changes({own('start_time_seconds')}{RATE}) > 0"


def text(dashboard: Dashboard, links: Links) -> str:
    """Return the file of a dashboard."""
    return json.dumps(document(dashboard, links), indent=1, ensure_ascii=False) + "\n"


def document(dashboard: Dashboard, links: Links) -> Json:
    """Return a dashboard as Grafana takes it."""
    variables = (*COMMON, *dashboard.variables)
    return {
        "uid": dashboard.uid,
        "title": f"Supervisor / {dashboard.title}",
        "description": dashboard.description,
        "tags": [TAG],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "timepicker": {},
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "weekStart": "",
        "links": [_to_others(), *_runbooks(links.runbooks), *_of_web(dashboard.links, links.web)],
        "annotations": {"list": _annotations()},
        "templating": {"list": [_source(), *(_variable(one) for one in variables)]},
        "panels": list(_placed(dashboard.rows)),
    }


def _placed(rows: tuple[Row, ...]) -> Iterator[Json]:
    number = y = 0
    for row in rows:
        number += 1
        yield _heading(row, number, y)
        y, x, tallest = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            number += 1
            yield panel_json(panel, number, x, y)
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest


def _heading(row: Row, number: int, y: int) -> Json:
    return {
        "id": number,
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "panels": [],
        "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
    }


def _source() -> Json:
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "regex": "",
        "refresh": 1,
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "options": [],
        "current": {},
    }


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.source}, {variable.name})"
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.title,
        "datasource": SOURCE,
        "definition": query,
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor"},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "regex": "",
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "options": [],
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "skipUrlSync": False,
    }


def _annotations() -> list[Json]:
    own = {
        "builtIn": 1,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts",
        "type": "dashboard",
    }
    return [
        own,
        _annotation("Starts", STARTS, "blue", "A node started", "{{instance}}", "instance"),
        _annotation(
            "Firing alerts",
            firing("critical", "warning"),
            "red",
            "{{alertname}}",
            "{{severity}} {{type}} {{queue}} {{service}} {{instance}}",
            "severity",
        ),
    ]


def _annotation(name: str, expr: str, color: str, title: str, body: str, tags: str) -> Json:
    return {
        "name": name,
        "datasource": SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "expr": expr,
        "step": "30s",
        "titleFormat": title,
        "textFormat": body,
        "tagKeys": tags,
        "useValueForTime": False,
    }


def _to_others() -> Json:
    return {
        "type": "dashboards",
        "title": "Supervisor",
        "tags": [TAG],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "The other dashboards, with what is chosen here",
        "url": "",
    }


def _runbooks(address: str) -> Iterator[Json]:
    """A path in a folder of the project leads nowhere from a page of Grafana."""
    if "://" in address:
        yield _outside("Runbooks", address, "What to do for each alert", "doc")


def _of_web(links: tuple[Link, ...], address: str) -> Iterator[Json]:
    for link in links:
        yield _outside(link.title, address + link.path, link.tooltip, "external link")


def _outside(title: str, url: str, tooltip: str, icon: str) -> Json:
    return {
        "type": "link",
        "title": title,
        "url": url,
        "tooltip": tooltip,
        "icon": icon,
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
        "targetBlank": True,
    }
