"""Asking from where the patient is: in its network, and as the user that a server lets in.

Secret: the kernel keeps user and network for each thread; the C library changes those of all.
Invariant: only the calling thread is changed.
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
_CLONE_NEWNET = 0x40000000


def enter_network_of(pid: int) -> bool:
    """Move the calling thread into the network namespace of a process, for the rest of its life.

    Returns whether it is there: False when the kernel does not let us in.
    """
    namespace = f"/proc/{pid}/ns/net"
    try:
        if os.readlink(namespace) == os.readlink("/proc/thread-self/ns/net"):
            return True
        fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return bool(ctypes.CDLL(None, use_errno=True).setns(fd, _CLONE_NEWNET) == 0)
    finally:
        os.close(fd)


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
