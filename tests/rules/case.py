"""How a test of rules is written down: series over time, and who fires when.

Secret kept here: promtool's notation. An expected alert is given by the labels it is told apart by;
those that the rule adds are filled in from the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from supervisor.monitoring import alerts
from supervisor.monitoring.rule import added_labels

JOB = "supervisor"
HOST = ":9464"

Series = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Check:
    """At `at`, the alert fires for exactly these labels (none: it is silent)."""

    at: str
    alert: str
    firing: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario; `values` are (expression, at, expected value) of records."""

    name: str
    series: Sequence[Series]
    checks: Sequence[Sequence[Check] | Check]
    interval: str = "1m"
    values: Sequence[tuple[str, str, float]] = field(default=())

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """The checks in order, those of one time and alert made one."""
        merged: dict[tuple[str, str], tuple[Mapping[str, str], ...]] = {}
        for one in self.checks:
            for check in (one,) if isinstance(one, Check) else one:
                key = (check.at, check.alert)
                merged[key] = (*merged.get(key, ()), *check.firing)
        return tuple(Check(at, alert, firing) for (at, alert), firing in merged.items())


def series(metric: str, values: str, /, instance: str = "a", **labels: str) -> Series:
    """Return a series of a node; values in promtool's notation."""
    named = {"job": JOB, "instance": instance + HOST, **labels}
    inside = ",".join(f'{name}="{value}"' for name, value in named.items())
    name = metric if metric == "up" else f"supervisor_{metric}"
    return f"{name}{{{inside}}}", values


def fires(alert: str, /, *at: str, **labels: str) -> tuple[Check, ...]:
    """Expect the alert at each time, with these labels beside the job."""
    if "instance" in labels:
        labels["instance"] += HOST
    return tuple(Check(time, alert, (labels,)) for time in at)


def silent(alert: str, /, *at: str) -> tuple[Check, ...]:
    """Expect that the alert does not fire at any of these times."""
    return tuple(Check(time, alert) for time in at)


def document(
    cases: Sequence[Case], rule_files: Sequence[str], order: Sequence[str], every: str
) -> dict[str, Any]:
    """Return the content of a promtool test file."""
    return {
        "rule_files": list(rule_files),
        "evaluation_interval": every,
        # Else promtool takes the groups at random, and a record may be one evaluation late.
        "group_eval_order": list(order),
        "tests": [_test(case) for case in cases],
    }


def _test(case: Case) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": case.name,
        "interval": case.interval,
        "input_series": [{"series": name, "values": values} for name, values in case.series],
    }
    checks = case.all_checks
    if checks:
        made["alert_rule_test"] = [_check(check) for check in checks]
    if case.values:
        made["promql_expr_test"] = [_value(*value) for value in case.values]
    return made


def _check(check: Check) -> dict[str, Any]:
    expected = [{"exp_labels": _labels(check.alert, given)} for given in check.firing]
    return {"eval_time": check.at, "alertname": check.alert, "exp_alerts": expected}


def _labels(name: str, given: Mapping[str, str]) -> dict[str, str]:
    rules = alerts.by_name()[name.partition("__")[0]]  # a mutant's name goes on with a mark
    window = given.get("window")
    rule = next(one for one in rules if window in (None, one.labels.get("window")))
    told_apart = {label for label in given if label != "window"}
    assert told_apart == set(rule.by), f"{name}: {sorted(given)} is not {sorted(rule.by)}"
    job = {} if name == "Watchdog" else {"job": JOB}
    return {**added_labels(rule), **job, **given}


def _value(expr: str, at: str, value: float) -> dict[str, Any]:
    rounded = f"round(sum({expr}), 0.0001)"
    return {"expr": rounded, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}
