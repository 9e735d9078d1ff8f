"""What an attempt may have changed of its process, and putting it back before the next one.

Secret kept here: which parts of a process outlive a body (children, signal handlers and masks,
timers, descriptors 1 and 2, working directory, umask, scratch files) and what they were at first.
The environment is not restored: a task that changes it changes it for the next ones.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autopsy.signals import INTERRUPT
from supervisor.worker import tree

#: Signals whose handlers a body may have changed.
_WATCHED = (
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
    signal.SIGPIPE,
    INTERRUPT,
)
_WATCHED_NUMBERS = tuple(map(int, _WATCHED))
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
#: signal.getsignal without its round trip through an enum: this runs ten times per attempt.
_handler_of = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
#: What is left behind is counted after attempts that ran this long, and after every so many others:
#: it takes longer than many a body.
COUNT_AFTER_S, COUNT_EVERY = 0.05, 16


@dataclass(frozen=True, slots=True)
class Left:
    """What an attempt left behind: children that were ended, descriptors and threads that stay."""

    killed_children: int
    fds: int
    threads: int


NOTHING = Left(0, 0, 0)


class Surroundings:
    """The process as it was before the first body."""

    def __init__(self, output_fd: int, temp_dir: Path) -> None:
        self._output_fd = output_fd
        self._output = _identity(output_fd)
        self._temp_dir = temp_dir
        temp_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._pid = os.getpid()
        self._cwd = os.getcwd()  # noqa: PTH109 - on the hot path
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._handlers = {number: _handler_of(number) for number in _WATCHED_NUMBERS}
        self._threads = threading.active_count()
        self._fds = _open_fds()
        self._uncounted = 0

    def restore(self, ran_s: float) -> Left:
        """Put everything back after a body that ran that long, and say what was left behind."""
        killed = 0
        if tree.has_children():
            killed = tree.kill_descendants(self._pid)
            tree.reap_all()
        self._restore_signals()
        self._restore_output()
        os.umask(self._umask)
        self._restore_place()
        self._uncounted += 1
        if not killed and ran_s < COUNT_AFTER_S and self._uncounted < COUNT_EVERY:
            return NOTHING
        self._uncounted = 0
        return self._left(killed)

    def _restore_place(self) -> None:
        try:
            moved = os.getcwd() != self._cwd  # noqa: PTH109
        except FileNotFoundError:
            moved = True
        if moved:
            os.chdir(self._cwd)
        self._empty_temp_dir()

    def _left(self, killed: int) -> Left:
        before, self._fds = self._fds, _open_fds()
        return Left(
            killed_children=killed,
            fds=max(0, self._fds - before),
            threads=max(0, threading.active_count() - self._threads),
        )

    def _restore_signals(self) -> None:
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        for number, handler in self._handlers.items():
            if _handler_of(number) != handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _restore_output(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a body may have closed it, or put anything in its place
                stream.flush()
        intact = all(_identity(number) == self._output for number in (1, 2))
        if not intact or sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
            attach_output(self._output_fd)
        elif any(stream is None or stream.closed for stream in (sys.stdout, sys.stderr)):
            open_streams()

    def _empty_temp_dir(self) -> None:
        try:
            used = bool(os.listdir(self._temp_dir))
        except (FileNotFoundError, NotADirectoryError):
            self._temp_dir.unlink(missing_ok=True)
            used = True
        if used:
            shutil.rmtree(self._temp_dir, ignore_errors=True)
            self._temp_dir.mkdir(mode=0o700, parents=True, exist_ok=True)


def attach_output(output_fd: int) -> None:
    """Point stdout and stderr at the node's memory file, so that writing can never block."""
    redirect_output(output_fd)
    open_streams()


def redirect_output(output_fd: int) -> None:
    """Let the streams that are open write to this descriptor from now on."""
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)


def detach_input() -> None:
    """Give bodies an empty stdin."""
    null = os.open(os.devnull, os.O_RDONLY)
    if null != 0:
        os.dup2(null, 0)
        os.close(null)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - lives as long as the process


def open_streams() -> None:
    """Make fresh text streams over descriptors 1 and 2: by line, and no byte is ever refused."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        text = open(number, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))
