"""The patient's descendants: what they are, what each waits for, and whether it moves.

Secret: how a process tree is walked while it changes. A child's pipes are listed because "waits
for a child that waits for us to read" is only seen by joining both ends.
"""

from __future__ import annotations

import os
import re

from autopsy import redact
from autopsy.collect import procfs
from autopsy.collect.holder import doing
from autopsy.collect.patient import MOVEMENT_WINDOW_S, Patient
from autopsy.section import Payload

_MAX_PROCESSES = 500
_MAX_DEPTH = 16
# How the library starts processes of its own, and one that is as common as the library.
_ROLES = (
    (re.compile(r"--multiprocessing-fork"), "multiprocessing worker"),
    (re.compile(r"resource_tracker import main"), "resource tracker"),
    (re.compile(r"forkserver import main"), "fork server"),
    (re.compile(r"popen_loky"), "joblib worker"),
)


def collect(patient: Patient) -> Payload:
    """List all descendants, parents before their children, and see which of them moves.

    Shapes: pid, ppid, depth, name, state, role, age_s, command_line, wchan, syscall, blocked_on (fd
    and target), pipes (targets), exit_code or exit_signal of an unreaped one; state_after (None
    when gone) and cpu_ratio (share of a core) in the movement window.
    """
    found: list[Payload] = []
    queue = [(pid, patient.pid, 1) for pid in procfs.child_ids(patient.pid)]
    own = procfs.command_line(patient.pid)
    uptime_s = float((procfs.read_text("/proc/uptime") or "0").split()[0])
    while queue and len(found) < _MAX_PROCESSES:
        pid, parent, depth = queue.pop(0)
        entry = _described(pid, parent, depth, own, uptime_s)
        if entry is None:
            continue
        found.append(entry)
        if depth < _MAX_DEPTH:
            queue += [(child, pid, depth + 1) for child in procfs.child_ids(pid)]
    _watch(patient, found)
    return {"children": found, "left_out": len(queue)}


def role(command_line: list[str], of_patient: list[str]) -> str:
    """Return what a child is to its parent, as far as its command line tells; else empty."""
    if command_line and command_line == of_patient:
        return "fork of the patient"
    text = " ".join(command_line)
    for pattern, name in _ROLES:
        if pattern.search(text):
            return name
    return ""


def _described(
    pid: int, parent: int, depth: int, of_patient: list[str], uptime_s: float
) -> Payload | None:
    stat = procfs.stat(f"/proc/{pid}/stat")
    if stat is None:
        return None
    command_line = procfs.command_line(pid)
    targets = [target for _, target in procfs.links(pid, 256)]
    started_s = stat.start_ticks / os.sysconf("SC_CLK_TCK")
    return {
        "pid": pid,
        "ppid": parent,
        "depth": depth,
        "name": stat.name,
        "role": role(command_line, of_patient),
        "age_s": round(max(0.0, uptime_s - started_s), 1),
        "command_line": redact.arguments(command_line),
        **doing(pid),
        "pipes": sorted({target for target in targets if target.startswith("pipe:")}),
        **procfs.ending(pid),
    }


def _watch(patient: Patient, found: list[Payload]) -> None:
    if not found:
        return
    before = {one["pid"]: procfs.stat(f"/proc/{one['pid']}/stat") for one in found}
    seconds = patient.wait_window(MOVEMENT_WINDOW_S, patient.elapsed_ms())
    per_s = os.sysconf("SC_CLK_TCK")
    for one in found:
        then, now = before[one["pid"]], procfs.stat(f"/proc/{one['pid']}/stat")
        one["state_after"] = now.state if now else None
        ticks = now.cpu_ticks - then.cpu_ticks if now and then else None
        one["cpu_ratio"] = None if ticks is None else round(ticks / per_s / seconds, 2)
