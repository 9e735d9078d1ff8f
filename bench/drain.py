"""How fast a queue of no-op tasks empties, and at what cost."""

from __future__ import annotations

import statistics
import threading
import time

from bench import node, reference
from bench.figure import REPEATS, Figure, at_most, quantile
from bench.place import Database, Kind, Place

FLOORS = {Kind.SQLITE: 12_000, Kind.POSTGRESQL: 8_000, Kind.REDIS: 6_000}


def measure(place: Place, scale: float) -> list[Figure]:
    """No-op tasks on two workers, from 10 % to 90 % done; a submitter's wait meanwhile."""
    number = int(20_000 * scale)
    rates, cpus = [], []
    peers: list[reference.Drained] = []
    waits: list[float] = []
    for turn in range(REPEATS):
        here = place.below(f"drain{turn}")
        node.fill(here, number)
        rate, cpu = _drain_once(here, number)
        rates.append(rate)
        cpus.append(cpu)
        peers.append(reference.drain(here.below("peer"), max(2000, number // 5)))
    here = place.below("both")
    node.fill(here, number)
    _drain_once(here, number, waits)
    beside = reference.of(place)
    return [
        Figure(
            name="drain, 2 workers",
            value=statistics.median(rates),
            unit="/s",
            floor=FLOORS[place.kind],
            peer=beside.name,
            peer_value=statistics.median(peer.rate for peer in peers),
            peer_there=beside.there.drain,
        ),
        at_most(
            "CPU of everything per 1,000 tasks",
            statistics.median(cpus),
            "s",
            0.15,
            peer=beside.name,
            peer_value=statistics.median(peer.cpu_s for peer in peers),
            peer_there=beside.there.cpu_s,
        ),
        at_most(
            "submit p99 while draining", quantile(waits, 0.99) if waits else float("inf"), "ms", 15
        ),
    ]


def _drain_once(place: Place, number: int, waits: list[float] | None = None) -> tuple[float, float]:
    """Return the rate, and the CPU seconds of node, workers and servers per 1,000 tasks."""
    marks: list[tuple[float, int, float]] = []
    with place.database() as db, node.running(place) as process:
        filled = db.trail()
        stop = threading.Event()
        submitter = None
        for share in (0.1, 0.9):
            node.wait_drained(db, filled, number * share)
            marks.append((time.perf_counter(), _ended(db), _cpu_s(place, process.pid)))
            if share == 0.1 and waits is not None:
                submitter = threading.Thread(target=_submit_meanwhile, args=(place, stop, waits))
                submitter.start()
        stop.set()
        if submitter is not None:
            submitter.join()
    (t0, n0, c0), (t1, n1, c1) = marks
    return (n1 - n0) / (t1 - t0), (c1 - c0) / (n1 - n0) * 1000


def _ended(db: Database) -> int:
    """Return how many tasks have ended; asked twice in a run, since on a server it is dear."""
    return db.count("tasks WHERE state = 'SUCCESS'")


def _cpu_s(place: Place, pid: int) -> float:
    return node.cpu_s(pid) + node.servers_cpu_s(place)


def _submit_meanwhile(place: Place, stop: threading.Event, waits: list[float]) -> None:
    client = node.client(place)
    while not stop.is_set():
        began = time.perf_counter()
        client.submit([node.NOOP])
        waits.append((time.perf_counter() - began) * 1000)
        time.sleep(0.002)
    client.close()
