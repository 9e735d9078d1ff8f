"""How long three hundred workers take to be there, and to be gone."""

from __future__ import annotations

import statistics
import time

from bench import node
from bench.figure import REPEATS, Figure, at_most
from bench.place import Place

WORKERS = 300


def measure(place: Place, scale: float) -> list[Figure]:
    """From the start of the node to its last ready worker; from SIGTERM to its exit."""
    workers = max(10, int(WORKERS * scale))
    births, ends = [], []
    for turn in range(REPEATS):
        born_s, ended_s = _live_once(place.below(f"births{turn}"), workers)
        births.append(born_s)
        ends.append(ended_s)
    return [
        at_most(f"{workers} workers born", statistics.median(births), "s", 2),
        at_most(f"{workers} workers ended", statistics.median(ends), "s", 5),
    ]


def _live_once(place: Place, workers: int) -> tuple[float, float]:
    node.fill(place, 0)
    with node.running(place, workers=workers) as process:
        born_s = _all_ready_s(place, workers)
        began = time.perf_counter()
        process.terminate()
        process.wait(60)
        ended_s = time.perf_counter() - began
    died = [line["exit"] for line in node.events(place, "worker.exited")]
    if died != ["exited with code 0"] * workers:
        raise RuntimeError(f"not every worker was born once and left in order: {died}")
    return born_s, ended_s


def _all_ready_s(place: Place, workers: int) -> float:
    """Wait for the record of every worker; return the seconds from the node's to the last one."""
    with place.database() as db:
        node.wait_until(lambda: db.count("workers") >= workers, 60, 0.05)
        ((last, first),) = db.rows(
            "SELECT max(w.started_at), n.started_at FROM workers w JOIN nodes n USING (node_id)"
        )
    seconds: float = (last - first) / 1_000_000
    return seconds
