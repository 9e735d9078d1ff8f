"""Tasks that write down when they were told something, by the monotonic clock of the host."""

from __future__ import annotations

import time
from pathlib import Path

from supervisor import App
from supervisor.errors import SoftTimeout, TaskCanceled

app = App()


def note(path: str, word: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{word} {time.monotonic():.3f}\n")


@app.task(max_retries=0, progress_timeout=0.8)
def slow_but_sure(ctx):
    """2 s of work, with progress every 0.4 s."""
    for step in range(5):
        ctx.progress(step, 5)
        time.sleep(0.4)
    return "made it"


@app.task(max_retries=0)
def told_of_its_limit(ctx, path: str):
    note(path, "began")
    try:
        time.sleep(600)
    except SoftTimeout:
        note(path, "told")
        raise


@app.task(max_retries=0)
def leaves_slowly(ctx, path: str):
    """When canceled it needs 0.7 s to put things in order."""
    note(path, "began")
    try:
        time.sleep(600)
    except TaskCanceled:
        note(path, "told")
        for _ in range(7):
            time.sleep(0.1)
        note(path, "tidy")
        raise


@app.task(max_retries=0, interrupt=False)
def stuck(ctx):
    time.sleep(600)
