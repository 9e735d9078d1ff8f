"""What a submitter waits for."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from bench import node, reference
from bench.figure import REPEATS, Figure


def measure(folder: Path, scale: float) -> list[Figure]:
    """Submitting one by one through the public client, and in bulk."""
    number = int(3000 * scale)
    node.fill(folder, 1)
    client = node.client(folder)
    rates, peers = [], []
    for turn in range(REPEATS):
        began = time.perf_counter()
        for _ in range(number):
            client.submit([node.NOOP])
        rates.append(number / (time.perf_counter() - began))
        peers.append(reference.enqueue_rate(folder / f"peer{turn}.db", number))
    client.close()
    bulk = statistics.median(node.fill(folder, int(20_000 * scale)) for _ in range(REPEATS))
    return [
        Figure(
            name="submit one by one",
            value=statistics.median(rates),
            unit="/s",
            floor=3500,
            peer=reference.NAME,
            peer_value=statistics.median(peers),
            peer_there=reference.ENQUEUE_THERE,
        ),
        Figure(name="submit in bulk", value=bulk, unit="/s", floor=50_000),
    ]
