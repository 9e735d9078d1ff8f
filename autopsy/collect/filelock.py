"""The kernel's locks on files: who holds what the patient waits for, and what that one does.

Secret: /proc/locks names a file by device and inode and a holder by the process that once took
the lock. Which path that is, and who has inherited it since, the descriptors tell. Never a stat.
"""

from __future__ import annotations

from autopsy import clock
from autopsy.collect import procfs
from autopsy.collect.holder import described, opened_by
from autopsy.collect.patient import Patient
from autopsy.section import Payload

_TABLE_LIMIT = 8 << 20
_MAX_FDS = 2000
_MAX_THREADS = 200
# F_OFD_SETLKW: take a lock for an open file and wait.
_OFD_WAIT = 38
_MAX_ENTRIES = 200
_NO_FILES = ("/dev/", "/proc/", "/memfd:")
_SEARCH_S = 0.15
_MAX_HEIRS = 5


def collect(patient: Patient) -> Payload:
    """List the kernel's file locks held or waited for by the patient, with the other side.

    Shapes: id, waiting, kind (POSIX, FLOCK, OFDLCK, LEASE), mode, pid, file (device:inode), path
    (None when the patient has it not open), range; of a foreign holder also name, command_line,
    state, wchan, syscall, blocked_on; held_by when the one who took it is gone or not told.
    """
    table = [
        parsed(line) for line in (procfs.read_text("/proc/locks", _TABLE_LIMIT) or "").splitlines()
    ]
    own = [entry for entry in table if entry["pid"] == patient.pid]
    # A lock of an open file belongs to no pid: see by our descriptors whether it is one of ours.
    paths = _paths(patient.pid) if own or any(entry["pid"] <= 0 for entry in table) else {}
    involved = {entry["id"] for entry in own}
    # An SQLite reader polls instead of waiting in the kernel: same file, no `->` line.
    files = {entry["file"] for entry in own}
    inodes = paths.keys()
    kept = [
        entry
        for entry in table
        if entry["id"] in involved
        or entry["file"] in files
        or (entry["pid"] <= 0 and _inode(entry["file"]) in inodes)
    ]
    waited = _waited_inodes(patient.pid) if any(entry["pid"] <= 0 for entry in kept) else set()
    for entry in kept[:_MAX_ENTRIES]:
        entry["path"] = paths.get(_inode(entry["file"]))
        if entry["pid"] <= 0 and entry["waiting"] and _inode(entry["file"]) in waited:
            entry["pid"] = patient.pid
        if entry["pid"] != patient.pid:
            entry.update(_other_side(entry))
    return {"locks": kept[:_MAX_ENTRIES], "left_out": max(0, len(kept) - _MAX_ENTRIES)}


def parsed(line: str) -> Payload:
    """Return one line of /proc/locks; a lock that is waited for and its waiters share an id."""
    words = line.split()
    waiting = words[1] == "->"
    kind, _, mode, pid, file, start, end = (*words[2 if waiting else 1 :], "", "")[:7]
    return {
        "id": words[0].rstrip(":"),
        "waiting": waiting,
        "kind": kind,
        "mode": mode,
        "pid": int(pid),
        "file": file,
        "range": [start, end],
    }


def _inode(file: str) -> str:
    return file.rpartition(":")[2]


def _paths(pid: int) -> dict[str, str]:
    """Return path by inode of what the patient has open, as fdinfo tells (since Linux 5.14)."""
    found: dict[str, str] = {}
    for number, target in procfs.links(pid, _MAX_FDS):
        is_file = target.startswith("/") and not target.startswith(_NO_FILES)
        if is_file and (inode := _inode_of(pid, number)):
            found[inode] = target
    return found


def _inode_of(pid: int, number: int) -> str:
    return procfs.descriptor_lines(pid, number).get("ino", [""])[0]


def _waited_inodes(pid: int) -> set[str]:
    """Return the inodes that threads wait to lock for an open file, as such a lock has no pid."""
    found: set[str] = set()
    for tid in procfs.thread_ids(pid)[:_MAX_THREADS]:
        syscall, args = procfs.current_syscall(f"/proc/{pid}/task/{tid}/syscall")
        if syscall == "fcntl" and args[1] == _OFD_WAIT:
            found.add(_inode_of(pid, args[0]))
    return found


def _other_side(entry: Payload) -> Payload:
    pid = entry["pid"]
    if pid > 0 and procfs.start_ticks(pid) is not None:
        return described(pid)
    heirs = [] if entry["waiting"] or entry["path"] is None else _heirs(entry)
    return {"command_line": [], "held_by": heirs}


def _heirs(entry: Payload) -> list[Payload]:
    """Return who has the locked file open in a way that carries this lock, with what they do."""
    found: dict[int, Payload] = {}
    for pid, number in opened_by(entry["path"], clock.mono() + _SEARCH_S):
        locks = procfs.descriptor_lines(pid, number).get("lock", [])
        if pid not in found and any(entry["file"] in one.split() for one in locks):
            found[pid] = described(pid)
        if len(found) >= _MAX_HEIRS:
            break
    return list(found.values())
