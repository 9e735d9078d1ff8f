"""DIAGNOSIS blocked.file_lock: another process keeps the flock of a file that marks one runner."""

import fcntl
import signal
from collections.abc import Callable

from _stage import beside, ready, temporary

mark = temporary("only-one.lock")
mark.touch()


def keep(tell: Callable[[str], None]) -> None:
    with mark.open("w") as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        tell("locked")
        signal.pause()


beside(keep)
with mark.open("w") as file:
    ready()
    fcntl.flock(file, fcntl.LOCK_EX)
