"""Freezing a process by its control group, version 1 or 2, whichever the machine has."""

from __future__ import annotations

import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class CannotFreeze(Exception):
    """There is no freezer, or we may not make a group in it."""


def freeze(pid: int) -> Path:
    """Put the process into a group of its own and freeze it; return the group.

    Raises CannotFreeze.
    """
    try:
        group = _parent() / f"stuck-{pid}"
        group.mkdir()
        (group / "cgroup.procs").write_text(str(pid))
        _set(group, frozen=True)
        deadline = time.monotonic() + 5
        while not _is_frozen(group):
            if time.monotonic() > deadline:
                raise CannotFreeze("the group does not freeze")
            time.sleep(0.01)
    except OSError as exc:
        raise CannotFreeze(str(exc)) from exc
    return group


def group_of(pid: int) -> Path | None:
    """Return the group that `freeze` has made for this process, None if there is none."""
    try:
        group = _parent() / f"stuck-{pid}"
    except CannotFreeze:
        return None
    return group if group.exists() else None


def thaw(group: Path) -> None:
    """Let its processes run again (or die, if they have been killed meanwhile)."""
    _set(group, frozen=False)


def remove(group: Path) -> None:
    """Remove the group, and groups in it, as soon as their processes have left."""
    deadline = time.monotonic() + 5
    while group.exists():
        try:
            for inner in group.glob("*/"):
                inner.rmdir()
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _parent() -> Path:
    if (ROOT / "freezer").is_dir():
        return ROOT / "freezer"
    for root in (ROOT, ROOT / "unified"):
        if (root / "cgroup.controllers").exists():
            return root
    raise CannotFreeze("no control groups")


def _set(group: Path, *, frozen: bool) -> None:
    if (group / "freezer.state").exists():
        (group / "freezer.state").write_text("FROZEN" if frozen else "THAWED")
    else:
        (group / "cgroup.freeze").write_text("1" if frozen else "0")


def _is_frozen(group: Path) -> bool:
    if (group / "freezer.state").exists():
        return (group / "freezer.state").read_text().strip() == "FROZEN"
    return "frozen 1" in (group / "cgroup.events").read_text()
