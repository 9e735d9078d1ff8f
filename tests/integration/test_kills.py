"""What only a kill ends: each judged, examined before the kill, killed, and told truthfully."""

from __future__ import annotations

import os
import re
import signal
from datetime import datetime
from pathlib import Path

import pytest
from harness import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCESS,
    TIMEOUT,
    NodeUnderTest,
    begun,
    eventually,
    ran_s,
)

from supervisor.client import Handle
from supervisor.model.states import State
from supervisor.store import TaskView

#: What spins must get the CPU that it asks for, or the evidence may speak of the host instead.
pytestmark = pytest.mark.alone

WORKERS = 4
NODE_SETTINGS = {"workers": WORKERS}

#: type → the first word of its diagnosis
STUCK = {
    "spin": "busy",
    "nap": "blocked",
    "stopped": "stopped",
    "deaf": "blocked",
    "swallow": "",  # wakes every 10 ms: what a few samples find of it varies
    "regex": "busy",
    "c_sleep": "blocked",
    "took_alarm": "wait",
    "blocks_in_cleanup": "wait",
    "silent_peer": "blocked",
}


@pytest.fixture(scope="module")
def stuck(node: NodeUnderTest) -> dict[str, TaskView]:
    """All of them at once: their limits hold beside each other too."""
    handles = {kind: node.submit(kind) for kind in STUCK}
    return {kind: handle.wait(60) for kind, handle in handles.items()}


@pytest.mark.parametrize("kind", STUCK)
def test_hard_timeout(node: NodeUnderTest, stuck: dict[str, TaskView], kind: str) -> None:
    view = stuck[kind]
    assert (view.state, view.reason, view.verdict) == (State.TIMEOUT, "timeout", "timeout")
    assert view.error is not None
    assert view.error.startswith("ran past its time limit (capture ")
    assert node.endings(view.task_id) == [(TIMEOUT, "timeout", "exited", True)]
    assert node.moves(view.task_id) == [*begun(), (RUNNING, TIMEOUT, "node", "timeout")]
    (attempt,) = node.attempts(view.task_id)
    # limit 1.5 s, capture at most 4 s; eight compete for two cores here
    assert 1.5 <= ran_s(attempt) < 1.5 + 4 + 1


@pytest.mark.parametrize("kind", STUCK)
def test_evidence_was_taken_before_the_kill(
    node: NodeUnderTest, stuck: dict[str, TaskView], kind: str
) -> None:
    view = stuck[kind]
    reasons = [line.reason for line in node.app.history(view.task_id)]
    assert reasons.index("verdict") < reasons.index("autopsy") < reasons.index("timeout")
    (attempt,) = node.attempts(view.task_id)
    (record,) = node.reader.autopsies(view.task_id)
    assert (record.task_id, record.attempt, record.pid, record.verdict) == (
        view.task_id, 1, attempt.pid, "timeout",
    )  # fmt: skip
    assert os.stat(record.path).st_mode & 0o777 == 0o600
    bundle = node.bundle(view.task_id)
    assert bundle.heading.pid == attempt.pid
    assert attempt.ended_at is not None
    assert datetime.fromisoformat(bundle.heading.captured_at) < attempt.ended_at
    place = [x for x in bundle.report.splitlines() if "tasks_endings.py" in x and kind in x]
    assert place, bundle.report
    assert bundle.heading.diagnosis[0].code.startswith(STUCK[kind]), bundle.report


def test_metrics_of_kills(node: NodeUnderTest, stuck: dict[str, TaskView]) -> None:
    metrics = node.metrics()
    assert metrics[("supervisor_kills_total", (("verdict", "timeout"),))] == len(STUCK)
    done = ("complete", "partial")
    taken = [metrics[("supervisor_autopsies_total", (("status", s),))] for s in done]
    assert sum(taken) == len(STUCK)


# -- the other verdicts


@pytest.fixture(scope="module")
def judged(node: NodeUnderTest) -> dict[str, Handle]:
    """Those whose verdicts take their time, at once; one that advances is beside them."""
    return {kind: node.submit(kind) for kind in ("silent", "stalls", "slow_but_sure")}


def test_stopped_worker_is_lost_by_heartbeat(
    node: NodeUnderTest, judged: dict[str, Handle]
) -> None:
    view = judged["silent"].wait(30)
    assert (view.state, view.reason, view.verdict) == (State.TIMEOUT, "heartbeat_lost", "stopped")
    assert "process is stopped; no heartbeat for" in (view.error or "")
    assert node.endings(view.task_id) == [(TIMEOUT, "heartbeat_lost", "exited", True)]
    assert "stopped.signal" in {d.code for d in node.bundle(view.task_id).heading.diagnosis}


def test_equal_progress_is_no_progress(node: NodeUnderTest, judged: dict[str, Handle]) -> None:
    """A slow one that advances is left alone beside it."""
    slow, view = judged["slow_but_sure"], judged["stalls"].wait(30)
    assert (view.state, view.reason, view.verdict) == (State.TIMEOUT, "stalled", "stalled")
    assert node.endings(view.task_id) == [(TIMEOUT, "stalled", "exited", True)]
    assert node.bundle(view.task_id).heading.diagnosis
    assert slow.wait(10).state is State.SUCCESS
    assert node.reader.autopsies(slow.task_id) == []


def test_evidence_that_cannot_be_taken_in_time(node: NodeUnderTest) -> None:
    """The program that takes it hangs: it is killed too, and what the node itself knows is kept."""
    handle = node.submit("nap")
    node.started(handle)
    pid = node.attempts(handle.task_id)[0].pid
    capture = eventually(lambda: node.captures_of(pid), 5, "a capture runs")
    os.kill(capture[0], signal.SIGSTOP)
    view = handle.wait(10)
    assert (view.state, view.reason) == (State.TIMEOUT, "timeout")
    assert node.endings(view.task_id) == [(TIMEOUT, "timeout", "exited", True)]
    (attempt,) = node.attempts(view.task_id)
    assert 1.5 + 2 <= ran_s(attempt) < 1.5 + 4 + 1
    (record,) = node.reader.autopsies(view.task_id)
    assert (record.pid, record.status, record.verdict) == (pid, "partial", "timeout")
    bundle = node.bundle(view.task_id)
    assert bundle.sections["facts"]["task_id"] == view.task_id
    assert bundle.sections["facts"]["looks"]
    assert "stacks" not in bundle.sections


def test_memory_limit(node: NodeUnderTest) -> None:
    view = node.run("hog")
    assert (view.state, view.reason, view.verdict) == (State.FAILED, "memory", "memory")
    assert node.endings(view.task_id) == [(FAILED, "memory", "exited", True)]
    (attempt,) = node.attempts(view.task_id)
    assert attempt.usage["max_rss_bytes"] > 150 * 2**20
    assert node.bundle(view.task_id).heading.pid == attempt.pid


def test_worker_killed_from_outside(node: NodeUnderTest, tmp_path: Path) -> None:
    """A crash is decided at once, not at the time limit, and another worker takes its place."""
    marks = tmp_path / "marks"
    handle = node.submit("sleep", spec={"max_retries": 1}, s=1.0, path=str(marks))
    node.started(handle)
    (attempt,) = node.attempts(handle.task_id)
    os.kill(attempt.pid, signal.SIGKILL)
    ended = eventually(lambda: node.attempts(handle.task_id)[0].ended_at, 2)
    assert ended is not None
    view = handle.wait(15)
    assert (view.state, view.attempt, view.crash_count) == (State.SUCCESS, 2, 1)
    assert node.endings(handle.task_id) == [
        (FAILED, "killed_by_signal", "exited", True), (SUCCESS, "returned", "reported", False),
    ]  # fmt: skip
    assert node.moves(handle.task_id) == [
        *begun(), (RUNNING, FAILED, "node", "killed_by_signal"), (FAILED, PENDING, "node", "retry"),
        (PENDING, RUNNING, "node", "claimed"), (RUNNING, SUCCESS, "node", "returned"),
    ]  # fmt: skip
    eventually(lambda: len(node.worker_pids()) == WORKERS, 5, "the dead worker was replaced")


def test_many_soft_limits_at_once(node: NodeUnderTest, tmp_path: Path) -> None:
    """Each is told within a second of its limit (the workers take them in turn)."""
    handles = [node.submit("polite", path=str(tmp_path / f"m{n}")) for n in range(24)]
    for handle in handles:
        view = handle.wait(60)
        assert (view.state, view.reason) == (State.TIMEOUT, "soft_timeout")
        last = node.attempts(handle.task_id)[-1]
        assert 0.4 <= ran_s(last) < 1.4


def test_healthy_workers_are_left(node: NodeUnderTest) -> None:
    """After all that: four workers, and the node never complained of itself."""
    eventually(lambda: len(node.worker_pids()) == WORKERS, 5)
    assert node.run("ok", value=1).state is State.SUCCESS
    assert node.events("loop.failed") == []
    assert not re.search("Traceback", node.log_text())
