"""Tasks that say what they do: counts, error codes, steps, calls of other services."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from enum import StrEnum
from pathlib import Path

from supervisor import App

app = App()


class Row(StrEnum):
    GOOD = "rows-good"


class Evil(str):
    """Text whose own methods must not be trusted."""

    __slots__ = ()

    def __hash__(self):
        raise RuntimeError("no hash")

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    def __repr__(self):
        raise RuntimeError("no repr")


class Odd:
    def __repr__(self):
        raise RuntimeError("no repr")

    def __float__(self):
        raise RuntimeError("no number")


@app.task(
    counts=("rows", "never"),
    error_codes=(404, "E-1"),
    steps=("read", "write"),
    calls=("unused",),
    expected_duration=2,
)
def idle(ctx):
    """Never runs."""


@app.task(
    counts=("rows", "never"),
    error_codes=(404, "E-1"),
    steps=("read", "write"),
    calls=("payments",),
    max_retries=0,
)
def declared(ctx):
    with ctx.step("read"):
        ctx.count("rows", 3)
    ctx.count(Row.GOOD, 2.5)
    ctx.error_code(404)
    with ctx.step("write"), ctx.call("payments"):
        time.sleep(0.06)
    return "done"


@app.task(max_retries=1)
def retried(ctx):
    ctx.count("tries")
    if ctx.attempt == 1:
        with ctx.call("flaky"):
            raise ConnectionError("503")
    with ctx.call("flaky"):
        return ctx.attempt


@app.task(timeout=2.5, soft_timeout=None, max_retries=0, interrupt=False)
def hangs(ctx, then: str = "sleep"):
    ctx.count("before", 7)
    with ctx.call("silent"):
        time.sleep(600)


@app.task(timeout=60, max_retries=0)
def waits(ctx, service: str):
    with ctx.call(service):
        time.sleep(600)


@app.task(timeout=60, max_retries=0)
async def awaits(ctx, service: str):
    with ctx.call(service):
        await asyncio.sleep(600)


@app.task(timeout=60, max_retries=0)
def killed(ctx, path: str):
    ctx.count("kept", 11)
    with ctx.step("half"):
        time.sleep(0.01)
    time.sleep(1.5)
    Path(path).write_text("told")
    time.sleep(600)


@app.task(max_retries=0)
def million(ctx, number: int = 1_000_000):
    began = time.thread_time()
    for _ in range(number):
        ctx.count("loops")
    return time.thread_time() - began


@app.task(max_retries=0)
def threads(ctx, number: int = 8, each: int = 2000):
    def work():
        for _ in range(each):
            ctx.count("threaded")
            with ctx.call("shared"), ctx.call("nested"):
                pass

    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        for done in [pool.submit(work) for _ in range(number)]:
            done.result()


@app.task(max_retries=0)
async def loops(ctx, number: int = 200):
    async def work(one: int):
        with ctx.call("async"), ctx.step("await"):
            await asyncio.sleep(0.05)
            if one % 4 == 0:
                raise ValueError("one in four")

    await asyncio.gather(*map(work, range(number)), return_exceptions=True)


@app.task(max_retries=0)
def hostile(ctx, fail: bool = False):
    names = [
        "",
        "x" * 65,
        "a b",
        "ü",
        "a\nb",
        "a\ud800",
        "_x",
        None,
        7,
        True,
        b"rows",
        [],
        Odd(),
        Evil("ok"),
    ]
    for name in names:
        ctx.count(name)
        ctx.error_code(name)
        with ctx.step(name), ctx.call(name):
            pass
    for n in (-1, float("nan"), float("inf"), "3", None, 10**400, Odd(), 2**53 + 1, [], 1j):
        ctx.count("n", n)
    ctx.count("n", True)
    ctx.count("n", 0)
    if fail:
        raise ValueError("so that its output is kept")
    return "unhurt"


@app.task(max_retries=0)
def hostile_failing(ctx):
    return hostile(ctx, fail=True)


@app.task(max_retries=0)
def many_names(ctx, number: int = 500, offset: int = 0):
    for one in range(number):
        ctx.count(f"name{one + offset}")
        ctx.error_code(one + offset)
        with ctx.step(f"step{one + offset}"), ctx.call(f"service{one + offset}"):
            pass


@app.task(max_retries=0)
def leaves_a_thread(ctx):
    """Leaves a thread that goes on counting in the attempts after this one."""

    def go_on():
        for _ in range(200):
            ctx.count("late")
            time.sleep(0.01)

    threading.Thread(target=go_on, daemon=True).start()


@app.task(max_retries=0)
def first_said_late(ctx):
    def go_on():
        time.sleep(0.3)
        ctx.count("much-later")

    threading.Thread(target=go_on, daemon=True).start()


@app.task(max_retries=0)
def forks(ctx):
    ctx.count("before-fork")
    if os.fork() == 0:
        ctx.count("in-the-child")
        os._exit(0)
    os.wait()


def burn(cpu_s: float) -> None:
    end = time.process_time() + cpu_s
    while time.process_time() < end:
        pass


@app.task(max_retries=0)
def burns(ctx, cpu_s: float):
    burn(cpu_s)


@app.task(max_retries=0)
def burns_in_child(ctx, cpu_s: float):
    code = f"import time\nwhile time.process_time() < {cpu_s}: pass"
    subprocess.run([sys.executable, "-c", code], check=True)


@app.task(max_retries=0, max_crashes=1)
def burns_to_death(ctx, cpu_s: float):
    sys.setswitchinterval(600)  # no other thread of the worker ever runs
    burn(cpu_s)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(max_retries=0)
def spins(ctx):
    while True:
        ctx.check()


@app.task(max_retries=0)
def writes(ctx, path: str, size: int = 2**20):
    with open(path, "wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())


def talk(size: int) -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    line.sendall(b"x" * size)
    left = size
    while left:
        left -= len(other.recv(2**16))
    return line, other


@app.task(max_retries=0)
def talks(ctx, size: int):
    talks.kept = talk(size)  # type: ignore[attr-defined]
    time.sleep(0.02)  # long enough for a look at the end


@app.task(max_retries=0)
def talks_and_closes(ctx, size: int, s: float):
    line, other = talk(size)
    time.sleep(s)
    line.close()
    other.close()


@app.task(max_retries=0)
def opens(ctx, number: int = 60, s: float = 2.5):
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(number)]
    time.sleep(s)
    for file in files:
        os.close(file)


@app.task(max_retries=0)
def noop(ctx):
    return None
