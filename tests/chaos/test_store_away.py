"""Half a minute without the store: nobody is killed for it, and every ending is written after."""

from __future__ import annotations

import time
from pathlib import Path

from harness import CANCELED, RUNNING, SUCCESS, Start, begun, eventually

from supervisor.model.states import State

LOCKED_S = 30.0
RETURNED = (RUNNING, SUCCESS, "node", "returned")


def test_locked_for_half_a_minute(start_node: Start, tmp_path: Path) -> None:
    """Longer than heartbeat, progress and retry limits; 4 end meanwhile, 2 after, 100 wait."""
    began = time.monotonic()
    node = start_node(workers=6, timeout=60)
    durations = (0.5, 2.0, 9.0, 20.0, LOCKED_S + 1.0, LOCKED_S + 1.5)
    running = [
        node.submit("sleep", s=s, path=str(tmp_path / f"{n}")) for n, s in enumerate(durations)
    ]
    for handle in running:
        node.started(handle)
    waiting = [node.submit("ok", value=n) for n in range(100)]
    canceled = node.submit("ok", spec={"run_after": "2999-01-01T00:00:00Z"})
    canceled.cancel(by="anna", reason="before the lock")
    eventually(lambda: canceled.state() is State.CANCELED, 2)
    with node.store_locked():
        locked = time.monotonic()
        eventually(lambda: node.get("/readyz")[0] == 503, 15, "it stops to claim")
        assert "is locked by another process" in node.get("/readyz")[1]
        while time.monotonic() - locked < LOCKED_S:
            assert node.get("/healthz")[0] == 200
            time.sleep(1.0)
        assert node.get("/readyz")[0] == 503
        assert node.query("SELECT count(*) FROM attempts WHERE outcome IS NOT NULL") == [(0,)]
        done = [(tmp_path / f"{n}").read_text().split() for n in range(4)]
        assert done == [["began", "done"]] * 4
    for handle in [*running, *waiting]:
        assert handle.wait(10).state is State.SUCCESS
        assert node.moves(handle.task_id) == [*begun(), RETURNED]
        assert node.endings(handle.task_id) == [(SUCCESS, "returned", "reported", False)]
    assert canceled.state() == CANCELED
    eventually(lambda: node.get("/readyz")[0] == 200, 5)
    for name in ("worker.killed", "worker.exited", "verdict.reached", "loop.lagged", "loop.failed"):
        assert node.events(name) == []
    assert len(node.events("store.lost")) == len(node.events("store.recovered")) == 1
    assert time.monotonic() - began < LOCKED_S + 10
