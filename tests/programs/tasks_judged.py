"""Tasks that show one sign of trouble each and would end well if they were let."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from supervisor import App

app = App()


def wait_for(path: str) -> None:
    """Wait, without a word, until the file is there."""
    while not Path(path).exists():
        time.sleep(0.01)


@app.task(max_retries=0)
def says_nothing(ctx, path: str):
    wait_for(path)
    return "was only slow"


@app.task(max_retries=0, interrupt=False)
def hears_nothing(ctx, s: float):
    time.sleep(s)


@app.task(max_retries=0)
def spins(ctx, path: str):
    """Use a whole core until the file is there, with progress all the time."""
    with contextlib.suppress(PermissionError):
        os.nice(-15)  # a core of its own, whatever else the host does
    step = 0
    while not Path(path).exists():
        step += 1
        ctx.progress(step)
    return "done computing"


@app.task(max_retries=0)
def grows(ctx, path: str):
    kept = b"x" * (120 * 2**20)
    wait_for(path)
    return len(kept)


@app.task(max_retries=0)
def stops_itself(ctx):
    os.kill(os.getpid(), signal.SIGSTOP)
    return "went on"


@app.task(max_retries=0, interrupt=False)
def takes(ctx, s: float):
    time.sleep(s)
    return "in time"
