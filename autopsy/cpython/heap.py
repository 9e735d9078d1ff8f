"""What a Python heap consists of: types with count and bytes, from a fair sample of its memory.

Secret: which pieces are looked at and in which order. Pieces are visited in steps that spread over
the whole, so that whenever time is over the rest can be taken to look like what was seen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from autopsy import clock
from autopsy.collect import procfs
from autopsy.cpython import arena
from autopsy.cpython import layout as at
from autopsy.cpython.arena import Census, Large, Sized
from autopsy.cpython.interpreter import Interpreter
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.section import Payload

_PIECE = 1 << 18
_PAGE = 4096
_SLOT_PAGES = arena.POOL_BYTES // _PAGE
_MAPS_LIMIT = 8 << 20
_MAX_PIECES = 1 << 20
_MAX_TYPES_KNOWN = 100_000
_MAX_TYPES, _MAX_BUFFERS = 20, 8
_PRESENT, _SWAPPED = 1 << 63, 1 << 62
_MAPPING = re.compile(r"^(\w+)-(\w+) rw-p \S+ \S+ \d+[ ]*(\[heap\]|\[anon.*|)$", re.MULTILINE)
_GOLDEN = 0.618033988749895
_BUFFERS = ("bytes", "str", "bytearray", "array.array", "numpy.ndarray", "memoryview")
#: Containers with this many items or more are worth a name.
NOTICED = 1000

Found = tuple[Payload, list[tuple[int, int, int]]]


def count(interpreter: Interpreter, until_mono: float, most_pieces: float = 1.0) -> Found:
    """Count the objects of a heap until then, and say what the whole of it holds by that.

    `most_pieces` is the share of the memory to stop at. Shapes: the payload of the section; then
    (length, type, address) of the large containers seen.
    """
    began = clock.mono()
    census = _census(interpreter)
    pieces = _pieces(interpreter.pid)
    visited = 0
    pagemap = os.open(f"/proc/{interpreter.pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for start, size in _spread(pieces):
            if clock.mono() > until_mono or visited >= most_pieces * len(pieces):
                break
            for address, length in _present(pagemap, start, size):
                census.count(interpreter.memory.fetch(address, length), address)
            visited += 1
    finally:
        os.close(pagemap)
    share = visited / len(pieces) if pieces else 1.0
    payload = _payload(interpreter, census.tally, share)
    payload["ms"] = round((clock.mono() - began) * 1000, 1)
    return payload, census.tally.containers


def _census(interpreter: Interpreter) -> Census:
    builtins = interpreter.variables("builtins")
    types = _all_types(interpreter, builtins["object"])
    sized = {
        builtins["list"]: Sized(5, 4, 64, arena.list_size),
        builtins["dict"]: Sized(5, 2, 10, arena.dict_size),
        builtins["set"]: Sized(5, 4, 31, arena.set_size),
        builtins["frozenset"]: Sized(5, 4, 31, arena.set_size),
        builtins["bytearray"]: Sized(
            4, 3, arena.SMALL_BYTES, arena.bytearray_size, holds_items=False
        ),
    }
    for module, name, one in (
        ("collections", "deque", Sized(3, 1, 0, arena.deque_size)),
        ("collections", "OrderedDict", Sized(5, 2, 10, arena.dict_size)),
        ("collections", "defaultdict", Sized(5, 2, 10, arena.dict_size)),
        ("collections", "Counter", Sized(5, 2, 10, arena.dict_size)),
        ("array", "array", Sized(6, 4, 0, _array_size(interpreter), holds_items=False)),
        ("numpy", "ndarray", Sized(7, 3, 0, _ndarray_size(interpreter), holds_items=False)),
    ):
        if address := interpreter.variables(module).get(name):
            sized[address] = one
    large = [
        Large(builtins["str"], 0, at.TEXT_STATE + 4, arena.text_bytes),
        Large(builtins["bytes"], 0, at.OBJECT_SIZE + 8, arena.binary_bytes),
        Large(builtins["tuple"], 2, at.OBJECT_SIZE + 8, arena.tuple_bytes),
    ]
    return Census(types, sized, large, NOTICED)


def _all_types(interpreter: Interpreter, root: int) -> set[int]:
    """Return the addresses of all types: `object` and whatever is derived from it."""
    objects, memory = interpreter.objects, interpreter.memory
    found, queue = {root}, [root]
    while queue and len(found) < _MAX_TYPES_KNOWN:
        held = memory.word(queue.pop() + at.TYPE_SUBCLASSES)
        if not held:
            continue
        try:
            # The keys are the addresses of the types, the values weak references to them.
            derived = [objects.integer(key) for key, _ in objects.items(held)]
        except Unreadable:
            continue
        queue += [one for one in derived if one not in found]
        found.update(derived)
    return found


def _pieces(pid: int) -> list[tuple[int, int]]:
    """Return start and size of the pieces of memory that no file stands behind."""
    found: list[tuple[int, int]] = []
    for match in _MAPPING.finditer(procfs.read_text(f"/proc/{pid}/maps", _MAPS_LIMIT) or ""):
        start, end = int(match[1], 16), int(match[2], 16)
        while start < end and len(found) < _MAX_PIECES:
            # Cut where pools may begin.
            until = min((start // _PIECE + 1) * _PIECE, end)
            found.append((start, until - start))
            start = until
    return found


def _spread(pieces: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield each piece once, neighbours far apart in time."""
    size = len(pieces)
    step = int(size * _GOLDEN) | 1
    while size > 1 and not _have_no_divisor(step, size):
        step += 2
    for turn in range(size):
        yield pieces[turn * step % size]


def _have_no_divisor(one: int, other: int) -> bool:
    while other:
        one, other = other, one % other
    return one == 1


def _present(pagemap: int, start: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of a piece that are in memory: reading others would bring them there."""
    packed = os.pread(pagemap, size // _PAGE * 8, start // _PAGE * 8)
    pages = memoryview(packed).cast("Q").tolist()
    if all(page & _PRESENT for page in pages):
        yield start, size
        return
    run: int | None = None
    for index in range(0, len(pages), _SLOT_PAGES):
        slot = pages[index : index + _SLOT_PAGES]
        there = any(page & _PRESENT for page in slot) and not any(page & _SWAPPED for page in slot)
        address = start + index * _PAGE
        if there and run is None:
            run = address
        elif not there and run is not None:
            yield run, address - run
            run = None
    if run is not None:
        yield run, start + size - run


def _array_size(interpreter: Interpreter) -> arena.Measure:
    def measure(words: tuple[int, ...]) -> tuple[int, int]:
        try:
            return words[2], words[4] * interpreter.memory.int32(words[5] + at.ARRAY_ITEM_BYTES)
        except (Unreadable, OutOfTime):
            return words[2], 0

    return measure


def _ndarray_size(interpreter: Interpreter) -> arena.Measure:
    """What an array keeps itself: its first dimension times the step along it, if it is whole."""

    def measure(words: tuple[int, ...]) -> tuple[int, int]:
        dimensions, steps, base = words[4], words[5], words[6]
        if base or not words[3] & 0xFF:
            return 0, 0
        try:
            length = interpreter.memory.word(dimensions)
            return length, length * abs(interpreter.memory.signed(steps))
        except (Unreadable, OutOfTime):
            return 0, 0

    return measure


def _payload(interpreter: Interpreter, tally: arena.Tally, share: float) -> Payload:
    share = max(share, 1e-6)
    whole = {kind: round(size / share) for kind, size in tally.bytes.items()}
    seen = sum(tally.objects.values())
    rows = [
        {
            "type": type_name(interpreter, kind),
            "count": round(tally.objects[kind] / share),
            "bytes": size,
        }
        for kind, size in sorted(whole.items(), key=lambda one: -one[1])[:_MAX_TYPES]
    ]
    buffers = [one for one in rows if one["type"] in _BUFFERS]
    pools = tally.pools * arena.POOL_BYTES
    return {
        "objects": round(seen / share),
        "seen": seen,
        "partial": share < 1,
        "share": round(share, 4),
        "types": rows,
        "buffers": buffers[:_MAX_BUFFERS],
        "python_bytes": round((tally.used + tally.large + tally.tables) / share),
        "small_bytes": round(tally.used / share),
        "unused_bytes": round((pools - tally.used) / share),
        "left_out": max(0, len(whole) - _MAX_TYPES),
    }


def type_name(interpreter: Interpreter, address: int) -> str:
    """Return the name of a type as a person says it; its address when it cannot be read."""
    try:
        return interpreter.objects.type_at(address).name.removeprefix("builtins.")
    except (Unreadable, OutOfTime):
        return hex(address)
