"""What Grafana does with a dashboard, as far as its queries go: variables and intervals put in.

Secret kept here: its rules. A value chosen becomes a regular expression inside a PromQL string, so
its special characters get two backslashes; "all" is put in as it stands; ranges follow the scrape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from monitoring_servers import Prometheus, WebServer

Json = dict[str, Any]
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?::\w+)?\}")
_LABEL_VALUES = re.compile(r"label_values\((?:(.+),\s*)?(\w+)\)", re.DOTALL)
_SPECIAL = re.compile(r"[\\^$*+?.()|{}\[\]]")
_STEPS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600)
#: How wide a panel of half the page is drawn, about.
_PIXELS = 800

#: How the variables are set: left at all, every value chosen, the first one chosen.
MODES = ("all", "every", "first")


@dataclass(frozen=True, slots=True)
class Window:
    """The time that is looked at, as Unix times, and how often Prometheus scrapes."""

    start: int
    end: int
    scrape_s: int
    least_step_s: int = 1

    def of(self, target: Json) -> Window:
        """Return the window as a target sees it that has a least step of its own."""
        least = target.get("interval")
        return self if least is None else replace(self, least_step_s=int(least[:-1]) * 60)

    @property
    def step_s(self) -> int:
        """Return what `$__interval` is."""
        wanted = (self.end - self.start) / _PIXELS
        nearest = min(_STEPS_S, key=lambda step: abs(step - wanted))
        return max(nearest, self.scrape_s, self.least_step_s)

    @property
    def intervals(self) -> Mapping[str, str]:
        """Return the variables that stand for lengths of time."""
        rate_s = max(self.step_s + self.scrape_s, 4 * self.scrape_s)
        return {
            "__interval": f"{self.step_s}s",
            "__rate_interval": f"{rate_s}s",
            "__range": f"{self.end - self.start}s",
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a dashboard and what Prometheus answered; `values` of all series."""

    where: str
    expr: str
    values: tuple[float, ...]

    @property
    def is_empty(self) -> bool:
        """Say whether a person would see nothing."""
        return all(math.isnan(value) for value in self.values)


@dataclass(frozen=True, slots=True)
class Remote:
    """A Prometheus that somebody else runs."""

    url: str

    def api(self, path: str, /, **params: str) -> Any:
        """Return the JSON of an API path."""
        return WebServer.api(self, path, **params)  # type: ignore[arg-type]


def put_in(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its variables put in. Raises KeyError for one that is not there."""
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], text)


def chosen(values: Sequence[str]) -> str:
    """Return what stands for values that were chosen."""
    escaped = [_SPECIAL.sub(lambda found: "\\\\" + found[0], value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


def panels(dashboard: Json) -> Iterator[Json]:
    """Yield the panels that ask for something."""
    return (panel for panel in dashboard["panels"] if panel["type"] != "row")


def ask(prometheus: Prometheus, dashboard: Json, window: Window, mode: str) -> Iterator[Asked]:
    """Ask everything that the dashboard asks: its variables, annotations and panels."""
    values = dict(window.intervals)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            found = _values(prometheus, put_in(variable["query"]["query"], values), window)
            where = f"variable {variable['name']}"
            yield Asked(where, variable["query"]["query"], tuple(1.0 for _ in found))
            many = {"all": variable["allValue"], "every": chosen(found), "first": chosen(found[:1])}
            values[variable["name"]] = many[mode]
    for annotation in dashboard["annotations"]["list"]:
        if "expr" in annotation:
            expr = put_in(annotation["expr"], values)
            told = _range(prometheus, expr, window)
            yield Asked(f"annotation {annotation['name']}", expr, told)
    for panel in panels(dashboard):
        for target in panel["targets"]:
            seen = window.of(target)
            expr = put_in(target["expr"], {**values, **seen.intervals})
            answer = _now if target["instant"] else _range
            told = answer(prometheus, expr, seen)
            yield Asked(f"{panel['title']}/{target['refId']}", expr, told)


def answers(
    prometheus: Prometheus | Remote, dashboard: Json, window: Window
) -> dict[int, list[list[Json]]]:
    """Return, for each panel by its id, what the API tells of each of its targets, all chosen."""
    values = dict(window.intervals)
    for variable in dashboard["templating"]["list"]:
        values[variable["name"]] = variable.get("allValue", "")
    return {
        panel["id"]: [_told(prometheus, target, values, window) for target in panel["targets"]]
        for panel in panels(dashboard)
    }


def _told(
    prometheus: Prometheus | Remote, target: Json, values: Mapping[str, str], window: Window
) -> list[Json]:
    window = window.of(target)
    expr = put_in(target["expr"], {**values, **window.intervals})
    if target["instant"]:
        data = prometheus.api("/api/v1/query", query=expr, time=str(window.end))["data"]
    else:
        between = {"start": str(window.start), "end": str(window.end), "step": str(window.step_s)}
        data = prometheus.api("/api/v1/query_range", query=expr, **between)["data"]
    alone = [{"metric": {}, "value": data["result"]}]
    return alone if data["resultType"] == "scalar" else list(data["result"])


def _values(prometheus: Prometheus, query: str, window: Window) -> list[str]:
    found = _LABEL_VALUES.fullmatch(query)
    assert found, query
    between = {"start": str(window.start), "end": str(window.end)}
    path = f"/api/v1/label/{found[2]}/values"
    return list(prometheus.api(path, match=found[1], **between)["data"])


def _now(prometheus: Prometheus, expr: str, window: Window) -> tuple[float, ...]:
    return tuple(value for _, value in prometheus.query(expr, time=str(window.end)))


def _range(prometheus: Prometheus, expr: str, window: Window) -> tuple[float, ...]:
    between = {"start": str(window.start), "end": str(window.end), "step": str(window.step_s)}
    told = prometheus.api("/api/v1/query_range", query=expr, **between)["data"]["result"]
    return tuple(float(value) for one in told for _, value in one["values"])
