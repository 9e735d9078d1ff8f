"""What lies in a piece of memory: the pools of Python's allocator, and large objects outside.

Secret: the pools' header and free list, and malloc's size before each chunk. Counts exactly what is
in a piece; it is the caller's to choose pieces and to say what they stand for. Source:
Include/internal/pycore_obmalloc.h of 3.11; malloc/malloc.c of glibc.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autopsy.cpython import layout as at

POOL_BYTES = 16384
_HEADER = struct.Struct("<I4xQQQIIII")
HEADER_BYTES = _HEADER.size
_ALIGNMENT, _CLASSES = 16, 32
# A pool's largest block: what is larger comes from malloc.
SMALL_BYTES = _ALIGNMENT * _CLASSES
# A single one of these in a sample must not be taken for many.
GIANT_BYTES = 8 << 20
_MALLOC_HEADER_BYTES, _MALLOC_FLAGS, _MAPPED = 8, 7, 2
_PAGE = 4096
_MOST_REFERENCES = 1 << 40
_LONGEST = 1 << 40

# From the words of a container's head to its length and the bytes it keeps outside.
Measure = Callable[[tuple[int, ...]], tuple[int, int]]


@dataclass(slots=True)
class Tally:
    """What was counted so far: objects and bytes by the address of their type.

    `large` is what the objects outside of pools take, `tables` what containers keep there. In
    `giants` are type and bytes by address: one of those stands for itself alone.
    """

    objects: Counter[int] = field(default_factory=Counter)
    bytes: Counter[int] = field(default_factory=Counter)
    pools: int = 0
    used: int = 0
    large: int = 0
    tables: int = 0
    giants: dict[int, tuple[int, int]] = field(default_factory=dict)
    containers: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sized:
    """How a container tells what it holds, and how many words of its head that takes.

    Only those whose word `gate` is above `over` are worth asking: what the others hold outside is
    in pools as well, or nothing.
    """

    words: int
    gate: int
    over: int
    of: Measure
    holds_items: bool = True


@dataclass(frozen=True, slots=True)
class Large:
    """A type whose objects can be one large chunk: words before it, and its size from its head."""

    type: int
    prefix: int
    head_bytes: int
    size: Callable[[bytes], int]


class Census:
    """Counts piece after piece.

    `types` tells by the address of each type how many words stand before its objects, `sized` are
    the containers among them.
    """

    def __init__(
        self, types: dict[int, int], sized: dict[int, Sized], large: list[Large], noticed: int
    ) -> None:
        self._types: dict[int, dict[int, int]] = {}
        for kind, prefix in types.items():
            self._types.setdefault(prefix, {})[kind] = kind
        self._sized = sized
        self._large = [(struct.pack("<Q", one.type), one) for one in large]
        self._noticed = noticed
        self.tally = Tally()

    def count(self, piece: bytes, address: int) -> None:
        """Count what lies in a piece that begins at a multiple of the page size."""
        outside = 0
        for offset in range(-address % POOL_BYTES, len(piece) - POOL_BYTES + 1, POOL_BYTES):
            pool = read_pool(piece, offset, address)
            if pool is not None:
                self._outside(piece, outside, offset, address)
                self._inside(piece, offset, address, pool)
                outside = offset + POOL_BYTES
        self._outside(piece, outside, len(piece), address)

    def _inside(self, piece: bytes, offset: int, address: int, pool: Pool) -> None:
        tally, size = self.tally, pool.block_bytes
        start = offset + _HEADER.size
        words = memoryview(piece)[start : start + pool.carved * size].cast("Q")
        step, left = size // 8, pool.count
        tally.pools += 1
        tally.used += left * size
        free = list(_free(words, pool, address + start, step)) if left < pool.carved else []
        for prefix, types in self._types.items():
            if prefix + 1 >= step or left <= 0:
                continue
            kinds = list(map(types.get, words[prefix + 1 :: step].tolist()))
            for index in free:
                kinds[index] = None
            for kind, count in Counter(kinds).items():
                if kind is None:
                    continue
                left -= count
                tally.objects[kind] += count
                tally.bytes[kind] += count * size
                if kind in self._sized:
                    heads = _Heads(words, step, prefix, kinds, address + start)
                    self._containers(heads, kind)

    def _containers(self, heads: _Heads, kind: int) -> None:
        sized, tally = self._sized[kind], self.tally
        for head, address in heads.of(kind, sized):
            length, kept = sized.of(head)
            if not 0 <= length < _LONGEST or not 0 <= kept < _LONGEST:
                continue  # torn
            if kept >= GIANT_BYTES:
                tally.giants[address] = kind, kept
            else:
                tally.bytes[kind] += kept
                tally.tables += kept if kept > SMALL_BYTES else 0
            if sized.holds_items and length >= self._noticed:
                tally.containers.append((length, kind, address))

    def _outside(self, piece: bytes, start: int, end: int, address: int) -> None:
        if end - start < SMALL_BYTES:
            return
        for packed, large in self._large:
            place = piece.find(packed, start, end)
            while place >= 0:
                size = _large_bytes(piece, place, large)
                if size >= GIANT_BYTES:
                    self.tally.giants[address + place - 8] = large.type, size
                elif size:
                    self.tally.objects[large.type] += 1
                    self.tally.bytes[large.type] += size
                    self.tally.large += size
                place = piece.find(packed, place + 8, end)


@dataclass(frozen=True, slots=True)
class _Heads:
    """The words of a pool's blocks, and what kind of object each of them is."""

    words: memoryview[int]
    step: int
    prefix: int
    kinds: list[int | None]
    address: int

    def of(self, kind: int, sized: Sized) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield the head and the address of each object of a kind that is worth asking."""
        if self.prefix + sized.words > self.step:
            return
        gates = self.words[self.prefix + sized.gate :: self.step].tolist()
        for index, (other, gate) in enumerate(zip(self.kinds, gates, strict=False)):
            if gate > sized.over and other == kind:
                first = index * self.step + self.prefix
                yield tuple(self.words[first : first + sized.words]), self.address + first * 8


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool: the size of its blocks, how many are in use and how many ever were."""

    block_bytes: int
    count: int
    carved: int
    free: int


def read_pool(piece: bytes, offset: int, address: int) -> Pool | None:
    """Return the pool at an offset of a piece; None when there is none, or nothing in it."""
    count, free, _, _, _, index, following, last = _HEADER.unpack_from(piece, offset)
    size = (index + 1) * _ALIGNMENT
    if not count or index >= _CLASSES or last != POOL_BYTES - size or following > last + size:
        return None
    carved, rest = divmod(following - _HEADER.size, size)
    begin = address + offset
    if rest or count > carved or (free and not begin < free < begin + POOL_BYTES):
        return None
    return Pool(size, count, carved, free)


def _free(words: memoryview[int], pool: Pool, address: int, step: int) -> Iterator[int]:
    """Yield the blocks on the free list: they still look like what they were."""
    block = pool.free
    for _ in range(pool.carved - pool.count):
        index, rest = divmod(block - address, pool.block_bytes)
        if not block or rest or not 0 <= index < pool.carved:
            return
        yield index
        block = words[index * step]


def _large_bytes(piece: bytes, place: int, large: Large) -> int:
    """Return the size of the object whose type stands there; 0 when malloc's size disagrees."""
    head = place - 8
    chunk = head - 8 * large.prefix
    if chunk < _MALLOC_HEADER_BYTES or head + large.head_bytes > len(piece):
        return 0
    references, size = struct.unpack_from("<q", piece, head)[0], 0
    if 0 < references < _MOST_REFERENCES:
        size = large.size(piece[head : head + large.head_bytes]) + 8 * large.prefix
    (said,) = struct.unpack_from("<Q", piece, chunk - _MALLOC_HEADER_BYTES)
    slack = 2 * _PAGE if said & _MAPPED else 64
    taken = said & ~_MALLOC_FLAGS
    return size if SMALL_BYTES < size <= taken <= size + slack else 0


def list_size(words: tuple[int, ...]) -> tuple[int, int]:
    """Return the length of a list and the bytes of its items."""
    return words[2], 8 * words[4]


def dict_size(words: tuple[int, ...]) -> tuple[int, int]:
    """Return the length of a dict and about the bytes of its table (2/3 full when it has grown)."""
    length = words[2]
    slots = 1 << max(3, (length * 3 // 2).bit_length())
    return length, slots * (1 if slots <= 1 << 8 else 2 if slots <= 1 << 16 else 4) + slots * 14


def set_size(words: tuple[int, ...]) -> tuple[int, int]:
    """Return the length of a set and the bytes of its table; a small one has it inside."""
    slots = words[4] + 1
    return words[3], 16 * slots if slots > 8 else 0


def bytearray_size(words: tuple[int, ...]) -> tuple[int, int]:
    """Return the length of a bytearray and the bytes it keeps."""
    return words[2], words[3]


def deque_size(words: tuple[int, ...]) -> tuple[int, int]:
    """Return the length of a deque and the bytes of its blocks."""
    return words[2], (words[2] // at.DEQUE_BLOCK_ITEMS + 1) * (8 * at.DEQUE_BLOCK_ITEMS + 16)


def text_bytes(head: bytes) -> int:
    """Return the size of a compact str from its head."""
    length, state = struct.unpack_from("<Q8xI", head, at.TEXT_LENGTH)
    kind, compact, plain = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
    if not compact or kind not in (1, 2, 4):
        return 0
    start = at.TEXT_ASCII_START if plain else at.TEXT_START
    return int(start + kind * (length + 1))


def binary_bytes(head: bytes) -> int:
    """Return the size of a bytes object from its head."""
    return int(at.BYTES_START + 1 + struct.unpack_from("<Q", head, at.OBJECT_SIZE)[0])


def tuple_bytes(head: bytes) -> int:
    """Return the size of a tuple from its head."""
    return int(at.TUPLE_ITEMS + 8 * struct.unpack_from("<Q", head, at.OBJECT_SIZE)[0])
