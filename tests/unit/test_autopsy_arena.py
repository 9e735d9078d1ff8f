"""Counting what lies in a piece of memory, on pieces made by hand."""

from __future__ import annotations

import ctypes
import struct
from collections import deque

import pytest

from autopsy.cpython import arena
from autopsy.cpython import layout as at
from autopsy.cpython.arena import POOL_BYTES, Census, Large, Pool, Sized, read_pool

HEAD = struct.Struct("<I4xQQQIIII")
BASE = 0x7F0000000000
INT, LIST, TEXT = 0x5000, 0x6000, 0x7000


def pool(size: int, blocks: list[tuple[int, ...]], free: list[int] | None = None) -> bytes:
    """Make a pool at BASE: each block as words; those on the free list are linked in order."""
    words = [list(block) + [0] * (size // 8 - len(block)) for block in blocks]
    chain = [BASE + HEAD.size + index * size for index in free or []]
    for index, following in zip(free or [], [*chain[1:], 0], strict=False):
        words[index][0] = following
    head = HEAD.pack(
        len(blocks) - len(chain),
        chain[0] if chain else 0,
        0,
        0,
        0,
        size // 16 - 1,
        HEAD.size + len(blocks) * size,
        POOL_BYTES - size,
    )
    body = b"".join(struct.pack(f"<{size // 8}Q", *block) for block in words)
    return (head + body).ljust(POOL_BYTES, b"\0")


def counted(piece: bytes, address: int = BASE, noticed: int = 1000) -> arena.Tally:
    census = Census(
        {INT: 0, TEXT: 0, LIST: 2},
        {LIST: Sized(5, 4, 64, arena.list_size)},
        [Large(TEXT, 0, at.TEXT_STATE + 4, arena.text_bytes)],
        noticed,
    )
    census.count(piece, address)
    return census.tally


def test_a_pool_is_known_by_a_header_that_is_right_in_itself() -> None:
    made = pool(32, [(1, INT)] * 10, free=[3])
    assert read_pool(made, 0, BASE) == Pool(32, 9, 10, BASE + HEAD.size + 3 * 32)
    for offset, width in ((0, "<I"), (36, "<I"), (40, "<I"), (44, "<I"), (8, "<Q")):
        torn = bytearray(made)
        struct.pack_into(width, torn, offset, 77)
        assert read_pool(bytes(torn), 0, BASE) is None
    assert read_pool(bytes(POOL_BYTES), 0, BASE) is None


def test_objects_are_counted_where_their_type_has_them_and_free_ones_are_not() -> None:
    plain = pool(32, [(1, INT), (1, INT), (1, 0x1234)], free=[1])
    # A word that is a type, and stands where no object of it would have that, is just a word.
    no_list = (1, LIST, BASE, 0, 0, 0)
    tracked = pool(64, [(9, 9, 1, LIST, 3, BASE, 4)] * 2 + [no_list])
    tally = counted(plain + tracked)
    assert dict(tally.objects) == {INT: 1, LIST: 2}
    assert dict(tally.bytes) == {INT: 32, LIST: 128}
    assert (tally.pools, tally.used, tally.large, tally.tables) == (2, 2 * 32 + 3 * 64, 0, 0)


def test_what_a_container_keeps_outside_is_added_and_long_ones_are_noted() -> None:
    long = (9, 9, 1, LIST, 5000, BASE, 6000)
    tally = counted(pool(64, [long, (9, 9, 1, LIST, 3, BASE, 4)]))
    assert dict(tally.bytes) == {LIST: 2 * 64 + 8 * 6000}
    assert tally.tables == 8 * 6000
    assert tally.containers == [(5000, LIST, BASE + HEAD.size + 16)]


def test_a_giant_stands_for_itself() -> None:
    items = arena.GIANT_BYTES // 8
    tally = counted(pool(64, [(9, 9, 1, LIST, items, BASE, items)]))
    address = BASE + HEAD.size + 16
    assert tally.giants == {address: (LIST, arena.GIANT_BYTES)}
    assert (tally.tables, dict(tally.bytes)) == (0, {LIST: 64})


@pytest.mark.parametrize(
    ("said", "references", "expected"),
    [
        (1072 | 1, 1, 1000 + 49),
        (1072 | 1, 0, 0),  # freed
        (1072 | 1, 1 << 50, 0),  # no object has so many references
        (5000 | 1, 1, 0),  # malloc says that something else lies there
        (0, 1, 0),
        (4096 | 2, 1, 1000 + 49),  # a chunk of its own is made of whole pages
    ],
)
def test_a_large_object_must_agree_with_mallocs_size(
    said: int, references: int, expected: int
) -> None:
    ascii_state = 1 << 2 | 1 << 5 | 1 << 6
    head = struct.pack("<QQQQQI4x", said, references, TEXT, 1000, 0, ascii_state)
    tally = counted(bytes(4096) + head + bytes(4096))
    assert tally.large == expected
    assert tally.objects[TEXT] == (1 if expected else 0)


def test_a_piece_need_not_begin_where_pools_do() -> None:
    made = pool(32, [(1, INT)] * 4)
    tally = counted(bytes(4096) + made + bytes(100), address=BASE - 4096)
    assert dict(tally.objects) == {INT: 4}


def words_of(value: object, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}Q", ctypes.string_at(id(value), 8 * count))


def test_the_sizes_of_this_interpreters_own_objects() -> None:
    """The layout is the one that the program runs on."""
    items = list(range(100))
    items.append(1)
    length, kept = arena.list_size(words_of(items, 5))
    assert (length, kept) == (101, items.__sizeof__() - [].__sizeof__())
    table = {i: i for i in range(1000)}
    length, kept = arena.dict_size(words_of(table, 5))
    assert length == 1000
    assert kept == pytest.approx(table.__sizeof__(), rel=0.4)
    unique = set(range(1000))
    assert arena.set_size(words_of(unique, 5)) == (1000, unique.__sizeof__() - set().__sizeof__())
    assert arena.set_size(words_of({1}, 5)) == (1, 0)
    buffer = bytearray(5000)
    assert arena.bytearray_size(words_of(buffer, 4)) == (5000, 5001)
    assert arena.deque_size(words_of(deque(range(640)), 3)) == (640, 11 * 528)


@pytest.mark.parametrize("text", ["a" * 600, "é" * 600, "Ω" * 600, "🐍" * 600])
def test_the_size_of_a_text(text: str) -> None:
    head = ctypes.string_at(id(text), at.TEXT_STATE + 4)
    assert arena.text_bytes(head) == text.__sizeof__()


def test_the_size_of_bytes_and_tuples() -> None:
    blob, pair = bytes(700), tuple(range(90))
    assert arena.binary_bytes(ctypes.string_at(id(blob), 24)) == blob.__sizeof__()
    assert arena.tuple_bytes(ctypes.string_at(id(pair), 24)) == pair.__sizeof__()
