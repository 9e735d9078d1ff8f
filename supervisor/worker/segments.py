"""POSIX shared memory that bears the name of the attempt that made it, so that it can be reclaimed.

Secret kept here: the kernel does not tell who made a segment, but multiprocessing.shared_memory
draws its names from two constants, which are set to the attempt's own name at its start. Only what
is so named is ever removed: by the worker, or by the node when the attempt died.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

SHARED = Path("/dev/shm")  # noqa: S108 - where Linux keeps them, see shm_overview(7)
_MODULE = "multiprocessing.shared_memory"
_TRACKER = "multiprocessing.resource_tracker"
_PREFIX, _LENGTH = "_SHM_NAME_PREFIX", "_SHM_SAFE_NAME_LENGTH"
_TOKEN_CHARACTERS = 16


def prepare() -> None:
    """Load what draws the names, if the app uses multiprocessing at all; before any fork."""
    if "multiprocessing" in sys.modules:
        importlib.import_module(_MODULE)


def prefix_of(task_id: str, attempt: int) -> str:
    """Return how the names of an attempt's segments begin."""
    return f"{task_id}-{attempt}-"


def name_after(prefix: str) -> None:
    """Let segments that are made from here on without a name of their own begin like this."""
    module = sys.modules.get(_MODULE)
    if module is not None and _PREFIX in module.__dict__ and _LENGTH in module.__dict__:
        length = len(prefix) + 1 + _TOKEN_CHARACTERS
        module.__dict__.update({_PREFIX: f"/{prefix}", _LENGTH: length})


def made_by(prefix: str, where: Path = SHARED) -> list[Path]:
    """Return the segments that an attempt made and that still have a name."""
    try:
        return [where / name for name in os.listdir(where) if name.startswith(prefix)]
    except FileNotFoundError:
        return []


def mapped_here() -> frozenset[str]:
    """Return the names of the segments that this process has mapped. Source: proc(5), maps."""
    mark = f" {SHARED}/".encode()
    with open("/proc/self/maps", "rb") as file:  # a name may be of any bytes
        return frozenset(
            os.fsdecode(line.partition(mark)[2].strip().removesuffix(b" (deleted)"))
            for line in file
            if mark in line
        )


def remove(segments: list[Path]) -> None:
    """Take the names away; who has one mapped keeps the memory until it unmaps it."""
    for path in segments:
        path.unlink(missing_ok=True)


def is_tracker(pid: int) -> bool:
    """Say whether a process is the one in which multiprocessing keeps book of such resources.

    Ours is known by number, since it may not have come to its exec yet; one that was started by a
    child of ours by its command line.
    """
    if pid == getattr(_tracker(), "_pid", None):
        return True
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return f"from {_TRACKER} import main".encode() in file.read()
    return False


def _tracker() -> Any:
    return getattr(sys.modules.get(_TRACKER), "_resource_tracker", None)


def forget_tracker() -> None:
    """Forget a tracker that was ended with the attempt, so that the next one starts its own.

    Left in place, it would be found dead and complained of in the next attempt's output.
    """
    tracker = _tracker()
    fd = getattr(tracker, "_fd", None)
    if tracker is not None and fd is not None:
        with suppress(OSError):
            os.close(fd)
        tracker._fd = tracker._pid = None
