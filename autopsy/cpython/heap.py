"""What a Python heap consists of: types with count and bytes, from a fair sample of its memory.

Secret: which pieces are looked at and in which order. Pieces are visited in steps that spread over
the whole, so that whenever time is over the rest can be taken to look like what was seen.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

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
_MAX_FIRSTS = 200
_WITNESSES = 30
_MAX_TYPES_KNOWN = 100_000
_MAX_TYPES, _MAX_BUFFERS = 20, 8
_PRESENT, _SWAPPED = 1 << 63, 1 << 62
_MAPPING = re.compile(r"^(\w+)-(\w+) rw-p \S+ \S+ \d+[ ]*(\[heap\]|\[anon.*|)$", re.MULTILINE)
_GOLDEN = 0.618033988749895
_BUFFERS = ("bytes", "str", "bytearray", "array.array", "numpy.ndarray", "memoryview")
#: Containers with this many items or more are worth a name.
NOTICED = 1000


@dataclass(slots=True)
class _Stratum:
    """Pieces of memory of one kind, and what was counted in those visited so far."""

    pieces: list[tuple[int, int]]
    census: Census
    visited: int = 0

    @property
    def weight(self) -> float:
        """How many pieces each visited one stands for."""
        return len(self.pieces) / self.visited if self.visited else 0.0


class Count:
    """The count of one heap."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._sized = _sized(interpreter)
        self._large = _large(interpreter)
        types = _prefixes(interpreter, _all_types(interpreter))
        # Where a mapping begins there is the head of a giant object, if it holds one.
        firsts, others = _pieces(interpreter.pid)
        self._strata = [
            _Stratum(pieces, Census(types, self._sized, self._large, NOTICED))
            for pieces in (firsts, others)
            if pieces
        ]
        self.giants: dict[int, tuple[int, int]] = {}

    def run(self, until_mono: float, most_pieces: float = 1.0) -> None:
        """Count until then, or until that share of the pieces has been visited."""
        path = f"/proc/{self._interpreter.pid}/pagemap"
        pagemap = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for stratum in self._strata:
                for start, size in _spread(stratum.pieces):
                    limit = most_pieces * len(stratum.pieces)
                    if clock.mono() > until_mono or stratum.visited >= limit:
                        break
                    for address, length in _present(pagemap, start, size):
                        piece = self._interpreter.memory.fetch(address, length)
                        stratum.census.count(piece, address)
                    stratum.visited += 1
        finally:
            os.close(pagemap)
        for stratum in self._strata:
            self.giants.update(stratum.census.tally.giants)

    @property
    def containers(self) -> dict[int, tuple[int, int]]:
        """Length and type of the large containers seen, by address."""
        return {
            address: (length, kind)
            for stratum in self._strata
            for length, kind, address in stratum.census.tally.containers
        }

    def giant(self, address: int, kind: int) -> bool:
        """Add an object that was found in another way, if it is a giant."""
        memory = self._interpreter.memory
        size = 0
        if kind in self._sized:
            _, size = self._sized[kind].of(memory.words(address, self._sized[kind].words))
        for large in self._large:
            if large.type == kind:
                size = large.size(memory.read(address, large.head_bytes))
        if not arena.GIANT_BYTES <= size < 1 << 40:
            return False
        self.giants[address] = kind, size
        return True

    def payload(self) -> Payload:
        """Return what the whole heap holds, by what was seen of it."""
        objects, sizes = Counter[int](), Counter[int]()
        used = free = beside = 0.0
        for stratum in self._strata:
            tally, weight = stratum.census.tally, self._weight(stratum)
            for kind, count in tally.objects.items():
                objects[kind] += round(count * weight)
                sizes[kind] += round(tally.bytes[kind] * weight)
            used += tally.used * weight
            free += (tally.pools * arena.POOL_BYTES - tally.used) * weight
            beside += (tally.large + tally.tables) * weight
        for kind, size in self.giants.values():
            objects[kind] = max(1, objects[kind]) if kind in self._sized else objects[kind] + 1
            sizes[kind] += size
        giants = sum(size for _, size in self.giants.values())
        share = sum(one.visited for one in self._strata) / max(1, self._size)
        return {
            "objects": objects.total(),
            "seen": sum(one.census.tally.objects.total() for one in self._strata),
            "partial": share < 1,
            "share": round(share, 4),
            **self._rows(objects, sizes),
            "python_bytes": round(used + beside) + giants,
            "small_bytes": round(used),
            "unused_bytes": round(free),
            "left_out": max(0, len(sizes) - _MAX_TYPES),
        }

    @property
    def _size(self) -> int:
        return sum(len(one.pieces) for one in self._strata)

    def _weight(self, stratum: _Stratum) -> float:
        """When one kind was not reached at all, the other has to stand for both."""
        if all(one.visited for one in self._strata):
            return stratum.weight
        return self._size / max(1, sum(one.visited for one in self._strata))

    def _rows(self, objects: Counter[int], sizes: Counter[int]) -> Payload:
        rows = [
            {"type": type_name(self._interpreter, kind), "count": objects[kind], "bytes": size}
            for kind, size in sizes.most_common(_MAX_TYPES)
        ]
        buffers = [one for one in rows if one["type"] in _BUFFERS]
        return {"types": rows, "buffers": buffers[:_MAX_BUFFERS]}


def _sized(interpreter: Interpreter) -> dict[int, Sized]:
    builtins = interpreter.variables("builtins")
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
    return sized


def _large(interpreter: Interpreter) -> list[Large]:
    builtins = interpreter.variables("builtins")
    return [
        Large(builtins["str"], 0, at.TEXT_STATE + 4, arena.text_bytes),
        Large(builtins["bytes"], 0, at.OBJECT_SIZE + 8, arena.binary_bytes),
        Large(builtins["tuple"], 2, at.OBJECT_SIZE + 8, arena.tuple_bytes),
    ]


def _all_types(interpreter: Interpreter) -> set[int]:
    """Return the addresses of all types: `object` and whatever is derived from it."""
    objects, memory = interpreter.objects, interpreter.memory
    root = interpreter.variables("builtins")["object"]
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


def _prefixes(interpreter: Interpreter, types: set[int]) -> dict[int, int]:
    """Return how many words stand before the objects of each type.

    Two are the collector's, two are for values and dict, two come from the allocator's own checks.
    """
    first = 2 if _is_checked(interpreter) else 0
    found: dict[int, int] = {}
    for kind in types:
        try:
            flags = interpreter.memory.word(kind + at.TYPE_FLAGS)
        except Unreadable:
            continue  # it has just been freed
        collected, managed = flags & at.FLAG_COLLECTED, flags & at.FLAG_MANAGED_DICT
        found[kind] = first + (2 if collected else 0) + (2 if managed else 0)
    # The most common first: most blocks are known after one look at them.
    return dict(sorted(found.items(), key=lambda one: one[1]))


def _is_checked(interpreter: Interpreter) -> bool:
    """Return whether the allocator checks itself (PYTHONDEVMODE): texts then begin later."""
    votes = 0
    for module in list(interpreter.modules)[:_WITNESSES]:
        name = interpreter.variables(module).get("__name__", 0)
        start = name // arena.POOL_BYTES * arena.POOL_BYTES
        piece = interpreter.memory.fetch(start, arena.POOL_BYTES)
        pool = arena.read_pool(piece, 0, start) if len(piece) == arena.POOL_BYTES else None
        if pool is not None:
            place = (name - start - arena.HEADER_BYTES) % pool.block_bytes
            votes += {0: -1, 16: 1}.get(place, 0)
    return votes > 0


def _pieces(pid: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return start and size of the pieces of memory that no file stands behind.

    Those at the begin of a mapping come apart, unless there are too many to visit them all.
    """
    firsts: list[tuple[int, int]] = []
    others: list[tuple[int, int]] = []
    for match in _MAPPING.finditer(procfs.read_text(f"/proc/{pid}/maps", _MAPS_LIMIT) or ""):
        start, end = int(match[1], 16), int(match[2], 16)
        found = firsts
        while start < end and len(others) < _MAX_PIECES:
            # Cut where pools may begin.
            until = min((start // _PIECE + 1) * _PIECE, end)
            found.append((start, until - start))
            start, found = until, others
    if len(firsts) > _MAX_FIRSTS:
        firsts, others = [], firsts + others
    return firsts, others


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


def type_name(interpreter: Interpreter, address: int) -> str:
    """Return the name of a type as a person says it; its address when it cannot be read."""
    try:
        return interpreter.objects.type_at(address).name.removeprefix("builtins.")
    except (Unreadable, OutOfTime):
        return hex(address)
