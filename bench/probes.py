"""What being watched costs a busy worker: probes, vital signs, log ring, captured output."""

from __future__ import annotations

import logging
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench import node, tasks
from bench.figure import Figure, at_most
from bench.place import Place
from supervisor.client import Client
from supervisor.worker.context import TaskContext

ROUNDS = 9


class _Unwatched:
    """A context that reports to nobody."""

    def progress(self, done: float, total: float | None = None) -> None:
        """Take a report of progress."""


def measure(place: Place, scale: float) -> list[Figure]:
    """Steps per CPU second of one body in a worker and in a plain forked process, by turns."""
    seconds = max(0.3, 2 * scale)
    watched: list[float] = []
    plain: list[float] = []
    with (
        node.ready(place, workers=1) as (_, client, _url),
        _plain_process(place.folder) as unwatched,
    ):
        runs: list[tuple[list[float], Callable[[], float]]] = [
            (watched, lambda: _in_a_worker(client, seconds)),
            (plain, lambda: _in_a_plain_process(unwatched, seconds)),
        ]
        for _ in range(ROUNDS):
            for rates, run in runs:
                rates.append(run())
            runs.reverse()  # who comes first must not matter
    ratios = [ours / theirs for ours, theirs in zip(watched, plain, strict=True)]
    return [
        at_most("watching a busy worker", (1 - statistics.median(ratios)) * 100, "% CPU", 2),
    ]


def _in_a_worker(client: Client, seconds: float) -> float:
    (handle,) = client.submit([node.spec("grind", seconds=seconds)])
    handle.wait(60)
    rate: float = handle.result()
    time.sleep(0.1)
    return rate


@contextmanager
def _plain_process(folder: Path) -> Iterator[Connection[Any, Any]]:
    """Fork a process that runs the body each time it is sent for how long, and answers."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_run_unwatched, args=(theirs, folder / "plain.log")
    )
    process.start()
    yield ours
    ours.send(0.0)
    process.join()
    ours.close()
    theirs.close()


def _in_a_plain_process(line: Connection[Any, Any], seconds: float) -> float:
    line.send(seconds)
    rate: float = line.recv()
    time.sleep(0.1)
    return rate


def _run_unwatched(line: Connection[Any, Any], log: Path) -> None:
    logging.basicConfig(level=logging.INFO, filename=str(log))
    context: TaskContext = _Unwatched()  # type: ignore[assignment]
    while seconds := line.recv():
        line.send(tasks.grind.function(context, seconds))
