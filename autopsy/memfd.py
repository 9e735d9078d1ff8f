"""The names under which a patient's shared memory is found in /proc/PID/fd, and its creation.

Invariant: a name here is a contract between the creator (a supervisor), the patient and the
collectors. Light: imported inside the patient.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass

LOG_RING = "autopsy-log"
OUTPUT = "autopsy-out"
DUMP = "autopsy-dump"
STACK_RING = "autopsy-stacks"


@dataclass(frozen=True, slots=True)
class Kept:
    """Paths at which somebody else keeps the patient's shared memory open.

    They are read instead of the patient's own descriptors (`/proc/<supervisor>/fd/<n>`): the way to
    the last words of a process that has ended, or that we may not look into. What the patient said
    for earlier tasks is no evidence of this one: output before `output_start` (bytes), log records
    and samples from before `begun_at` (Unix seconds) are left out.
    """

    log_ring: str | None = None
    output: str | None = None
    dump: str | None = None
    output_start: int = 0
    begun_at: float = 0.0
    stack_ring: str | None = None


def create_appended(name: str) -> int:
    """Create an empty memfd that every writer appends to, and return its descriptor (CLOEXEC)."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    # Two writers of one open file description must not overwrite each other.
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    return fd


def create_sealed(name: str, size_bytes: int) -> int:
    """Create a memfd whose size nobody can change any more, and return its descriptor (CLOEXEC).

    Without the seals an ftruncate in the patient would be a SIGBUS for whoever maps it.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size_bytes)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd
