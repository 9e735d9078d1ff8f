"""How much memory the patient uses and which of its mappings are shared with other processes."""

from __future__ import annotations

import os
import re

from autopsy.collect import procfs
from autopsy.collect.patient import Patient
from autopsy.section import Payload, Skipped

_STATM = ("size", "resident", "shared", "text", "lib", "data", "dirty")
_MAX_SHARED = 200
_MAPS_LIMIT = 8 << 20


def collect(patient: Patient) -> Payload:
    """Read statm, smaps_rollup and the shared writable mappings.

    Units: `statm` in bytes, `rollup` in KiB. Raises Skipped when the process has no memory left.
    """
    pages = (procfs.read_text(f"/proc/{patient.pid}/statm") or "").split()
    if not pages or pages[0] == "0":
        raise Skipped("the process has no memory of its own any more")
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    rollup = procfs.read_text(f"/proc/{patient.pid}/smaps_rollup")
    return {
        "statm": {name: int(count) * page_bytes for name, count in zip(_STATM, pages, strict=True)},
        "rollup": {
            name: int(kib)
            for name, kib in re.findall(r"^(\w+):\s*(\d+) kB", rollup or "", re.MULTILINE)
        },
        "shared_mappings": _shared(patient.pid),
    }


def _shared(pid: int) -> list[Payload]:
    text = procfs.read_text(f"/proc/{pid}/maps", _MAPS_LIMIT) or ""
    lines = re.findall(r"^(\w+)-(\w+) rw-s \S+ \S+ \d+[ ]*(.*)$", text, re.MULTILINE)
    return [
        {"start": int(start, 16), "end": int(end, 16), "name": name}
        for start, end, name in lines[:_MAX_SHARED]
    ]
