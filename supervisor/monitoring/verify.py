"""Verifies rule files and dashboards against the catalogue: does what they ask for exist?

Secret kept here: what a name, a label or a value must be to be found in what nodes of this version
expose. Metrics of others are none of our business. Pure: documents come parsed, nothing is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from supervisor.monitoring.promql import NAME, Matcher, Selector, read
from supervisor.telemetry.catalog import CATALOG, HISTOGRAM, OTHER, PREFIX, Metric
from supervisor.telemetry.catalog_web import WEB_CATALOG

#: What a histogram is exposed as.
_PARTS = ("_bucket", "_sum", "_count")
#: Labels that every series has of Prometheus, beside those of the catalogue.
_OF_TARGETS = frozenset({"job", "instance", "le", "quantile", "alertname", "alertstate", NAME})
#: How Grafana's variables ask for series.
_VARIABLE_QUERY = re.compile(r"^\s*(?:label_values|query_result|metrics)\((.*)\)\s*$", re.DOTALL)
_RECORD = re.compile(r"(^|:)" + PREFIX.rstrip("_") + r"[_:]")
EXPORT = "`supervisor rules export DIR` writes those of this version"
DRAW = "`supervisor dashboards export DIR` writes those of this version"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that will not do what it says; `where` is the way to it."""

    file: str
    where: Mapping[str, str]
    text: str
    remedy: str
    #: It can never work; else it may be meant so.
    is_fatal: bool = True

    @property
    def place(self) -> str:
        """Return file and way for people."""
        steps = [f"{name} {value}" for name, value in self.where.items()]
        return f"{self.file}: {', '.join(steps)}" if steps else self.file


@dataclass(frozen=True, slots=True)
class Known:
    """What there is to be asked for: the catalogue, and what rules record."""

    records: frozenset[str]
    #: Labels that rules add to what they record or fire.
    labels: frozenset[str] = frozenset()
    metrics: Mapping[str, Metric] = field(default_factory=lambda: {**CATALOG, **WEB_CATALOG})

    def metric(self, name: str) -> Metric | None:
        """Return the metric of which a series of this name comes."""
        bare = name.removeprefix(PREFIX)
        found = self.metrics.get(bare)
        if found is not None:
            return None if found.kind == HISTOGRAM else found
        for part in _PARTS:
            histogram = self.metrics.get(bare.removesuffix(part))
            if bare.endswith(part) and histogram is not None and histogram.kind == HISTOGRAM:
                return histogram
        return None

    @property
    def exposed(self) -> list[str]:
        """Return the names of all series of the catalogue."""
        names = []
        for metric in self.metrics.values():
            parts = _PARTS if metric.kind == HISTOGRAM else ("",)
            names += [metric.full_name + part for part in parts]
        return names

    @property
    def every_label(self) -> frozenset[str]:
        """Return the labels that any series of ours can have."""
        of_metrics = (label for metric in self.metrics.values() for label in metric.labels)
        return frozenset(of_metrics) | self.labels | _OF_TARGETS


def rules_of(document: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return (group, rule) of a rule file."""
    for group in _maps(document, "groups"):
        for rule in _maps(group, "rules"):
            yield str(group.get("name", "")), rule


def _labels(rule: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the labels that a rule adds; None if they are something else."""
    labels = rule.get("labels")
    return {} if labels is None else labels if isinstance(labels, Mapping) else None


def known_from(documents: Iterable[object]) -> Known:
    """Return what is there when these rule files are loaded."""
    rules = [rule for document in documents for _, rule in rules_of(document)]
    labels = {str(label) for rule in rules for label in _labels(rule) or ()}
    return Known(frozenset(str(rule["record"]) for rule in rules if "record" in rule),
                 frozenset(labels))  # fmt: skip


def rule_problems(file: str, document: object, known: Known) -> Iterator[Problem]:
    """Return what a rule file asks for in vain."""
    if not list(_maps(document, "groups")):
        yield Problem(file, {}, "it has no groups of rules", f"Is it a rule file? {EXPORT}.")
    for group, rule in rules_of(document):
        name = str(rule.get("alert") or rule.get("record") or "?")
        where = {"group": group, "rule": name}
        if _labels(rule) is None:
            remedy = "Write them as `NAME: VALUE`, one below the other."
            yield Problem(file, where, "its labels are no mapping", f"{remedy} {EXPORT}.")
        for text, remedy, is_fatal in _vain(str(rule.get("expr", "")), known):
            yield Problem(file, where, text, f"{remedy} {EXPORT}.", is_fatal)


def dashboard_problems(file: str, document: object, known: Known) -> Iterator[Problem]:
    """Return what a dashboard of Grafana asks for in vain."""
    asked = list(_questions(document))
    if not asked:
        yield Problem(file, {}, "no panel of it asks for anything", f"Is it a dashboard? {DRAW}.")
    for where, expr in asked:
        for text, remedy, is_fatal in _vain(expr, known):
            yield Problem(file, where, text, f"{remedy} {DRAW}.", is_fatal)


def _questions(document: object) -> Iterator[tuple[Mapping[str, str], str]]:
    """Return where each query of a dashboard stands, and the query."""
    for panel in _panels(document):
        for target in _maps(panel, "targets"):
            where = {"panel": str(panel.get("title", "?")), "query": str(target.get("refId", "?"))}
            yield where, str(target.get("expr", ""))
    for variable in _maps(document, "templating", "list"):
        query = variable.get("query")
        text = str(query.get("query", "")) if isinstance(query, Mapping) else str(query or "")
        if (found := _VARIABLE_QUERY.match(text)) and variable.get("type") == "query":
            yield {"variable": str(variable.get("name", "?"))}, _asked(found[1])
    for note in _maps(document, "annotations", "list"):
        if isinstance(expr := note.get("expr"), str):
            yield {"annotation": str(note.get("name", "?"))}, expr


def _asked(inner: str) -> str:
    """Return the selector of `label_values(selector, label)`; with a label alone there is none."""
    if re.fullmatch(r"\s*\w+\s*", inner):
        return ""
    return re.sub(r",\s*\w+\s*$", "", inner)


def _panels(document: object) -> Iterator[Mapping[str, Any]]:
    for panel in _maps(document, "panels"):
        yield panel
        yield from _maps(panel, "panels")  # a row that is folded


def _vain(expr: str, known: Known) -> Iterator[tuple[str, str, bool]]:
    """Return (text, remedy, is fatal) of each thing that an expression asks for in vain."""
    asked = read(expr)
    found = [one for selector in asked.selectors for one in _selector(selector, known)]
    yield from dict.fromkeys(found)  # what is asked for twice is told once
    if found or not any(_is_ours(one.name) for one in asked.selectors):
        return
    for label in dict.fromkeys(asked.labels):
        if label not in known.every_label and not _is_made(label, expr):
            yield f"nothing of ours has a label {label}", _close(label, known.every_label), False


def _is_made(label: str, expr: str) -> bool:
    """Say whether a function of the expression makes that label."""
    return f'"{label}"' in expr


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX) or (":" in name and _RECORD.search(name) is not None)


def _selector(selector: Selector, known: Known) -> Iterator[tuple[str, str, bool]]:
    name = selector.name
    if not name:
        yield from _by_pattern(selector, known)
    elif not _is_ours(name) or name in known.records:
        return
    elif ":" in name:
        yield f"no rule records {name}", _close(name, known.records), True
    elif (metric := known.metric(name)) is not None:
        for matcher in selector.matchers:
            yield from _matcher(matcher, name, metric, known)
    elif name.removeprefix(PREFIX) in known.metrics:
        text = f"{name} is a histogram, exposed as {', '.join(name + part for part in _PARTS)}"
        yield text, "Name one of these.", True
    else:
        yield f"there is no metric {name}", _close(name, known.exposed), True


def _by_pattern(selector: Selector, known: Known) -> Iterator[tuple[str, str, bool]]:
    for matcher in selector.matchers:
        if matcher.label != NAME or matcher.operator != "=~" or PREFIX not in matcher.value:
            continue
        if not any(_fits(matcher, name) for name in [*known.exposed, *known.records]):
            yield f"no metric's name is like {matcher.value}", "See docs/metrics.md.", True


def _matcher(
    matcher: Matcher, name: str, metric: Metric, known: Known
) -> Iterator[tuple[str, str, bool]]:
    label, value = matcher.label, matcher.value
    if label not in {*metric.labels, *_OF_TARGETS}:
        has = ", ".join(metric.labels) or "none of its own"
        # Whoever scrapes may add labels of his own to every series.
        is_fatal = label in known.every_label
        yield f"{name} has no label {label}; its labels: {has}", "Use one of them.", is_fatal
        return
    values = metric.labels.get(label, ())
    if not values or "$" in value or not value:
        return
    if not any(_fits(matcher, one) for one in (*values, OTHER)):
        text = f'no series of {name} has {label}{matcher.operator}"{value}"'
        yield text, f"It is one of: {', '.join(values)}.", True


def _fits(matcher: Matcher, value: str) -> bool:
    if matcher.operator in ("=", "!="):
        is_same = matcher.value == value
    else:
        try:
            is_same = re.fullmatch(matcher.value, value) is not None
        except re.error:  # its dialect has what ours has not
            return True
    return is_same == (matcher.operator in ("=", "=~"))


def _close(name: str, names: Iterable[str]) -> str:
    bare = {one.removeprefix(PREFIX): one for one in sorted(names)}
    near = get_close_matches(name.removeprefix(PREFIX), list(bare), 1, 0.65)
    return f"Did you mean {bare[near[0]]}?" if near else "See docs/metrics.md."


def _maps(document: object, *path: str) -> Iterator[Mapping[str, Any]]:
    """Return the mappings of a list somewhere in a document; nothing where it is otherwise."""
    here = document
    for step in path:
        here = here.get(step) if isinstance(here, Mapping) else None
    if isinstance(here, list):
        yield from (one for one in here if isinstance(one, Mapping))
