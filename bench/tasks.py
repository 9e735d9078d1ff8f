"""The app that the benchmarks run."""

from __future__ import annotations

import os
import time

from supervisor import App
from supervisor.worker.context import TaskContext

app = App()


@app.task(queue="bench")
def noop(_ctx: TaskContext) -> None:
    """Do nothing."""


@app.task(queue="bench")
def stamp(_ctx: TaskContext, fd_path: str) -> None:
    """Write the monotonic time of the first line, for the latency figure."""
    with open(fd_path, "ab", 0) as file:
        file.write(b"%d\n" % time.monotonic_ns())


@app.task(queue="bench")
def nap(_ctx: TaskContext, seconds: float) -> int:
    """Sleep."""
    time.sleep(seconds)
    return os.getpid()
