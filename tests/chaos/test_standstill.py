"""The whole node stands still, and a dead worker's place is taken: what time does to limits."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from harness import CANCELED, SUCCESS, NodeUnderTest, Start, eventually, ran_s

from supervisor.model.states import State

#: Hard limits, soft ones half a second less; the body needs 2 s, with progress every 0.4 s.
TIMEOUTS = (3.0, 3.5, 4.0)
STILL_S = 8.0
ROUNDS, SERIES, P95_MS = 50, 3, 50
#: Every so many are ended by their limit, evidence first; the others are killed from outside.
BY_LIMIT_EVERY = 10


@contextmanager
def standing_still(pids: list[int], seconds: float) -> Iterator[None]:
    """Stop these processes for so long, the first one first and last to go on."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    time.sleep(seconds)
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)


def whole(node: NodeUnderTest) -> list[int]:
    return [node.pid, node.zygote_pid(), *node.worker_pids()]


def said(path: Path) -> dict[str, float]:
    """Return what a task wrote down: word → monotonic seconds."""
    return {word: float(at) for word, at in (x.split() for x in path.read_text().splitlines())}


def start_still(start_node: Start) -> NodeUnderTest:
    node = start_node(
        "tests.programs.tasks_still:app", workers=6, heartbeat_interval=0.3, heartbeat_misses=3
    )
    eventually(lambda: len(node.worker_pids()) == 6, 10)
    return node


def test_node_and_workers_stand_still(start_node: Start, tmp_path: Path) -> None:
    """As a suspended host does: 8 s over limits of 2–4 s cost nobody anything.

    Heartbeats may be away for 0.9 s and progress for 0.8 s here. A soft limit, a hard one and the
    grace of a cancel that run meanwhile are 8 s later.
    """
    node = start_still(start_node)
    handles = [
        node.submit("slow_but_sure", spec={"timeout": limit, "soft_timeout": limit - 0.5})
        for limit in TIMEOUTS
    ]
    limits = {"timeout": 4.0, "soft_timeout": 2.5}
    warned = node.submit("told_of_its_limit", spec=limits, path=str(tmp_path / "warned"))
    stuck = node.submit("stuck", spec={"timeout": 3.0})
    canceled = node.submit("leaves_slowly", path=str(tmp_path / "canceled"))
    everybody = [*handles, warned, stuck, canceled]
    for handle in everybody:
        node.started(handle)
    canceled.cancel(by="anna", reason="just before the host sleeps")  # its grace is 1 s
    eventually(lambda: "told" in (tmp_path / "canceled").read_text(), 3)
    with standing_still(whole(node), STILL_S):
        pass

    for handle in handles:
        view = handle.wait(10)
        assert (view.state, view.attempt, view.result_json) == (State.SUCCESS, 1, '"made it"')
        assert set(node.notes(handle.task_id)) == {"deadlines_moved"}
        assert STILL_S < ran_s(node.attempts(handle.task_id)[0]) < STILL_S + 4
    assert canceled.wait(5).state is State.CANCELED
    assert node.endings(canceled.task_id) == [(CANCELED, "canceled", "reported", False)]
    times = said(tmp_path / "canceled")
    assert STILL_S < times["tidy"] - times["told"] < STILL_S + 2
    assert (warned.wait(10).state, warned.view().reason) == (State.TIMEOUT, "soft_timeout")
    times = said(tmp_path / "warned")
    assert STILL_S + 2.4 < times["told"] - times["began"] < STILL_S + 3.9
    assert (stuck.wait(10).state, stuck.view().reason) == (State.TIMEOUT, "timeout")
    assert STILL_S + 2.9 < ran_s(node.attempts(stuck.task_id)[0]) < STILL_S + 3 + 4 + 1

    # A busy machine may keep its loop waiting for a second, too.
    assert STILL_S - 1 < max(gap["gap_s"] for gap in node.events("loop.lagged")) < STILL_S + 2
    assert [event["verdict"] for event in node.events("worker.killed")] == ["timeout"]
    assert {e["reason"] for e in node.events("worker.exited")} == {"interrupted", "killed"}
    for name in ("verdict.held", "clock.stepped", "restart.halted", "spawn.failed"):
        assert node.events(name) == []
    assert node.get("/healthz")[0] == node.get("/readyz")[0] == 200


def test_node_alone_stands_still(start_node: Start) -> None:
    """Its workers go on: what they finish meanwhile is taken as it was, and in its time."""
    node = start_still(start_node)
    handles = [node.submit("slow_but_sure", spec={"timeout": limit}) for limit in TIMEOUTS]
    for handle in handles:
        node.started(handle)
    with standing_still([node.pid], STILL_S / 2):
        pass
    for handle in handles:
        assert handle.wait(5).result_json == '"made it"'
        assert node.endings(handle.task_id) == [(SUCCESS, "returned", "reported", False)]
        assert 1.9 < ran_s(node.attempts(handle.task_id)[0]) < 3.0
    assert node.events("worker.exited") == []


@pytest.mark.light  # on a busy machine verdicts wait for longer
def test_verdicts_wait_after_a_standstill(start_node: Start) -> None:
    """What the probes suggest is held for 10 s then, and said; a lost worker is killed after it."""
    node = start_node(workers=1, heartbeat_interval=0.3, heartbeat_misses=3)
    handle = node.submit("silent", spec={"timeout": 100})
    node.started(handle)
    with standing_still([node.pid], 3.0):
        pass
    resumed = time.monotonic()
    eventually(lambda: node.events("verdict.held"), 5)
    held, *_ = node.events("verdict.held")
    assert held["why"].startswith("observer unreliable (own loop stood still ")
    silent = r"held: stopped, process is stopped; no heartbeat for [\d.]+ s \(limit 0\.9 s\)"
    assert re.search(silent, held["why"])
    assert node.get("/healthz")[0] == node.get("/readyz")[0] == 200
    # 10 s after the gap, and longer only where the machine of the test is starved itself
    assert handle.wait(80).reason == "heartbeat_lost"
    assert time.monotonic() - resumed > 10
    verdicts = [line.note for line in handle.history() if line.reason == "verdict"]
    assert [(note or "").partition(":")[0] for note in verdicts] == [
        "starved_host → alert", "stopped → kill",
    ]  # fmt: skip


def reaped_at(node: NodeUnderTest, pid: int) -> datetime:
    def line() -> str | None:
        found = [e["timestamp"] for e in node.events("worker.exited") if e["pid"] == pid]
        return found[0] if found else None

    return datetime.fromisoformat(eventually(line, 5, f"{pid} is reaped") or "")


def died_and_followed_s(node: NodeUnderTest, *, by_limit: bool) -> float:
    """End the only worker amid a task, by its hard limit or from outside; the next task waits.

    Returns how long after the reap the next task's first line ran.
    """
    limits = {"timeout": 0.3, "soft_timeout": 0.2} if by_limit else {}
    victim = node.submit("nap", spec={"max_retries": 0, "priority": 9, "timeout": 30, **limits})
    node.started(victim)
    following = node.submit("ok")
    pid = node.attempts(victim.task_id)[0].pid
    if not by_limit:
        os.kill(pid, signal.SIGKILL)
    assert following.wait(5).state is State.SUCCESS
    started_at = node.attempts(following.task_id)[0].started_at
    assert started_at is not None
    return (started_at - reaped_at(node, pid)).total_seconds()


@pytest.mark.alone
def test_next_task_starts_soon_after_a_death(
    start_node: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """One worker, ended 50 times: from the reap to the first line of the task that waits.

    Others may use this machine: of three series the first that is good enough counts.
    """
    node = start_node(workers=1, restart_intensity="1000/60", autopsy_budget=3)
    for _ in range(SERIES):
        took_ms = sorted(
            1000 * died_and_followed_s(node, by_limit=number % BY_LIMIT_EVERY == 0)
            for number in range(ROUNDS)
        )
        p50, p95 = took_ms[ROUNDS // 2], took_ms[ROUNDS * 95 // 100]
        with capsys.disabled():
            print(f"[reap to next start: p50 {p50:.0f} ms, p95 {p95:.0f} ms of {ROUNDS}]", end=" ")
        if p95 <= P95_MS:
            break
    assert p95 <= P95_MS
