"""What the patient said: its log ring and its output, read from shared memory it left open.

Secret: how they are found (by the names in `memfd`). Works on a stopped, stuck or unreaped
process alike as long as its descriptors exist.
"""

from __future__ import annotations

import os

from autopsy import memfd, redact
from autopsy.collect import procfs
from autopsy.collect.patient import Patient
from autopsy.ring import LogRing
from autopsy.section import Payload, Skipped

LOG_RECORDS = 100
OUTPUT_TAIL_BYTES = 64 << 10


def open_memfd(pid: int, name: str, flags: int = os.O_RDONLY) -> int | None:
    """Open the patient's memfd of this name; None if it has none or we may not."""
    for number, target in procfs.links(pid, 4096):
        if target.split(" (deleted)")[0] == f"/memfd:{name}":
            try:
                return os.open(f"/proc/{pid}/fd/{number}", flags | os.O_CLOEXEC)
            except OSError:
                return None
    return None


def collect_logs(patient: Patient) -> Payload:
    """Return the last log records, oldest first, redacted.

    Raises Skipped when the patient has no log ring.
    """
    fd = open_memfd(patient.pid, memfd.LOG_RING)
    if fd is None:
        raise Skipped("the process has no log ring (it does not run under a supervisor)")
    try:
        ring = LogRing(fd)
        try:
            records = ring.records(LOG_RECORDS)
        finally:
            ring.close()
    finally:
        os.close(fd)
    return {
        "records": [
            {
                "seq": record.seq,
                "created": record.created,
                "level": record.level,
                "logger": record.logger,
                "text": redact.text(record.text),
            }
            for record in records
        ]
    }


def collect_output(patient: Patient) -> Payload:
    """Return the end of what the patient wrote to its standard output and error, redacted.

    Raises Skipped when the output does not go to shared memory.
    """
    fd = open_memfd(patient.pid, memfd.OUTPUT)
    if fd is None:
        raise Skipped("the process does not write its output to shared memory")
    try:
        size = os.fstat(fd).st_size  # a memfd: this stat cannot hang
        start = max(0, size - OUTPUT_TAIL_BYTES)
        # The start of the file may have been punched out by whoever trims it: zero bytes.
        tail = os.pread(fd, OUTPUT_TAIL_BYTES, start).lstrip(b"\0")
    finally:
        os.close(fd)
    return {
        "written_bytes": size,
        "left_out_bytes": size - len(tail),
        "text": redact.text(tail.decode("utf-8", "replace")),
    }
