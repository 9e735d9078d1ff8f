"""Reading /proc: the text formats of the kernel, and nothing about what they mean.

Invariant: a file that is gone or forbidden reads as None, never as an exception, because both
are ordinary answers about a process that may be ending.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

_SYSCALLS_X86_64 = {
    0: "read", 1: "write", 7: "poll", 16: "ioctl", 17: "pread64", 20: "writev", 23: "select",
    34: "pause", 35: "nanosleep", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom",
    46: "sendmsg", 47: "recvmsg", 56: "clone", 58: "vfork", 61: "wait4", 72: "fcntl",
    73: "flock", 74: "fsync", 75: "fdatasync", 202: "futex", 219: "restart_syscall",
    230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid", 257: "openat", 270: "pselect6",
    271: "ppoll", 281: "epoll_pwait", 288: "accept4", 435: "clone3",
}  # fmt: skip
_SYSCALLS_AARCH64 = {
    22: "epoll_pwait", 25: "fcntl", 29: "ioctl", 32: "flock", 56: "openat", 63: "read",
    64: "write", 66: "writev", 67: "pread64", 72: "pselect6", 73: "ppoll", 82: "fsync",
    83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep",
    128: "restart_syscall", 202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom",
    211: "sendmsg", 212: "recvmsg", 220: "clone", 242: "accept4", 260: "wait4", 435: "clone3",
}  # fmt: skip


def read_text(path: str, limit: int = 1 << 20) -> str | None:
    """Return up to `limit` bytes of a file of /proc as text; None if it is gone or forbidden."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read_all(fd, limit).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)


def _read_all(fd: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    left = limit
    while left > 0 and (piece := os.read(fd, min(left, 1 << 16))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def stat_fields(path: str) -> tuple[str, list[str]] | None:
    """Return the name and the fields from `state` on (field 3 of proc(5) is index 0)."""
    text = read_text(path)
    if not text or ")" not in text:
        return None
    head, _, tail = text.rpartition(")")
    return head.partition("(")[2], tail.split()


def start_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None if there is no such pid."""
    found = stat_fields(f"/proc/{pid}/stat")
    return int(found[1][19]) if found else None


def status(path: str) -> dict[str, str] | None:
    """Return the `Name: value` lines of a status file."""
    text = read_text(path)
    if not text:
        return None
    return dict(re.findall(r"^(\w+):[ \t]*(.*)$", text, re.MULTILINE))


def thread_ids(pid: int) -> list[int]:
    """Return the ids of all threads, lowest first; empty when the process is gone."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []


def command_line(pid: int) -> list[str]:
    """Return the arguments of a process; empty for a kernel thread or an unreaped process."""
    text = read_text(f"/proc/{pid}/cmdline", 1 << 14) or ""
    return text.rstrip("\0").split("\0") if text else []


def links(pid: int, limit: int) -> list[tuple[int, str]]:
    """Return (descriptor, target) of up to `limit` open descriptors, by readlink alone."""
    found: list[tuple[int, str]] = []
    for number in descriptors(pid)[:limit]:
        try:
            found.append((number, os.readlink(f"/proc/{pid}/fd/{number}")))
        except OSError:
            continue  # closed in the meantime
    return found


def descriptors(pid: int) -> list[int]:
    """Return the numbers of all open descriptors, lowest first; empty if gone or forbidden."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return []


def is_hidden(pid: int) -> bool:
    """Return whether the kernel refuses us the process's descriptors, memory and system calls."""
    try:
        # The kernel asks the same question for this link as for all of those.
        os.readlink(f"/proc/{pid}/cwd")
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def child_ids(pid: int) -> Iterator[int]:
    """Yield the pids of the direct children of every thread."""
    for tid in thread_ids(pid):
        for word in (read_text(f"/proc/{pid}/task/{tid}/children") or "").split():
            yield int(word)


def current_syscall(path: str) -> tuple[str | None, list[int]]:
    """Return the name (or number) of the system call a thread is in and its six arguments.

    None when it is on the CPU in user code or when we may not know.
    """
    words = (read_text(path) or "").split()
    if not words or not words[0].isdigit():
        return None, []
    table = _SYSCALLS_AARCH64 if os.uname().machine == "aarch64" else _SYSCALLS_X86_64
    return table.get(int(words[0]), words[0]), [int(word, 16) for word in words[1:7]]


def read_memory(pid: int, address: int, size: int) -> bytes | None:
    """Return memory of the patient; None if we may not read it or nothing is mapped there."""
    try:
        fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.pread(fd, size, address)
    except (OSError, OverflowError):
        return None
    finally:
        os.close(fd)
    return found if len(found) == size else None
