"""The product's own rules and routes in quick motion: a minute becomes two seconds.

Secret kept here: which numbers of a rule are times: windows, offsets and how long it must hold; of
a route, how long it waits. Thresholds, expressions, labels and receivers stay as they are.
"""

from __future__ import annotations

import re
from typing import Any

from supervisor.monitoring.promql import duration_s

FACTOR = 30
_WINDOW = re.compile(r"\[([^\]]+)\]")
_OFFSET = re.compile(r"\boffset (\w+)")


def quick_rules(document: dict[str, Any]) -> dict[str, Any]:
    """Return a rule file (its content) in quick motion."""
    return {
        "groups": [
            {**group, "rules": [_rule(rule) for rule in group["rules"]]}
            for group in document["groups"]
        ]
    }


def quick_routes(document: dict[str, Any]) -> dict[str, Any]:
    """Return the content of alertmanager.yml with groups that wait a thirtieth of their time."""
    return {**document, "route": _route(document["route"])}


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    expr = _WINDOW.sub(
        lambda found: "[" + ":".join(map(quick, found[1].split(":"))) + "]", rule["expr"]
    )
    expr = _OFFSET.sub(lambda found: f"offset {quick(found[1])}", expr)
    hold = {"for": quick(rule["for"])} if "for" in rule else {}
    return {**rule, "expr": expr, **hold}


def _route(route: dict[str, Any]) -> dict[str, Any]:
    times = {name: quick(route.get(name, usual)) for name, usual in _USUAL.items()}
    inner = {"routes": [_route(one) for one in route["routes"]]} if "routes" in route else {}
    return {**route, **times, **inner}


#: What Alertmanager does where a route says nothing.
_USUAL = {"group_wait": "30s", "group_interval": "5m"}


def quick(text: str) -> str:
    """Return a duration divided by the factor; 0s stays what it is."""
    seconds = duration_s(text)
    assert seconds is not None, text
    return f"{round(seconds * 1000 / FACTOR)}ms" if seconds else "0s"
