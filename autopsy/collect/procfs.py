"""Reading /proc: the text formats of the kernel, and nothing about what they mean.

Invariant: a file that is gone or forbidden reads as None, never as an exception, because both
are ordinary answers about a process that may be ending.
"""

from __future__ import annotations

import os
import re
import stat as stat_module
from collections.abc import Iterator
from dataclasses import dataclass

from autopsy.collect import syscalls

_PF_KTHREAD = 0x00200000
_MAPS_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Stat:
    """What the stat file of a process or a thread says; `fields` are those from `state` on.

    Source: proc(5), whose field 3 is our index 0. Units: ticks of the kernel's clock.
    """

    name: str
    fields: tuple[str, ...]

    @property
    def state(self) -> str:
        """The letter of its state."""
        return self.fields[0]

    @property
    def parent(self) -> int:
        """The pid of its parent."""
        return int(self.fields[1])

    @property
    def is_kernel_thread(self) -> bool:
        """Whether it is a thread of the kernel: it has no program, no memory and no files."""
        return bool(int(self.fields[6]) & _PF_KTHREAD)

    @property
    def faults(self) -> tuple[int, int]:
        """How many pages were new, and how many were read from a disk."""
        return int(self.fields[7]), int(self.fields[9])

    @property
    def cpu_ticks(self) -> int:
        """How long it was on a CPU, in user code and in the kernel."""
        return int(self.fields[11]) + int(self.fields[12])

    @property
    def threads(self) -> int:
        """How many threads the process has."""
        return int(self.fields[17])

    @property
    def start_ticks(self) -> int:
        """When it started, since boot."""
        return int(self.fields[19])

    @property
    def cpu(self) -> int:
        """The CPU it was on last."""
        return int(self.fields[36])

    @property
    def ending(self) -> int:
        """The status that its parent will get; zero also stands for "you may not know"."""
        return int(self.fields[49])


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


def read_as_process(pid: int, path: str, limit: int) -> str | None:
    """Return up to `limit` bytes of an ordinary file that a process may read itself; else None.

    It chose the path: as root we would show what is hidden from it, or wait at a FIFO.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not _may_read(status(f"/proc/{pid}/status") or {}, os.fstat(fd)):
            return None
        return _read_all(fd, limit).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)


def _may_read(reader: dict[str, str], file: os.stat_result) -> bool:
    users, groups = (reader.get(name, "").split() for name in ("Uid", "Gid"))
    if not users or not stat_module.S_ISREG(file.st_mode):
        return False
    if users[1] == "0" or file.st_mode & stat_module.S_IROTH:
        return True
    if users[1] == str(file.st_uid):
        return bool(file.st_mode & stat_module.S_IRUSR)
    is_member = str(file.st_gid) in (groups[1], *reader.get("Groups", "").split())
    return is_member and bool(file.st_mode & stat_module.S_IRGRP)


def _read_all(fd: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    left = limit
    while left > 0 and (piece := os.read(fd, min(left, 1 << 16))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def stat(path: str) -> Stat | None:
    """Return what a stat file says; None when the process or thread is gone."""
    text = read_text(path)
    if not text or ")" not in text:
        return None
    head, _, tail = text.rpartition(")")
    return Stat(head.partition("(")[2], tuple(tail.split()))


def start_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None if there is no such pid."""
    found = stat(f"/proc/{pid}/stat")
    return found.start_ticks if found else None


def ending(pid: int) -> dict[str, int]:
    """Return exit_code or exit_signal of a process that has ended and is not yet reaped.

    Empty when it lives, or when we may not know.
    """
    found = stat(f"/proc/{pid}/stat")
    if found is None or found.state not in "ZX" or is_hidden(pid):
        return {}
    number = found.ending & 0x7F
    return {"exit_signal": number} if number else {"exit_code": found.ending >> 8}


def status(path: str) -> dict[str, str] | None:
    """Return the `Name: value` lines of a status file."""
    text = read_text(path)
    if not text:
        return None
    return dict(re.findall(r"^(\w+):[ \t]*(.*)$", text, re.MULTILINE))


def tracer(pid: int) -> int:
    """Return the pid of the program that traces it (strace, a debugger); 0 if none does."""
    found = (status(f"/proc/{pid}/status") or {}).get("TracerPid", "0")
    return int(found) if found.isdigit() else 0


def process_ids() -> list[int]:
    """Return the pids of all processes that we are shown, lowest first."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def thread_ids(pid: int) -> list[int]:
    """Return the ids of all threads, lowest first; empty when the process is gone."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []


def inner_thread_ids(pid: int) -> dict[int, int]:
    """Return the threads: the id each has in the pid namespace of the process → the one here."""
    tids = thread_ids(pid)
    if len((status(f"/proc/{pid}/status") or {}).get("NSpid", "").split()) < 2:
        return {tid: tid for tid in tids}
    found = {}
    for tid in tids:
        ids = (status(f"/proc/{pid}/task/{tid}/status") or {}).get("NSpid", "").split()
        if ids:
            found[int(ids[-1])] = tid
    return found


def command_line(pid: int) -> list[str]:
    """Return the arguments of a process; empty for a kernel thread or an unreaped process."""
    text = read_text(f"/proc/{pid}/cmdline", 1 << 14) or ""
    return text.rstrip("\0").split("\0") if text else []


def link(path: str) -> str | None:
    """Return where a link of /proc points to; None if it is gone or forbidden."""
    try:
        return os.readlink(path)
    except OSError:
        return None


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


def descriptor_lines(pid: int, number: int) -> dict[str, list[str]]:
    """Return the lines of fdinfo about a descriptor by their names; empty if gone or forbidden."""
    found: dict[str, list[str]] = {}
    for line in (read_text(f"/proc/{pid}/fdinfo/{number}") or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), []).append(value.strip())
    return found


def maps(pid: int) -> str:
    """Return the mappings of a process, of a giant one the first; empty if gone or forbidden."""
    return read_text(f"/proc/{pid}/maps", _MAPS_BYTES) or ""


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
    return syscalls.name_of(int(words[0])), [int(word, 16) for word in words[1:7]]


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
