"""What a node costs that has nothing to do."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

from bench import node
from bench.figure import Figure, at_most

WORKERS = 50
SETTLE_S = 2.0


def measure(folder: Path, scale: float) -> list[Figure]:
    """CPU of a node with fifty idle workers, of those workers, and how late the loop turns."""
    seconds = max(3.0, 20 * scale)
    with node.ready(folder, workers=WORKERS) as (process, _, url):
        time.sleep(SETTLE_S)
        workers = node.workers_of(folder)
        lag = _late_turns(url)
        node_cpu, workers_cpu = node.exact_cpu_s(process.pid), _cpu_s(workers)
        began = time.perf_counter()
        time.sleep(seconds)
        spent = time.perf_counter() - began
        node_cpu = node.exact_cpu_s(process.pid) - node_cpu
        workers_cpu = _cpu_s(workers) - workers_cpu
        lag_ms = _p99_ms(lag, _late_turns(url))
    return [
        at_most(f"node with {WORKERS} idle workers", node_cpu / spent * 100, "% core", 5),
        at_most(f"the {WORKERS} idle workers themselves", workers_cpu / spent * 100, "% core", 5),
        at_most("loop lag of the idle node, p99", lag_ms, "ms", 20),
    ]


def _cpu_s(pids: list[int]) -> float:
    return sum(node.exact_cpu_s(pid) for pid in pids)


def _late_turns(url: str) -> dict[float, float]:
    """Return how many turns were at most so many seconds late, by bucket."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    mark = 'supervisor_loop_lag_seconds_bucket{le="'
    found = [line.removeprefix(mark).split('"} ') for line in lines if line.startswith(mark)]
    return {float(edge): float(count) for edge, count in found}


def _p99_ms(before: dict[float, float], after: dict[float, float]) -> float:
    """Return the upper edge of the bucket that holds the 99th of a hundred turns."""
    turns = {edge: after[edge] - before.get(edge, 0.0) for edge in sorted(after)}
    wanted = max(turns.values()) * 0.99
    return next(edge for edge, count in turns.items() if count >= wanted) * 1000
