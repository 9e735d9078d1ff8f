"""What a rule is: a record or an alert, with its runbook, as values; and how groups become YAML.

Secret kept here: Prometheus' file format, and that links are made by code, never written by hand.
Invariants: pure; the same data gives the same text. Called by `export` and by tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import cleandoc
from types import MappingProxyType
from typing import Any

import yaml

from supervisor.monitoring.threshold import Thresholds

NOTICE = "# Generated from supervisor/monitoring: `supervisor rules export` writes it anew.\n"


class Severity(StrEnum):
    """Who is told: a person at night, a person by day, nobody, a machine."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    NONE = "none"


class Board(StrEnum):
    """The dashboard to look at; the value is its uid."""

    OVERVIEW = "supervisor-overview"
    QUEUES = "supervisor-queues"
    TYPES = "supervisor-types"
    WORKERS = "supervisor-workers"
    DEPENDENCIES = "supervisor-dependencies"
    AUTOPSIES = "supervisor-autopsies"
    SLO = "supervisor-slo"
    INTERNALS = "supervisor-internals"


#: What can be chosen on every dashboard, and on some; a variable is named as its label.
_CHOSEN_EVERYWHERE = ("job", "instance")
_CHOSEN = MappingProxyType(
    {Board.QUEUES: "queue", Board.TYPES: "type", Board.DEPENDENCIES: "service"}
)


@dataclass(frozen=True, slots=True)
class Record:
    """One recording rule: `level:metric:operations`."""

    name: str
    expr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """What a person needs at 3 a.m.: steps in order, then what it means and when to ignore it."""

    steps: tuple[str, ...]
    means: str
    ignore: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert rule.

    `by` are the labels its alerts are told apart by. `autopsy` is the query of the link to the
    newest autopsy about it, beside the type; None when it is not about tasks.
    """

    name: str
    expr: str
    hold: str = ""
    severity: Severity
    summary: str
    description: str
    board: Board
    by: tuple[str, ...] = ()
    autopsy: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    runbook: Runbook


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other."""

    name: str
    rules: tuple[Record | Alert, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where the pages are that annotations lead to; no slash at the end."""

    web: str = "http://127.0.0.1:8080"
    grafana: str = "http://127.0.0.1:3000"
    runbooks: str = "docs/runbooks"


def expression(rule: Record | Alert, thresholds: Thresholds) -> str:
    """Return the PromQL of a rule, several lines when it was written so."""
    return thresholds.fill(cleandoc(rule.expr))


def added_labels(alert: Alert) -> dict[str, str]:
    """Return the labels that the rule adds."""
    return {"severity": str(alert.severity), **alert.labels}


def written_annotations(alert: Alert, links: Links, thresholds: Thresholds) -> dict[str, str]:
    """Return the annotations of an alert: two sentences and the links."""
    made = {
        "summary": thresholds.fill(alert.summary),
        "description": thresholds.fill(alert.description),
        "runbook_url": f"{links.runbooks}/{alert.name}.md",
        "dashboard_url": f"{links.grafana}/d/{alert.board}" + _query(_variables(alert)),
    }
    if alert.autopsy is not None:
        parts = [_of_label("type", "type")] if "type" in alert.by else []
        parts += [alert.autopsy] if alert.autopsy else []
        made["autopsy_url"] = f"{links.web}/autopsies/latest" + _query(parts)
    return made


def _variables(alert: Alert) -> list[str]:
    known = (*_CHOSEN_EVERYWHERE, _CHOSEN.get(alert.board))
    return [_of_label(f"var-{label}", label) for label in alert.by if label in known]


def _of_label(parameter: str, label: str) -> str:
    return f"{parameter}={{{{ $labels.{label} | urlquery }}}}"


def _query(parts: Sequence[str]) -> str:
    return "?" + "&".join(parts) if parts else ""


def document(
    groups: Sequence[Group],
    thresholds: Thresholds,
    links: Links | None,
) -> dict[str, Any]:
    """Return the content of a rule file; without links, alerts have no annotations."""
    return {
        "groups": [
            {"name": group.name, "rules": [_rule(rule, thresholds, links) for rule in group.rules]}
            for group in groups
        ]
    }


def _rule(rule: Record | Alert, thresholds: Thresholds, links: Links | None) -> dict[str, Any]:
    expr = expression(rule, thresholds)
    if isinstance(rule, Record):
        return {"record": rule.name, "expr": expr}
    return {
        "alert": rule.name,
        "expr": expr,
        **({"for": rule.hold} if rule.hold else {}),
        "labels": added_labels(rule),
        **({"annotations": written_annotations(rule, links, thresholds)} if links else {}),
    }


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and lists indented below their key."""

    def increase_indent(self, flow: bool = False, *_: object, **__: object) -> None:
        """Indent lists, too."""
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(content: Mapping[str, Any], notice: str = NOTICE) -> str:
    """Return the text of a file, with a notice at its top."""
    return notice + yaml.dump(
        dict(content), Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True
    )
