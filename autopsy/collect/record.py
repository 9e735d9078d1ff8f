"""What the patient said: its log ring and its output, read from shared memory it left open.

Secret: how they are found (by the names in `memfd`). Works on a stopped, stuck or unreaped
process alike as long as its descriptors exist.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from autopsy import memfd, redact
from autopsy.collect import procfs
from autopsy.collect.patient import Patient
from autopsy.memfd import Kept
from autopsy.ring import LogRecordView, LogRing
from autopsy.section import Payload, Skipped

LOG_RECORDS = 100
OUTPUT_TAIL_BYTES = 64 << 10


def _open_memfd(pid: int, name: str) -> int | None:
    for number, target in procfs.links(pid, 4096):
        if target.split(" (deleted)")[0] == f"/memfd:{name}":
            try:
                return os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return None
    return None


def logs_collector(kept: Kept) -> Callable[[Patient], Payload]:
    """Return the collector of the log records; it raises Skipped when there is no log ring."""

    def collect(patient: Patient) -> Payload:
        fd = opened(patient, memfd.LOG_RING, kept.log_ring)
        if fd is None:
            raise Skipped("the process has no log ring (it does not run under a supervisor)")
        return logs_in(fd, kept.begun_at)

    return collect


def output_collector(kept: Kept) -> Callable[[Patient], Payload]:
    """Return the collector of the output; it raises Skipped when that is not in shared memory."""

    def collect(patient: Patient) -> Payload:
        fd = opened(patient, memfd.OUTPUT, kept.output)
        if fd is None:
            raise Skipped("the process does not write its output to shared memory")
        return output_in(fd, kept.output_start)

    return collect


def logs_in(fd: int, begun_at: float = 0.0) -> Payload:
    """Return the last log records since then, oldest first, redacted; closes the descriptor."""
    try:
        found = [record for record in _records(fd) if record.created >= begun_at]
        return {"records": [_record_entry(record) for record in found]}
    finally:
        os.close(fd)


def output_in(fd: int, start: int = 0) -> Payload:
    """Return the end of what an output memfd has from `start` on, redacted; closes it."""
    try:
        return _tail(fd, start)
    finally:
        os.close(fd)


def opened(patient: Patient, name: str, kept_path: str | None) -> int | None:
    """Open shared memory where it is kept, or else where the patient has it; None if nowhere.

    Raises Skipped when we may not look.
    """
    if kept_path is not None:
        return open_kept(kept_path)
    patient.require_open()
    return _open_memfd(patient.pid, name)


def open_kept(path: str) -> int:
    """Open shared memory that somebody else keeps, for reading."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _records(fd: int) -> list[LogRecordView]:
    ring = LogRing(fd)
    try:
        return ring.records(LOG_RECORDS)
    finally:
        ring.close()


def _record_entry(record: LogRecordView) -> Payload:
    return {
        "seq": record.seq,
        "created": record.created,
        "level": record.level,
        "logger": record.logger,
        "text": redact.text(record.text),
    }


def _tail(fd: int, start: int) -> Payload:
    size = os.fstat(fd).st_size  # a memfd: this stat cannot hang
    if size < start:  # it was shrunk: what is there was printed since then
        start = 0
    begin = max(start, size - OUTPUT_TAIL_BYTES)
    tail = os.pread(fd, size - begin, begin)
    # The start of the file may have been punched out by whoever trims it: zero bytes.
    tail = tail.lstrip(b"\0")
    return {
        "written_bytes": size - start,
        "left_out_bytes": size - start - len(tail),
        "text": redact.text(tail.decode("utf-8", "replace")),
    }
