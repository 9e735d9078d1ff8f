"""The files that pages load: scripts, styles, pictures, each asked for with the sum of its content.

Invariant: a browser may keep a file for ever only when it asked for the very content that it gets;
asked for with another sum, as by a page of the version before, it is asked again the next time.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
KEPT = "public, max-age=31536000, immutable"
ASKED_AGAIN = "no-cache"
_DIGITS = 16


class Assets:
    """The files of the package, as they were when the process began."""

    def __init__(self) -> None:
        self._sums = {
            path.relative_to(FOLDER).as_posix(): _sum(path)
            for path in FOLDER.rglob("*")
            if path.is_file()
        }

    def version(self, name: str) -> str:
        """Return what stands in the address of a file. Raises: KeyError when there is none."""
        return self._sums[name]

    def caching(self, name: str | None, version: str | None) -> str:
        """Return for how long a browser may keep a file that it asked for in this version."""
        return KEPT if version and self._sums.get(name or "") == version else ASKED_AGAIN


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
