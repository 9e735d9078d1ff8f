"""How long a scrape of the metrics takes."""

from __future__ import annotations

import time
import urllib.request

from bench import node
from bench.figure import Figure, at_most, quantile
from bench.place import Place


def measure(place: Place, scale: float) -> list[Figure]:
    """GET /metrics of a node that drains no-op tasks meanwhile."""
    waits = []
    with node.ready(place) as (_, _client, url):
        node.fill(place, int(30_000 * scale))
        for _ in range(max(20, int(100 * scale))):
            began = time.perf_counter()
            with urllib.request.urlopen(url, timeout=5) as answer:
                answer.read()
            waits.append((time.perf_counter() - began) * 1000)
            time.sleep(0.01)
    return [at_most("scrape of a busy node, p95", quantile(waits, 0.95), "ms", 50)]
