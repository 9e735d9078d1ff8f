"""Metrics stay small: series, time of a scrape and memory, for a large app and many workers' lives.

Times are told by what the same machine takes for a fixed piece of Python, so that a busy or slow
host is no failure.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from harness import NodeUnderTest, Start, eventually

from supervisor.clock import SystemClock
from supervisor.model.spec import TaskSpec
from supervisor.node.gauges import Board, Place, Running
from supervisor.node.scraping import Scraping
from supervisor.store import Ledger, Store, open_store
from supervisor.telemetry.metrics import Metrics
from supervisor.worker import tree

QUEUES, TYPES, SLOTS, LIVES = 5, 30, 64, 5_000
#: Series and seconds of the largest app that is promised; the seconds are of a machine that takes
#: `STANDARD_S` for `standard`.
SERIES_MOST, SCRAPE_S, STANDARD_S = 6_000, 0.050, 0.0066
ARENA_BYTES = 64 * 2**20


def standard() -> None:
    """Do a fixed piece of work of the kind that an exposition is."""
    lines = []
    for number in range(10_000):
        labels = {"queue": "default", "type": str(number)}
        lines.append("{}{{{}}} {}\n".format("x", ",".join(sorted(labels.values())), float(number)))
    "".join(lines).encode()


def least_s(act: Callable[[], object], times: int = 10) -> float:
    """Return the shortest CPU time of some runs."""
    took = []
    for _ in range(times):
        began = time.process_time()
        act()
        took.append(time.process_time() - began)
    return min(took)


class Desk:
    """The metrics of a large node without its processes: each place is held by this one."""

    def __init__(self, store: Store) -> None:
        clock = SystemClock()
        self.types = [f"type_{n}" for n in range(TYPES)]
        self.queues = [f"queue_{n}" for n in range(QUEUES)]
        self.metrics = Metrics(types=self.types, queues=self.queues, version="1")
        self._ticks = tree.start_ticks(os.getpid()) or 0
        self.lives = 0
        self.board = self._new_board()
        Scraping(store, "node", self.metrics, clock, lambda: self.board)

    def _new_board(self) -> Board:
        places = tuple(
            Place(
                number=n, worker_id=f"node-w{self.lives + n}", pid=os.getpid(),
                start_ticks=self._ticks, heartbeat_age_s=0.1,
            )
            for n in range(SLOTS)
        )  # fmt: skip
        zombies = dict.fromkeys(("stalled", "heartbeat_lost", "orphan"), 0)
        running = {kind: Running(1.0, 0.5, 0.1) for kind in self.types}
        return Board(SystemClock().mono(), zombies, places, running)

    def live(self, number: int) -> None:
        """Let so many workers be born, each do one task of some type, and end."""
        metrics = self.metrics
        for _ in range(number):
            self.lives += 1
            kind, queue = self.types[self.lives % TYPES], self.queues[self.lives % QUEUES]
            metrics.inc("worker_spawns_total", reason="recycle")
            metrics.observe("worker_spawn_duration_seconds", 0.01)
            series = metrics.of_task(queue, kind)
            series.started.inc()
            series.wait.observe(0.01)
            outcome = ("success", "failed", "canceled", "timeout", "requeued")[self.lives % 5]
            exemplar = {"task_id": f"task_{self.lives:032x}"}
            series.ended(outcome, 2.0, 60.0, exemplar, SystemClock().mono())
            metrics.inc("worker_exits_total", reason="recycled")
        self.board = self._new_board()

    def lines(self) -> list[str]:
        body = self.metrics.render("application/openmetrics-text")[0].decode()
        return [line for line in body.splitlines() if not line.startswith("#")]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    store = open_store(f"sqlite:///{tmp_path}/tasks.db", create=True)
    specs = [TaskSpec(type=f"type_{n % TYPES}", queue=f"queue_{n % QUEUES}") for n in range(300)]
    with Ledger(store).transaction() as tx:
        tx.submit(specs, SystemClock().now())
    return Desk(store)


def test_a_large_app_has_few_series_and_is_scraped_in_time(desk: Desk) -> None:
    desk.live(2_000)  # which fills the buckets
    lines = desk.lines()
    assert 4_000 < len(lines) <= SERIES_MOST
    ratio = least_s(desk.lines) / least_s(standard)
    told = f"{len(lines)} series take {ratio:.1f} times the standard"
    assert ratio <= SCRAPE_S / STANDARD_S, told


def test_five_thousand_lives_of_workers_leave_no_trace(desk: Desk) -> None:
    desk.live(500)
    before, series = least_s(desk.lines), len(desk.lines())
    resident = _resident_bytes(os.getpid())
    desk.live(LIVES)
    assert len(desk.lines()) == series
    assert least_s(desk.lines) <= 1.3 * before
    assert _resident_bytes(os.getpid()) - resident < 4_000_000


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_hundreds_of_real_lives_leave_no_trace(start_node: Start) -> None:
    """Each task is its worker's last."""
    node = start_node(workers=2, recycle_after_tasks=1)
    _run(node, 60)
    before, resident = _series(node), _resident_bytes(node.pid)
    _run(node, 240)
    spawned = sum(
        value for (name, _), value in node.metrics().items()
        if name == "supervisor_worker_spawns_total"
    )  # fmt: skip
    assert spawned >= 300
    assert _series(node) == before
    assert _resident_bytes(node.pid) - resident < 8_000_000
    assert _pools_of_threads(node.pid) <= 1
    assert {slot for name, slot in before if name == "supervisor_worker_open_fds"} == {
        (("slot", "0"),), (("slot", "1"),),
    }  # fmt: skip


def _pools_of_threads(pid: int) -> int:
    """Count what glibc has set aside for threads: 64 MiB each, of which the first part is used."""
    ranges = [
        (*(int(end, 16) for end in line.split()[0].split("-")), line.split()[1])
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
    ]
    return sum(
        start % ARENA_BYTES == 0 and (used, rest) == ("rw-p", "---p") and end == start + ARENA_BYTES
        for (start, _, used), (_, end, rest) in pairwise(ranges)
    )


def _run(node: NodeUnderTest, number: int) -> None:
    handles = [node.submit("ok") for _ in range(number)]
    node.app.wait([one.task_id for one in handles], 60)

    def shown() -> bool:
        found = node.metrics()
        seen = [name for name, _ in found if name == "supervisor_worker_open_fds"]
        return found["supervisor_workers_alive", ()] == len(seen) == 2

    eventually(shown, 10, "the workers are back")


def _series(node: NodeUnderTest) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return set(node.metrics())
