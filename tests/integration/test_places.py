"""What a killed worker held is free again: its place, and those that waited in its hands."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from harness import FAILED, NodeUnderTest, eventually

from supervisor.model.states import State

NODE_SETTINGS = {"workers": 1, "max_crashes": 100}
KILLS = 5


def test_places_ahead_of_a_killed_worker(node: NodeUnderTest, tmp_path: Path) -> None:
    """Of those it held only the one in its body has crashed; all others cost no retry."""
    node.app.wait([node.submit("quick").task_id for _ in range(100)], 20)
    path = tmp_path / "ran"
    spec = {"type": "quick_or_slow", "params": {"s": 0.004, "path": str(path)}}
    handles = node.app.submit_many([spec] * 600)
    killed = set()
    for number in range(1, KILLS + 1):
        eventually(lambda n=number: path.exists() and _lines(path) > n * 60, 20)
        (pid,) = eventually(node.worker_pids, 5)
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)
        eventually(lambda p=pid: node.worker_pids() not in ([], [p]), 5, "it is replaced")
    views = node.app.wait([handle.task_id for handle in handles], 60)

    assert {view.state for view in views} == {State.SUCCESS}
    endings = [ending for view in views for ending in node.endings(view.task_id)]
    crashes = [e for e in endings if e[1] == "killed_by_signal"]
    back = [e for e in endings if e[1] == "never_started"]
    assert len(crashes) <= KILLS
    assert back, "others waited in the hands of those that were killed"
    assert set(crashes) <= {(FAILED, "killed_by_signal", "exited", True)}
    assert set(back) == {(FAILED, "never_started", "taken_back", False)}
    assert sum(view.crash_count for view in views) == len(crashes)
    assert sum(view.retry_count for view in views) == len(crashes)
    assert len(endings) == len(views) + len(crashes) + len(back)


def test_the_place_of_a_killed_worker_is_taken_anew(node: NodeUnderTest) -> None:
    """After all that one worker takes one attempt at a time, and nothing is promised in vain."""
    idle = ("supervisor_workers", (("state", "idle"),))
    eventually(lambda: node.metrics()[idle] == 1, 5, "the worker is idle")
    long = node.submit("sleep", s=0.5)
    node.started(long)
    waiting = node.submit("sleep", s=0.1)
    assert waiting.view().state is State.PENDING
    assert waiting.wait(10).state is State.SUCCESS
    assert long.state() is State.SUCCESS
    assert node.events("loop.failed") == []


def _lines(path: Path) -> int:
    return path.read_text().count("\n")
