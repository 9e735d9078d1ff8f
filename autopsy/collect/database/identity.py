"""Being somebody else for a moment: a server may ask the kernel who connects to its unix socket.

Secret: the kernel keeps a user for each thread; the C library changes that of all. Invariant: only
root, only this thread, and only until the connection is made.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
from collections.abc import Iterator

# setresuid(2); the library's own function would change every thread.
_SETRESUID = {"x86_64": 117, "aarch64": 147}
_UNCHANGED = -1


@contextlib.contextmanager
def thread_as(name: str) -> Iterator[None]:
    """Run as the system's user of that name, if we are root and there is one."""
    number = _SETRESUID.get(os.uname().machine)
    user = _user(name) if number is not None and os.geteuid() == 0 else None
    if user is None or user == 0:
        yield
        return
    call = ctypes.CDLL(None, use_errno=True).syscall
    if call(number, _UNCHANGED, user, _UNCHANGED) != 0:
        yield  # not permitted here, whatever the reason: ask as who we are
        return
    try:
        yield
    finally:
        call(number, _UNCHANGED, 0, _UNCHANGED)


def _user(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None
