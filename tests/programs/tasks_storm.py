"""The tasks of the storm: each does what its params say, and writes down every execution."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from supervisor import App

app = App()
LIMITS = {"retry_base": 0.1, "retry_max": 0.5, "timeout": 20.0, "cancel_grace": 0.3}


def executed(path: str, task_id: str, attempt: int) -> None:
    """One line by one write, so that nothing is torn or lost whoever is killed."""
    line = f"{task_id} {attempt} {os.getpid()} {time.time():.6f}\n".encode()
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line)
    os.close(fd)


@app.task(max_retries=3, **LIMITS)
def ok(ctx, path: str, s: float = 0.0):
    executed(path, ctx.task_id, ctx.attempt)
    time.sleep(s)
    return ctx.attempt


@app.task(max_retries=3, **LIMITS)
async def aok(ctx, path: str, s: float = 0.0):
    import asyncio

    executed(path, ctx.task_id, ctx.attempt)
    await asyncio.sleep(s)
    return ctx.attempt


@app.task(max_retries=1, **LIMITS)
def fail(ctx, path: str, s: float = 0.0):
    executed(path, ctx.task_id, ctx.attempt)
    time.sleep(s)
    raise ValueError("as it was told")


@app.task(max_retries=3, **LIMITS)
def flaky(ctx, path: str, s: float = 0.0):
    executed(path, ctx.task_id, ctx.attempt)
    time.sleep(s)
    if ctx.attempt == 1:
        raise ConnectionError("the first time")
    return ctx.attempt


@app.task(max_retries=3, **LIMITS)
def crash(ctx, path: str, s: float = 0.0):
    executed(path, ctx.task_id, ctx.attempt)
    time.sleep(s)
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.attempt


@app.task(max_retries=0, retry_base=0.1, timeout=0.8, soft_timeout=0.3, cancel_grace=0.3)
def overrun(ctx, path: str, s: float = 0.0):
    executed(path, ctx.task_id, ctx.attempt)
    time.sleep(600)


@app.task(max_retries=0, retry_base=0.1, timeout=0.5, soft_timeout=0.3, cancel_grace=0.3)
def stubborn(ctx, path: str, s: float = 0.0):
    executed(path, ctx.task_id, ctx.attempt)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)


# -- of the soak


@app.task(max_retries=0)
def noop(ctx):
    return None


@app.task(max_retries=0, cancel_grace=0.2)
def stuck(ctx):
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)
