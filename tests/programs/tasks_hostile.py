"""Bodies that do to their process what no body should; the next task must not notice."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from autopsy.signals import INTERRUPT
from supervisor import App

app = App()
LEFT: list[Any] = []


@app.task
def look(ctx: Any) -> dict[str, Any]:
    """Say what the process looks like to a task."""
    mask = os.umask(0o022)
    os.umask(mask)
    print("seen")
    return {
        "cwd": os.getcwd(),
        "umask": mask,
        "timers": [signal.getitimer(t)[0] for t in (0, 1, 2)],
        "term": str(signal.getsignal(signal.SIGTERM)),
        "pid": os.getpid(),
    }


@app.task(max_retries=0)
def close_output(ctx: Any) -> int:
    os.close(1)
    os.close(2)
    return os.getpid()


@app.task(max_retries=0)
def change_all(ctx: Any) -> int:
    os.chdir("/")
    os.umask(0o777)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGPROF, lambda *_: None)
    signal.setitimer(signal.ITIMER_PROF, 30)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    return os.getpid()


def _alarmed(*_: object) -> None:
    raise RuntimeError("alarm")


@app.task(max_retries=0)
def leave_an_alarm(ctx: Any) -> list[int]:
    """Let a timer go off while the worker reads the result."""
    result = [0] * 100_000
    signal.signal(signal.SIGALRM, _alarmed)
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    return result


@app.task(max_retries=0)
def leave_alarms(ctx: Any) -> int:
    """Let a timer go off all the time; its handler may raise in the body too."""
    pid = os.getpid()
    signal.signal(signal.SIGALRM, _alarmed)
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    return pid


@app.task(max_retries=0)
def leave_a_blocked_alarm(ctx: Any) -> int:
    signal.signal(signal.SIGALRM, _alarmed)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, 0.0001)
    while signal.SIGALRM not in signal.sigpending():
        time.sleep(0.001)
    return os.getpid()


@app.task(max_retries=0)
def break_the_worker(ctx: Any) -> None:
    """Break a part of the worker that it needs when the body is over."""

    def broken(*_: object) -> None:
        raise TypeError("broken \udcff")

    sys.modules["supervisor.worker.main"].Worker._report = broken  # type: ignore[attr-defined]


@app.task(max_retries=0)
def let_the_signal_kill(ctx: Any) -> None:
    """Take away the handler of the signal that tells a body."""
    signal.signal(INTERRUPT, signal.SIG_DFL)
    while True:
        time.sleep(0.01)


@app.task(max_retries=0)
def use_up_descriptors(ctx: Any) -> str:
    soft = len(os.listdir("/proc/self/fd")) + 8
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    try:
        while True:
            LEFT.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return "all used"


@app.task(max_retries=0)
def replace_scratch(ctx: Any) -> str:
    ctx.tempdir.rmdir()
    ctx.tempdir.write_text("not a directory")
    return "replaced"


@app.task(max_retries=0)
def leave_a_thread(ctx: Any, until: str, told: str) -> str:
    def go_on() -> None:
        while not Path(until).exists():
            time.sleep(0.01)
        for act in (lambda: ctx.checkpoint({"owner": "left"}), lambda: ctx.submit("look")):
            try:
                act()
            except Exception as exc:
                with open(told, "a") as file:
                    file.write(f"{type(exc).__name__}\n")

    threading.Thread(target=go_on, daemon=True).start()
    return "left"


@app.task(max_retries=0)
def wait_for_thread(ctx: Any, begun: str, told: str) -> Any:
    Path(begun).touch()
    while not Path(told).exists() or Path(told).read_text().count("\n") < 2:
        ctx.check()
        time.sleep(0.01)
    return {"last": ctx.last_checkpoint}


@app.task(max_retries=0)
def check_in_a_thread(ctx: Any) -> None:
    def ask() -> None:
        while not ctx.canceled:
            time.sleep(0.005)
        try:
            ctx.check()
        except BaseException:
            time.sleep(0.01)

    threading.Thread(target=ask, daemon=True).start()
    time.sleep(60)


@app.task(max_retries=0)
def submit_too_much(ctx: Any, how: str) -> str:
    try:
        if how == "one":
            ctx.submit("look", params={"x": "y" * 9_000_000})
        else:
            for _ in range(100):
                ctx.submit("look", on_success=True, params={"x": "y" * 100_000})
    except Exception as exc:
        return type(exc).__name__
    return "sent"


@app.task(max_retries=0)
def say_and_fail(ctx: Any, word: str) -> None:
    print(word)
    raise ValueError(word)
