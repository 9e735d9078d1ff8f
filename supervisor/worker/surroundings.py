"""What an attempt may have changed of its process, and putting it back before the next one.

Secret kept here: which parts of a process outlive a body (children, signal handlers and masks,
timers, descriptors 1 and 2, working directory, umask, scratch files) and what they were at first.
The environment is not restored: a task that changes it changes it for the next ones.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

from autopsy.signals import INTERRUPT
from supervisor.model.outcome import printable
from supervisor.worker import segments, tree
from supervisor.worker.growth import NAMES_MAX, Growth
from supervisor.worker.session import Nameplate
from supervisor.worker.wire import LeftBehind

_log = logging.getLogger("supervisor.worker")
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
_TIMER_SIGNALS = frozenset({signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF})
#: signal.getsignal and pthread_sigmask without their round trip through an enum: they run up to ten
#: times per attempt.
_handler_of = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
_mask = getattr(sys.modules.get("_signal"), "pthread_sigmask", signal.pthread_sigmask)
#: A handler of a body can raise once for each signal that had come before its timer was stopped.
QUIET_TRIES = 10
#: What is left behind is counted after attempts that ran this long, and after every so many others:
#: it takes longer than many a body.
COUNT_AFTER_S, COUNT_EVERY = 0.05, 16


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
        self._growth = Growth()
        self._uncounted = 0
        self._prefix = ""
        self._nameplate = Nameplate(f"supervisor/{os.environ.get('SUPERVISOR_WORKER', self._pid)}")

    def begin(self, task_id: str, attempt: int) -> None:
        """An attempt begins: shared memory and connections that it makes bear its name."""
        self._prefix = segments.prefix_of(task_id, attempt)
        segments.name_after(self._prefix)
        self._nameplate.show(task_id, attempt)

    def quiet(self) -> None:
        """Stop the timers and take back the handlers of a body that is over, before all else.

        What a handler of its own raises meanwhile is no part of its ending, and is logged.
        Raises: whatever such a handler raises when it does so again and again.
        """
        late: BaseException | None = None
        for tries in range(1, QUIET_TRIES + 1):
            try:
                for timer in _TIMERS:
                    signal.setitimer(timer, 0)
                for number, handler in self._handlers.items():
                    if _handler_of(number) != handler:
                        signal.signal(number, handler)
                break
            except BaseException as exc:
                late = exc
                if tries == QUIET_TRIES:
                    raise
        if late is not None:
            name = type(late).__name__
            _log.warning("a signal handler of the body raised %s after the body's end", name)

    def restore(self, ran_s: float, *, returned: bool, leaving: bool) -> LeftBehind | None:
        """Put everything back after a body that ran that long; say what was left behind, if any.

        The shared memory of one that did not return a value is removed; a worker that goes on
        (`leaving` False) keeps what it has mapped.
        """
        self._nameplate.take_down()
        ended = self._end_children() if (forked := tree.has_children()) else []
        self._unblock_signals()
        self._restore_output()
        os.umask(self._umask)
        files = self._restore_place()
        if not returned:
            self._reclaim_segments(leaving=leaving)
        self._uncounted += 1
        if forked or ran_s >= COUNT_AFTER_S or self._is_worth_a_look():
            return self._left(ended, files)
        return LeftBehind(files=files, attempts=self._uncounted) if files else None

    def _is_worth_a_look(self) -> bool:
        if self._uncounted < COUNT_EVERY:
            return False
        if self._growth.shows() or segments.made_by(self._prefix):
            return True
        self._uncounted = 0
        return False

    def worn_out(self, most_fds: int, most_threads: int) -> str:
        """Say why the process has grown too much to go on, as far as the last look knows."""
        growth = self._growth
        if growth.fds > most_fds:
            return f"{growth.fds} descriptors more than at its birth"
        if growth.threads > most_threads:
            return f"{growth.threads} threads more than at its birth"
        return ""

    def _end_children(self) -> list[str]:
        """End all below this process; return what they were, the tracker of resources apart."""
        below = [pid for pid in tree.descendants(self._pid) if tree.is_alive(pid)]
        trackers = [pid for pid in below if segments.is_tracker(pid)]
        ended = [
            f"process {pid} ({printable(tree.command(pid))}), ended"
            for pid in below
            if pid not in trackers
        ]
        killed = tree.kill_descendants(self._pid)
        tree.reap_all()
        if trackers:
            segments.forget_tracker()
        return ended + ["process that was born meanwhile, ended"] * (killed - len(below))

    def _reclaim_segments(self, *, leaving: bool) -> None:
        made = segments.made_by(self._prefix)
        if made:
            kept = frozenset() if leaving else segments.mapped_here()
            segments.remove([path for path in made if path.name not in kept])

    def _left(self, ended: list[str], files: int) -> LeftBehind | None:
        attempts, self._uncounted = self._uncounted, 0
        grown = self._growth.look(self._prefix)
        left = LeftBehind(
            fds=grown.fds,
            threads=grown.threads,
            segments=grown.segments,
            children=len(ended),
            files=files,
            attempts=attempts,
            names=(*ended, *grown.names)[:NAMES_MAX],
        )
        return left if left.names or files else None

    def _restore_place(self) -> int:
        """Go back to where it began; return how much of its scratch space had to be cleared."""
        try:
            moved = os.getcwd() != self._cwd  # noqa: PTH109
        except FileNotFoundError:
            moved = True
        if moved:
            os.chdir(self._cwd)
        return self._empty_temp_dir()

    def _unblock_signals(self) -> None:
        if not _mask(signal.SIG_BLOCK, ()):
            return
        for number in signal.sigpending() & _TIMER_SIGNALS:  # of a timer that is no more
            signal.signal(number, signal.SIG_IGN)  # which takes the pending one away
            signal.signal(number, self._handlers[number])
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

    def _empty_temp_dir(self) -> int:
        try:
            entries = len(os.listdir(self._temp_dir))
        except (FileNotFoundError, NotADirectoryError):
            self._temp_dir.unlink(missing_ok=True)
            entries = 1
        if entries:
            shutil.rmtree(self._temp_dir, ignore_errors=True)
            self._temp_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return entries


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
