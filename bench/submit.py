"""What a submitter waits for."""

from __future__ import annotations

import statistics
import time

from bench import node, reference
from bench.figure import REPEATS, Figure
from bench.place import Kind, Place

FLOORS = {Kind.SQLITE: 3_500, Kind.POSTGRESQL: 2_000, Kind.REDIS: 2_000}
BULK_FLOOR = 50_000


def measure(place: Place, scale: float) -> list[Figure]:
    """Submitting one by one through the public client, and a thousand at a time."""
    number = int(3000 * scale)
    node.fill(place, 1)
    client = node.client(place)
    rates, peers = [], []
    for turn in range(REPEATS):
        began = time.perf_counter()
        for _ in range(number):
            client.submit([node.NOOP])
        rates.append(number / (time.perf_counter() - began))
        peers.append(reference.enqueue_rate(place.below(f"peer{turn}"), number))
    client.close()
    many = int(20_000 * scale)
    bulks, bulk_peers = [], []
    for turn in range(REPEATS):
        bulks.append(node.fill(place, many))
        bulk_peers.append(reference.bulk_rate(place.below(f"bulk{turn}"), many))
    beside = reference.of(place)
    return [
        Figure(
            name="submit one by one",
            value=statistics.median(rates),
            unit="/s",
            floor=FLOORS[place.kind],
            peer=beside.name,
            peer_value=statistics.median(peers),
            peer_there=beside.there.enqueue,
        ),
        Figure(
            name="submit in bulk",
            value=statistics.median(bulks),
            unit="/s",
            floor=BULK_FLOOR,
            peer=beside.name,
            peer_value=statistics.median(bulk_peers),
            peer_there=beside.there.bulk,
        ),
    ]
