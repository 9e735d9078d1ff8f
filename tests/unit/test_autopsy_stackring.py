"""The bytes of the stack ring (its memory is anonymous: nothing touches a disk)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest

from autopsy import stackring
from autopsy.errors import RingUnreadable
from autopsy.stackring import (
    BODY_MAX_BYTES,
    Facts,
    Full,
    Sample,
    Shapes,
    StackRing,
    create_stack_ring,
    fillings,
)

BIG = b"x" * (BODY_MAX_BYTES // 2)


@pytest.fixture
def fd() -> Iterator[int]:
    made = create_stack_ring(300)
    yield made
    os.close(made)


@pytest.fixture
def ring(fd: int) -> Iterator[StackRing]:
    made = StackRing(fd)
    yield made
    made.close()


def filled(ring: StackRing, mark: bytes) -> list[bytes]:
    """Start a half and fill it with entries that bear this mark."""
    ring.turn()
    written = []
    try:
        while True:
            body = mark + b"%d" % len(written) + BIG
            ring.append(body)
            written.append(body)
    except Full:
        return written


def test_entries_come_back_in_order(fd: int, ring: StackRing) -> None:
    ring.turn()
    for body in (b"a", b"bc", BIG):
        ring.append(body)
    assert fillings(fd) == [[b"a", b"bc", BIG]]


def test_nothing_can_be_written_before_a_half_is_started(fd: int, ring: StackRing) -> None:
    with pytest.raises(Full):
        ring.append(b"a")
    assert fillings(fd) == []


def test_the_older_half_stays_until_it_is_started_again(fd: int, ring: StackRing) -> None:
    halves = [filled(ring, mark) for mark in (b"first", b"second", b"third")]
    assert [len(half) > 5 for half in halves] == [True] * 3
    assert fillings(fd) == halves[1:]
    ring.turn()
    assert fillings(fd) == [halves[2], []]


def test_what_is_too_long_is_refused_and_harms_nothing(fd: int, ring: StackRing) -> None:
    ring.turn()
    ring.append(b"a")
    with pytest.raises(Full):
        ring.append(b"x" * (BODY_MAX_BYTES + 1))
    ring.append(b"b")
    assert fillings(fd) == [[b"a", b"b"]]


def test_a_second_writer_goes_on_with_the_other_half(fd: int, ring: StackRing) -> None:
    ring.turn()
    ring.append(b"old")
    other = StackRing(fd)
    other.turn()
    other.append(b"new")
    assert fillings(fd) == [[b"old"], [b"new"]]
    other.close()


@pytest.mark.parametrize("rest", [b"\0", b"\xff"], ids=["zeros", "ones"])
def test_whatever_byte_was_the_last_to_be_written_whole_entries_are_read(
    fd: int, ring: StackRing, rest: bytes
) -> None:
    bodies = [b"%d" % number * 7 for number in range(5)]
    ring.turn()
    ring.turn()
    start = ring._start  # where a writer stands is its secret; a torn write has to be made there
    ends = []
    for body in bodies:
        ring.append(body)
        ends.append(ring._end)
    whole = os.pread(fd, ends[-1] - start, start)
    for last in range(start + 8, ends[-1]):
        os.pwrite(fd, whole[: last - start] + rest * (ends[-1] - last), start)
        assert fillings(fd)[1] == bodies[: sum(end <= last for end in ends)]


def test_entries_of_an_earlier_filling_are_never_taken_for_new_ones(
    fd: int, ring: StackRing
) -> None:
    body = b"same size"
    for _ in range(3):
        ring.turn()
        for _ in range(10):
            ring.append(body)
    ring.turn()  # the half of the second filling, whose entries would fit exactly
    ring.append(body)
    assert fillings(fd) == [[body] * 10, [body]]


def test_a_new_ring_takes_memory_only_as_it_is_written(fd: int, ring: StackRing) -> None:
    assert os.fstat(fd).st_blocks * 512 == 4096
    StackRing(fd).close()
    assert os.fstat(fd).st_blocks * 512 == 4096
    ring.turn()
    ring.append(b"a")
    assert os.fstat(fd).st_blocks * 512 == 2 * 4096


def test_it_is_small_and_its_size_is_sealed(fd: int) -> None:
    assert os.fstat(fd).st_size <= 512 * 1024
    assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)


def test_other_memory_is_refused() -> None:
    other = os.memfd_create("other")
    with pytest.raises(RingUnreadable, match=f"descriptor {other} is not a stack ring"):
        StackRing(other)
    with pytest.raises(RingUnreadable):
        fillings(other)
    os.close(other)


def test_a_reader_needs_no_right_to_write(fd: int, ring: StackRing) -> None:
    ring.turn()
    ring.append(b"a")
    reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    assert fillings(reader) == [[b"a"]]
    assert stackring.window_s(reader) == 300
    os.close(reader)


def test_entries_say_what_was_put_in_them() -> None:
    code = stackring.pack_code("Account.pay", "/srv/app/account.py")
    assert stackring.unpack_code(code) == ("Account.pay", "/srv/app/account.py")
    stack = stackring.pack_stack([3, 17, 0, 4], is_cut=True)
    assert stackring.unpack_stack(stack) == (True, [(3, 17), (0, 4)])
    thread = stackring.pack_thread(1 << 47, 4711, "ünnamed")
    assert stackring.unpack_thread(thread) == (1 << 47, 4711, "ünnamed")
    shapes = Shapes(50, ((2, 49), (7, 1)))
    assert stackring.unpack_tasks(stackring.pack_tasks(shapes)) == shapes
    facts = Facts(12.5, 1.7e9, 9, 1 << 40, 3, -1, 20000)
    sample = Sample(facts, ((0, 5), (2, stackring.UNKNOWN)), (1,))
    assert stackring.unpack_sample(stackring.pack_sample(sample)) == sample
    kinds = [body[0] for body in (code, stack, thread, stackring.pack_tasks(shapes))]
    assert kinds == [stackring.CODE, stackring.STACK, stackring.THREAD, stackring.TASKS]


def test_long_names_are_cut_where_it_hurts_least() -> None:
    function, file = stackring.unpack_code(stackring.pack_code("f" * 1000, "/a" * 1000 + "/end.py"))
    assert function == "f" * 160
    assert len(file) == 400
    assert file.endswith("/end.py")
