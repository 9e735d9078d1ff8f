"""Every question of every dashboard, put to a real Prometheus over an hour of made-up history."""

from __future__ import annotations

import json
from collections.abc import Iterator

import backfill
import history
import pytest
import yaml
from grafana import MODES, Window, ask
from servers import ServerMissing

from supervisor.monitoring import export
from supervisor.monitoring.dashboards import files
from supervisor.monitoring.rule import Links
from supervisor.monitoring.threshold import Thresholds
from supervisor.telemetry.catalog import CATALOG, HISTOGRAM

STEP_S = 30
BOARDS = files(Links(), Thresholds())
RULES = backfill.rules_of(
    yaml.safe_load(text) for text in export.rule_texts(None, Thresholds()).values()
)


@pytest.fixture(scope="module")
def past() -> Iterator[backfill.Past]:
    """The hour, what the recording rules make of it, and the alerts that fired."""
    try:
        made = backfill.past(history.history(hours=1, step_s=STEP_S))
    except ServerMissing as exc:
        pytest.skip(str(exc))
    try:
        made.record(RULES)
        made.alarm(RULES)
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BOARDS)
def test_nothing_is_empty(past: backfill.Past, name: str, mode: str) -> None:
    window = Window(past.span.start, past.span.end, STEP_S)
    asked = list(ask(past.prometheus, json.loads(BOARDS[name]), window, mode))
    assert len(asked) > 10
    assert [(one.where, one.expr) for one in asked if one.is_empty] == []


def test_a_question_in_vain_is_found(past: backfill.Past) -> None:
    board = json.loads(BOARDS["overview.json"])
    target = board["panels"][1]["targets"][0]
    target["expr"] = target["expr"].replace("in_queue", "in_queues")
    window = Window(past.span.start, past.span.end, STEP_S)
    empty = [one.where for one in ask(past.prometheus, board, window, "all") if one.is_empty]
    assert empty == ["In queue/A"]


def test_the_history_has_every_series_of_the_catalogue(past: backfill.Past) -> None:
    told = past.prometheus.api(
        "/api/v1/label/__name__/values", start=str(past.span.start), end=str(past.span.end)
    )["data"]
    parts = {
        metric.full_name + part
        for metric in CATALOG.values()
        for part in (("_bucket", "_sum", "_count") if metric.kind == HISTOGRAM else ("",))
    }
    assert parts - set(told) == set()


def test_records_of_the_past_are_those_of_the_rules(past: backfill.Past) -> None:
    now = str(past.span.end)
    for rule in (rule for rule in RULES if "record" in rule):
        made = {tuple(sorted(labels.items())): value for labels, value in told(past, rule["expr"])}
        kept = {
            tuple(
                sorted((name, text) for name, text in labels.items() if name != "__name__")
            ): value
            for labels, value in past.prometheus.query(rule["record"], time=now)
        }
        assert made.keys() == kept.keys(), rule["record"]
        assert all(kept[labels] == pytest.approx(made[labels], nan_ok=True) for labels in made)


def told(past: backfill.Past, expr: str) -> list[tuple[dict[str, str], float]]:
    return past.prometheus.query(expr, time=str(past.span.end))


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = (list(history.history(0.1).lines()) for _ in range(2))
    assert first == second
    assert first != list(history.history(0.1, seed=8).lines())
