"""The stacks of the last minutes of a process, in shared memory that outlives it: the bytes.

Secret: the layout. Two halves are filled by turns with entries that are only ever appended; a CRC
seeded with the half's number covers each, so whenever the writer is killed a reader gets every
entry before the torn one, and never one of an earlier filling. Light: imported inside the patient.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autopsy import memfd
from autopsy.errors import RingUnreadable

_MAGIC = 0x41555331
_HEADER = struct.Struct("<IIII")  # magic, layout version, bytes of a half, seconds of the window
_LAYOUT = 1
_HEADER_BYTES = 4096  # the halves start on a page
_HALF_BYTES = 240 << 10
_SIZE = _HEADER_BYTES + 2 * _HALF_BYTES
_FILLING = struct.Struct("<Q")  # which filling this is, counted over both halves; 0: none yet
_ENTRY = struct.Struct("<II")  # bytes of the body, its checksum
BODY_MAX_BYTES = 64 << 10

# The first byte of a body. Codes, stacks and threads are numbered in the order they are written,
# in each filling from 0 on.
CODE, STACK, THREAD, TASKS, SAMPLE = range(1, 6)
_FACTS = struct.Struct("<ddIQiiiHH")
_THREAD = struct.Struct("<QI")
_PAIRS = "<%dI"
#: The stack of a thread that could not be looked up within the budget of one sample.
UNKNOWN = 0xFFFFFFFF
_NAME_MAX, _FILE_MAX = 160, 400


class Full(Exception):
    """The half has no room for this entry: start the other one."""


class Facts(NamedTuple):
    """What one sample says of the process as a whole; -1 is not counted this time.

    Units: `mono` and `wall` in seconds. `attempt` numbers what the worker ran then.
    """

    mono: float
    wall: float
    attempt: int
    rss_bytes: int
    threads: int
    fds: int
    tasks: int


class Sample(NamedTuple):
    """One sample: the threads (by number) whose stack is another one now, and those that left."""

    facts: Facts
    moved: tuple[tuple[int, int], ...]
    left: tuple[int, ...]


class Shapes(NamedTuple):
    """How often each stack was found among the asyncio tasks that were looked at."""

    seen: int
    counts: tuple[tuple[int, int], ...]


def create_stack_ring(window_s: float) -> int:
    """Create the shared memory of a stack ring and return its descriptor (CLOEXEC, sealed).

    A window of 0 seconds means that no samples are wanted.
    """
    fd = memfd.create_sealed(memfd.STACK_RING, _SIZE)
    os.pwrite(fd, _HEADER.pack(_MAGIC, _LAYOUT, _HALF_BYTES, int(window_s)), 0)
    return fd


def window_s(fd: int) -> int:
    """Return how many seconds of samples are wanted. Raises RingUnreadable."""
    header = os.pread(fd, _HEADER.size, 0)
    if len(header) == _HEADER.size and os.fstat(fd).st_size >= _SIZE:
        magic, layout, half_bytes, window = _HEADER.unpack(header)
        if (magic, layout, half_bytes) == (_MAGIC, _LAYOUT, _HALF_BYTES):
            return int(window)
    raise RingUnreadable(
        f"descriptor {fd} is not a stack ring of this version",
        remedy="Run the same version of autopsy in the patient and outside of it.",
    )


class StackRing:
    """The writer's side; one thread of one process writes. The descriptor stays the caller's."""

    def __init__(self, fd: int) -> None:
        self.window_s = window_s(fd)
        self._map = mmap.mmap(fd, _SIZE)
        written = [_filling(self._map, half) for half in (0, 1)] if _is_written(fd) else [0]
        self._number = max(written)
        self._start = self._end = self._limit = 0

    def turn(self) -> None:
        """Start the other half, whose old entries are void from now on."""
        self._number += 1
        self._start = _start(self._number)
        self._limit = self._start + _HALF_BYTES
        self._end = self._start + _FILLING.size
        _FILLING.pack_into(self._map, self._start, self._number)

    def append(self, body: bytes) -> None:
        """Write one entry. Raises Full, at the beginning too: nothing is written before a turn."""
        if len(body) > BODY_MAX_BYTES or self._end + _ENTRY.size + len(body) > self._limit:
            raise Full
        start = self._end + _ENTRY.size
        self._map[start : start + len(body)] = body
        _ENTRY.pack_into(self._map, self._end, len(body), _checksum(self._number, body))
        self._end = start + len(body)

    def close(self) -> None:
        """Unmap the ring; the shared memory itself lives on while anyone holds it open."""
        self._map.close()


def fillings(fd: int) -> list[list[bytes]]:
    """Return the whole entries of both halves, those of the older filling first.

    Raises RingUnreadable.
    """
    window_s(fd)
    copy = os.pread(fd, _SIZE, 0)
    numbered = sorted((_filling(copy, half), half) for half in (0, 1))
    return [list(_entries(copy, half, number)) for number, half in numbered if number]


def pack_code(function: str, file: str) -> bytes:
    """Return the entry of a code object; the end of a long file name is kept."""
    name = function.encode("utf-8", "replace")[:_NAME_MAX].replace(b"\0", b"?")
    return bytes([CODE]) + name + b"\0" + file.encode("utf-8", "replace")[-_FILE_MAX:]


def unpack_code(body: bytes) -> tuple[str, str]:
    """Return (function, file)."""
    function, _, file = body[1:].partition(b"\0")
    return function.decode("utf-8", "replace"), file.decode("utf-8", "replace")


def pack_stack(calls: Sequence[int], is_cut: bool) -> bytes:
    """Return the entry of a stack: code number and line of each call, innermost first, flat."""
    return bytes([STACK, is_cut]) + struct.pack(_PAIRS % len(calls), *calls)


def unpack_stack(body: bytes) -> tuple[bool, list[tuple[int, int]]]:
    """Return whether outer calls were left out, and (code number, line) of each call."""
    return bool(body[1]), _pairs(body[2:])


def pack_thread(ident: int, tid: int, name: str) -> bytes:
    """Return the entry of a thread; `tid` 0 when Python does not know it."""
    return bytes([THREAD]) + _THREAD.pack(ident, tid) + name.encode("utf-8", "replace")[:_NAME_MAX]


def unpack_thread(body: bytes) -> tuple[int, int, str]:
    """Return (ident, tid, name)."""
    ident, tid = _THREAD.unpack_from(body, 1)
    return ident, tid, body[1 + _THREAD.size :].decode("utf-8", "replace")


def pack_tasks(shapes: Shapes) -> bytes:
    """Return the entry of the tasks' shapes, which hold until the next such entry."""
    flat = [number for pair in shapes.counts for number in pair]
    return bytes([TASKS]) + struct.pack("<I", shapes.seen) + struct.pack(_PAIRS % len(flat), *flat)


def unpack_tasks(body: bytes) -> Shapes:
    """Return the shapes: (stack number, count) each."""
    return Shapes(int.from_bytes(body[1:5], "little"), tuple(_pairs(body[5:])))


def pack_sample(sample: Sample) -> bytes:
    """Return the entry of a sample."""
    facts, moved, left = sample
    flat = [number for pair in moved for number in pair] + list(left)
    head = _FACTS.pack(*facts, len(moved), len(left))
    return bytes([SAMPLE]) + head + struct.pack(_PAIRS % len(flat), *flat)


def unpack_sample(body: bytes) -> Sample:
    """Return the sample."""
    *facts, moved, left = _FACTS.unpack_from(body, 1)
    flat = struct.unpack_from(_PAIRS % (2 * moved + left), body, 1 + _FACTS.size)
    pairs = tuple(zip(flat[0 : 2 * moved : 2], flat[1 : 2 * moved : 2], strict=True))
    return Sample(Facts(*facts), pairs, flat[2 * moved :])


def _pairs(packed: bytes) -> list[tuple[int, int]]:
    flat = struct.unpack(_PAIRS % (len(packed) // 4), packed)
    return list(zip(flat[::2], flat[1::2], strict=True))


def _start(number: int) -> int:
    return _HEADER_BYTES + (number % 2) * _HALF_BYTES


def _is_written(fd: int) -> bool:
    """Looking at a half takes memory for it: a new ring, which has one page yet, is not read."""
    return os.fstat(fd).st_blocks * 512 > _HEADER_BYTES


def _filling(memory: bytes | mmap.mmap, half: int) -> int:
    return int(_FILLING.unpack_from(memory, _start(half))[0])


def _entries(copy: bytes, half: int, number: int) -> Iterator[bytes]:
    at, limit = _start(half) + _FILLING.size, _start(half) + _HALF_BYTES
    while at + _ENTRY.size < limit:
        size, check = _ENTRY.unpack_from(copy, at)
        body = copy[at + _ENTRY.size : at + _ENTRY.size + size]
        if not 0 < size <= min(BODY_MAX_BYTES, limit - at - _ENTRY.size):
            return
        if _checksum(number, body) != check:
            return
        yield body
        at += _ENTRY.size + size


def _checksum(number: int, body: bytes) -> int:
    return zlib.crc32(body, number & 0xFFFFFFFF)
