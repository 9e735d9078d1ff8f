"""The app that the benchmarks run."""

from __future__ import annotations

import logging
import os
import signal
import time
from contextlib import suppress

from supervisor import App
from supervisor.worker.context import TaskContext

app = App()


@app.task(queue="bench")
def noop(_ctx: TaskContext) -> None:
    """Do nothing."""


@app.task(queue="bench")
def stamp(_ctx: TaskContext, path: str) -> None:
    """Write the monotonic time of the first line, for the latency figure."""
    with open(path, "ab", 0) as file:
        file.write(b"%d\n" % time.monotonic_ns())


@app.task(queue="bench", max_retries=0)
def die(_ctx: TaskContext, path: str) -> None:
    """Write the monotonic time of the last line, and be killed."""
    with open(path, "ab", 0) as file:
        file.write(b"%d\n" % time.monotonic_ns())
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(queue="bench", timeout=600)
def obey(ctx: TaskContext) -> None:
    """Go on until asked to stop."""
    while True:
        ctx.check()
        time.sleep(0.01)


@app.task(queue="bench", timeout=600)
def defy(_ctx: TaskContext) -> None:
    """Go on, whatever is raised."""
    while True:
        with suppress(BaseException):
            time.sleep(600)


@app.task(queue="bench", timeout=600)
def rest(_ctx: TaskContext, seconds: float) -> None:
    """Sleep."""
    time.sleep(seconds)


@app.task(queue="bench", timeout=600)
def grind(ctx: TaskContext, seconds: float) -> float:
    """Compute, with a progress report per step of some milliseconds and ten log lines a second.

    Returns steps per CPU second of the whole process.
    """
    log = logging.getLogger("bench")
    began, cpu = time.monotonic(), time.process_time()
    steps, logged = 0, began
    while (now := time.monotonic()) - began < seconds:
        _compute()
        steps += 1
        ctx.progress(steps)
        if now - logged >= 0.1:
            logged = now
            log.info("%s steps", steps)
    return steps / (time.process_time() - cpu)


def _compute() -> int:
    total = 0
    for number in range(100_000):
        total = (total * 31 + number) % 1_000_003
    return total
