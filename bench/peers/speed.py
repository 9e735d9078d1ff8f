"""How fast a queue takes, runs and begins tasks, and what of the machine that costs."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

from bench.peers.scene import Scene

DRAIN_S = 240.0
EVERY_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One run of one queue.

    Rates in tasks per second; CPU in seconds per 1,000 tasks, of the workers and all that watches
    over them, of the server, and of enqueueing (producer and server). `others_cores` is what the
    rest of the machine used during the drain: above 0.2 the run was disturbed.
    """

    enqueue_rate: float
    enqueue_cpu_s: float
    drain_rate: float
    workers_cpu_s: float
    server_cpu_s: float
    memory_mb: float
    begin_p50_ms: float
    begin_p99_ms: float
    others_cores: float

    @property
    def cpu_s(self) -> float:
        """CPU of everything while draining."""
        return self.workers_cpu_s + self.server_cpu_s

    def as_row(self) -> dict[str, Any]:
        """Return it as it stands in the file."""
        return {**asdict(self), "cpu_s": self.cpu_s}


@dataclass(frozen=True, slots=True)
class _Mark:
    at: float
    done: int
    workers_cpu_s: float
    server_cpu_s: float
    machine_cpu_s: float


def measure(scene: Scene, tasks: int, paced: int) -> Speed:
    """Enqueue that many no-ops, drain them with two processes, then send one each 20 ms."""
    before = scene.server_cpu_s()
    filled = scene.ask("fill", tasks=tasks)
    filling = filled["cpu_s"] + scene.server_cpu_s() - before
    scene.start_workers()
    first = _reached(scene, tasks * 0.1)
    memory = scene.memory_bytes()
    last = _reached(scene, tasks * 0.9)
    _reached(scene, tasks)
    done, span = last.done - first.done, last.at - first.at
    workers = last.workers_cpu_s - first.workers_cpu_s
    served = last.server_cpu_s - first.server_cpu_s
    waits = _waits(scene, paced)
    return Speed(
        enqueue_rate=tasks / filled["seconds"],
        enqueue_cpu_s=filling / tasks * 1000,
        drain_rate=done / span,
        workers_cpu_s=workers / done * 1000,
        server_cpu_s=served / done * 1000,
        memory_mb=memory / 2**20,
        begin_p50_ms=statistics.median(waits),
        begin_p99_ms=waits[int(len(waits) * 0.99)],
        others_cores=(last.machine_cpu_s - first.machine_cpu_s - workers - served) / span,
    )


def _reached(scene: Scene, number: float) -> _Mark:
    deadline = time.monotonic() + DRAIN_S
    while (done := scene.counted()) < number:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{scene.peer.name} has run {done} tasks of {number:g}")
        time.sleep(0.005)
    own = time.process_time()
    return _Mark(
        time.monotonic(),
        done,
        scene.workers_cpu_s(),
        scene.server_cpu_s(),
        _machine_cpu_s() - own,
    )


def _waits(scene: Scene, paced: int) -> list[float]:
    """Return how long each task waited for its first line, in ascending milliseconds."""
    scene.ask("pace", name="warm", tasks=20, every_s=EVERY_S)  # what is first used is slower
    scene.began("warm19")
    called = scene.ask("pace", name="pace", tasks=paced, every_s=EVERY_S)
    for number in range(paced):
        scene.began(f"pace{number}")
    began = {event.what: event.at for event in scene.events()}
    return sorted((began[f"pace{i}"] - at / 1e9) * 1000 for i, at in enumerate(called))


def _machine_cpu_s() -> float:
    with open("/proc/stat") as file:
        times = [int(word) for word in file.readline().split()[1:9]]
    return (sum(times) - times[3] - times[4]) / os.sysconf("SC_CLK_TCK")
