"""What a node costs that has nothing to do."""

from __future__ import annotations

import time
import urllib.request

import psycopg

from bench import node
from bench.figure import Figure, at_most
from bench.place import Kind, Place

WORKERS = 50
SETTLE_S = 2.0
#: Looks for work (a bell that names ids needs few), stop marks, counts, and the lease.
MOST_PER_S = 20


def measure(place: Place, scale: float) -> list[Figure]:
    """CPU of a node with fifty idle workers, of those workers, and how late the loop turns."""
    seconds = max(3.0, 20 * scale)
    with node.ready(place, workers=WORKERS) as (process, _, url):
        time.sleep(SETTLE_S)
        workers = node.workers_of(place)
        lag, sent = late_turns(url), _transactions(place)
        node_cpu, workers_cpu = node.exact_cpu_s(process.pid), _cpu_s(workers)
        server_cpu = node.servers_cpu_s(place)
        began = time.perf_counter()
        time.sleep(seconds)
        spent = time.perf_counter() - began
        node_cpu = node.exact_cpu_s(process.pid) - node_cpu
        workers_cpu = _cpu_s(workers) - workers_cpu
        server_cpu = node.servers_cpu_s(place) - server_cpu
        sent = _transactions(place) - sent
        lag_ms = p99_ms(lag, late_turns(url))
    figures = [
        at_most(f"node with {WORKERS} idle workers", node_cpu / spent * 100, "% core", 5),
        at_most(f"the {WORKERS} idle workers themselves", workers_cpu / spent * 100, "% core", 5),
        at_most("loop lag of the idle node, p99", lag_ms, "ms", 20),
    ]
    if place.kind is not Kind.SQLITE:
        figures += [
            at_most("servers of an idle node", server_cpu / spent * 100, "% core", 5),
            at_most("transactions of an idle node", sent / spent, "/s", MOST_PER_S),
        ]
    return figures


def _transactions(place: Place) -> int:
    """Return how many transactions the store's database has seen; a query alone is one, too."""
    if place.kind is Kind.SQLITE:
        return 0
    name = place.store.rpartition("/")[2]
    query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"
    with psycopg.connect(place.admin) as connection:  # another database: it does not count itself
        row = connection.execute(query, (name,)).fetchone()
    assert row is not None
    return int(row[0])


def _cpu_s(pids: list[int]) -> float:
    return sum(node.exact_cpu_s(pid) for pid in pids)


def late_turns(url: str) -> dict[float, float]:
    """Return how many turns were at most so many seconds late, by bucket."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    mark = 'supervisor_loop_lag_seconds_bucket{le="'
    found = [line.removeprefix(mark).split('"} ') for line in lines if line.startswith(mark)]
    return {float(edge): float(count) for edge, count in found}


def p99_ms(before: dict[float, float], after: dict[float, float]) -> float:
    """Return the upper edge of the bucket that holds the 99th of a hundred turns."""
    turns = {edge: after[edge] - before.get(edge, 0.0) for edge in sorted(after)}
    wanted = max(turns.values()) * 0.99
    return next(edge for edge, count in turns.items() if count >= wanted) * 1000
