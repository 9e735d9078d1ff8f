"""The test files of alerts/tests, as they are committed: cases, and the rules that they ask.

promtool compares annotations, too, and evaluates every rule it is given all the time: so each test
file has rules of its own, without annotations, and only those that its checks depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from rules import of_hangs, of_node, of_queues, of_services, of_tasks, of_workers
from rules.case import Case, document
from supervisor.monitoring import alerts, promql, recording
from supervisor.monitoring import rule as rules_as
from supervisor.monitoring.rule import Alert, Group, Record
from supervisor.monitoring.threshold import Thresholds

NOTICE = "# Generated from tests/rules by tools/generate_docs.py: change the cases there.\n"
LIMITS = Thresholds()

#: File → its cases, and how often rules are evaluated.
CASES: Mapping[str, tuple[Sequence[Case], str]] = MappingProxyType(
    {
        "tasks": (of_tasks.CASES, "1m"),
        "hangs": (of_hangs.CASES, "1m"),
        "kills": (of_hangs.KILLS, "1m"),
        "queues": (of_queues.CASES, "1m"),
        "workers": (of_workers.CASES, "1m"),
        "services": (of_services.SERVICES, "1m"),
        "slo": (of_services.SLO, "2m"),
        "node": (of_node.CASES, "30s"),
    }
)


def all_groups() -> tuple[Group, ...]:
    """Return all groups in the order in which they must be evaluated."""
    return (*recording.groups(), *alerts.slo_groups(), *alerts.groups())


def asked(expr: str) -> set[str]:
    """Return the names that an expression asks for."""
    return {one.name for one in promql.read(expr).selectors}


def needed(names: Iterable[str], groups: Sequence[Group]) -> set[str]:
    """Return these alerts and records with all records that they depend on."""
    exprs: dict[str, set[str]] = {}
    for rule in (rule for group in groups for rule in group.rules):
        exprs.setdefault(rule.name, set()).update(asked(rules_as.expression(rule, LIMITS)))
    found: set[str] = set()
    todo = set(names)
    while todo:
        found |= todo
        todo = {name for one in todo for name in exprs.get(one, ())} & set(exprs) - found
    return found


def only(names: set[str], groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return the groups with only these rules; empty ones are left out."""
    kept = (
        Group(group.name, tuple(rule for rule in group.rules if rule.name in names))
        for group in groups
    )
    return tuple(group for group in kept if group.rules)


def rules_for(cases: Sequence[Case]) -> tuple[Group, ...]:
    """Return the groups that the checks of these cases depend on."""
    names = {check.alert for case in cases for check in case.all_checks}
    names |= {name for case in cases for expr, _, _ in case.values for name in asked(expr)}
    groups = all_groups()
    return only(needed(names, groups), groups)


def texts() -> Mapping[str, str]:
    """Return the text of each file of alerts/tests, by name."""
    made = {}
    for name, (cases, every) in CASES.items():
        groups = rules_for(cases)
        order = [group.name for group in groups]
        test = document(cases, [f"{name}.rules.yml"], order, every)
        made[f"{name}.rules.yml"] = rules_as.to_yaml(
            rules_as.document(groups, LIMITS, None), NOTICE
        )
        made[f"{name}.test.yml"] = rules_as.to_yaml(test, NOTICE)
    return made


def is_alert(rule: Record | Alert) -> bool:
    """Say whether a rule is an alert."""
    return isinstance(rule, Alert)
