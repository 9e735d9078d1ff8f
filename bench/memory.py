"""Whether a node's memory grows with the number of tasks it has run."""

from __future__ import annotations

import time
from pathlib import Path

from bench import node
from bench.figure import Figure, at_most

WARM_UP, TASKS = 20_000, 100_000


def measure(folder: Path, scale: float) -> list[Figure]:
    """Resident memory of the node after a warm-up, and again after many more no-op tasks."""
    warm_up, tasks = int(WARM_UP * scale), int(TASKS * scale)
    with node.ready(folder) as (process, _, _url):
        before = _rest(folder, warm_up, process.pid)
        after = _rest(folder, tasks, process.pid)
    return [
        at_most(f"node memory over {tasks:,} tasks", abs(after / before - 1) * 100, "% change", 5)
    ]


def _rest(folder: Path, tasks: int, pid: int) -> int:
    """Have so many more tasks done; return the node's resident bytes once it is quiet."""
    db = node.database(folder)
    left = "SELECT 1 FROM tasks WHERE state IN ('PENDING', 'RUNNING') LIMIT 1"
    for first in range(0, tasks, 10_000):
        node.fill(folder, min(10_000, tasks - first))
        node.wait_until(lambda: db.execute(left).fetchone() is None, 120, 0.05)
    db.close()
    time.sleep(2)
    return _resident_bytes(pid)


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
