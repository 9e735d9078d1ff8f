"""Runs `supervisor archive` and kills itself with SIGKILL at a chosen moment.

    python -m tests.programs.archive_killed METHOD PASS RECORDS -- archive FLAGS…

METHOD is one of the archive's steps, PASS the call of it (from 1) before which the process dies,
RECORDS how many a file holds.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from supervisor.cli import main
from supervisor.store import archive


def arm(method: str, nth: int) -> None:
    """Let the nth call of a step be the death of this process."""
    real = getattr(archive.Archive, method)
    calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(archive.Archive, method, call)


if __name__ == "__main__":
    arm(sys.argv[1], int(sys.argv[2]))
    archive.FILE_RECORDS = int(sys.argv[3])
    archive.BATCH_MAX = 20
    sys.argv[1:] = sys.argv[5:]
    main()
