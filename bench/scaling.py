"""Whether three nodes do three times as much as one, and how often they get in each other's way."""

from __future__ import annotations

import time
import urllib.request
from contextlib import ExitStack

from bench import node
from bench.figure import Figure, at_most
from bench.place import Place

#: Sleeping tasks and few workers each: neither the CPUs nor the store are to decide.
WORKERS, NODES, SLEEP_S = 4, 3, 0.02
#: Seconds that a turn takes if nothing is in the way.
TURN_S = 15.0
RATIO_FLOOR, CONFLICTS_MOST = 2.5, 1.0


def measure(place: Place, scale: float) -> list[Figure]:
    """20 ms tasks on one node and on three of four workers each, from 10 % to 90 %, same store."""
    alone, _ = _rate(place.below("alone"), 1, max(4.0, TURN_S * scale))
    together, conflicts = _rate(place.below("together"), NODES, max(4.0, TURN_S * scale))
    return [
        Figure(
            name=f"{NODES} nodes, 20 ms tasks",
            value=together,
            unit="/s",
            floor=RATIO_FLOOR * alone,
            peer="one node",
            peer_value=alone,
        ),
        Figure(name=f"{NODES} nodes to one", value=together / alone, unit="×", floor=RATIO_FLOOR),
        at_most("claim conflicts", conflicts * 100, "%", CONFLICTS_MOST),
    ]


def _rate(place: Place, nodes: int, turn_s: float) -> tuple[float, float]:
    """Return tasks per second, and conflicts per claim that was tried."""
    number = int(nodes * WORKERS / SLEEP_S * turn_s)
    node.fill(place, number, "rest", seconds=SLEEP_S)
    ports = [node.free_port() for _ in range(nodes)]
    with ExitStack() as running, place.database() as db:
        filled = db.trail()
        for port in ports:
            name = f"node{port}"
            flags = ("--node-name", name)
            running.enter_context(
                node.running(place, *flags, workers=WORKERS, port=port, name=name)
            )
        marks = []
        for share in (0.1, 0.9):
            node.wait_drained(db, filled, number * share)
            marks.append((time.perf_counter(), db.count("tasks WHERE state = 'SUCCESS'")))
        counts = [_counts(f"http://127.0.0.1:{port}/metrics") for port in ports]
    (t0, n0), (t1, n1) = marks
    in_the_way = sum(missed + again for _, missed, again in counts)
    return (n1 - n0) / (t1 - t0), in_the_way / sum(tried for tried, _, _ in counts)


def _counts(url: str) -> tuple[float, float, float]:
    """Return ids a node tried to claim, those it came too late for, transactions tried again."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    names = ("claims_tried_total", "claims_missed_total", "store_conflicts_total")
    found = dict(line.rsplit(" ", 1) for line in lines if line.startswith("supervisor_"))
    tried, missed, again = (float(found[f"supervisor_{name}"]) for name in names)
    return tried, missed, again
