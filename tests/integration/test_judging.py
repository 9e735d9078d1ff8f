"""Diagnostic mode: what is no kill is told once, with evidence where that is set, and lets live."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from harness import RUNNING, SUCCESS, TIMEOUT, NodeUnderTest, Start, begun, eventually, ran_s

from supervisor.client import Handle
from supervisor.model.states import State

#: A verdict is held while the machine is busy with other things.
light = pytest.mark.light

APP = "tests.programs.tasks_judged:app"


def reached(node: NodeUnderTest, handle: Handle, seconds: float = 60) -> list[tuple[str, str]]:
    """Return (verdict, action) of a task's events, once there is one; a busy host is no verdict.

    It takes long only where the machine of the test is so busy that the verdict is held.
    """

    def told() -> list[tuple[str, str]]:
        events = node.events("verdict.reached")
        of_task = [e for e in events if e["task_id"] == handle.task_id]
        return [(e["verdict"], e["action"]) for e in of_task if e["verdict"] != "starved_host"]

    return eventually(told, seconds, f"a verdict on {handle.task_id}")


def examined(node: NodeUnderTest, enough: Path) -> None:
    """Let a task end once its evidence has been taken."""
    eventually(lambda: node.events("autopsy.taken"), 10)
    enough.touch()


def zombies(node: NodeUnderTest, kind: str) -> float:
    return node.metrics()["supervisor_zombies", (("kind", kind),)]


def lives(node: NodeUnderTest, handle: Handle, result: str, told: list[tuple[str, str]]) -> None:
    """Require that the task came to its own end, and that each verdict was told once."""
    assert handle.wait(10).result_json == result
    assert node.endings(handle.task_id) == [(SUCCESS, "returned", "reported", False)]
    assert reached(node, handle) == told
    notes = [line.note or "" for line in handle.history() if line.reason == "verdict"]
    assert [note.partition(":")[0] for note in notes if not note.startswith("starved_host")] == [
        f"{verdict} → {action}" for verdict, action in told
    ]
    taken = [record.verdict for record in node.reader.autopsies(handle.task_id)]
    assert taken == [verdict for verdict, action in told if action == "capture"]
    for name in ("worker.killed", "worker.exited", "loop.failed"):
        assert node.events(name) == []


@light
def test_without_progress(start_node: Start, tmp_path: Path) -> None:
    """Evidence is taken, and it counts as a zombie for as long as it stalls."""
    node = start_node(APP, progress_timeout=0.6)
    handle = node.submit("says_nothing", path=str(tmp_path / "enough"))
    assert reached(node, handle) == [("stalled", "capture")]
    eventually(lambda: zombies(node, "stalled") == 1, 3)
    examined(node, tmp_path / "enough")
    lives(node, handle, '"was only slow"', [("stalled", "capture")])
    why = node.bundle(handle.task_id).heading.why
    assert why.startswith("no progress for ")
    assert why.endswith(" s (limit 0.6 s)")
    eventually(lambda: zombies(node, "stalled") == 0, 3)


@light
def test_without_progress_and_evidence(start_node: Start, tmp_path: Path) -> None:
    node = start_node(APP, progress_timeout=0.6, on_stalled="alert")
    handle = node.submit("says_nothing", path=str(tmp_path / "enough"))
    assert reached(node, handle) == [("stalled", "alert")]
    (tmp_path / "enough").touch()
    lives(node, handle, '"was only slow"', [("stalled", "alert")])


@pytest.mark.alone  # it must have that core
def test_a_whole_core(start_node: Start, tmp_path: Path) -> None:
    """A spin with progress: the bundle shows where it computes."""
    node = start_node(APP, cpu_spin_after=1.5, workers=1)
    handle = node.submit("spins", path=str(tmp_path / "enough"))
    assert reached(node, handle) == [("cpu_spin", "capture")]
    examined(node, tmp_path / "enough")
    lives(node, handle, '"done computing"', [("cpu_spin", "capture")])
    assert node.bundle(handle.task_id).heading.why.startswith("a full core used for ")


@light
def test_memory(start_node: Start, tmp_path: Path) -> None:
    node = start_node(APP, memory_limit_bytes=100 * 2**20, on_memory="capture")
    handle = node.submit("grows", path=str(tmp_path / "enough"))
    assert reached(node, handle) == [("memory", "capture")]
    examined(node, tmp_path / "enough")
    lives(node, handle, str(120 * 2**20), [("memory", "capture")])


@light
def test_stopped_by_somebody(start_node: Start) -> None:
    """Where a lost heartbeat is only told, whoever stopped it can let it go on."""
    settings: dict[str, Any] = {"heartbeat_interval": 0.3, "heartbeat_misses": 3}
    node = start_node(APP, on_heartbeat_lost="alert", **settings)
    handle = node.submit("stops_itself")
    assert reached(node, handle) == [("stopped", "alert")]
    eventually(lambda: zombies(node, "heartbeat_lost") == 1, 3)
    assert handle.state() is State.RUNNING
    os.kill(node.attempts(handle.task_id)[0].pid, signal.SIGCONT)
    lives(node, handle, '"went on"', [("stopped", "alert")])


LIMIT_S = 0.6


@light
def test_endings_around_the_limit(start_node: Start) -> None:
    """Returning at the very moment of the limit: one ending each, by the time of the return."""
    node = start_node(APP, workers=4, timeout=LIMIT_S, autopsy_budget=2)
    handles = [node.submit("takes", s=round(0.5 + 0.01 * n, 2)) for n in range(24)]
    ends = []
    for handle in handles:
        view = handle.wait(30)
        (attempt,) = node.attempts(handle.task_id)
        in_time = ran_s(attempt) <= LIMIT_S
        ends.append(in_time)
        if in_time:
            expected, outcome = (RUNNING, SUCCESS, "node", "returned"), State.SUCCESS
        else:
            expected, outcome = (RUNNING, TIMEOUT, "node", "timeout"), State.TIMEOUT
        assert node.moves(handle.task_id) == [*begun(), expected]
        assert (view.state, attempt.outcome) == (outcome, outcome)
        assert (view.result_json is None) == (not in_time)
    assert not all(ends)
    figures = node.metrics()
    counted = sum(v for (name, _), v in figures.items() if name.endswith("tasks_finished_total"))
    assert counted == len(handles)
