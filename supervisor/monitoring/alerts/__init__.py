"""All alerts as data, in the groups of the rule files.

Invariants: a name stands for one alert (the windows of a budget are the exception); every alert
has a runbook; links are made by `rule`. Called by `export` and by tests.
"""

from __future__ import annotations

from collections.abc import Mapping

from supervisor.monitoring.alerts import (
    dependencies,
    hangs,
    node,
    queues,
    store,
    tasks,
    trends,
    workers,
)
from supervisor.monitoring.recording import slo_records
from supervisor.monitoring.rule import Alert, Group


def groups() -> tuple[Group, ...]:
    """Return the groups of alerts.rules.yml."""
    return (
        Group("supervisor.tasks", tasks.ALERTS),
        Group("supervisor.hangs", hangs.ALERTS),
        Group("supervisor.queues", queues.ALERTS),
        Group("supervisor.workers", workers.ALERTS),
        Group("supervisor.dependencies", dependencies.SERVICES),
        Group("supervisor.trends", trends.ALERTS),
        Group("supervisor.node", node.ALERTS),
        Group("supervisor.store", store.ALERTS),
    )


def slo_groups() -> tuple[Group, ...]:
    """Return the groups of slo.rules.yml: the records, then what compares them."""
    return (
        Group("supervisor.slo.recording", slo_records()),
        Group("supervisor.slo", dependencies.SLO),
    )


def all_alerts() -> tuple[Alert, ...]:
    """Return every alert once for each rule, in the order of the files."""
    rules = (rule for group in (*groups(), *slo_groups()) for rule in group.rules)
    return tuple(rule for rule in rules if isinstance(rule, Alert))


def by_name() -> Mapping[str, tuple[Alert, ...]]:
    """Return the alerts of each name: one, or one for each window."""
    named: dict[str, tuple[Alert, ...]] = {}
    for alert in all_alerts():
        named[alert.name] = (*named.get(alert.name, ()), alert)
    return named
