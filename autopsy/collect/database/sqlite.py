"""SQLite databases that the patient has open, and who holds their locks.

Secret: how SQLite uses the kernel's record locks (the byte ranges), in both journal modes.
Invariant: a file is opened only on a file system of this machine, for its first bytes: on a dead
network file system even that would hang.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autopsy import redact
from autopsy.collect import procfs
from autopsy.section import Payload

_MAGIC = b"SQLite format 3\0"
_NAMED = re.compile(r"\.(db3?|sqlite3?|sl3|s3db)$", re.IGNORECASE)
_BESIDE = re.compile(r"-(wal|shm|journal)( \(deleted\))?$")
_DELETED = " (deleted)"
_LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "ramfs", "overlay", "zfs", "bcachefs",
     "rootfs", "vfat", "exfat", "ntfs3", "squashfs", "virtiofs"}
)  # fmt: skip
_MAX_FILES = 300
_TABLE_LIMIT = 8 << 20
_HEADER_BYTES = 20
# The lock bytes of a database file, and in the -shm file those of the write-ahead log.
_PENDING, _RESERVED, _SHARED_FIRST, _SHARED_LAST = (
    0x40000000,
    0x40000001,
    0x40000002,
    0x400001FF,
)
_LOG_BYTES = {120: "writing to the log", 121: "checkpoint", 122: "recovery"}
_LOG_READERS = range(123, 128)
# What keeps a writer of the same database out, strongest first.
_STRENGTH = (
    "exclusive", "pending", "reserved", "recovery", "writing to the log", "checkpoint", "shared",
    "reading the log",
)  # fmt: skip


def files(pid: int) -> list[Payload]:
    """Return the SQLite databases that a process has open.

    Shapes: file, fd, journal (wal or rollback), held_by (pid, kind, own, command_line of another).
    """
    opened = procfs.links(pid, 1 << 14)
    places = _Places(
        pid,
        {target.removesuffix(_DELETED): number for number, target in opened},
        _file_systems(pid),
        _own_files(),
    )
    found: dict[str, Payload] = {}
    table = None
    for number, target in _candidates(opened):
        if target in found or not (journal := _journal(places, number, target)):
            continue
        if table is None:
            table = (procfs.read_text("/proc/locks", _TABLE_LIMIT) or "").splitlines()
        log = places.opened.get(f"{target}-shm") if journal == "wal" else None
        held = _held(places, number, table, _kind_in_file)
        if log is not None:
            held += _held(places, log, table, _kind_in_log)
        found[target] = {
            "file": target,
            "fd": number,
            "journal": journal,
            "held_by": _strongest(held, pid),
        }
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Places:
    """What a process has open, by name, and where: mounts, and which files are open here too."""

    pid: int
    opened: Mapping[str, int]
    file_systems: Mapping[str, tuple[str, str]]
    own: frozenset[tuple[str, str]]


def _candidates(opened: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    listed = [
        (number, target)
        for number, target in opened
        if target.startswith("/") and not target.startswith(("/dev/", "/proc/", "/sys/", "/memfd:"))
    ]
    return [one for one in listed if not _BESIDE.search(one[1])][:_MAX_FILES]


def _journal(places: _Places, number: int, target: str) -> str:
    """Return the journal mode of a database; empty for a file that is none."""
    described = _described(places.pid, number)
    kind, device = places.file_systems.get(described.get("mnt_id", ""), ("", ""))
    if kind in _LOCAL and (device, described.get("ino", "")) not in places.own:
        head = _head(places.pid, number)
        if head.startswith(_MAGIC):
            return "wal" if head[18:20] == b"\2\2" else "rollback"
        if head:  # an encrypted one is known by its company alone
            return "wal" if f"{target}-wal" in places.opened else ""
    if f"{target}-wal" in places.opened or f"{target}-shm" in places.opened:
        return "wal"
    return "rollback" if _NAMED.search(target) or f"{target}-journal" in places.opened else ""


def _head(pid: int, number: int) -> bytes:
    try:
        fd = os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(fd, _HEADER_BYTES, 0)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _own_files() -> frozenset[tuple[str, str]]:
    """Return device and inode of the files that this very process has open.

    Closing a file gives up every record lock that a process has on it, by whatever descriptor, and
    a library caller may hold some: the command line of the supervisor has its store open.
    """
    own, file_systems = os.getpid(), _file_systems(os.getpid())
    found = set()
    for number in procfs.descriptors(own):
        described = _described(own, number)
        _, device = file_systems.get(described.get("mnt_id", ""), ("", ""))
        found.add((device, described.get("ino", "")))
    return frozenset(found)


def _described(pid: int, number: int) -> dict[str, str]:
    return {name: said[0] for name, said in procfs.descriptor_lines(pid, number).items()}


def _file_systems(pid: int) -> dict[str, tuple[str, str]]:
    """Return type and device of each mount; the device as /proc/locks writes it."""
    found: dict[str, tuple[str, str]] = {}
    for line in (procfs.read_text(f"/proc/{pid}/mountinfo", _TABLE_LIMIT) or "").splitlines():
        words = line.split()
        major, _, minor = words[2].partition(":")
        kind = words[words.index("-") + 1] if "-" in words else ""
        found[words[0]] = (kind, f"{int(major):02x}:{int(minor):02x}")
    return found


def _held(
    places: _Places,
    number: int,
    table: Sequence[str],
    kind_of: Callable[[bool, int, int], str],
) -> list[tuple[int, str]]:
    described = _described(places.pid, number)
    _, device = places.file_systems.get(described.get("mnt_id", ""), ("", ""))
    wanted = f"{device}:{described.get('ino', '')}"
    found = []
    for line in table:
        words = line.split()
        if len(words) < 8 or words[1] == "->" or words[5] != wanted:
            continue
        first = int(words[6])
        last = first if words[7] == "EOF" else int(words[7])
        if kind := kind_of(words[3] == "WRITE", first, last):
            found.append((int(words[4]), kind))
    return found


def _kind_in_file(is_write: bool, first: int, last: int) -> str:
    if not (first <= _SHARED_LAST and last >= _PENDING):
        return ""
    if not is_write:
        return "shared"
    if last >= _SHARED_FIRST:
        return "exclusive"
    return "reserved" if last == _RESERVED and first == _RESERVED else "pending"


def _kind_in_log(is_write: bool, first: int, last: int) -> str:
    for byte, kind in _LOG_BYTES.items():
        if is_write and first <= byte <= last:
            return kind
    return "reading the log" if first <= _LOG_READERS[-1] and last >= _LOG_READERS[0] else ""


def _strongest(held: Iterable[tuple[int, str]], patient: int) -> list[Payload]:
    best: dict[int, str] = {}
    for pid, kind in held:
        if pid not in best or _STRENGTH.index(kind) < _STRENGTH.index(best[pid]):
            best[pid] = kind
    listed = sorted(best.items(), key=lambda item: _STRENGTH.index(item[1]))
    return [
        {
            "pid": pid,
            "kind": kind,
            "own": pid == patient,
            "command_line": redact.arguments(procfs.command_line(pid)) if pid > 0 else [],
        }
        for pid, kind in listed
    ]
