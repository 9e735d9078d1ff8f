"""A stuck program as a process: started, waited for, and ended with all that it has started.

Secret kept here: what a program is given (files, addresses, a pipe for its output that nobody
reads) and how its processes are found again: by a mark in their environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from programs.stuck import _freezer
from score.program import Program

FUSE = Path(__file__).parents[1] / "programs" / "stuck" / "_fuse.py"
READY_S = 40.0
GONE_S = 10.0


class NotStuck(Exception):
    """The program has not become what it should be."""


class CannotRun(Exception):
    """This machine does not have what the program needs."""


@dataclass(frozen=True, slots=True)
class Patient:
    """A stuck program; `pid` is the process to examine, which need not be the first one."""

    pid: int
    first: subprocess.Popen[bytes]


@contextmanager
def stuck(
    program: Program, environment: Mapping[str, str], settle_s: float, ends_after_s: float
) -> Iterator[Patient]:
    """Have the program stuck for the time of the block, and for `settle_s` before.

    `ends_after_s` is for programs that end by themselves, where they take that as an argument.
    Raises NotStuck, CannotRun.
    """
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="stuck-") as directory:
        place = Path(directory)
        words = _words(program, ends_after_s)
        first = _start(program, words, place, {**environment, "STUCK_MARK": mark})
        try:
            pid = _ready(program, first, place)
            time.sleep(program.settle_s(settle_s))
            _freeze(program, pid)
            yield Patient(pid, first)
        finally:
            _end(first, mark)


def _words(program: Program, ends_after_s: float) -> list[str]:
    """Return what Python is to run; some programs take something from the command line."""
    own = str(program.path)
    if "sys.argv" not in program.path.read_text():
        return [own]
    if "uninterruptible" in program.expected and "sys.argv[1]" in program.path.read_text():
        return [str(FUSE), own]
    return [own, str(ends_after_s)] if "none.exited" in program.expected else [own]


def _start(
    program: Program, words: list[str], place: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    (place / "tmp").mkdir()
    given = {
        "STUCK_READY": str(place / "ready"),
        "STUCK_TASK_ID": f"task_{program.name}",
        "TMPDIR": str(place / "tmp"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with (place / "errors").open("wb") as errors:
        return subprocess.Popen(
            # Dies with the thread that starts it, whatever becomes of us.
            ["setpriv", "--pdeathsig=KILL", "--", sys.executable, *words],
            env={**os.environ, **environment, **given},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=place,
            start_new_session=True,
        )


def _ready(program: Program, first: subprocess.Popen[bytes], place: Path) -> int:
    """Return the pid that the program has named."""
    deadline = time.monotonic() + READY_S
    while True:
        ended = _has_ended(first.pid)
        words = (place / "ready").read_text().split() if (place / "ready").exists() else []
        if words[:1] == ["CANNOT"]:
            raise CannotRun(" ".join(words[1:]))
        if words[:1] == ["READY"] and len(words) > 1:
            return int(words[1])
        if ended or time.monotonic() > deadline:
            errors = (place / "errors").read_text(errors="replace").strip()
            what = "ended" if ended else f"was not ready after {READY_S:.0f} s"
            raise NotStuck(f"{program.name} {what}: {errors[-1000:]}")
        time.sleep(0.01)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _freeze(program: Program, pid: int) -> None:
    """Freeze a program that is to be found frozen and does not do that itself."""
    if "stopped.frozen" not in program.expected or _freezer.group_of(pid) is not None:
        return
    try:
        _freezer.freeze(pid)
    except _freezer.CannotFreeze as exc:
        raise CannotRun(str(exc)) from exc


def _end(first: subprocess.Popen[bytes], mark: str) -> None:
    """Kill everything that bears the mark; the first process is reaped last, it keeps its pid."""
    deadline = time.monotonic() + GONE_S
    groups: set[Path] = set()
    # Not for its mark: a first process whose main thread has left shows no environment.
    while (alive := {*_marked(mark), *([] if _has_ended(first.pid) else [first.pid])}) and (
        time.monotonic() < deadline
    ):
        for pid in alive:
            _kill(pid)
            if (group := _freezer.group_of(pid)) is not None:
                _freezer.thaw(group)
                groups.add(group)
        time.sleep(0.02)
    assert first.stdout is not None
    first.stdout.close()
    if alive:
        raise NotStuck(f"processes {sorted(alive)} cannot be ended")
    first.wait()
    for group in groups:
        _freezer.remove(group)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _marked(mark: str) -> list[int]:
    """Return the pids of living processes with the mark in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                environment = Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue
            if f"STUCK_MARK={mark}".encode() in environment:
                found.append(int(name))
    return found
