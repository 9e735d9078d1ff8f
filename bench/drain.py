"""How fast a queue of no-op tasks empties, and at what cost."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

from bench import node, reference
from bench.figure import REPEATS, Figure, at_most, quantile


def measure(folder: Path, scale: float) -> list[Figure]:
    """No-op tasks on two workers, from 10 % to 90 % done; a submitter's wait meanwhile."""
    number = int(20_000 * scale)
    rates, cpus, peers = [], [], []
    waits: list[float] = []
    for turn in range(REPEATS):
        place = folder / f"drain{turn}"
        place.mkdir()
        node.fill(place, number)
        rate, cpu = _drain_once(place, number, waits if turn == REPEATS - 1 else None)
        rates.append(rate)
        cpus.append(cpu)
        peers.append(reference.drain_rate(place / "peer.db", max(2000, number // 5)))
    return [
        Figure(
            name="drain, 2 workers",
            value=statistics.median(rates),
            unit="/s",
            floor=12_000,
            peer=reference.NAME,
            peer_value=statistics.median(peers),
            peer_there=reference.DRAIN_THERE,
        ),
        at_most("CPU of everything per 1,000 tasks", statistics.median(cpus), "s", 0.15),
        at_most(
            "submit p99 while draining", quantile(waits, 0.99) if waits else float("inf"), "ms", 15
        ),
    ]


def _drain_once(place: Path, number: int, waits: list[float] | None) -> tuple[float, float]:
    db = node.database(place)
    with node.running(place) as process:
        stop = threading.Event()
        submitter = None
        marks: list[tuple[float, int, float]] = []
        for share in (0.1, 0.9):
            while (ended := node.count(db, "tasks WHERE state = 'SUCCESS'")) < number * share:
                time.sleep(0.01)
            marks.append((time.perf_counter(), ended, node.cpu_s(process.pid)))
            if share == 0.1 and waits is not None:
                submitter = threading.Thread(target=_submit_meanwhile, args=(place, stop, waits))
                submitter.start()
        stop.set()
        if submitter is not None:
            submitter.join()
    db.close()
    (t0, n0, c0), (t1, n1, c1) = marks
    return (n1 - n0) / (t1 - t0), (c1 - c0) / (n1 - n0) * 1000


def _submit_meanwhile(place: Path, stop: threading.Event, waits: list[float]) -> None:
    client = node.client(place)
    while not stop.is_set():
        began = time.perf_counter()
        client.submit([node.NOOP])
        waits.append((time.perf_counter() - began) * 1000)
        time.sleep(0.002)
    client.close()
