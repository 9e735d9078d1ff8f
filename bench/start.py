"""How long a person waits for the command line and for a node."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

from bench import node
from bench.figure import REPEATS, Figure, at_most
from bench.place import Place


def measure(place: Place, _scale: float) -> list[Figure]:
    """How long a person waits: for help, and for the first worker of a node."""
    helps, readies = [], []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(
            [Path(sys.executable).parent / "supervisor", "--help"], check=True, capture_output=True
        )
        helps.append((time.perf_counter() - began) * 1000)
    for _ in range(REPEATS):
        node.fill(place, 0)
        port = node.free_port()
        with node.running(place, workers=1, port=port) as process:
            node.wait_ready(process, port)
            readies.append(_ms_between(place, "node.started", "worker.spawned"))
    return [
        at_most("supervisor --help", statistics.median(helps), "ms", 200),
        at_most("zygote and first worker", statistics.median(readies), "ms", 500),
    ]


def _ms_between(place: Place, first: str, then: str) -> float:
    moments = [node.events(place, name)[-1]["timestamp"] for name in (first, then)]
    began, ended = (datetime.fromisoformat(moment) for moment in moments)
    return (ended - began).total_seconds() * 1000
