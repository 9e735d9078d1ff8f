"""Finding and ending the descendants of a process, by what the kernel says now.

Secret kept here: how a tree is walked (/proc/PID/task/*/children) and how a pid is pinned while it
is signalled (pidfd), so that a reused number is never hit. Used by the worker for what an attempt
leaves behind, and by the node for what it must end. Linux only.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

#: Rounds of walk-and-kill before giving up on processes that fork faster than we look.
MAX_ROUNDS = 20

_GONE = (FileNotFoundError, ProcessLookupError)


def start_ticks(pid: int) -> int | None:
    """Return field 22 of /proc/PID/stat (start time in clock ticks), None if it is gone."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the command, field 3 (state) first; None if gone.

    Source: proc(5). The command may hold spaces and parentheses, so the split starts behind it.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except _GONE:
        return None
    return text[text.rindex(b")") + 2 :].decode("ascii", "replace").split()


def is_alive(pid: int) -> bool:
    """Say whether the pid names a process that still runs (a defunct one does not)."""
    fields = stat_fields(pid)
    return fields is not None and fields[0] not in ("Z", "X")


def command(pid: int) -> str:
    """Return the short name of a process, empty if it is gone."""
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except _GONE:
        return ""


def children(pid: int) -> list[int]:
    """Return the direct children of all threads of a process, defunct ones included."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except _GONE:
        return found
    for thread in threads:
        with suppress(*_GONE), open(f"/proc/{pid}/task/{thread}/children") as file:
            found += [int(child) for child in file.read().split()]
    return found


def descendants(pid: int) -> list[int]:
    """Return every process below this one, nearest first, without the process itself."""
    found: list[int] = []
    todo = [pid]
    while todo:
        new = [child for child in children(todo.pop(0)) if child not in found]
        found += new
        todo += new
    return found


def send_signal(pid: int, number: int, *, born: int | None = None) -> bool:
    """Signal exactly this process; False if it is gone, another one by now (`born`), or not ours.

    A process that runs as another user (sudo) may be beyond us: nothing else must wait for it.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except (ProcessLookupError, OSError):
        return False
    try:
        if born is not None and start_ticks(pid) != born:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(pidfd)
    return True


def kill_descendants(pid: int) -> int:
    """SIGKILL everything below a process until a walk finds nothing alive; return how many.

    The process itself should be stopped or be the caller, else it may go on forking. What we may
    not signal is left.
    """
    killed: set[int] = set()
    refused: set[int] = set()
    for _ in range(MAX_ROUNDS):
        alive = [child for child in descendants(pid) if child not in refused and is_alive(child)]
        if not alive:
            break
        for child in alive:
            (killed if send_signal(child, signal.SIGKILL) else refused).add(child)
    return len(killed)


def has_children() -> bool:
    """Say whether the calling process has any child, running or defunct (one system call)."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def reap_all() -> None:
    """Collect every child of the calling process that has ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
