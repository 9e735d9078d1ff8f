"""Tasks that leave something behind. `path` names where a task leaves its marks."""

from __future__ import annotations

import _thread
import ctypes
import mmap
import multiprocessing
import os
import signal
import subprocess
import threading
import time
import warnings
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

from supervisor import App

app = App()
KEPT: list[object] = []


def mark(path: str, text: str) -> None:
    with open(path, "a") as file:
        file.write(f"{text}\n")


@app.task()
def tidy(ctx, s: float = 0.0):
    time.sleep(s)
    return os.getpid()


@app.task()
def opens(ctx, n: int = 3, s: float = 0.06):
    KEPT.extend(open("/etc/hostname") for _ in range(n))  # noqa: SIM115
    time.sleep(s)
    return os.getpid()


@app.task()
def sprouts(ctx, n: int = 2):
    for number in range(n):
        threading.Thread(
            target=time.sleep, args=(900,), name=f"sprout-{number}", daemon=True
        ).start()
    time.sleep(0.06)
    return os.getpid()


@app.task()
def spawns(ctx):
    KEPT.append(subprocess.Popen(["sleep", "900"]))
    return os.getpid()


@app.task()
def names_oddly(ctx, kind: str):
    """Leave something whose name is of bytes that are not UTF-8, or of no characters at all."""
    odd = b"left-by-test-\xff\xfe"
    if kind == "file":
        KEPT.append(open(os.path.join(os.fsencode(ctx.tempdir), odd), "w"))  # noqa: SIM115
    elif kind == "thread":
        threading.Thread(target=time.sleep, args=(900,), name="odd-\udcff\0", daemon=True).start()
    elif kind == "native thread":
        _thread.start_new_thread(_rename_and_sleep, (odd[-6:],))
    else:
        fd = os.open(b"/dev/shm/" + odd, os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, 4096)
        KEPT.append(mmap.mmap(fd, 4096))
        os.close(fd)
    time.sleep(0.06)
    return os.getpid()


def _rename_and_sleep(name: bytes) -> None:
    ctypes.pythonapi.prctl(15, name, 0, 0, 0)  # PR_SET_NAME
    time.sleep(900)


@app.task()
def scribbles(ctx):
    (ctx.tempdir / "one").write_text("x")
    (ctx.tempdir / "two").mkdir()


def _end(ctx, then: str) -> str:
    match then:
        case "raise":
            raise ValueError("so it fails")
        case "hang":
            while True:
                try:
                    time.sleep(60)
                except BaseException:
                    continue
        case "wait":
            while True:
                ctx.check()
                time.sleep(0.01)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    return then


def _untrack(segment: SharedMemory) -> None:
    """Keep multiprocessing from removing it when this process dies."""
    resource_tracker.unregister(segment._name, "shared_memory")


@app.task(max_retries=0, timeout=30)
def shares(ctx, path: str, then: str = "return", name: str | None = None, close: bool = True):
    """Makes a segment and does not remove it."""
    segment = SharedMemory(name=name, create=True, size=4096)
    _untrack(segment)
    mark(path, segment.name)
    if close:
        segment.close()
    else:
        KEPT.append(segment)
    return _end(ctx, then)


def _share(path: str) -> None:
    segment = SharedMemory(create=True, size=4096)
    _untrack(segment)
    mark(path, segment.name)
    segment.close()


@app.task(max_retries=0, timeout=30)
def child_shares(ctx, path: str, then: str):
    child = multiprocessing.get_context("fork").Process(target=_share, args=(path,))
    child.start()
    child.join()
    return _end(ctx, then)


@app.task(max_retries=0, timeout=30)
def attaches(ctx, path: str, name: str, then: str):
    """Uses a segment of somebody else."""
    segment = SharedMemory(name=name)
    _untrack(segment)
    mark(path, segment.name)
    segment.close()
    return _end(ctx, then)


@app.task(max_retries=0)
def shares_strictly(ctx):
    """Raises if a tracker was ended behind the back of multiprocessing."""
    warnings.simplefilter("error")
    segment = SharedMemory(create=True, size=4096)
    segment.close()
    segment.unlink()
    return Path("/dev/shm").joinpath(segment.name).exists()


@app.task(max_retries=0)
def shares_systemv(ctx):
    number = ctypes.CDLL(None).shmget(0, 8192, 0o1600)  # IPC_CREAT for its owner
    time.sleep(0.06)
    return number
