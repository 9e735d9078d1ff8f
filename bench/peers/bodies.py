"""The functions that every queue runs. Each takes one argument, `what`, and reports by itself.

`counted` gets 8 bytes for each no-op, so that its size is the count; `events` gets one line for
each event. Both are opened for appending: no queue is asked what it has done.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache

from bench.peers import paths

COUNTED, EVENTS = "counted", "events"
Body = Callable[[str], str]


@cache
def _appending(name: str, _pid: int) -> int:
    return os.open(paths.folder() / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def tell(event: str, what: str) -> None:
    """Write one line: event, what, this process, monotonic nanoseconds."""
    line = f"{event} {what} {os.getpid()} {time.monotonic_ns()}\n"
    os.write(_appending(EVENTS, os.getpid()), line.encode())


def noop(what: str) -> str:
    """Count, and nothing else."""
    os.write(_appending(COUNTED, os.getpid()), b"%7.7s\n" % what.encode())
    return what


def stamp(what: str) -> str:
    """Say when the first line ran."""
    tell("began", what)
    return what


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    tell("began", what)
    try:
        yield
    finally:
        tell("left", what)


def nap(what: str) -> str:
    """Sleep for four seconds; begins and ends are told."""
    tell("began", what)
    time.sleep(4)
    tell("done", what)
    return what


def _spin() -> None:
    turns = 0
    while True:
        turns += 1


def busy(what: str) -> str:
    """A loop in Python."""
    with _told(what):
        _spin()
    return what


def stubborn(what: str) -> str:
    """The same loop, begun anew after whatever is an Exception."""
    with _told(what):
        while True:
            with contextlib.suppress(Exception):
                _spin()


def deaf(what: str) -> str:
    """The same loop, begun anew after anything that can be raised."""
    with _told(what):
        while True:
            with contextlib.suppress(BaseException):
                _spin()


def sleep(what: str) -> str:
    """A system call of ten minutes, without the GIL."""
    with _told(what):
        time.sleep(600)
    return what


def regex(what: str) -> str:
    """A match that backtracks for ages, holding the GIL; the engine looks at signals at times."""
    with _told(what):
        re.match(r"(a+)+$", "a" * 64 + "b")
    return what


def ccall(what: str) -> str:
    """A loop in C that holds the GIL and never looks at signals."""
    with _told(what):
        return str(-1 in itertools.count())


def grandchild(what: str) -> str:
    """Start a program of ten minutes and wait for it."""
    child = subprocess.Popen(["sleep", "600"])
    tell(f"child={child.pid}", what)
    with _told(what):
        child.wait()
    return what


HANGING = (busy, stubborn, deaf, sleep, regex, ccall)
BODIES: dict[str, Body] = {body.__name__: body for body in (noop, stamp, nap, grandchild, *HANGING)}
