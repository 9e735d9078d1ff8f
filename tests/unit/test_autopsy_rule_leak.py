"""Too many of something: descriptors, sockets, threads, dead children; memory that grows or not."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import child, codes, evidence, seen, sleeps, socket, thread

MIB = 1 << 20
NOTHING = [("unknown", 0.0)]
ROWS = {"type": "shop.Row", "count": 400_000, "bytes": 100 * MIB}


def waiting(count: int) -> dict[str, Any]:
    listed = [socket(fd, state="CLOSE_WAIT") for fd in range(3, 3 + count)]
    return seen(thread(), sockets={"sockets": listed})


def dead(count: int, depth: int = 1) -> dict[str, Any]:
    children = [child(100 + n, state="Z", depth=depth) for n in range(count)]
    return seen(thread(), children={"children": children})


def memory(
    mib: int,
    objects_mib: int,
    grown_mib: float | None = None,
    items: int | None = None,
    shared_mib: int = 0,
) -> dict[str, Any]:
    """Make a process with that much memory of its own, of which Python's objects take a part."""
    heap: dict[str, Any] = {"python_bytes": objects_mib * MIB, "types": [ROWS], "containers": []}
    if items is not None:
        heap["containers"] = [{"name": "shop.CACHE", "type": "dict", "length": items}]
    sections = seen(thread(), heap=heap)
    rollup = {"Pss_Shmem": shared_mib * 1024}
    sections["memory"] = {"anonymous_bytes": mib * MIB, "rollup": rollup}
    if grown_mib is not None:
        sizes = [mib * MIB, int((mib + grown_mib) * MIB)]
        sections["growth"] = {"points": [[-1.0, sizes[0], 1, None], [0.0, sizes[1], 1, None]]}
    return sections


def sampled(share: float, sections: dict[str, Any]) -> dict[str, Any]:
    return {**sections, "heap": {**sections["heap"], "share": share}}


def without(key: str, sections: dict[str, Any]) -> dict[str, Any]:
    return {name: payload for name, payload in sections.items() if name != key}


def lasting(seconds: float, sections: dict[str, Any]) -> dict[str, Any]:
    """The same growth over a longer time."""
    (_, *first), last = sections["growth"]["points"]
    return {**sections, "growth": {"points": [[-seconds, *first], last]}}


TABLE = {
    "many connections that the peer has closed": (waiting(50), [("leak.sockets", 0.92)]),
    "some connections that the peer has closed": (waiting(49), NOTHING),
    "nearly all descriptors": (
        seen(thread(), fds={"count": 922, "limit": 1024}),
        [("leak.fds", 0.9)],
    ),
    "nine tenths of the descriptors": (seen(thread(), fds={"count": 90, "limit": 100}), NOTHING),
    "many descriptors without a limit": (
        seen(thread(), fds={"count": 9999, "limit": None}),
        NOTHING,
    ),
    "very many threads": (seen(*map(thread, range(10, 511))), [("leak.threads", 0.9)]),
    "very many threads that each serve a client": (
        seen(
            *(thread(tid, args=[3]) for tid in range(10, 511)),
            sockets={"sockets": [socket()]},
        ),
        [("leak.threads", 0.6)],
    ),
    "very many threads that sleep": (
        seen(*(sleeps(tid, 1e6) for tid in range(10, 511))),
        [("leak.threads", 0.9), ("blocked.sleep", 0.3)],
    ),
    "many threads": (seen(*map(thread, range(10, 510))), NOTHING),
    "many dead children": (dead(20), [("leak.zombies", 0.9)]),
    "some dead children": (dead(19), NOTHING),
    "dead children of a child": (dead(20, depth=2), NOTHING),
    "objects that grow": (memory(200, 150, 1.0), [("leak.memory_python", 0.77)]),
    "objects that have grown for minutes": (
        lasting(90, memory(200, 150, 1.0)),
        [("leak.memory_python", 0.88)],
    ),
    "objects above the limit, as the probes saw": (
        {**memory(200, 150, 0.0), "facts": {"verdict": "memory"}},
        [("leak.memory_python", 0.88)],
    ),
    "objects that do not grow": (memory(200, 150, 0.1), [("leak.memory_python", 0.4)]),
    "objects, and nobody saw whether they grow": (memory(200, 150), [("leak.memory_python", 0.4)]),
    "objects that shrink": (memory(200, 150, -5.0), [("leak.memory_python", 0.4)]),
    "one large container that grows a little": (
        memory(70, 50, 0.1, items=50_000),
        [("leak.memory_python", 0.77)],
    ),
    "one large container that does not grow": (
        memory(70, 50, 0.0, items=50_000),
        [("leak.memory_python", 0.4)],
    ),
    "less memory, without a large container": (memory(70, 50, 1.0, items=49_999), NOTHING),
    "little memory in a large container": (memory(60, 50, 1.0, items=50_000), NOTHING),
    "memory outside of Python that grows": (memory(200, 20, 1.0), [("leak.memory_native", 0.77)]),
    "memory outside of Python that is steady": (
        memory(200, 20, 0.0),
        [("leak.memory_native", 0.4)],
    ),
    "memory outside of Python, by a small sample of the heap": (
        sampled(0.1, memory(200, 20, 1.0)),
        [("leak.memory_native", 0.6)],
    ),
    "memory outside of Python, by a large sample of the heap": (
        sampled(0.2, memory(200, 20, 1.0)),
        [("leak.memory_native", 0.77)],
    ),
    "memory of both kinds": (memory(200, 75, 1.0), NOTHING),
    "memory that is shared counts": (
        memory(50, 20, 1.0, shared_mib=100),
        [("leak.memory_native", 0.77)],
    ),
    "much memory, of which nobody could see inside": (
        without("heap", memory(200, 150, 1.0)),
        NOTHING,
    ),
    "memory of very many threads": (
        {
            **memory(200, 20, 1.0),
            "process": {"threads": [thread(tid) for tid in range(10, 511)]},
        },
        [("leak.threads", 0.9)],
    ),
}


@pytest.mark.parametrize(("sections", "expected"), TABLE.values(), ids=TABLE)
def test_too_many_of_one_kind_name_the_leak(
    sections: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    assert codes(sections) == expected


LINES = {
    "many connections that the peer has closed": ("sockets: 50 in CLOSE_WAIT to 10.0.0.9:5432",),
    "nearly all descriptors": ("fds: 922 open of 1024 allowed",),
    "very many threads": (
        "process: 501 threads",
        "stacks: 501 of them in no Python stack",
    ),
    "many dead children": ("children: 20 dead children not waited for",),
    "one large container that grows a little": (
        "memory: 70 MiB of its own, Python's objects 50 MiB",
        "growth: +0.1 MiB while it was looked at",
        "heap: 400000 objects of shop.Row, 100 MiB",
        "heap: shop.CACHE, a dict of 50000",
    ),
    "objects, and nobody saw whether they grow": (
        "memory: 200 MiB of its own, Python's objects 150 MiB",
        "heap: 400000 objects of shop.Row, 100 MiB",
    ),
}


@pytest.mark.parametrize(("row", "lines"), LINES.items(), ids=LINES)
def test_the_evidence_counts_them(row: str, lines: tuple[str, ...]) -> None:
    sections, expected = TABLE[row]
    assert evidence(sections, expected[0][0]) == lines
