"""The wall clock of a node is set while tasks run: an hour ahead, then an hour back.

It is set by libfaketime, preloaded into the node and all it starts; the machine's clock is not
touched. Three things make that work (Debian's 0.9.10, Python 3.11):

* `FAKETIME_DONT_FAKE_MONOTONIC`: CPython waits for locks with sem_clockwait(CLOCK_MONOTONIC), which
  the library does not know. With a fake monotonic clock each such wait has a deadline an hour away,
  and the scribe stands still. A host whose clock is set keeps its monotonic clock, too.
* `time.sleep` by select (a `sitecustomize`): the library moves the deadline of an absolute
  clock_nanosleep even on the monotonic clock that it was told to leave alone, so that every sleep
  fails with EINVAL. Later releases leave it alone.
* `FAKETIME_WAIT_MS`: pthread_cond_timedwait gets a deadline by a monotonic clock that is fake all
  the same, and that is how CPython waits for the GIL, and for nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from harness import (
    PENDING,
    RUNNING,
    SUCCESS,
    TIMEOUT,
    NodeUnderTest,
    Start,
    begun,
    eventually,
    ran_s,
)

from supervisor.client import Client, Handle
from supervisor.clock import SystemClock
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
pytestmark = pytest.mark.xfail(
    LIBRARY is None, reason="the Debian package faketime is not there", run=False
)

SLEEP = "import select, time\ntime.sleep = lambda s: select.select([], [], [], s) and None\n"
HOUR_S = 3600.0
RETURNED = (RUNNING, SUCCESS, "node", "returned")


class WallClock(SystemClock):
    """The wall clock of a node and of those who talk to it: that of the machine plus an offset."""

    def __init__(self, node: NodeUnderTest) -> None:
        self._node = node
        self._file = node.root / "offset"
        self.offset_s = 0.0
        self.set(0.0)
        site = node.root / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SLEEP)
        node.env |= {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_WAIT_MS": "1",
            "PYTHONPATH": f"{site}:{node.env['PYTHONPATH']}",
        }
        self.client = Client(node.app.settings, self)

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.offset_s)

    def set(self, offset_s: float) -> None:
        """Set it so far from the machine's, for every process at once."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{offset_s:+.0f}\n")
        os.replace(draft, self._file)
        self.offset_s = offset_s

    def submit(self, type: str, **spec: object) -> Handle:
        """Submit by this clock."""
        return self.client.submit([TaskSpec(type=type, **spec)])[0]  # type: ignore[arg-type]

    def close(self) -> None:
        self.client.close()


@pytest.fixture
def clocked(start_node: Start) -> Iterator[tuple[NodeUnderTest, WallClock]]:
    """A node with short limits whose wall clock can be set."""
    node = start_node(run=False, workers=6, heartbeat_interval=0.3, heartbeat_misses=3)
    wall = WallClock(node)
    node.start()
    yield node, wall
    wall.close()


BUNCH = (4.0, 4.5, 5.0)  # hard limits of bodies that need 2 s, the soft ones half a second less
#: A duration that had an hour in it would be far longer than this.
NO_HOUR_S = 60.0
AN_HOUR = re.compile(r"\b(3[56]|7[12])\d\d\.\d")


def begin_bunch(node: NodeUnderTest, wall: WallClock) -> list[Handle]:
    """Start tasks whose limits of a few seconds run while the clock is set."""
    made = [
        wall.submit("slow_but_sure", timeout=limit, soft_timeout=limit - 0.5) for limit in BUNCH
    ]
    for handle in made:
        node.started(handle)
    return made


def retried(node: NodeUnderTest, wall: WallClock, name: str) -> Handle:
    """Submit a task that fails once."""
    return wall.submit("flaky", params_json=f'{{"path": "{node.root / name}"}}')


def nobody_paid(node: NodeUnderTest, handles: list[Handle]) -> None:
    for handle in handles:
        assert handle.wait(10).state is State.SUCCESS
        assert node.moves(handle.task_id) == [*begun(), RETURNED]
        assert node.endings(handle.task_id) == [(SUCCESS, "returned", "reported", False)]
        assert node.notes(handle.task_id) == []
        (attempt,) = node.attempts(handle.task_id)
        assert 1.9 < ran_s(attempt) < NO_HOUR_S


def no_span_shows_it(node: NodeUnderTest) -> None:
    """Require that no duration that was measured is negative, or an hour long."""
    figures = node.metrics()
    spans = [
        value
        for (name, _), value in figures.items()
        if name.endswith(("_seconds_sum", "_age_seconds"))
    ]
    assert min(spans) >= 0
    (ran,) = [
        value
        for (name, labels), value in figures.items()
        if name == "supervisor_running_duration_seconds_sum"
        and dict(labels) == {"type": "slow_but_sure", "outcome": "success"}
    ]
    assert 6 * 1.9 < ran < NO_HOUR_S


def test_set_an_hour_ahead_and_back(clocked: tuple[NodeUnderTest, WallClock]) -> None:
    """No limit, heartbeat or retry notices; what was put off to a time begins at that time, once.

    A task with a limit of an hour is alive after it; one that is stuck ends when it should.
    """
    node, wall = clocked
    hour = wall.submit("prints", params_json='{"kind": "child", "then": "wait"}', timeout=HOUR_S)
    node.started(hour)
    soon = wall.submit("ok", run_after=wall.now() + timedelta(minutes=30))
    late = wall.submit("ok", run_after=wall.now() + timedelta(minutes=90))
    for offset_s in (HOUR_S, -HOUR_S):
        running = begin_bunch(node, wall)
        stuck = wall.submit("nap")
        node.started(stuck)
        wall.set(offset_s)
        again = retried(node, wall, f"flaky{offset_s:+.0f}")
        assert stuck.wait(15).state is State.TIMEOUT
        assert 1.5 <= ran_s(node.attempts(stuck.task_id)[0]) < 1.5 + 4 + 1
        assert node.endings(stuck.task_id) == [(TIMEOUT, "timeout", "exited", True)]
        nobody_paid(node, running)
        assert (again.wait(5).retry_count, again.view().attempt) == (1, 2)
        assert soon.wait(1).state is State.SUCCESS
        assert node.get("/healthz")[0] == node.get("/readyz")[0] == 200
        shown = node.cli("logs", hour.task_id)
        assert ("from a child" in shown.stdout, shown.stderr) == (True, "")
    assert node.moves(soon.task_id) == [*begun(), RETURNED]
    assert (str(late.state()), late.view().attempt) == (PENDING, 0)
    assert node.notes(hour.task_id) == []
    steps = [event["step_s"] for event in node.events("clock.stepped")]
    assert steps == pytest.approx([HOUR_S, -2 * HOUR_S], abs=1)
    assert [event["verdict"] for event in node.events("worker.killed")] == ["timeout"] * 2
    assert node.events("loop.failed") == []
    for name in ("loop.lagged", "verdict.held"):  # a busy machine has both, but not for an hour
        assert [one for one in node.events(name) if AN_HOUR.search(str(one))] == []

    no_span_shows_it(node)
    wall.client.cancel(hour.task_id, by="anna", reason="an hour is long")
    assert hour.wait(5).state is State.CANCELED
    assert "ran -" not in node.cli("show", hour.task_id).stdout


def test_set_back_while_tasks_wait(clocked: tuple[NodeUnderTest, WallClock]) -> None:
    """Nobody put them off, so they do not wait for an hour: neither the new nor a retried one."""
    node, wall = clocked
    wall.client.pause("default", by="anna", reason="to let them wait")
    waiting = [wall.submit("ok", priority=n) for n in range(5)]
    wall.set(-HOUR_S)
    eventually(lambda: node.events("clock.stepped"), 5)
    wall.client.resume("default", by="anna", reason="go on")
    for handle in waiting:
        assert handle.wait(5).state is State.SUCCESS
        assert node.moves(handle.task_id) == [*begun(), RETURNED]
    ((told,),) = node.query("SELECT note FROM audit_log WHERE reason = 'clock_set'")
    assert re.fullmatch(
        r"the wall clock was set by -3(599|600)\.\d s; 5 tasks are due again at once", told
    )


def remove_shared(pid: int) -> None:
    """Remove what libfaketime leaves of a process that was killed."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        (Path("/dev/shm") / name).unlink(missing_ok=True)


def test_set_back_while_no_node_runs(clocked: tuple[NodeUnderTest, WallClock]) -> None:
    """The next node judges the orphan of an hour to come, and runs what waited."""
    node, wall = clocked
    orphan = wall.submit("sleep", params_json='{"s": 1.0}', max_retries=1)
    node.started(orphan)
    pid = node.pid
    node.kill()
    remove_shared(pid)
    waiting = wall.submit("ok")
    wall.set(-HOUR_S)
    node.start()
    assert waiting.wait(5).state is State.SUCCESS
    assert (orphan.wait(10).state, orphan.view().attempt) == (State.SUCCESS, 2)
    for attempt in node.attempts(orphan.task_id):
        assert 0 <= ran_s(attempt) < 5
    assert "ran at most 0 ms" in node.cli("show", orphan.task_id).stdout
