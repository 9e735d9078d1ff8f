"""The patient's descendants, and who holds the file locks it waits for.

Secret: how a process tree is walked while it changes. A child's pipes are listed because "waits
for a child that waits for us to read" is only seen by joining both ends.
"""

from __future__ import annotations

from autopsy import redact
from autopsy.collect import procfs
from autopsy.collect.patient import Patient
from autopsy.section import Payload

_MAX_PROCESSES = 500
_MAX_DEPTH = 16


def collect_children(patient: Patient) -> Payload:
    """List all descendants, parents before their children.

    Shapes: pid, ppid, depth, name, state, command_line, wchan, syscall, pipes (targets).
    """
    found: list[Payload] = []
    queue = [(pid, patient.pid, 1) for pid in procfs.child_ids(patient.pid)]
    while queue and len(found) < _MAX_PROCESSES:
        pid, parent, depth = queue.pop(0)
        entry = _described(pid, parent, depth)
        if entry is None:
            continue
        found.append(entry)
        if depth < _MAX_DEPTH:
            queue += [(child, pid, depth + 1) for child in procfs.child_ids(pid)]
    return {"children": found, "left_out": len(queue)}


def collect_locks(patient: Patient) -> Payload:
    """List the kernel's file locks held or waited for by the patient, with the other side.

    Shapes: id, waiting, kind, mode, pid, file (device:inode), command_line of a foreign holder.
    """
    table = [
        _parsed(line) for line in (procfs.read_text("/proc/locks", 8 << 20) or "").splitlines()
    ]
    family = {patient.pid}
    involved = {entry["id"] for entry in table if entry["pid"] in family}
    # An SQLite reader polls instead of waiting in the kernel: same file, no `->` line.
    files = {entry["file"] for entry in table if entry["pid"] in family}
    kept = [entry for entry in table if entry["id"] in involved or entry["file"] in files]
    for entry in kept:
        if entry["pid"] not in family and entry["pid"] > 0:
            entry["command_line"] = redact.arguments(procfs.command_line(entry["pid"]))
    return {"locks": kept}


def _described(pid: int, parent: int, depth: int) -> Payload | None:
    stat = procfs.stat_fields(f"/proc/{pid}/stat")
    if stat is None:
        return None
    syscall, _ = procfs.current_syscall(f"/proc/{pid}/syscall")
    targets = [target for _, target in procfs.links(pid, 256)]
    return {
        "pid": pid,
        "ppid": parent,
        "depth": depth,
        "name": stat[0],
        "state": stat[1][0],
        "command_line": redact.arguments(procfs.command_line(pid)),
        "wchan": procfs.read_text(f"/proc/{pid}/wchan") or "",
        "syscall": syscall,
        "pipes": sorted({target for target in targets if target.startswith("pipe:")}),
    }


def _parsed(line: str) -> Payload:
    words = line.split()
    waiting = words[1] == "->"
    kind, mode, pid, file = words[2 if waiting else 1], *words[4 if waiting else 3 :][:3]
    return {
        "id": words[0].rstrip(":"),
        "waiting": waiting,
        "kind": kind,
        "mode": mode,
        "pid": int(pid),
        "file": file,
    }
