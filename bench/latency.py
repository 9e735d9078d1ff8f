"""How soon a submitted task begins on an idle node."""

from __future__ import annotations

import statistics
import time

from bench import node, reference
from bench.figure import Figure, at_most, quantile
from bench.place import Place


def measure(place: Place, scale: float) -> list[Figure]:
    """From the submit call to the first line of the body, one task each 20 ms."""
    stamps = place.folder / "stamps"
    stamp = node.spec("stamp", path=str(stamps))
    sent = []
    with node.ready(place) as (_, client, _url):
        client.submit([node.NOOP])  # the first of a program connects, and imports the driver
        time.sleep(0.5)
        for _ in range(int(300 * scale)):
            sent.append(time.monotonic_ns())
            client.submit([stamp])
            time.sleep(0.02)
        node.wait_until(lambda: len(stamps.read_text().split()) >= len(sent), every_s=0.05)
    beside = reference.of(place)
    peers = reference.start_waits(place.below("peer"), int(300 * scale))
    seen = sorted(int(line) for line in stamps.read_text().split())
    waits = [(b - a) / 1e6 for a, b in zip(sent, seen, strict=True)]
    return [
        at_most(
            "submit to first line, p50",
            statistics.median(waits),
            "ms",
            3,
            peer=beside.name,
            peer_value=statistics.median(peers),
            peer_there=beside.there.start_p50_ms,
        ),
        at_most(
            "submit to first line, p99",
            quantile(waits, 0.99),
            "ms",
            15,
            peer=beside.name,
            peer_value=quantile(peers, 0.99),
            peer_there=beside.there.start_p99_ms,
        ),
    ]
