"""The metrics: the catalogue, series that are there from the start, folding, exemplars."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from prometheus_client import generate_latest as plain_latest
from prometheus_client.openmetrics.exposition import generate_latest as open_latest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_families,
)
from prometheus_client.parser import text_string_to_metric_families as plain_families

from supervisor.telemetry import exposition
from supervisor.telemetry import metrics as made
from supervisor.telemetry.catalog import (
    CATALOG,
    COUNTER,
    GAUGE,
    HISTOGRAM,
    MIXED,
    OUTCOMES,
    PROCESS,
    STORE,
)
from supervisor.telemetry.metrics import Metrics

Key = tuple[str, tuple[tuple[str, str], ...]]
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def samples(metrics: Metrics) -> dict[Key, float]:
    """Return every sample of the plain format by its name (without prefix) and labels."""
    body, _ = metrics.render()
    return {
        (
            sample.name.removeprefix("supervisor_"),
            tuple(sorted(sample.labels.items())),
        ): sample.value
        for family in plain_families(body.decode())
        for sample in family.samples
    }


def of(name: str, /, **labels: str) -> Key:
    return name, tuple(sorted(labels.items()))


class TestCatalog:
    def test_names_follow_the_rule(self) -> None:
        units = {"seconds": "_seconds", "bytes": "_bytes", "ratio": "_ratio", "": ""}
        for name, metric in CATALOG.items():
            assert re.fullmatch(r"[a-z][a-z_]+[a-z]|running_duration_p99_seconds", name)
            assert name.endswith("_total") == (metric.kind == COUNTER), name
            assert name.removesuffix("_total").endswith(units[metric.unit])
            assert not name.endswith(("_count", "_sum", "_bucket"))
            assert metric.kind in {COUNTER, GAUGE, HISTOGRAM}
            assert bool(metric.buckets) == (metric.kind == HISTOGRAM)
            assert list(metric.buckets) == sorted(set(metric.buckets))
            assert metric.help.endswith(".")

    def test_no_label_can_hold_an_id(self) -> None:
        labels = {label for metric in CATALOG.values() for label in metric.labels}
        assert labels <= {
            "queue", "type", "outcome", "state", "reason", "kind", "verdict", "status", "label",
            "version", "python_version", "phase", "slot", "collector", "signal", "mode",
            "direction", "name", "code", "step", "service", "route", "method",
        }  # fmt: skip

    def test_what_the_store_tells_is_the_same_from_every_node(self) -> None:
        by_scope: dict[str, set[str]] = {}
        for name, metric in CATALOG.items():
            by_scope.setdefault(metric.scope, set()).add(name)
        assert by_scope[STORE] == {
            "in_queue", "scheduled", "running", "queue_oldest_age_seconds", "queue_paused",
            "outbox_pending", "running_duration_p99_seconds", "failed_rate", "canceled_rate",
        }  # fmt: skip
        assert by_scope[MIXED] == {"zombies"}
        assert set(by_scope) == {STORE, MIXED, PROCESS}
        assert all(CATALOG[name].at_scrape for name in by_scope[STORE])


class TestMetrics:
    def test_every_series_is_there_from_the_start(self) -> None:
        metrics = Metrics(types=["export"], queues=["default"], version="1.2")
        found = samples(metrics)
        for outcome in OUTCOMES:
            key = of("tasks_finished_total", queue="default", type="export", outcome=outcome)
            assert found[key] == 0
        durations = {
            dict(labels)["outcome"] for name, labels in found
            if name == "running_duration_seconds_count"
        }  # fmt: skip
        assert durations == {"success", "failed", "canceled", "timeout"}
        assert found[of("queue_wait_seconds_count", queue="default")] == 0
        assert not any(name.endswith("_created") for name, _ in found)
        build = [dict(labels) for (name, labels) in found if name == "build_info"]
        assert [label["version"] for label in build] == ["1.2"]

    def test_every_kept_metric_of_the_catalogue_is_there_at_zero(self) -> None:
        found = samples(Metrics(types=["export"], queues=["default"]))
        ends = {COUNTER: "", GAUGE: "", HISTOGRAM: "_count"}
        for name, metric in CATALOG.items():
            if metric.at_scrape or name == "build_info":
                continue
            values = [
                value for (full, _), value in found.items() if full == name + ends[metric.kind]
            ]
            assert values, name
            assert set(values) == {0.0}, name

    def test_counting_setting_observing(self) -> None:
        metrics = Metrics(types=["export"], queues=["default"])
        labels = {"queue": "default", "type": "export", "outcome": "success"}
        metrics.inc("tasks_finished_total", **labels)
        metrics.inc("tasks_finished_total", 2, **dict(reversed(labels.items())))
        metrics.set("types_held", 7)
        metrics.observe("loop_lag_seconds", 0.003)
        metrics.inc("loop_errors_total")
        found = samples(metrics)
        assert found[of("tasks_finished_total", **labels)] == 3
        assert found[of("types_held")] == 7
        assert found[of("loop_lag_seconds_bucket", le="0.0025")] == 0
        assert found[of("loop_lag_seconds_bucket", le="0.005")] == 1
        assert found[of("loop_errors_total")] == 1

    def test_unknown_values_are_folded_and_counted(self) -> None:
        metrics = Metrics(types=["export"], queues=["default"])
        for number in range(50):
            metrics.inc("tasks_retried_total", type=f"t{number}")
        metrics.of_task("default", "t7").started.inc()
        metrics.of_task("of-anna", "export").started.inc()
        metrics.inc("kills_total", verdict="bad mood")
        found = samples(metrics)
        assert found[of("tasks_retried_total", type="_other")] == 50
        assert found[of("tasks_started_total", queue="default", type="_other")] == 1
        assert found[of("tasks_started_total", queue="_other", type="export")] == 1
        assert found[of("kills_total", verdict="_other")] == 1
        dropped = {
            dict(labels)["label"]: value
            for (name, labels), value in found.items()
            if name == "label_values_dropped_total" and value
        }
        assert dropped == {"type": 51, "queue": 1, "verdict": 1}

    def test_a_value_allowed_later_has_its_own_series_from_then_on(self) -> None:
        metrics = Metrics(queues=["default"])
        metrics.of_task("default", "export").started.inc()
        metrics.allow("type", ["export"])
        metrics.of_task("default", "export").started.inc()
        found = samples(metrics)
        assert found[of("tasks_started_total", queue="default", type="_other")] == 1
        assert found[of("tasks_started_total", queue="default", type="export")] == 1

    def test_pairs_of_many_queues_and_types_are_made_when_they_are_seen(self) -> None:
        types, queues = [f"t{n}" for n in range(40)], [f"q{n}" for n in range(40)]
        metrics = Metrics(types=types, queues=queues)
        assert metrics.pairs == frozenset()
        for queue in queues:
            for kind in types:
                metrics.of_task(queue, kind).started.inc()
        assert len(metrics.pairs) == made.PAIRS_MOST
        found = samples(metrics)
        started = {
            labels: value for (n, labels), value in found.items() if n == "tasks_started_total"
        }
        assert sum(started.values()) == 1600
        assert len(started) <= made.PAIRS_MOST + len(types)
        assert found[of("tasks_finished_total", queue="q0", type="t0", outcome="failed")] == 0

    def test_wrong_labels_and_names_are_bugs(self) -> None:
        metrics = Metrics()
        with pytest.raises(
            ValueError, match=r"tasks_started_total has the labels \['queue', 'type'"
        ):
            metrics.inc("tasks_started_total", queue="default")
        with pytest.raises(KeyError):
            metrics.inc("nothing_total")

    def test_two_nodes_in_one_process_do_not_share_numbers(self) -> None:
        one, other = Metrics(), Metrics()
        one.inc("loop_errors_total")
        assert samples(other)[of("loop_errors_total")] == 0


def exemplars(metrics: Metrics) -> dict[Key, Mapping[str, str]]:
    body, content_type = metrics.render(OPEN_METRICS)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")
    return {
        of(sample.name.removeprefix("supervisor_"), **sample.labels): sample.exemplar.labels
        for family in open_families(body.decode())  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar
    }


class TestExposition:
    def test_every_byte_is_what_the_library_writes(self) -> None:
        metrics = Metrics(types=["export", 'odd"\\\nname'], queues=["default"])
        series = metrics.of_task("default", "export")
        for value in (0.0, 0.5, 12.0, 1e9, 123456789.125):
            series.ended("failed", value, 60.0, {"task_id": f'a"\\{value}'}, value)
        metrics.set("clock_skew_seconds", float("inf"))
        registry = metrics._registry
        assert exposition.plain(registry.collect()) == plain_latest(registry)
        assert exposition.opened(registry.collect()) == open_latest(registry)  # type: ignore[no-untyped-call]

    def test_the_richest_format_that_the_reader_takes(self) -> None:
        metrics = Metrics()
        for accept in ("", "*/*", "text/plain"):
            assert metrics.render(accept)[1] == "text/plain; version=0.0.4; charset=utf-8"
        assert metrics.render(OPEN_METRICS)[1].startswith("application/openmetrics-text")

    def test_an_exemplar_leads_from_a_number_to_a_task(self) -> None:
        metrics = Metrics(types=["export"], queues=["default"])
        series = metrics.of_task("default", "export")
        told = {"trace_id": "a" * 32, "span_id": "b" * 16, "task_id": "task_" + "c" * 32}
        series.ended("failed", 3.0, 60.0, told, 1.0)
        bucket = of("running_duration_seconds_bucket", type="export", outcome="failed", le="5.0")
        counter = of("tasks_finished_total", queue="default", type="export", outcome="failed")
        assert exemplars(metrics) == {bucket: told, counter: told}
        found = samples(metrics)
        assert found[of("timeout_used_ratio_bucket", type="export", le="0.1")] == 1

    def test_what_does_not_fit_is_left_out(self) -> None:
        metrics = Metrics(types=["export"], queues=["default"])
        told = {"trace_id": "a" * 32, "span_id": "", "task_id": "x" * 90}
        metrics.of_task("default", "export").ended("failed", 1.0, None, told, 1.0)
        assert {tuple(one) for one in exemplars(metrics).values()} == {("trace_id",)}

    def test_fast_successes_leave_few_exemplars_and_slow_ones_all(self) -> None:
        metrics = Metrics(types=["export"], queues=["default"])
        series = metrics.of_task("default", "export")
        for number in range(10):
            series.ended("success", 0.01, 60.0, {"task_id": f"task_{number}"}, 1.0 + number / 100)
        assert {one["task_id"] for one in exemplars(metrics).values()} == {"task_0"}
        series.ended("success", 40.0, 60.0, {"task_id": "task_slow"}, 1.11)
        series.ended("requeued", None, 60.0, {"task_id": "task_none"}, 1.12)
        assert {one["task_id"] for one in exemplars(metrics).values()} == {
            "task_0", "task_slow", "task_none",
        }  # fmt: skip


def test_a_setter_leaves_a_gauge_at_what_it_was_set_to_last() -> None:
    metrics = Metrics(version="t")
    put = metrics.setter("workers", state="idle")
    shown = []
    for value in (0, 3, 3, 1):
        put(value)
        text = metrics.render()[0].decode()
        shown.append(re.findall(r'supervisor_workers\{state="idle"\} (\S+)', text))
    assert shown == [["0.0"], ["3.0"], ["3.0"], ["1.0"]]
