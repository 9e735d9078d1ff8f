"""Events, log lines and metrics: the contract tables and what is made from them."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import supervisor
from supervisor.telemetry import logs
from supervisor.telemetry.catalog import CATALOG, COUNTER, GAUGE, HISTOGRAM
from supervisor.telemetry.events import EVENTS, LOGGER, emit
from supervisor.telemetry.metrics import Metrics

SOURCE = Path(supervisor.__file__).parent


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    logger = logging.getLogger(LOGGER)
    before = (list(logger.handlers), logger.level, logger.propagate)
    stream = io.StringIO()
    yield stream
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class TestEvents:
    def test_names_are_dotted_and_say_what_has_happened(self) -> None:
        irregular = {"held", "lost", "swept", "taken", "ready", "stopping", "unforkable"}
        for name, event in EVENTS.items():
            assert re.fullmatch(r"[a-z]+\.[a-z]+", name), name
            verb = name.split(".")[1]
            assert verb.endswith("ed") or verb in irregular
            assert event.prose.endswith(".")
            assert event.keys == set(event.fields)

    def test_an_event_is_one_line_with_its_fields(self, log: io.StringIO) -> None:
        logs.configure(log)
        emit("signal.received", signal="SIGTERM")
        [line] = lines(log)
        assert line.pop("timestamp")
        assert line == {
            "event": "signal.received",
            "level": "info",
            "logger": "supervisor",
            "signal": "SIGTERM",
        }

    def test_events_below_the_level_cost_no_line(self, log: io.StringIO) -> None:
        logs.configure(log, level=logging.WARNING)
        emit("signal.received", signal="SIGTERM")
        assert log.getvalue() == ""

    def test_what_is_not_in_the_table_is_shown_and_marked(self, log: io.StringIO) -> None:
        logs.configure(log)
        emit("never.declared", thing=1)
        emit("signal.received", number=15)
        assert [(line["event"], line["undeclared"]) for line in lines(log)] == [
            ("never.declared", True),
            ("signal.received", True),
        ]

    def test_every_emit_in_the_source_is_in_the_table(self) -> None:
        wrong = [
            f"{path.relative_to(SOURCE)}:{call.lineno} {name} {sorted(fields)}"
            for path in SOURCE.rglob("*.py")
            for call, name, fields in emits(ast.parse(path.read_text("utf-8")))
            if name not in EVENTS or not agrees(fields, EVENTS[name].keys)
        ]
        assert wrong == []

    def test_every_event_in_the_table_is_emitted(self) -> None:
        told = {
            name
            for path in SOURCE.rglob("*.py")
            for _, name, _ in emits(ast.parse(path.read_text("utf-8")))
        }
        assert EVENTS.keys() - told == set()


def agrees(given: set[str], declared: frozenset[str]) -> bool:
    """Whether a call gives what is declared; after `**more` only what is written out is known."""
    return given - {"**"} <= declared if "**" in given else given == declared


def emits(tree: ast.AST) -> Iterator[tuple[ast.Call, str, set[str]]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
        called = called.id if isinstance(called, ast.Name) else called
        first = node.args[0]
        if called == "emit" and isinstance(first, ast.Constant):
            yield (
                node,
                str(first.value),
                {word.arg or "**" for word in node.keywords if word.arg != "exc_info"},
            )


class TestLogs:
    def test_a_traceback_is_one_field_of_the_line(self, log: io.StringIO) -> None:
        logs.configure(log)
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("supervisor.node").exception("turn failed: %s", "probe")
        [line] = lines(log)
        assert line["event"] == "turn failed: probe"
        assert line["logger"] == "supervisor.node"
        assert str(line["exception"]).endswith("ValueError: no")

    def test_columns_for_a_terminal(self, log: io.StringIO) -> None:
        logs.configure(log, json=False)
        emit("signal.received", signal="SIGTERM")
        assert "signal.received" in log.getvalue()
        assert "signal=SIGTERM" in log.getvalue()
        assert "\x1b" not in log.getvalue()

    def test_a_second_set_up_replaces_the_first(self, log: io.StringIO) -> None:
        logs.configure(log)
        logs.configure(log)
        emit("signal.received", signal="SIGTERM")
        assert len(lines(log)) == 1


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


class TestCatalog:
    def test_names_follow_the_rule(self) -> None:
        units = {"seconds": "_seconds", "bytes": "_bytes", "": ""}
        for name, metric in CATALOG.items():
            assert re.fullmatch(r"[a-z][a-z_]+", name)
            assert name.endswith("_total") == (metric.kind == COUNTER), name
            assert name.removesuffix("_total").endswith(units[metric.unit])
            assert metric.kind in {COUNTER, GAUGE, HISTOGRAM}
            assert bool(metric.buckets) == (metric.kind == HISTOGRAM)
            assert list(metric.buckets) == sorted(set(metric.buckets))
            assert metric.help.endswith(".")

    def test_no_label_can_hold_an_id(self) -> None:
        labels = {label for metric in CATALOG.values() for label in metric.labels}
        assert labels == {
            "queue", "type", "outcome", "state", "reason", "kind", "verdict", "status", "label",
            "version", "python_version",
        }  # fmt: skip

    def test_the_metrics_of_the_node_are_there(self) -> None:
        assert set(CATALOG) == {
            "in_queue", "scheduled", "running", "running_oldest_age_seconds", "types_held",
            "tasks_started_total", "tasks_finished_total", "running_duration_seconds",
            "queue_wait_seconds", "workers", "worker_spawns_total", "worker_exits_total",
            "zombies", "kills_total", "autopsies_total", "autopsy_duration_seconds",
            "cancel_requests_total", "cancel_latency_seconds", "cancel_overdue",
            "tasks_quarantined_total", "crashes_total", "left_behind_total", "late_results_total",
            "illegal_transitions_total",
            "loop_lag_seconds", "loop_errors_total", "loop_last_tick_timestamp_seconds",
            "store_up", "store_commit_duration_seconds", "store_errors_total", "restart_halted",
            "unreaped", "build_info", "label_values_dropped_total", "fenced", "fences_total",
            "sweeper_leading", "clock_skew_seconds", "store_conflicts_total",
            "claims_tried_total", "claims_missed_total",
        }  # fmt: skip


class TestMetrics:
    def test_every_series_is_there_from_the_start(self) -> None:
        metrics = Metrics(types=["export"], queues=["default"], version="1.2")
        found = samples(metrics)
        finished = {
            dict(labels)["outcome"]: value
            for (name, labels), value in found.items()
            if name == "supervisor_tasks_finished_total"
        }
        assert finished == dict.fromkeys(
            ("success", "failed", "canceled", "timeout", "requeued"), 0.0
        )
        assert found["supervisor_queue_wait_seconds_count", (("queue", "default"),)] == 0
        assert not any(name.endswith("_created") for name, _ in found)
        build = [dict(labels) for (name, labels) in found if name == "supervisor_build_info"]
        assert [label["version"] for label in build] == ["1.2"]

    def test_counting_setting_observing(self) -> None:
        metrics = Metrics(types=["export"], queues=["default"])
        metrics.inc("tasks_finished_total", type="export", outcome="success")
        metrics.inc("tasks_finished_total", 2, outcome="success", type="export")
        metrics.set("in_queue", 7, queue="default")
        metrics.observe("loop_lag_seconds", 0.003)
        metrics.inc("loop_errors_total")
        found = samples(metrics)
        labels = (("outcome", "success"), ("type", "export"))
        assert found["supervisor_tasks_finished_total", labels] == 3
        assert found["supervisor_in_queue", (("queue", "default"),)] == 7
        assert found["supervisor_loop_lag_seconds_bucket", (("le", "0.0025"),)] == 0
        assert found["supervisor_loop_lag_seconds_bucket", (("le", "0.005"),)] == 1
        assert found["supervisor_loop_errors_total", ()] == 1

    def test_unknown_values_are_folded_and_counted(self) -> None:
        metrics = Metrics(types=["export"])
        for number in range(50):
            metrics.inc("tasks_finished_total", type=f"t{number}", outcome="success")
        metrics.inc("kills_total", verdict="bad mood")
        found = samples(metrics)
        folded = (("outcome", "success"), ("type", "_other"))
        assert found["supervisor_tasks_finished_total", folded] == 50
        assert found["supervisor_kills_total", (("verdict", "_other"),)] == 1
        dropped = "supervisor_label_values_dropped_total"
        assert found[dropped, (("label", "type"),)] == 50
        assert found[dropped, (("label", "verdict"),)] == 1

    def test_a_value_allowed_later_has_its_own_series_from_then_on(self) -> None:
        metrics = Metrics()
        metrics.inc("tasks_started_total", type="export")
        metrics.allow("type", ["export"])
        metrics.inc("tasks_started_total", type="export")
        found = samples(metrics)
        assert found["supervisor_tasks_started_total", (("type", "_other"),)] == 1
        assert found["supervisor_tasks_started_total", (("type", "export"),)] == 1

    def test_wrong_labels_and_names_are_bugs(self) -> None:
        metrics = Metrics()
        with pytest.raises(ValueError, match=r"tasks_started_total has the labels \['type'\]"):
            metrics.inc("tasks_started_total", queue="default")
        with pytest.raises(KeyError):
            metrics.inc("nothing_total")

    def test_two_nodes_in_one_process_do_not_share_numbers(self) -> None:
        one, other = Metrics(), Metrics()
        one.inc("loop_errors_total")
        assert samples(other)["supervisor_loop_errors_total", ()] == 0
