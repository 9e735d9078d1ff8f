"""Where the scratch space of tasks lies, and that nobody else has a hand in it.

Secret kept here: one directory per user in the temporary directory, which all users share, so that
its name is known to others: it is used only if it is a real directory, ours, and closed to them.
Below it each node has a directory, and each worker one below that.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from supervisor.errors import Refused


class ScratchRoot:
    """The directory of this user, made and proven to be ours.

    Raises: Refused, with what is wrong with the one that is there.
    """

    def __init__(self, parent: Path | None = None, uid: int | None = None) -> None:
        owner = os.getuid() if uid is None else uid
        self.path = (parent or Path(tempfile.gettempdir())) / f"supervisor-{owner}"
        try:
            self.path.mkdir(mode=0o700)
        except FileExistsError:
            pass  # ours from before, or somebody else's: the next step sees
        except OSError as exc:
            raise self._refused(f"cannot be made: {exc.strerror}") from exc
        self._require_ours(owner)

    def _require_ours(self, owner: int) -> None:
        if self.path.is_symlink():
            raise self._refused(f"is a symbolic link to {self.path.readlink()}")
        try:
            held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as exc:
            raise self._refused(f"cannot be opened as a directory: {exc.strerror}") from exc
        try:
            status = os.fstat(held)
            if status.st_uid != owner:
                raise self._refused(f"belongs to user {status.st_uid}, not to {owner}")
            if status.st_mode & 0o777 != 0o700:
                os.fchmod(held, 0o700)
        finally:
            os.close(held)

    def _refused(self, why: str) -> Refused:
        return Refused(
            f"{self.path}, where tasks have their scratch space, {why}",
            remedy="Remove it, or set TMPDIR to a directory that only this user can write to.",
        )

    def of(self, node_id: str) -> Path:
        """Return the directory of a node (not made here)."""
        return self.path / node_id

    def remove(self, node_ids: Iterable[str]) -> None:
        """Remove what these (dead) nodes left."""
        for node_id in node_ids:
            shutil.rmtree(self.of(node_id), ignore_errors=True)
