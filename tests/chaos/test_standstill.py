"""The whole node stands still, and a dead worker's place is taken: what time does to limits."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime

import pytest
from harness import NodeUnderTest, Start, eventually, ran_s

from supervisor.model.states import State

#: Hard limits, soft ones half a second less; the body needs 2 s, with progress every 0.4 s.
TIMEOUTS = (3.0, 3.5, 4.0)
STILL_S = 8.0
ROUNDS = 20


def test_node_and_workers_stand_still(start_node: Start) -> None:
    """As a suspended host does: 8 s over limits of 2–4 s cost nobody anything."""
    node = start_node(workers=3, heartbeat_interval=0.3, heartbeat_misses=3)
    eventually(lambda: len(node.worker_pids()) == 3, 10)
    handles = [
        node.submit("slow_but_sure", spec={"timeout": limit, "soft_timeout": limit - 0.5})
        for limit in TIMEOUTS
    ]
    for handle in handles:
        node.started(handle)
    pids = [node.pid, node.zygote_pid(), *node.worker_pids()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(STILL_S)
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)
    for handle in handles:
        view = handle.wait(10)
        assert (view.state, view.attempt, view.result_json) == (State.SUCCESS, 1, '"made it"')
        assert "deadlines_moved" in node.notes(handle.task_id)
        assert "verdict" not in node.notes(handle.task_id)
        assert ran_s(node.attempts(handle.task_id)[0]) > STILL_S
    (gap,) = node.events("loop.lagged")
    assert STILL_S - 1 < gap["gap_s"] < STILL_S + 2
    assert node.events("worker.killed") == []
    assert node.events("worker.exited") == []


def reaped_at(node: NodeUnderTest, pid: int) -> datetime:
    def line() -> str | None:
        found = [e["timestamp"] for e in node.events("worker.exited") if e["pid"] == pid]
        return found[0] if found else None

    return datetime.fromisoformat(eventually(line, 5, f"{pid} is reaped") or "")


def test_next_task_starts_soon_after_a_death(
    start_node: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """One worker, killed 20 times: from the reap to the first line of the task that waits."""
    node = start_node(workers=1, restart_intensity="1000/60")
    took_s = []
    for _ in range(ROUNDS):
        victim = node.submit("sleep", spec={"max_retries": 0, "priority": 9})
        node.started(victim)
        following = node.submit("ok")
        pid = node.attempts(victim.task_id)[0].pid
        os.kill(pid, signal.SIGKILL)
        assert following.wait(5).state is State.SUCCESS
        started_at = node.attempts(following.task_id)[0].started_at
        assert started_at is not None
        took_s.append((started_at - reaped_at(node, pid)).total_seconds())
    took_s.sort()
    p50_ms, p95_ms = 1000 * took_s[ROUNDS // 2], 1000 * took_s[ROUNDS * 95 // 100 - 1]
    with capsys.disabled():
        print(f"[reap to next start: p50 {p50_ms:.0f} ms, p95 {p95_ms:.0f} ms of 50]", end=" ")
    assert p95_ms < 250
