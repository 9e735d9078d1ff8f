"""What being watched costs a busy worker: probes, vital signs, log ring, captured output."""

from __future__ import annotations

import logging
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench import node, tasks
from bench.figure import Figure
from supervisor.client import Client
from supervisor.worker.context import TaskContext

ROUNDS = 9


class _Unwatched:
    """A context that reports to nobody."""

    def progress(self, done: float, total: float | None = None) -> None:
        """Take a report of progress."""


def measure(folder: Path, scale: float) -> list[Figure]:
    """Steps per CPU second of one body in a worker and in a plain forked process, by turns."""
    seconds = max(0.3, 2 * scale)
    watched, plain = [], []
    with node.ready(folder, workers=1) as (_, client, _url):
        for turn in range(ROUNDS):
            if turn % 2:
                plain.append(_in_a_plain_process(folder / "plain.log", seconds))
            watched.append(_in_a_worker(client, seconds))
            if not turn % 2:
                plain.append(_in_a_plain_process(folder / "plain.log", seconds))
    ratios = [ours / theirs for ours, theirs in zip(watched, plain, strict=True)]
    return [
        Figure(
            name="watching a busy worker",
            value=(1 - statistics.median(ratios)) * 100,
            unit="% CPU",
            floor=2,
            at_most=True,
        ),
        Figure(
            name="steps of a watched body",
            value=statistics.median(watched),
            unit="/CPU s",
            floor=0.98 * statistics.median(plain),
            peer="plain process",
            peer_value=statistics.median(plain),
        ),
    ]


def _in_a_worker(client: Client, seconds: float) -> float:
    (handle,) = client.submit([node.spec("grind", seconds=seconds)])
    handle.wait(60)
    rate: float = handle.result()
    time.sleep(0.1)
    return rate


def _in_a_plain_process(log: Path, seconds: float) -> float:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_plain, args=(theirs, log, seconds)
    )
    process.start()
    rate: float = ours.recv()
    process.join()
    ours.close()
    theirs.close()
    return rate


def _plain(answer: Connection[Any, Any], log: Path, seconds: float) -> None:
    logging.basicConfig(level=logging.INFO, filename=str(log))
    context: TaskContext = _Unwatched()  # type: ignore[assignment]
    answer.send(tasks.grind.function(context, seconds))
