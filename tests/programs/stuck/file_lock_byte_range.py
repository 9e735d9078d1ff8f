"""DIAGNOSIS blocked.file_lock: another process has locked some bytes of the same file (fcntl)."""

import fcntl
import signal
from collections.abc import Callable

from _stage import beside, ready, temporary

register = temporary("register.bin")
register.write_bytes(bytes(64))
file = register.open("r+b")


def keep(tell: Callable[[str], None]) -> None:
    with register.open("r+b") as mine:
        fcntl.lockf(mine, fcntl.LOCK_EX, 16, 32)
        tell("locked")
        signal.pause()


def update_entry() -> None:
    ready()
    fcntl.lockf(file, fcntl.LOCK_EX, 8, 36)


beside(keep)
update_entry()
