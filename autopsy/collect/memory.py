"""How much memory the patient uses, what of it is its own, and what it may use.

Secret: which of the kernel's accounts is worth its price. The walk through all mappings is left
out of a large process: it stops the patient's own page faults meanwhile.
"""

from __future__ import annotations

import os
import re

from autopsy.collect import cgroup, procfs
from autopsy.collect.patient import Patient
from autopsy.collect.process import limits
from autopsy.section import Payload, Skipped

_STATM = ("size", "resident", "shared", "text", "lib", "data", "dirty")
_MAX_SHARED = 200
_SMAPS_BYTES = 8 << 20
_MAX_BIGGEST = 10
# smaps costs 10 ms a GiB and 10 µs a mapping.
_WALKED_BYTES, _WALKED_MAPPINGS = 1 << 30, 2000
_MAPPING = re.compile(r"^(\w+)-(\w+) (\S+) \S+ \S+ \d+[ ]*(.*)$", re.MULTILINE)
_RSS = re.compile(r"^Rss:\s*(\d+) kB", re.MULTILINE)
_OWN = ("Private_Clean", "Private_Dirty")


def collect(patient: Patient) -> Payload:
    """Read statm, smaps_rollup, the limits, and the mappings that are shared or large.

    Units: `rollup` in KiB, all else in bytes. Shapes: biggest: start, bytes (resident), mode, name
    (empty for anonymous memory). Raises Skipped when the process has no memory left.
    """
    pid = patient.pid
    pages = (procfs.read_text(f"/proc/{pid}/statm") or "").split()
    if not pages or pages[0] == "0":
        raise Skipped("the process has no memory of its own any more")
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    statm = {name: int(count) * page_bytes for name, count in zip(_STATM, pages, strict=True)}
    found = procfs.read_text(f"/proc/{pid}/smaps_rollup") or ""
    rollup = {
        name: int(kib) for name, kib in re.findall(r"^(\w+):\s*(\d+) kB", found, re.MULTILINE)
    }
    maps = _MAPPING.findall(procfs.maps(pid))
    small = statm["resident"] <= _WALKED_BYTES and len(maps) <= _WALKED_MAPPINGS
    biggest, heap_bytes = _biggest(pid) if small else ([], None)
    return {
        "statm": statm,
        "rollup": rollup,
        "uss_bytes": _bytes(rollup, *_OWN),
        "pss_bytes": _bytes(rollup, "Pss"),
        "swap_bytes": _bytes(rollup, "Swap"),
        "anonymous_bytes": _bytes(rollup, "Anonymous"),
        "heap_bytes": heap_bytes,
        "mappings": len(maps),
        "biggest": biggest,
        "limits": _limits(pid),
        "shared_mappings": [
            {"start": int(start, 16), "end": int(end, 16), "name": name}
            for start, end, mode, name in maps
            if mode == "rw-s"
        ][:_MAX_SHARED],
    }


def _bytes(rollup: dict[str, int], *names: str) -> int | None:
    """None when the kernel did not let us see it."""
    return sum(rollup.get(name, 0) for name in names) * 1024 if rollup else None


def _limits(pid: int) -> Payload:
    group, own = cgroup.memory(pid), limits(pid)
    return {
        "cgroup_bytes": group.get("limit_bytes"),
        "cgroup_used_bytes": group.get("used_bytes"),
        "cgroup_cache_bytes": group.get("cache_bytes"),
        "rlimit_as_bytes": _soft(own, "Max address space"),
        "rlimit_data_bytes": _soft(own, "Max data size"),
    }


def _soft(own: dict[str, list[str]], name: str) -> int | None:
    soft = own.get(name, [""])[0]
    return int(soft) if soft.isdigit() else None


def _biggest(pid: int) -> tuple[list[Payload], int | None]:
    text = procfs.read_text(f"/proc/{pid}/smaps", _SMAPS_BYTES) or ""
    heads = list(_MAPPING.finditer(text))
    sizes = [int(kib) * 1024 for kib in _RSS.findall(text)]
    # Cut off at the limit, a mapping may lack its size.
    walked = list(zip(heads, sizes, strict=False))
    heap = sum(size for head, size in walked if head[4] == "[heap]")
    walked.sort(key=lambda one: -one[1])
    biggest = [
        {"start": int(head[1], 16), "bytes": size, "mode": head[3], "name": head[4]}
        for head, size in walked[:_MAX_BIGGEST]
    ]
    return biggest, heap if walked else None
