"""Whether a process that somebody wrote down is still there, as far as it can be known from here.

Secret kept here: what proves that a process is gone: same boot, same pid namespace, and no process
of this pid and start time. Of another host or container nothing is ever proven. Used by the node
for its predecessors, and by the command line, which tells people of them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from supervisor.model.record import ProcessIdentity
from supervisor.worker import tree


@dataclass(frozen=True, slots=True)
class Place:
    """Where pids mean what they say: one boot of one host, one pid namespace."""

    boot_id: str
    pid_ns: int


def own_place() -> Place:
    """Return where this process is."""
    return Place(
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        pid_ns=Path("/proc/self/ns/pid").stat().st_ino,
    )


def lives(pid: int, start_ticks: int) -> bool:
    """Say whether exactly this process runs here (a defunct one does not)."""
    return tree.is_alive(pid) and tree.start_ticks(pid) == start_ticks


def is_gone(process: ProcessIdentity, here: Place) -> bool:
    """Say whether a process is proven to be over; False also where nothing can be known."""
    if (process.boot_id, process.pid_ns) != (here.boot_id, here.pid_ns):
        return False
    if tree.stat_fields(process.pid) is None and _is_hidden(process.pid):
        return False
    return not lives(process.pid, process.start_ticks)


def _is_hidden(pid: int) -> bool:
    """Say whether a pid without an entry in /proc exists (mounted with hidepid, see proc(5))."""
    try:
        os.close(os.pidfd_open(pid))
    except OSError:
        return False
    return True
