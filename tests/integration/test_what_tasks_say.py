"""What bodies say of their work reaches the metrics, however the attempt ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from harness import NodeUnderTest, Start, eventually

NODE_APP = "tests.programs.tasks_saying:app"


def said(node: NodeUnderTest, metric: str, **labels: str) -> dict[Any, float]:
    """Return the series of a metric that have these labels, by their other labels' values."""
    wanted = set(labels.items())
    return {
        tuple(value for key, value in have if key not in labels): number
        for (name, have), number in node.metrics().items()
        if name == f"supervisor_{metric}" and wanted <= set(have)
    }


def by_name(node: NodeUnderTest, metric: str, **labels: str) -> dict[str, float]:
    return {values[0]: number for values, number in said(node, metric, **labels).items()}


def calls(node: NodeUnderTest, service: str) -> tuple[float, float, float]:
    """Return how many calls of a service were right, wrong, and are in flight."""
    ended = by_name(node, "calls_total", service=service)
    (flying,) = said(node, "call_in_flight", service=service).values() or (0.0,)
    return ended.get("ok", 0.0), ended.get("error", 0.0), flying


def test_declared_names_are_there_before_anything_ran(node: NodeUnderTest) -> None:
    kind = {"type": "idle"}
    assert by_name(node, "task_counts_total", **kind) == {"rows": 0, "never": 0}
    assert by_name(node, "task_error_codes_total", **kind) == {"404": 0, "E-1": 0}
    steps = by_name(node, "task_step_duration_seconds_count", **kind)
    assert steps == {"read": 0, "write": 0}
    assert calls(node, "unused") == (0, 0, 0)
    assert said(node, "task_expected_duration_seconds", **kind) == {(): 2}


def test_all_of_it_after_a_success(node: NodeUnderTest) -> None:
    assert node.run("declared").state == "SUCCESS"
    kind = {"type": "declared"}
    assert by_name(node, "task_counts_total", **kind) == {"rows": 3, "never": 0, "rows-good": 2.5}
    assert by_name(node, "task_error_codes_total", **kind) == {"404": 1, "E-1": 0}
    count = by_name(node, "task_step_duration_seconds_count", **kind)
    total = by_name(node, "task_step_duration_seconds_sum", **kind)
    assert count == {"read": 1, "write": 1}
    assert 0 < total["read"] < 0.06 <= total["write"] < 5
    eventually(lambda: calls(node, "payments") == (1, 0, 0), what="it is not in flight any more")
    (took,) = said(node, "call_duration_seconds_sum", service="payments").values()
    assert 0.06 <= took <= total["write"]


def test_an_attempt_that_fails_and_its_retry_both_count(node: NodeUnderTest) -> None:
    assert node.run("retried").state == "SUCCESS"
    assert by_name(node, "task_counts_total", type="retried") == {"tries": 2}
    assert calls(node, "flaky") == (1, 1, 0)


def test_a_call_that_hangs_is_seen_hanging_and_told_when_it_is_killed(node: NodeUnderTest) -> None:
    handle = node.submit("hangs", spec={"timeout": 9})
    eventually(lambda: calls(node, "silent") == (0, 0, 1), what="the call is in flight")
    assert by_name(node, "task_counts_total", type="hangs") == {"before": 7}
    assert "; in ctx.call('silent') for " in node.cli("show", handle.task_id).stdout
    view = handle.wait(30)
    assert view.state == "TIMEOUT"
    eventually(lambda: calls(node, "silent") == (0, 1, 0), what="the call has failed")
    (took,) = said(node, "call_duration_seconds_sum", service="silent").values()
    assert 9 <= took < 18
    assert by_name(node, "task_counts_total", type="hangs") == {"before": 7}
    (attempt,) = node.attempts(view.task_id)
    assert attempt.detail is not None
    assert "in ctx.call('silent') for " in attempt.detail
    notes = {line.reason: line.note or "" for line in node.app.history(view.task_id)}
    assert "; in ctx.call('silent') for " in notes["verdict"]
    assert "in ctx.call('silent') for " in node.cli("show", view.task_id).stdout
    bundle = node.bundle(view.task_id)
    (call,) = bundle.sections["facts"]["calls"]
    assert (call["service"], call["number"]) == ("silent", 1)
    assert 8.5 <= call["for_s"] < 18
    assert "in ctx.call('silent') for " in bundle.report


@pytest.mark.parametrize("kind", ["waits", "awaits"])
def test_a_call_that_a_cancel_ends_says_nothing_of_its_service(
    node: NodeUnderTest, kind: str
) -> None:
    service = f"{kind}-canceled"
    handle = node.submit(kind, service=service)
    node.started(handle)
    eventually(lambda: calls(node, service) == (0, 0, 1))
    handle.cancel(by="tester", reason="enough")
    assert handle.wait(20).state == "CANCELED"
    eventually(lambda: calls(node, service) == (0, 0, 0))


@pytest.mark.parametrize("kind", ["waits", "awaits"])
def test_a_call_that_the_soft_limit_ends_is_an_error(node: NodeUnderTest, kind: str) -> None:
    service = f"{kind}-too-long"
    handle = node.submit(kind, service=service, spec={"soft_timeout": 0.5})
    assert handle.wait(20).state == "TIMEOUT"
    eventually(lambda: calls(node, service) == (0, 1, 0))


def test_what_was_said_before_a_sigkill_is_kept(node: NodeUnderTest, tmp_path: Path) -> None:
    handle = node.submit("killed", path=str(tmp_path / "told"))
    eventually((tmp_path / "told").exists)
    os.kill(node.attempts(handle.task_id)[0].pid, signal.SIGKILL)
    assert handle.wait(20).state == "FAILED" or handle.view().state == "PENDING"
    assert by_name(node, "task_counts_total", type="killed")["kept"] == 11
    assert by_name(node, "task_step_duration_seconds_count", type="killed") == {"half": 1}


def test_a_million_counts_cost_less_than_a_second_of_cpu(node: NodeUnderTest) -> None:
    view = node.run("million", timeout=60)
    assert view.result_json is not None
    assert float(view.result_json) < 1.0
    eventually(lambda: by_name(node, "task_counts_total", type="million") == {"loops": 1e6})


def test_threads_and_coroutines_lose_nothing(node: NodeUnderTest) -> None:
    assert node.run("threads").state == "SUCCESS"
    assert by_name(node, "task_counts_total", type="threads") == {"threaded": 16_000}
    assert calls(node, "shared") == (16_000, 0, 0)
    assert calls(node, "nested") == (16_000, 0, 0)
    assert node.run("loops").state == "SUCCESS"
    assert calls(node, "async") == (150, 50, 0)
    assert by_name(node, "task_step_duration_seconds_count", type="loops") == {"await": 200}


def test_hostile_names_are_told_in_the_log_and_cost_no_result(node: NodeUnderTest) -> None:
    view = node.run("hostile")
    assert (view.state, view.result_json) == ("SUCCESS", '"unhurt"')
    names = by_name(node, "task_counts_total", type="hostile")
    assert names == {"ok": 1, "n": 1, "_other": 13}
    codes = by_name(node, "task_error_codes_total", type="hostile")
    assert codes == {"ok": 1, "7": 1, "_other": 12}
    assert node.events("loop.failed") == []
    failing = node.run("hostile_failing")
    log = node.cli("logs", failing.task_id).stdout
    for argument in ("count: name", "error_code: code", "step: name", "call: service"):
        assert log.count(f"ctx.{argument} must be text of 1 to 64 letters") == 1
    assert log.count("ctx.count: n must be a number from 0 to 9007199254740992, not -1") == 1


def test_any_number_of_names_makes_a_bounded_number_of_series(start_node: Start) -> None:
    node = start_node(app=NODE_APP)
    for number in range(3):
        assert node.run("many_names", offset=500 * number).state == "SUCCESS"
    for metric in ("task_counts_total", "task_error_codes_total"):
        names = by_name(node, metric, type="many_names")
        assert (len(names), sum(names.values()), names["_other"]) == (21, 1500, 1480)
    steps = by_name(node, "task_step_duration_seconds_count", type="many_names")
    assert (len(steps), sum(steps.values())) == (21, 1500)
    services = by_name(node, "call_duration_seconds_count")
    assert len(services) == 23  # two are declared
    dropped = by_name(node, "label_values_dropped_total")
    assert all(dropped[label] > 0 for label in ("name", "code", "step", "service"))


def test_a_thread_that_was_left_behind_says_nothing_of_later_attempts(
    start_node: Start,
) -> None:
    node = start_node(app=NODE_APP, workers=1)
    node.run("leaves_a_thread")
    node.run("first_said_late")
    assert node.run("opens", s=1.5).state == "SUCCESS"
    late = by_name(node, "task_counts_total", name="late")
    assert sum(late.values()) == late.get("leaves_a_thread", 0) <= 5
    assert by_name(node, "task_counts_total", name="much-later") == {}


def test_a_forked_child_says_nothing(node: NodeUnderTest) -> None:
    assert node.run("forks").state == "SUCCESS"
    assert by_name(node, "task_counts_total", type="forks") == {"before-fork": 1}
