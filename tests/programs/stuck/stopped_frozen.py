"""DIAGNOSIS stopped.frozen: its control group is frozen; the process looks as if it slept."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import _freezer
from _stage import beside, cannot, outlive_parent, ready

KILL_PENDING = 1 << 8


def freeze_parent(tell: Callable[[str], None]) -> None:
    """Freeze it a moment later, and thaw it when it is to be killed: frozen, it cannot die."""
    parent = os.getppid()
    tell("")
    time.sleep(0.1)
    try:
        group = _freezer.freeze(parent)
    except _freezer.CannotFreeze as exc:
        cannot(str(exc))
    outlive_parent()
    while not _is_doomed(parent):
        time.sleep(0.05)
    _freezer.thaw(group)
    _freezer.remove(group)


def _is_doomed(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True
    pending = [line.split()[1] for line in status.splitlines() if "Pnd:" in line]
    return any(int(mask, 16) & KILL_PENDING for mask in pending)


beside(freeze_parent)
ready()
while True:
    time.sleep(0.03)
