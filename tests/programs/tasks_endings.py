"""Tasks with one way to end each. `path` names where a task leaves its marks."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from supervisor import App
from supervisor.app import Task
from supervisor.errors import ShutdownRequested, SoftTimeout, TaskCanceled

app = App()
SLEEP = "import time; time.sleep(900)"


def write_down(path: str, *pids: int) -> None:
    """Append `pid start-ticks` for each process."""
    with open(path, "a") as file:
        for pid in pids:
            text = Path(f"/proc/{pid}/stat").read_text()
            file.write(f"{pid} {text[text.rindex(')') + 2 :].split()[19]}\n")


def mark(path: str, text: str = "x") -> None:
    with open(path, "a") as file:
        file.write(f"{text}\n")


def wait_for(path: str | None) -> None:
    """Wait until the file is there."""
    while path and not os.path.exists(path):
        time.sleep(0.01)


# -- that end by themselves


@app.task()
def ok(ctx, value: Any = None):
    return value


@app.task()
async def aok(ctx, value: Any = None):
    await asyncio.sleep(0.01)
    return value


@app.task()
def touch(ctx, path: str, text: str = "x"):
    mark(path, text)


@app.task()
def full(ctx, path: str):
    for _ in ctx.track(range(3)):
        pass
    ctx.checkpoint({"page": 3})
    (ctx.tempdir / "scratch").write_text("x" * 10)
    inside = Path(tempfile.mkdtemp())
    mark(path, str(ctx.tempdir))
    mark(path, str(inside))
    ctx.log.info("half way")
    now = ctx.submit("ok", params={"value": "now"}, tags=["child"])
    ctx.submit("ok", on_success=True, params={"value": "later"}, tags=["child"])
    return {
        "child": now,
        "attempt": ctx.attempt,
        "by": ctx.submitted_by,
        "was": ctx.last_checkpoint,
    }


@app.task(max_retries=3)
def parent(ctx, s: float = 0.0):
    ctx.submit("ok", on_success=True)
    time.sleep(s)


@app.task(max_retries=0)
def childless(ctx, path: str):
    ctx.submit("touch", on_success=True, params={"path": path})
    raise ValueError("no success, no child")


@app.task(max_retries=1)
def boom(ctx, text: str = "no"):
    raise ValueError(text)


@app.task(max_retries=3)
def flaky(ctx, path: str, fails: int = 1):
    mark(path)
    if len(Path(path).read_text().split()) <= fails:
        raise ConnectionError("not yet")
    return ctx.attempt


@app.task(max_retries=3, no_retry_for=(LookupError,))
def picky(ctx):
    raise KeyError("never again")


@app.task(max_retries=3)
def odd_result(ctx, kind: str):
    if kind == "object":
        return {"when": object()}
    if kind == "nan":
        return {"ratio": [1.0, float("nan")]}
    return "x" * 300_000


# -- exceptions that are hard to carry


class NeedsTwo(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one}-{two}")


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class SlowText(Exception):
    def __str__(self) -> str:
        time.sleep(600)
        return "never"


class Reducer(Exception):
    def __reduce__(self):
        os._exit(9)


def _recurse(depth: int) -> None:
    _recurse(depth + 1)


def _chained() -> Exception:
    error: Exception = ValueError("first")
    for number in range(1000):
        following = ValueError(f"number {number}")
        following.__cause__ = error
        error = following
    return error


@app.task(max_retries=0, timeout=20)
def odd_error(ctx, kind: str):  # noqa: C901 - a list of cases
    match kind:
        case "two_args":
            raise NeedsTwo("a", "b")
        case "lock":
            raise ValueError(threading.Lock())
        case "str_raises":
            raise BadText
        case "str_sleeps":
            raise SlowText
        case "reduce":
            raise Reducer("plain text")
        case "huge":
            raise ValueError("a" * 50_000_000 + "end")
        case "recursion":
            sys.setrecursionlimit(12_000)
            _recurse(0)
        case "chain":
            raise _chained()
        case "group":
            raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])
        case "emoji":
            raise type("Broken💥", (Exception,), {})("bang")
        case "surrogate":
            raise ValueError("bad \udc80 text \0 nul")
        case "system_exit":
            sys.exit(3)
        case "keyboard":
            raise KeyboardInterrupt
        case "base":
            raise BaseException("from the root")
        case "canceled_error":
            raise asyncio.CancelledError


# -- that must be told, and leave


@app.task(timeout=20, soft_timeout=0.4, max_retries=0)
def polite(ctx, path: str, body: str = "sleep"):
    try:
        if body == "sleep":
            time.sleep(60)
        while True:
            ctx.check()
            time.sleep(0.01)
    except SoftTimeout:
        mark(path, "SoftTimeout")
        raise
    finally:
        mark(path, "cleaned")


@app.task(timeout=20, soft_timeout=0.35, max_retries=0)
def careless(ctx):
    """Swallows every Exception of every step, as people do."""
    for _ in range(20):
        try:
            time.sleep(0.1)
        except Exception:
            logging.getLogger("shop").exception("a step failed")
    return "never told"


@app.task(timeout=20, soft_timeout=0.3, max_retries=0)
def late_but_done(ctx):
    try:
        time.sleep(60)
    except SoftTimeout:
        return "finished after all"


@app.task(max_retries=3)
def wait(ctx, path: str | None = None):
    try:
        while True:
            ctx.check()
            time.sleep(0.01)
    except BaseException as exc:
        if path:
            mark(path, type(exc).__name__)
        raise


@app.task(max_retries=3)
def sleep(ctx, s: float = 600, path: str | None = None, after: str | None = None):
    if path:
        mark(path, "began")
    wait_for(after)
    time.sleep(s)
    if path:
        mark(path, "done")
    return {"slept": s}


@app.task(interrupt=False, max_retries=3)
def flag_only(ctx, path: str):
    while not ctx.canceled:
        time.sleep(0.01)
    mark(path, "saw the flag")
    return "left by itself"


@app.task(max_retries=3)
async def amid(ctx, s: float = 600, path: str | None = None):
    try:
        await asyncio.sleep(s)
    except asyncio.CancelledError:
        if path:
            mark(path, "CancelledError")
        raise
    return "ok"


@app.task(max_retries=1, timeout=20, soft_timeout=10)
async def amid_deaf(ctx, path: str):
    """Swallows every CancelledError."""
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            mark(path, "swallowed")


@app.task(max_retries=1, timeout=20, soft_timeout=10)
def told(ctx, path: str):
    """Says by which of the three it was told to go."""
    try:
        time.sleep(600)
    except (TaskCanceled, SoftTimeout, ShutdownRequested) as exc:
        mark(path, type(exc).__name__)
        raise


@app.task(max_retries=1, timeout=20, soft_timeout=10)
async def atold(ctx, path: str):
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        mark(path, "CancelledError")
        raise


@app.task(max_retries=3)
def resumes(ctx, path: str):
    """Saves a checkpoint when told to stop and says where it begins."""
    mark(path, f"attempt {ctx.attempt} from {ctx.last_checkpoint}")
    if ctx.last_checkpoint:
        return ctx.last_checkpoint
    try:
        time.sleep(600)
    except ShutdownRequested:
        ctx.checkpoint({"page": 7})
        raise


# -- that only a kill ends (none of them retried)


def hopeless(**more: Any) -> dict[str, Any]:
    return {
        "timeout": 1.5,
        "soft_timeout": 0.5,
        "max_retries": 0,
        "heartbeat_interval": 30.0,
        **more,
    }


def no_soft() -> dict[str, Any]:
    return hopeless(interrupt=False)


@app.task(**no_soft())
def spin(ctx):
    while True:
        pass


@app.task(**no_soft())
def nap(ctx):
    time.sleep(600)


@app.task(**no_soft())
def stopped(ctx):
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)


@app.task(**no_soft())
def deaf(ctx):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
    time.sleep(600)


@app.task(**hopeless())
def swallow(ctx, path: str | None = None):
    while True:
        try:
            time.sleep(0.01)
        except BaseException as exc:
            if path:
                mark(path, type(exc).__name__)


@app.task(**no_soft())
def regex(ctx):
    re.match(r"(a+)+$", "a" * 64 + "b")


@app.task(max_retries=0)
def holds_regex(ctx):
    """The interpreter looks at signals here, but no other thread of it ever runs."""
    re.match(r"(a+)+$", "a" * 64 + "b")


@app.task(timeout=60.0, soft_timeout=0.4, max_retries=0)
def holds_regex_too_long(ctx):
    re.match(r"(a+)+$", "a" * 64 + "b")


@app.task(max_retries=0)
def holds_c(ctx):
    while True:
        ctypes.PyDLL(None).usleep(30_000_000)  # PyDLL keeps the GIL


@app.task(**no_soft())
def c_sleep(ctx):
    ctypes.PyDLL(None).sleep(600)  # PyDLL keeps the GIL


@app.task(**hopeless())
def blocks_in_cleanup(ctx):
    try:
        time.sleep(600)
    finally:
        threading.Event().wait()


@app.task(**no_soft())
def silent_peer(ctx):
    """Waits without a limit for a peer that accepts and says nothing."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as line,
    ):
        line.recv(1)


@app.task(**no_soft())
def took_alarm(ctx):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()


@app.task(timeout=30, max_retries=0)
def hopeless_cancel(ctx, path: str | None = None):
    if path:
        mark(path, "began")
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)


@app.task(timeout=30, max_retries=0, heartbeat_interval=0.3, heartbeat_misses=3)
def silent(ctx):
    os.kill(os.getpid(), signal.SIGSTOP)


@app.task(timeout=30, max_retries=0, progress_timeout=0.8)
def stalls(ctx):
    for _ in range(100):
        ctx.progress(10, 100)  # the same value again and again is no progress
        time.sleep(0.1)


@app.task(timeout=30, max_retries=0, progress_timeout=0.8)
def slow_but_sure(ctx):
    for step in range(5):
        ctx.progress(step, 5)
        time.sleep(0.4)
    return "made it"


@app.task(timeout=30, max_retries=0, memory_limit_bytes=150 * 2**20)
def hog(ctx):
    kept = []
    while True:
        kept.append(b"x" * 2**20)
        time.sleep(0.002)


# -- that take their worker with them


@app.task(max_retries=5)
def crash(ctx, how: str = "kill", path: str | None = None):
    if path:
        mark(path, f"attempt {ctx.attempt}")
        if len(Path(path).read_text().splitlines()) > 1:
            return "survived"
    print("last words", flush=True)
    match how:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "term":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        case "cpu":
            os.kill(os.getpid(), signal.SIGXCPU)
        case "exit":
            os._exit(7)
        case "abort":
            os.abort()
        case "null":
            ctypes.string_at(0)
    return "unhurt"


def _eat() -> None:
    kept = []
    while True:
        kept.append(b"x" * 2**22)


@app.task(max_retries=0)
def eats_memory(ctx):
    _eat()


@app.task(max_retries=0)
def feeds_a_child(ctx):
    child = multiprocessing.get_context("fork").Process(target=_eat)
    child.start()
    child.join()
    return child.exitcode


@app.task(max_retries=3)
def runs_out_of_address_space(ctx):
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20, before[1]))
    try:
        return len(bytearray(512 * 2**20))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@app.task(max_retries=0)
def forks_and_returns(ctx):
    """The child returns from the body as if it were the worker; only the parent may report."""
    if os.fork() == 0:
        return "from the child"
    os.wait()
    return "from the parent"


# -- with a family


def _double_fork(path: str) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            write_down(path, os.getpid())
            time.sleep(900)
            os._exit(0)
        os._exit(0)
    os.wait()


def _sleepy(_: int) -> None:
    time.sleep(900)


def _family(path: str) -> int:
    _double_fork(path)
    plain = subprocess.Popen(["sleep", "900"])
    away = subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
    shell = subprocess.Popen("sleep 900 | cat", shell=True, start_new_session=True)
    pool = multiprocessing.get_context("fork").Pool(2)
    pool.map_async(_sleepy, range(2))
    members = [plain.pid, away.pid, shell.pid, *(p.pid for p in pool._pool)]
    write_down(path, *members)
    time.sleep(0.2)
    return len(members) + 1


@app.task(timeout=30, max_retries=0)
def family(ctx, path: str, then: str = "return"):
    size = _family(path)
    mark(f"{path}.ready")
    if then == "return":
        return size
    if then == "hang":
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(0.01)
    time.sleep(600)
    return None


@app.task(max_retries=0)
def pool_sum(ctx):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return sum(pool.map(abs, [-1, -2, -3]))


# -- that print


@app.task(max_retries=0)
def prints(ctx, kind: str, then: str = "fail"):  # noqa: C901 - a list of cases
    logging.getLogger("shop").warning("a log line before")
    match kind:
        case "flood":
            for number in range(400_000):
                print(f"line {number} of a flood that no tail can hold")
        case "no_newline":
            sys.stdout.write("y" * 5_000_000)
        case "bad_bytes":
            os.write(1, b"good \x97\xff bad\n")
        case "truncate":
            print("gone")
            subprocess.run("> /dev/stdout", shell=True, check=True)
            print("after the cut")
        case "child":
            subprocess.run(["echo", "from a child"], check=True)
        case "carriage":
            for number in range(100_000):
                print(number, end="\r")
        case "closed":
            sys.stdout.close()
            os.write(2, b"stderr still works\n")
    logging.getLogger("shop").warning("a log line after")
    if then == "fail":
        raise ValueError("so that its output is kept")
    if then == "wait":
        time.sleep(600)
    return


@app.task(**no_soft())
def litters(ctx):
    """Leaves 10 MB where a killed worker cannot clean up."""
    (Path(tempfile.mkdtemp()) / "large").write_bytes(b"x" * 10_000_000)
    time.sleep(600)


# -- quick ones


@app.task()
def quick(ctx, n: int = 0, path: str | None = None):
    if path:
        mark(path, f"{n} {ctx.attempt} {os.getpid()}")
    return n


@app.task()
def quick_or_slow(ctx, s: float = 0.0, path: str | None = None, until: str | None = None):
    if path:
        mark(path, f"{ctx.task_id} {os.getpid()}")
    time.sleep(s)
    wait_for(until)
    return os.getpid()


@app.task()
def grows(ctx, path: str):
    if os.path.exists(path):
        time.sleep(0.03)


@app.task()
def slow_work(ctx, s: float):
    time.sleep(s)


@app.task()
def draw(ctx):
    time.sleep(0.05)
    return [os.getpid(), random.random()]


def types() -> dict[str, Task]:
    """Return what is registered, for the tests that go through all of it."""
    return dict(app.types)
