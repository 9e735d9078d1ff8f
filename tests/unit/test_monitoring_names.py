"""Rules and dashboards ask only for what there is, and all that there is, is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import pytest

from supervisor.cli.group import COMMANDS
from supervisor.monitoring import alerts, dashboards, export, promql, recording
from supervisor.monitoring.rule import (
    Alert,
    Board,
    Links,
    Record,
    Severity,
    expression,
    written_annotations,
)
from supervisor.monitoring.threshold import Thresholds, prose
from supervisor.telemetry.catalog import CATALOG, HISTOGRAM

ROOT = Path(__file__).parents[2]
LIMITS = Thresholds()
RULES = tuple(
    rule
    for group in (*recording.groups(), *alerts.slo_groups(), *alerts.groups())
    for rule in group.rules
)
RECORDS = {rule.name for rule in RULES if isinstance(rule, Record)}
#: Of Prometheus itself.
FOREIGN = {"up", "ALERTS"}
#: Metrics that no rule and no dashboard asks for, and why they are there nevertheless.
UNUSED: dict[str, str] = {
    "supervisor_running_duration_p99_seconds": "exact, to compare the recorded number with",
    "supervisor_failed_rate": "exact, to compare the recorded number with",
    "supervisor_canceled_rate": "exact, to compare the recorded number with",
}


def exposed() -> dict[str, str]:
    """Return each name that a scrape brings, with the metric it is of."""
    names = {}
    for metric in CATALOG.values():
        parts = ("_bucket", "_sum", "_count") if metric.kind == HISTOGRAM else ("",)
        names |= {metric.full_name + part: metric.name for part in parts}
    return names


def panels() -> Iterator[str]:
    """Yield every expression of every dashboard."""
    for dashboard in dashboards.dashboards(LIMITS):
        for panel in dashboard.panels:
            yield from (query.expr for query in panel.queries)


def asked(expr: str) -> set[str]:
    return {one.name for one in promql.read(expr).selectors if one.name}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_asks_only_for_what_there_is(rule: Record | Alert) -> None:
    expr = expression(rule, LIMITS)
    promql_parser.parse(expr)
    assert asked(expr) - set(exposed()) - RECORDS - FOREIGN == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_matches_only_values_that_a_label_has(rule: Record | Alert) -> None:
    names = exposed()
    for selector in promql.read(expression(rule, LIMITS)).selectors:
        metric = CATALOG.get(names.get(selector.name, ""))
        for matcher in selector.matchers if metric else ():
            if matcher.label in ("le", "job"):
                continue
            assert metric is not None
            assert matcher.label in metric.labels, selector
            values = metric.labels[matcher.label]
            assert not values or set(matcher.value.split("|")) <= set(values), selector


def test_every_metric_is_asked_for_or_has_its_reason() -> None:
    names = exposed()
    exprs = [*(expression(rule, LIMITS) for rule in RULES), *panels()]
    used = {names[name] for expr in exprs for name in asked(expr) if name in names}
    unused = {f"supervisor_{name}" for name in set(CATALOG) - used}
    assert unused == set(UNUSED)


def test_every_record_is_asked_for() -> None:
    exprs = [*(expression(rule, LIMITS) for rule in RULES), *panels()]
    used = {name for expr in exprs for name in asked(expr)}
    assert RECORDS - used == set()


@pytest.mark.parametrize("alert", alerts.all_alerts(), ids=lambda alert: alert.name)
def test_an_alert_says_what_a_person_needs(alert: Alert) -> None:
    said = written_annotations(alert, Links(), LIMITS)
    about_tasks = alert.autopsy is not None
    assert set(said) == {
        "summary", "description", "runbook_url", "dashboard_url",
        *(["autopsy_url"] if about_tasks else []),
    }  # fmt: skip
    assert all(said.values())
    assert (ROOT / said["runbook_url"]).is_file()
    assert alert.board in {dashboard.uid for dashboard in dashboards.dashboards(LIMITS)}
    assert alert.severity in Severity
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(said.values())))
    assert used <= set(alert.by), f"{used} are not all kept by {alert.by}"
    assert "<" not in "".join(said.values())


def test_boards_are_the_dashboards_that_there_are() -> None:
    assert {str(board) for board in Board} == {d.uid for d in dashboards.dashboards(LIMITS)}


def test_a_runbook_for_each_alert_and_none_is_left_over() -> None:
    pages = {path.name for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    assert pages == set(export.runbook_texts(LIMITS))


@pytest.mark.parametrize("alert", alerts.all_alerts(), ids=lambda alert: alert.name)
def test_the_commands_of_a_runbook_exist(alert: Alert) -> None:
    text = " ".join((*alert.runbook.steps, alert.runbook.means, alert.runbook.ignore))
    commands = re.findall(r"`supervisor ([a-z]+)", text)
    assert [one for one in commands if one not in COMMANDS] == []
    named = set(re.findall(r"\b([A-Z][a-z]+(?:[A-Z][a-z]+)+)\b", text))
    known = set(alerts.by_name()) | {"BaseException", "LimitNOFILE", "WatchdogSec", "PostgreSQL"}
    assert {one for one in named if one not in known} == set()


def test_every_threshold_is_used_and_explained() -> None:
    texts = [str(rule.expr) for rule in RULES]
    named = {name for text in texts for name in re.findall(r"<([a-z_0-9]+)>", text)}
    assert named == set(prose())


def test_other_thresholds_reach_rules_and_sentences() -> None:
    other = LIMITS.changed({"failed_rate": 0.1, "queue_wait_s": 90})
    alert = alerts.by_name()["TaskFailureRateHigh"][0]
    assert "ratio_rate10m > 0.1\n" in expression(alert, other)
    assert written_annotations(alert, Links(), other)["summary"].startswith("More than 10 %")
    waits = alerts.by_name()["TaskQueueWaitLong"][0]
    assert "longer than 90 seconds" in written_annotations(waits, Links(), other)["summary"]
