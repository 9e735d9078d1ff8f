"""The store locks others out, refuses writes or is slow: nobody is killed for it, nothing is lost.

Every ending is written afterwards, by itself; meanwhile the loop turns and the node says why it
takes no tasks.
"""

from __future__ import annotations

import resource
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from harness import (
    CANCELED,
    RUNNING,
    SUCCESS,
    NodeUnderTest,
    Start,
    begun,
    eventually,
    loop_never_waited,
)

from supervisor.client import Handle
from supervisor.model.states import State

LOCKED_S = 30.0
RETURNED = (RUNNING, SUCCESS, "node", "returned")


def nobody_paid(node: NodeUnderTest, handles: list[Handle]) -> None:
    """Every task returned in its first attempt, no worker died and the loop never waited."""
    for handle in handles:
        assert handle.wait(15).state is State.SUCCESS
        assert node.moves(handle.task_id) == [*begun(), RETURNED]
        assert node.endings(handle.task_id) == [(SUCCESS, "returned", "reported", False)]
    assert node.events("worker.killed") == []
    assert node.events("worker.exited") == []
    assert node.query("PRAGMA integrity_check") == [("ok",)]
    loop_never_waited(node)


def test_locked_for_half_a_minute(start_node: Start, tmp_path: Path) -> None:
    """Longer than heartbeat, progress and retry limits; 4 end meanwhile, 2 after, 100 wait."""
    node = start_node(workers=6, timeout=60)
    go = tmp_path / "go"
    running = [
        node.submit("sleep", s=s, path=str(tmp_path / f"{n}"), after=str(go))
        for n, s in enumerate((0.5, 2.0, 9.0, 20.0, LOCKED_S + 1.0, LOCKED_S + 1.5))
    ]
    for handle in running:
        node.started(handle)
    waiting = [node.submit("ok", value=n) for n in range(100)]
    canceled = node.submit("ok", spec={"run_after": "2999-01-01T00:00:00Z"})
    canceled.cancel(by="anna", reason="before the lock")
    eventually(lambda: canceled.state() is State.CANCELED, 2)
    with node.store_locked():
        locked = time.monotonic()
        go.touch()
        eventually(lambda: node.get("/readyz")[0] == 503, 15, "it stops to claim")
        assert "is locked by another process" in node.get("/readyz")[1]
        while time.monotonic() - locked < LOCKED_S:
            assert node.get("/healthz")[0] == 200
            time.sleep(1.0)
        assert node.get("/readyz")[0] == 503
        assert node.query("SELECT count(*) FROM attempts WHERE outcome IS NOT NULL") == [(0,)]
        done = [(tmp_path / f"{n}").read_text().split() for n in range(4)]
        assert done == [["began", "done"]] * 4
    eventually(lambda: node.get("/readyz")[0] == 200, 10, "it takes tasks again by itself")
    nobody_paid(node, [*running, *waiting])
    assert canceled.state() == CANCELED
    assert node.events("verdict.reached") == []
    assert len(node.events("store.lost")) == len(node.events("store.recovered")) == 1


def test_writes_that_fail(start_node: Start) -> None:
    """For 3 s every write of the node fails, as on a disk with errors or over a quota."""
    node = start_node(workers=4)
    node.run("ok")
    running = [node.submit("sleep", s=s) for s in (0.5, 1.0, 1.5, 4.5)]
    for handle in running:
        node.started(handle)
    _, most = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (0, most))
    try:
        waiting = [node.submit("ok", value=n) for n in range(20)]
        eventually(lambda: node.get("/readyz")[0] == 503, 5, "it stops to claim")
        assert "cannot be read or written" in node.get("/readyz")[1]
        time.sleep(3.0)
        assert node.get("/healthz")[0] == 200
        assert node.get("/readyz")[0] == 503
    finally:
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (most, most))
    eventually(lambda: node.get("/readyz")[0] == 200, 5, "it takes tasks again by itself")
    nobody_paid(node, [*running, *waiting, node.submit("ok")])


@contextmanager
def store_hogged(node: NodeUnderTest, hold_s: float, every_s: float) -> Iterator[None]:
    """Let a writer in again and again that holds the lock for a good part of the time."""
    over = threading.Event()

    def hog() -> None:
        with closing(sqlite3.connect(node.store_path, isolation_level=None, timeout=30)) as db:
            while not over.is_set():
                db.execute("BEGIN IMMEDIATE")
                time.sleep(hold_s)
                db.execute("COMMIT")
                time.sleep(every_s - hold_s)

    thread = threading.Thread(target=hog)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_slow_store(start_node: Start) -> None:
    """Each commit waits 300 ms for another writer: limits hold, cancels arrive, all is written."""
    node = start_node(workers=4)
    node.run("ok")
    canceled = node.submit("wait")
    hopeless = node.submit("nap")  # its limit is 1.5 s
    for handle in (canceled, hopeless):
        node.started(handle)
    with store_hogged(node, 0.3, 0.4):
        handles = [node.submit("sleep", s=0.05) for _ in range(30)]
        began = time.monotonic()
        canceled.cancel(by="anna", reason="in the middle of it")
        assert canceled.wait(5).state is State.CANCELED
        assert time.monotonic() - began < 5
        assert hopeless.wait(10).state is State.TIMEOUT
        for handle in handles:
            assert handle.wait(20).state is State.SUCCESS
        assert node.get("/healthz")[0] == node.get("/readyz")[0] == 200
    for handle in handles:
        assert node.moves(handle.task_id) == [*begun(), RETURNED]
    assert node.endings(canceled.task_id) == [(CANCELED, "canceled", "reported", False)]
    assert [event["verdict"] for event in node.events("worker.killed")] == ["timeout"]
    assert node.events("store.lost") == []
    loop_never_waited(node)
