"""Stacks without ptrace: ask the patient's own faulthandler, one thread after the other.

Secret: the signal, the dump file and the text format of faulthandler. Works with the GIL held and
below 50,000 frames; not on a stopped or uninterruptible thread. Only used on a patient that armed
the signal: on any other it would be fatal.
"""

from __future__ import annotations

import ctypes
import os
import re

from autopsy import clock, memfd, signals
from autopsy.collect import procfs, record
from autopsy.collect.patient import Patient
from autopsy.collect.pyspy import Dumped, Frame, Thread
from autopsy.section import Skipped

_SYS_TGKILL = {"x86_64": 234, "aarch64": 131}
_PER_THREAD_S = 0.03
_POLL_S = 0.0005
_MAX_THREADS = 200
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def dump(patient: Patient, kept_path: str | None, deadline_mono: float) -> Dumped:
    """Return the stacks of the threads that answer before the deadline.

    `kept_path` is where somebody else keeps the dump open, for when we may not look inside.
    """
    try:
        fd = record.opened(patient, memfd.DUMP, kept_path)
    except Skipped as exc:
        return Dumped(reason=str(exc))
    if fd is None:
        return Dumped(reason="the process has no faulthandler dump to fall back to")
    try:
        if not _is_armed(patient.pid):
            return Dumped(reason="the process does not handle the faulthandler signal")
        threads = [
            thread
            for tid in procfs.thread_ids(patient.pid)[:_MAX_THREADS]
            if clock.mono() < deadline_mono
            and (thread := _one_thread(patient.pid, tid, fd)) is not None
        ]
    finally:
        os.close(fd)
    if not threads:
        return Dumped(reason="no thread answered the faulthandler signal")
    return Dumped(tuple(threads))


def _is_armed(pid: int) -> bool:
    status = procfs.status(f"/proc/{pid}/status") or {}
    return bool(int(status.get("SigCgt", "0"), 16) >> (signals.FAULTHANDLER - 1) & 1)


def _one_thread(pid: int, tid: int, fd: int) -> Thread | None:
    before = os.fstat(fd).st_size
    number = _SYS_TGKILL.get(os.uname().machine)
    if number is None or ctypes.CDLL(None).syscall(number, pid, tid, signals.FAULTHANDLER) != 0:
        return None
    deadline = clock.mono() + _PER_THREAD_S
    size = before
    while clock.mono() < deadline:
        clock.sleep(_POLL_S)
        grown = os.fstat(fd).st_size
        # Written line by line: complete once it has grown and then stood still for a turn.
        if grown == size and grown > before:
            break
        size = grown
    return parse(tid, os.pread(fd, 1 << 18, before).decode("utf-8", "replace"))


def parse(tid: int, printed: str) -> Thread | None:
    """Return the stack faulthandler printed, innermost call first; None if it printed none."""
    frames = tuple(
        Frame(function, file, int(line)) for file, line, function in _FRAME.findall(printed)
    )
    return Thread(tid, "", owns_gil=False, active=False, frames=frames) if frames else None
