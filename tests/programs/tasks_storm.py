"""The tasks of the storm: each does what its params say, and writes down every execution.

Beside the file of executions lies one of stamps: when, by a clock that all nodes of this machine
share, a body was seen at work on which node.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

from supervisor import App

app = App()
STAMPS = ".stamps"
BEAT_S = 0.01
LIMITS = {"retry_base": 0.1, "retry_max": 0.5, "timeout": 20.0, "cancel_grace": 0.3}


def executed(path: str, task_id: str, attempt: int) -> None:
    _write(path, f"{task_id} {attempt} {os.getpid()} {time.time():.6f}\n")
    stamp(path, task_id, attempt)


def stamp(path: str, task_id: str, attempt: int) -> None:
    """Say that the body is at work now."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    node = os.environ.get("SUPERVISOR_NODE_NAME", "")
    _write(path + STAMPS, f"{task_id} {attempt} {node} {now:.6f}\n")


def _write(path: str, line: str) -> None:
    """One line by one write, so that nothing is torn or lost whoever is killed."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


@app.task(max_retries=3, **LIMITS)
def ok(ctx, path: str, s: float = 0.0):
    executed(path, ctx.task_id, ctx.attempt)
    time.sleep(s)
    stamp(path, ctx.task_id, ctx.attempt)
    return ctx.attempt


@app.task(max_retries=3, **LIMITS)
async def aok(ctx, path: str, s: float = 0.0):
    import asyncio

    executed(path, ctx.task_id, ctx.attempt)
    await asyncio.sleep(s)
    stamp(path, ctx.task_id, ctx.attempt)
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


# -- of the crash points


@app.task(max_retries=3, **LIMITS)
def waits(ctx, path: str, s: float = 0.0):
    executed(path, ctx.task_id, ctx.attempt)
    while True:
        ctx.check()
        time.sleep(0.01)


@app.task(max_retries=3, **LIMITS)
def hangs(ctx, path: str, s: float = 0.0):
    """With a child of its own, so that there is a tree to be killed."""
    executed(path, ctx.task_id, ctx.attempt)
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)


@app.task(max_retries=3, **LIMITS)
def resumes(ctx, path: str, s: float = 0.0):
    """Comes to its end only from a checkpoint."""
    executed(path, ctx.task_id, ctx.attempt)
    if ctx.last_checkpoint is None:
        ctx.checkpoint({"page": ctx.attempt})
        raise ConnectionError("after the checkpoint")
    return ctx.last_checkpoint


@app.task(max_retries=3, **LIMITS)
def begets(ctx, path: str, s: float = 0.0):
    """Has one child with its success."""
    executed(path, ctx.task_id, ctx.attempt)
    ctx.submit("ok", on_success=True, params={"path": path}, max_retries=20)


@app.task(max_retries=3, **LIMITS)
def asks(ctx, path: str, s: float = 0.0):
    """Submits one task while it runs; the key makes it safe to be run again."""
    executed(path, ctx.task_id, ctx.attempt)
    key = {"dedup_key": f"child of {ctx.task_id}", "dedup_ttl": 3600}
    return ctx.submit("ok", params={"path": path}, max_retries=20, **key)


# -- of the races


@app.task(max_retries=3, interrupt=False, **LIMITS)
def sleeps(ctx, path: str, s: float = 0.0):
    """Hears nothing, returns in its time."""
    executed(path, ctx.task_id, ctx.attempt)
    time.sleep(s)
    return ctx.attempt


# -- of nodes that are cut off


@app.task(max_retries=3, **LIMITS)
def beats(ctx, path: str, s: float = 0.0):
    """Says all the time that it is at work; leaves when it is told to."""
    executed(path, ctx.task_id, ctx.attempt)
    until = time.monotonic() + s
    while time.monotonic() < until:
        time.sleep(BEAT_S)
        stamp(path, ctx.task_id, ctx.attempt)
    return ctx.attempt


@app.task(max_retries=3, **LIMITS)
def drums(ctx, path: str, s: float = 0.0):
    """The same, and it hears nothing."""
    executed(path, ctx.task_id, ctx.attempt)
    until = time.monotonic() + s
    while time.monotonic() < until:
        with contextlib.suppress(BaseException):
            time.sleep(BEAT_S)
            stamp(path, ctx.task_id, ctx.attempt)
    return ctx.attempt


# -- of the soak


@app.task(max_retries=0)
def noop(ctx):
    return None


@app.task(max_retries=0, cancel_grace=0.2)
def stuck(ctx):
    """Leaves a file, shared memory and a process where a killed worker cannot clean up."""
    (Path(tempfile.mkdtemp()) / "large").write_bytes(b"x" * 100_000)
    block = SharedMemory(create=True, size=100_000)
    subprocess.Popen(["sleep", "3600"], start_new_session=True)
    while block.buf is not None:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)
