"""Which bundles a directory holds and which are old or too many.

Invariant: only files directly in the directory are ever touched: those named `*.zip.partial`, and
of those named `*.zip` the ones that begin as a bundle does. The zip files of others are not ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from autopsy import clock
from autopsy.bundle import PARTIAL

_PATTERNS = ("*.zip", f"*.zip{PARTIAL}")
# How a zip file begins, what follows up to the name of its first member, and that of a bundle's.
_ZIP, _NAME_AT, _FIRST = b"PK\x03\x04", 30, (b"sections/", b"report.txt")


@dataclass(frozen=True, slots=True)
class Listed:
    """A bundle in a directory; one that was never finished is not `complete`."""

    path: Path
    size_bytes: int
    written_at: datetime
    complete: bool


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a pruning removed and what it left."""

    removed: tuple[Listed, ...]
    kept: tuple[Listed, ...]

    @property
    def freed_bytes(self) -> int:
        return sum(one.size_bytes for one in self.removed)


def list_bundles(directory: Path) -> list[Listed]:
    """Return the bundles of a directory, newest first, unfinished ones included.

    A directory that does not exist holds none.
    """
    found = [_listed(path) for pattern in _PATTERNS for path in directory.glob(pattern)]
    present = [one for one in found if one is not None]
    return sorted(present, key=lambda one: (one.written_at, one.path.name), reverse=True)


def prune(directory: Path, keep_days: float, keep_bytes: int) -> Pruned:
    """Remove bundles older than `keep_days`, and the oldest beyond `keep_bytes` in all."""
    oldest = clock.now() - timedelta(days=keep_days)
    bundles = [one for one in list_bundles(directory) if _is_bundle(one)]
    kept, removed = _divided(bundles, oldest, keep_bytes)
    for one in removed:
        one.path.unlink(missing_ok=True)
    return Pruned(tuple(removed), tuple(kept))


def _divided(
    bundles: Iterable[Listed], oldest: datetime, keep_bytes: int
) -> tuple[list[Listed], list[Listed]]:
    kept: list[Listed] = []
    removed: list[Listed] = []
    total = 0
    for one in bundles:
        total += one.size_bytes
        (kept if one.written_at >= oldest and total <= keep_bytes else removed).append(one)
    return kept, removed


def _is_bundle(one: Listed) -> bool:
    """Look at the beginning only: a bundle whose end is missing is one as well."""
    if not one.complete:
        return True
    try:
        with one.path.open("rb") as file:
            begin = file.read(_NAME_AT + max(map(len, _FIRST)))
    except OSError:
        return False
    return begin.startswith(_ZIP) and begin[_NAME_AT:].startswith(_FIRST)


def _listed(path: Path) -> Listed | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None  # finished or pruned by somebody else between the listing and now
    written = datetime.fromtimestamp(found.st_mtime, UTC)
    return Listed(path, found.st_size, written, complete=not path.name.endswith(PARTIAL))
