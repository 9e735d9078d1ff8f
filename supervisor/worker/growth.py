"""What a worker has more of than at the last look: descriptors, threads, shared memory.

Secret kept here: where the kernel lists them, and what is ours. It is growth, not guilt: the first
use of a library may open something that stays for good, so names are told with the counts.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass

from supervisor.model.outcome import printable
from supervisor.worker import segments

#: Names told of one look, and how long one may be.
NAMES_MAX, NAME_MAX = 20, 160
#: Descriptors of one look whose target is read.
TARGETS_MAX = 256
#: One read gives at most this much of the kernel's list: some five hundred segments.
_SYSTEMV_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Grown:
    """What is new since the last look; `names` holds a printable line for each, up to a limit.

    Descriptors of one target share a line.
    """

    fds: int
    threads: int
    segments: int
    names: tuple[str, ...]


class Growth:
    """Compares a process with itself; `fds` and `threads` are more than at first, if positive."""

    def __init__(self) -> None:
        self._fds, self._threads = _fds(), _threads()
        self._first = len(self._fds), len(self._threads)
        self.fds = self.threads = 0
        self._shared = _shared()
        self._systemv: frozenset[str] = frozenset(_systemv())
        self._active = threading.active_count()

    def shows(self) -> bool:
        """Say whether a look is worth its time: by the number of descriptors and Python threads.

        A tenth of the cost of a look; memory and native threads do not show here.
        """
        listed = len(os.listdir("/proc/self/fd"))  # the descriptor that lists them among them
        return listed - 1 != len(self._fds) or threading.active_count() != self._active

    def look(self, prefix: str) -> Grown:
        """Look again; segments that begin with `prefix` are ours for sure."""
        fds, self._fds = self._fds, _fds()
        threads, self._threads = self._threads, _threads()
        self.fds, self.threads = (
            len(now) - first
            for now, first in zip((self._fds, self._threads), self._first, strict=True)
        )
        self._active = threading.active_count()
        new_fds = sorted(self._fds - fds, key=int) if len(self._fds) > len(fds) else []
        new_threads = self._threads - threads if len(self._threads) > len(threads) else ()
        new_segments = self._new_segments(prefix)
        names = (
            *_grouped([int(number) for number in new_fds]),
            *(f"thread {name}" for name in _names(new_threads)),
            *(f"shared memory {name}" for name in new_segments),
        )
        return Grown(
            fds=max(0, len(self._fds) - len(fds)),
            threads=max(0, len(self._threads) - len(threads)),
            segments=len(new_segments),
            names=tuple(printable(name)[:NAME_MAX] for name in names[:NAMES_MAX]),
        )

    def _new_segments(self, prefix: str) -> list[str]:
        before, self._shared = self._shared, _shared()
        new = self._shared - before
        found = []
        if new:  # anybody may have made them: ours are those with our name, and those we map
            mapped = segments.mapped_here()
            found = sorted(name for name in new if name.startswith(prefix) or name in mapped)
        systemv = _systemv()
        found += [f"{key} ({systemv[key]})" for key in systemv.keys() - self._systemv]
        self._systemv = frozenset(systemv)
        return found


def _fds() -> frozenset[str]:
    """Return the numbers of all descriptors; the one that lists them is closed by then."""
    return frozenset(number for number in os.listdir("/proc/self/fd") if _is_open(int(number)))


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _grouped(numbers: list[int]) -> list[str]:
    """Name descriptors by their targets: `fd 4 → pipe:[7]`, `12 × /etc/hostname (fd 5, 11–21)`."""
    by_target: dict[str, list[int]] = {}
    for number in numbers[:TARGETS_MAX]:
        by_target.setdefault(_target(number), []).append(number)
    names = [
        f"fd {of[0]} → {target}" if len(of) == 1 else f"{len(of)} × {target} (fd {_runs(of)})"
        for target, of in by_target.items()
    ]
    more = len(numbers) - TARGETS_MAX
    return [*names, f"{more} more descriptors"] if more > 0 else names


def _runs(numbers: list[int]) -> str:
    """Write ascending numbers with their runs drawn together: 5, 11–21."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)


def _target(number: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return "closed meanwhile"


def _threads() -> frozenset[str]:
    """Return the numbers of all threads, Python's own and others."""
    return frozenset(os.listdir("/proc/self/task"))


def _names(threads: frozenset[str] | tuple[()]) -> list[str]:
    known = {str(thread.native_id): thread.name for thread in threading.enumerate()}
    return sorted(known.get(number) or f"{number} ({_command(number)})" for number in threads)


def _command(thread: str) -> str:
    with suppress(OSError), open(f"/proc/self/task/{thread}/comm", "rb") as file:
        return f"native, {os.fsdecode(file.read().strip())}"
    return "gone meanwhile"


def _shared() -> frozenset[str]:
    with suppress(FileNotFoundError):
        return frozenset(os.listdir(segments.SHARED))
    return frozenset()


def _systemv() -> dict[str, str]:
    """Return the System V segments that this process made, with their sizes.

    Source: /proc/sysvipc/shm; columns key shmid perms size cpid …
    """
    try:
        fd = os.open("/proc/sysvipc/shm", os.O_RDONLY)  # open() takes four times as long
    except OSError:
        return {}
    try:
        rows = [line.split() for line in os.read(fd, _SYSTEMV_BYTES).decode().splitlines()[1:]]
    finally:
        os.close(fd)
    own = [str(os.getpid())]
    return {f"System V {row[1]}": f"{row[3]} bytes" for row in rows if row[4:5] == own}
