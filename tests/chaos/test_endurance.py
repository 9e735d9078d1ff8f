"""A node after much trouble: same descriptors, same threads, no traceback, still in order."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from harness import NodeUnderTest, Start, eventually

from supervisor.model.states import State


def open_things(node: NodeUnderTest) -> tuple[int, int]:
    return len(os.listdir(f"/proc/{node.pid}/fd")), len(os.listdir(f"/proc/{node.pid}/task"))


def rss_kib(node: NodeUnderTest) -> int:
    text = Path(f"/proc/{node.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0])


def test_nothing_leaks(start_node: Start) -> None:
    """1,000 quick tasks, 12 kills with evidence, 20 crashes and 20 cancels later."""
    node = start_node(workers=2, autopsy_budget=2, max_crashes=1)
    node.app.wait([node.submit("quick").task_id for _ in range(50)], 20)
    node.run("crash", how="exit")
    eventually(lambda: len(node.worker_pids()) == 2, 5)
    eventually(node.reader.autopsies, 5, "the bundle of the crash is made")
    before, rss = open_things(node), rss_kib(node)
    specs = [
        *[{"type": "quick"}] * 1000,
        *[{"type": "nap", "timeout": 0.2, "max_retries": 0}] * 12,
        *[{"type": "crash", "params": {"how": "exit"}, "max_retries": 0}] * 20,
    ]
    handles = node.app.submit_many(specs)
    node.app.wait([h.task_id for h in handles], 90)
    for _ in range(20):
        handle = node.submit("sleep")
        node.started(handle)
        handle.cancel(by="anna", reason="enough")
        handle.wait(5)
    eventually(lambda: len(node.worker_pids()) == 2, 10)

    def settled() -> bool:
        now = open_things(node)
        return all(abs(a - b) <= 2 for a, b in zip(now, before, strict=True))

    eventually(settled, 5, f"descriptors and threads are {before} again")
    assert rss_kib(node) - rss < 25_000
    (pid, *_) = node.worker_pids()
    inside = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert not [name for name in inside if "tasks.db" in name], "a worker never holds the store"
    assert len(inside) < 20
    assert node.events("loop.failed") == []
    assert "Traceback" not in node.log_text()


def settled_workers(node: NodeUnderTest, number: int) -> list[int]:
    """Return so many workers, if they stay the same for a while; a reload replaces them all."""
    before = node.worker_pids()
    time.sleep(0.5)
    return before if len(before) == number and before == node.worker_pids() else []


def test_all_workers_killed_together(start_node: Start) -> None:
    """Three times fifty at once, amid bursts of signals: each death is on record with its own."""
    workers = 50
    node = start_node(workers=workers, restart_intensity="1000/60")
    for _ in range(3):
        pids = eventually(lambda: settled_workers(node, workers), 20, "no reload is under way")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for number in [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2] * 34:
            node.signal(number)
        dead = {(pid, "killed by signal 9 (SIGKILL)") for pid in pids}
        eventually(
            lambda d=dead: d <= {(e["pid"], e["exit"]) for e in node.events("worker.exited")},
            5, "all deaths are on record",
        )  # fmt: skip
    assert node.run("ok", value=1).state is State.SUCCESS
    eventually(lambda: len(node.worker_pids()) == workers, 15)
    assert "Traceback" not in node.log_text()
    began = time.monotonic()
    for _ in range(2):  # a second one hastens, a third would go to evidence and kill
        node.signal(signal.SIGTERM)
        node.signal(signal.SIGUSR1)
    assert node.wait_exit(10) == 0
    assert time.monotonic() - began < 5


def test_node_that_was_stopped_for_a_while(start_node: Start) -> None:
    """SIGSTOP of the node itself: deadlines move by the gap, nobody is killed for it."""
    node = start_node(heartbeat_interval=0.2, heartbeat_misses=3)
    handle = node.submit("sleep", spec={"timeout": 3.0, "soft_timeout": 2.5}, s=4.0)
    started = node.started(handle).started_at
    node.signal(signal.SIGSTOP)
    time.sleep(2.5)
    node.signal(signal.SIGCONT)
    view = handle.wait(10)
    assert (view.state, view.result_json) == (State.SUCCESS, '{"slept":4.0}')
    assert started is not None
    # A busy machine may keep its loop waiting for a second, too.
    assert 1.5 < max(gap["gap_s"] for gap in node.events("loop.lagged")) < 4
    assert "deadlines_moved" in node.notes(handle.task_id)
    assert node.events("worker.killed") == []
