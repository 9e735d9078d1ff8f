"""What is made when somebody reads the metrics: the store's numbers, and /proc of the workers.

Secret kept here: which labels the store's numbers are shown under. All nodes of a store must show
the same, so it goes by the types that any node has announced, not by those of this one. It runs in
threads of the scrape and takes nothing of the loop's but the board.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

from supervisor.clock import Clock
from supervisor.errors import StoreUnavailable
from supervisor.node.floor import QUEUES_SHOWN
from supervisor.node.gauges import Board, Place, Running
from supervisor.node.probe import PAGE_BYTES, TICKS_PER_S
from supervisor.store import Store
from supervisor.store.numbers import Live, Numbers
from supervisor.telemetry.catalog import OTHER
from supervisor.telemetry.collecting import Collecting, Sample
from supervisor.telemetry.metrics import PAIRS_MOST, Metrics
from supervisor.worker import tree

#: A board that is older says nothing of now: the loop stands still.
BOARD_S = 10.0

_BACKLOG = (
    "in_queue", "scheduled", "running", "queue_oldest_age_seconds", "queue_paused",
    "outbox_pending",
)  # fmt: skip
_RECENT = ("running_duration_p99_seconds", "failed_rate", "canceled_rate")
_WORKERS = (
    "worker_heartbeat_age_seconds", "worker_cpu_seconds_total", "worker_resident_memory_bytes",
    "worker_open_fds", "zombies", "running_oldest_age_seconds", "running_timeout_used_ratio",
    "running_since_progress_seconds", "running_memory_bytes",
)  # fmt: skip

# Fields of proc(5) stat, counted from the state (field 3).
_OWN_CPU, _CHILD_CPU, _STARTED, _RSS = slice(11, 13), slice(13, 15), 19, 21


class Scraping:
    """The sources of one node's metrics that are made at scrape time."""

    def __init__(
        self, store: Store, node_id: str, metrics: Metrics, clock: Clock, board: Callable[[], Board]
    ) -> None:
        self._numbers = Numbers(store)
        self._store = store
        self._node_id = node_id
        self._metrics = metrics
        self._clock = clock
        self._board = board
        self._queues: frozenset[str] = frozenset()
        self._spent: dict[int, _Spent] = {}
        collecting = Collecting(clock)
        collecting.add("backlog", self._backlog, _BACKLOG)
        collecting.add("recent", self._recent, _RECENT)
        collecting.add("zombies", self._zombies, ["zombies"])
        collecting.add("workers", self._workers, _WORKERS)
        metrics.collect_with(collecting)

    def _backlog(self) -> Iterator[Sample]:
        now = self._store.clock.now()
        live = self._numbers.live(now)
        self._queues |= self._metrics.known("queue")
        yield from self._by_level(live)
        paused = {self._shown(queue) for queue in live.paused}
        ages = dict.fromkeys((*self._queues, *paused), 0.0)
        for level in live.levels:
            if level.oldest_due is not None:
                queue = self._shown(level.queue)
                ages[queue] = max(ages.get(queue, 0.0), (now - level.oldest_due).total_seconds())
        for queue, age_s in ages.items():
            yield Sample("queue_oldest_age_seconds", age_s, {"queue": queue})
            yield Sample("queue_paused", float(queue in paused), {"queue": queue})
        yield Sample("outbox_pending", live.outbox)

    def _by_level(self, live: Live) -> Iterator[Sample]:
        types = self._types()
        in_queue: Counter[tuple[str, str]] = Counter(dict.fromkeys(self._metrics.pairs, 0))
        scheduled, running = Counter(in_queue), Counter(in_queue)
        for level in live.levels:
            pair = self._shown(level.queue), level.type if level.type in types else OTHER
            if pair not in in_queue and len(in_queue) >= PAIRS_MOST:
                pair = (OTHER, pair[1])
            in_queue[pair] += level.in_queue
            scheduled[pair] += level.scheduled
            running[pair] += level.running
        for (queue, kind), number in in_queue.items():
            labels = {"queue": queue, "type": kind}
            yield Sample("in_queue", number, labels)
            yield Sample("scheduled", scheduled[queue, kind], labels)
            yield Sample("running", running[queue, kind], labels)

    def _shown(self, queue: str) -> str:
        """Return under which name a queue is shown: its own, while they are not too many."""
        if queue not in self._queues and len(self._queues) < QUEUES_SHOWN:
            self._queues |= {queue}
        return queue if queue in self._queues else OTHER

    def _types(self) -> frozenset[str]:
        """Return the types that the store's numbers are shown under."""
        return self._metrics.known("type") | self._numbers.types()

    def _recent(self) -> Iterator[Sample]:
        found = self._numbers.ended(self._store.clock.now())
        if found is None:
            raise StoreUnavailable(
                "more attempts ended in 10 minutes than can be read for the exact numbers",
                remedy="Use the recording rules: they are made of counters and histograms.",
            )
        types = self._types()
        for one in found:
            if one.type is None or one.type not in types:
                continue
            values = {
                "running_duration_p99_seconds": one.p99_s,
                "failed_rate": one.failed_rate,
                "canceled_rate": one.canceled_rate,
            }
            for name, value in values.items():
                if value is not None:
                    yield Sample(name, value, {"type": one.type})

    def _zombies(self) -> Iterator[Sample]:
        lost = self._numbers.lost(self._store.clock.now(), dead=(), node_id=self._node_id)
        yield Sample("zombies", lost, {"kind": "lost"})

    def _workers(self) -> Iterator[Sample]:
        board = self._board()
        if self._clock.mono() - board.at > BOARD_S:
            raise TimeoutError("the loop has not turned for long")
        for kind, number in board.zombies.items():
            yield Sample("zombies", number, {"kind": kind})
        for place in board.places:
            yield from self._of(place)
        for kind in self._metrics.known("type"):
            worst, about = board.running.get(kind, Running()), {"type": kind}
            yield Sample("running_oldest_age_seconds", worst.age_s, about)
            yield Sample("running_timeout_used_ratio", worst.used, about)
            yield Sample("running_since_progress_seconds", worst.still_s, about)
            yield Sample("running_memory_bytes", worst.rss_bytes, about)

    def _of(self, place: Place) -> Iterator[Sample]:
        slot = {"slot": str(place.number)}
        spent = self._spent.setdefault(place.number, _Spent())
        yield Sample("worker_heartbeat_age_seconds", place.heartbeat_age_s, slot)
        fields = tree.stat_fields(place.pid)
        if fields is not None and int(fields[_STARTED]) == place.start_ticks:
            ticks = sum(map(int, fields[_OWN_CPU])) + sum(map(int, fields[_CHILD_CPU]))
            spent.saw(place.worker_id, ticks / TICKS_PER_S)
            yield Sample("worker_resident_memory_bytes", int(fields[_RSS]) * PAGE_BYTES, slot)
            with suppress(OSError):  # it has just died, or changed its user
                descriptors = len(os.listdir(f"/proc/{place.pid}/fd"))
                yield Sample("worker_open_fds", descriptors, slot)
        yield Sample("worker_cpu_seconds_total", spent.total_s, slot)


class _Spent:
    """The CPU time of one place, over all workers that were seen there."""

    def __init__(self) -> None:
        self._former_s = self._present_s = 0.0
        self._worker_id = ""

    def saw(self, worker_id: str, seconds: float) -> None:
        """Take in what its present worker has used since its birth."""
        if worker_id != self._worker_id:
            self._former_s += self._present_s
            self._worker_id = worker_id
        self._present_s = seconds

    @property
    def total_s(self) -> float:
        """All of it, as far as it was seen."""
        return self._former_s + self._present_s
