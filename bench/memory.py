"""Whether a node's memory grows with the number of tasks it has run."""

from __future__ import annotations

import time
from pathlib import Path

from bench import node
from bench.figure import Figure, at_most
from bench.place import Place

WARM_UP, TASKS = 20_000, 100_000


def measure(place: Place, scale: float) -> list[Figure]:
    """Resident memory of the node after a warm-up, and again after many more no-op tasks."""
    warm_up, tasks = int(WARM_UP * scale), int(TASKS * scale)
    with node.ready(place) as (process, _, _url):
        before = _rest(place, warm_up, process.pid)
        after = _rest(place, tasks, process.pid)
    return [
        at_most(f"node memory over {tasks:,} tasks", abs(after / before - 1) * 100, "% change", 5)
    ]


def _rest(place: Place, tasks: int, pid: int) -> int:
    """Have so many more tasks done; return the node's resident bytes once it is quiet."""
    left = "SELECT 1 FROM tasks WHERE state IN ('PENDING', 'RUNNING') LIMIT 1"
    with place.database() as db:
        for first in range(0, tasks, 10_000):
            node.fill(place, min(10_000, tasks - first))
            node.wait_until(lambda: not db.rows(left), 120, 0.05)
    time.sleep(2)
    return _resident_bytes(pid)


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
