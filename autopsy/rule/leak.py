"""What a process has too many of: descriptors, sockets, threads, dead children, memory.

Secret: how many are too many, and when memory is a leak and not just much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autopsy.case import Case
from autopsy.cause import Code, Diagnosis, hit
from autopsy.section import Payload

_CLOSE_WAIT_MANY = 50
_THREADS_MANY = 500
_ZOMBIES_MANY = 20
_NEARLY = 0.9
_MIB = 1 << 20
# Below this nobody calls it a leak; a Python program with a few large libraries has less. Less is
# enough where one container has very many items.
_MEMORY_MUCH, _MEMORY_SOME = 96 * _MIB, 64 * _MIB
_GROWN = 0.3 * _MIB
_ITEMS_MANY = 50_000
_COUNTED = 0.1
_OF_LATE_S, _LONG_S = 120, 60
# Much memory that does not grow is what many a healthy program has.
_STEADY = 0.4
# What share of its own memory Python's objects must take to be the ones that leak.
_PYTHON_SHARE, _NATIVE_SHARE = 0.4, 0.35


def leaks(case: Case) -> Iterator[Diagnosis]:
    """Name what was opened or started and never closed."""
    count = (case.sections.get("fds") or {}).get("count") or 0
    limit = (case.sections.get("fds") or {}).get("limit") or 0
    waiting = [one for one in case.sockets.values() if one["state"] == "CLOSE_WAIT"]
    if len(waiting) >= _CLOSE_WAIT_MANY:
        peers = ", ".join(sorted({one["peer"] for one in waiting})[:3])
        yield hit(Code.LEAK_SOCKETS, 0.92, f"sockets: {len(waiting)} in CLOSE_WAIT to {peers}")
    if limit and count > _NEARLY * limit:
        yield hit(Code.LEAK_FDS, 0.9, f"fds: {count} open of {limit} allowed")
    if len(case.threads) > _THREADS_MANY:
        yield _many_threads(case)
    zombies = [one for one in case.children if one["state"] == "Z" and one["depth"] == 1]
    if len(zombies) >= _ZOMBIES_MANY:
        yield hit(Code.LEAK_ZOMBIES, 0.9, f"children: {len(zombies)} dead children not waited for")


def _many_threads(case: Case) -> Diagnosis:
    """Threads in one place were forgotten; those that serve a client each were not."""
    serving = sum(1 for one in case.threads if one.args[:1] and one.args[0] in case.sockets)
    place, count = Counter(one.where for one in case.threads).most_common(1)[0]
    lines = (f"process: {len(case.threads)} threads", f"stacks: {count} of them in {place}")
    return hit(Code.LEAK_THREADS, 0.9 if serving < count / 2 else 0.6, *lines)


def memory(case: Case) -> Iterator[Diagnosis]:
    """Name memory that was taken and never given back; never sure where it does not grow."""
    shared = int((case.memory.get("rollup") or {}).get("Pss_Shmem") or 0) * 1024
    anonymous = int(case.memory.get("anonymous_bytes") or 0) + shared
    heap = case.sections.get("heap") or {}
    containers = [one for one in heap.get("containers") or [] if one["length"] >= _ITEMS_MANY]
    much = _MEMORY_SOME if containers else _MEMORY_MUCH
    if anonymous < much or not heap or len(case.threads) > _THREADS_MANY:
        return
    objects = int(heap.get("python_bytes") or 0)
    grown, lasted = _growth(case)
    lines = [f"memory: {anonymous // _MIB} MiB of its own, Python's objects {objects // _MIB} MiB"]
    lines += [f"growth: {grown / _MIB:+.1f} MiB while it was looked at"] if grown else []
    lines += [_counted(one) for one in (heap.get("types") or [])[:3]]
    lines += [f"heap: {one['name']}, a {one['type']} of {one['length']}" for one in containers[:2]]
    over = case.facts.get("verdict") == "memory"
    grows = grown > (0 if containers else _GROWN) or over
    # A program that loads what it needs grows for a second too, and not for a minute.
    growing = 0.88 if over or lasted >= _LONG_S else 0.77
    if objects >= _PYTHON_SHARE * anonymous:
        yield hit(Code.LEAK_MEMORY_PYTHON, growing if grows else _STEADY, *lines)
    elif objects <= _NATIVE_SHARE * anonymous:
        counted = float(heap.get("share") or 1)  # of a sample too small, objects may be missing
        sure = (growing if counted > _COUNTED else 0.6) if grows else _STEADY
        yield hit(Code.LEAK_MEMORY_NATIVE, sure, *lines)


def _growth(case: Case) -> tuple[float, float]:
    """Bytes by which it has grown of late, and in how many seconds."""
    points = (case.sections.get("growth") or {}).get("points") or []
    late = [point for point in points if len(point) > 1 and point[0] >= -_OF_LATE_S]
    if len(late) < 2:
        return 0.0, 0.0
    return float(late[-1][1] - late[0][1]), float(late[-1][0] - late[0][0])


def _counted(one: Payload) -> str:
    return f"heap: {one['count']} objects of {one['type']}, {int(one['bytes']) // _MIB} MiB"
