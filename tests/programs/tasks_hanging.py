"""Every way to hang, each with a family below it that would outlive it: none of it ends by itself.

`kin` names the file in which the family writes itself down, one `pid start-ticks` a line.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from supervisor import App

app = App()
HOUR: dict[str, Any] = {"timeout": 3600.0, "soft_timeout": 3500.0, "max_retries": 0}
#: Daemon, process of another session, child of multiprocessing, two programs.
FAMILY_SIZE = 5


def _write_down(kin: str, pid: int) -> None:
    text = Path(f"/proc/{pid}/stat").read_text()
    line = f"{pid} {text[text.rindex(')') + 2 :].split()[19]}\n"
    fd = os.open(kin, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def _outlast(kin: str) -> NoReturn:
    """Stay, whatever polite signal comes."""
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _write_down(kin, os.getpid())
    time.sleep(900)
    os._exit(0)


def family(kin: str) -> None:
    """Make five descendants that do not die with their parent, and see that they are there."""
    middle = os.fork()
    if middle == 0:  # a daemon: forked twice, in a session of its own
        os.setsid()
        if os.fork() == 0:
            _outlast(kin)
        os._exit(0)
    os.waitpid(middle, 0)
    if os.fork() == 0:
        os.setsid()
        _outlast(kin)
    multiprocessing.get_context("fork").Process(target=_outlast, args=(kin,)).start()
    _write_down(kin, subprocess.Popen(["sleep", "900"], start_new_session=True).pid)
    _write_down(kin, subprocess.Popen(["sleep", "900"], env={}).pid)  # without our marks
    while Path(kin).read_text().count("\n") < FAMILY_SIZE:
        time.sleep(0.005)


@app.task(interrupt=False, **HOUR)
def spin(ctx, kin: str):
    family(kin)
    while True:
        pass


@app.task(interrupt=False, **HOUR)
def nap(ctx, kin: str):
    family(kin)
    time.sleep(600)


@app.task(interrupt=False, **HOUR)
def c_sleep(ctx, kin: str):
    """A call into C that holds the GIL."""
    family(kin)
    ctypes.PyDLL(None).sleep(600)


@app.task(interrupt=False, **HOUR)
def silent_peer(ctx, kin: str):
    """A call into C that does not, and waits for somebody who says nothing."""
    family(kin)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as line,
    ):
        line.recv(1)


@app.task(interrupt=False, **HOUR)
def stopped(ctx, kin: str):
    family(kin)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)


@app.task(interrupt=False, **HOUR)
def deaf(ctx, kin: str):
    family(kin)
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
    time.sleep(600)


@app.task(interrupt=False, **HOUR)
def took_alarm(ctx, kin: str):
    family(kin)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()


@app.task(**HOUR)
def swallow(ctx, kin: str):
    """Interrupts do reach it; they are of no use."""
    family(kin)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)


# -- beside the hanging


@app.task(timeout=60, max_retries=0)
def as_other_user(ctx, path: str, then: str):
    """One child of our own and one of another user, as by sudo."""
    other = ["setpriv", "--reuid=65534", "--clear-groups", "sleep", "900"]
    for command in (["sleep", "900"], other):
        child = subprocess.Popen(command)
        while Path(f"/proc/{child.pid}/comm").read_text() != "sleep\n":
            time.sleep(0.005)
        _write_down(path, child.pid)
    while then == "hang":
        with contextlib.suppress(BaseException):
            time.sleep(0.01)


@app.task()
def ok(ctx):
    return None


#: type → what it does
HANGS = {
    "spin": "a loop in Python",
    "nap": "time.sleep",
    "c_sleep": "a C call that holds the GIL",
    "silent_peer": "a C call that does not",
    "stopped": "SIGSTOP",
    "deaf": "every signal blocked",
    "took_alarm": "SIGALRM and SIGTERM ignored",
    "swallow": "except BaseException: pass",
}
