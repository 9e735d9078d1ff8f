"""How soon a dead worker's place is taken."""

from __future__ import annotations

import os
import signal
import statistics
import time
from pathlib import Path

from bench import node
from bench.figure import Figure, at_most, quantile
from bench.place import Database, Place

#: Deaths come faster here than any crash loop; births must not be halted for it.
FLAGS = ("--restart-intensity", "10000/60")


def measure(place: Place, scale: float) -> list[Figure]:
    """From SIGKILL to the next ready worker; from a worker's last line to the next task's first."""
    rounds = max(10, int(50 * scale))
    births = _births(place.below("idle"), rounds)
    starts = _starts(place.below("busy"), rounds)
    return [
        at_most("killed worker to a new one ready, p50", statistics.median(births), "ms", 20),
        at_most("killed worker to a new one ready, p95", quantile(births, 0.95), "ms", 20),
        at_most(
            "death of a worker to the next first line, p50", statistics.median(starts), "ms", 50
        ),
        at_most("death of a worker to the next first line, p95", quantile(starts, 0.95), "ms", 50),
    ]


def _births(place: Place, rounds: int) -> list[float]:
    """Kill an idle worker each time; milliseconds until the node knows its successor as ready."""
    waits = []
    with node.ready(place, *FLAGS), place.database() as db:
        for _ in range(rounds):
            killed_us = time.time_ns() // 1000
            os.kill(node.workers_of(place)[0], signal.SIGKILL)
            waits.append((_ready_us(db, killed_us) - killed_us) / 1000)
            time.sleep(0.05)
    return waits


def _ready_us(db: Database, since_us: int) -> int:
    """Wait for a worker that got ready since then; return when that was."""
    newest = "SELECT max(started_at) FROM workers WHERE ended_at IS NULL AND started_at >= ?"
    node.wait_until(lambda: db.rows(newest, since_us)[0][0] is not None)
    moment: int = db.rows(newest, since_us)[0][0]
    return moment


def _starts(place: Place, rounds: int) -> list[float]:
    """One worker: each of its tasks kills it while the next task waits; milliseconds between."""
    ends, begins = place.folder / "ends", place.folder / "begins"
    die, stamp = node.spec("die", path=str(ends)), node.spec("stamp", path=str(begins))
    with node.ready(place, *FLAGS, workers=1) as (_, client, _url):
        for done in range(rounds):
            client.submit([die, stamp])
            _wait_lines(begins, done + 1)
            time.sleep(0.05)
    return [(b - a) / 1e6 for a, b in zip(_times(ends), _times(begins), strict=True)]


def _wait_lines(path: Path, number: int) -> None:
    node.wait_until(lambda: path.exists() and len(_times(path)) >= number)


def _times(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]
