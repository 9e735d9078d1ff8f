"""What many see is read once, is never older than it says, and is forgotten after an act."""

from __future__ import annotations

import threading

import pytest

from supervisor.testing import ManualClock
from supervisor.web.board import Board


class Source:
    """Counts how often it is read; waits for a word when it is told to."""

    def __init__(self) -> None:
        self.reads = 0
        self.may_end = threading.Event()
        self.has_begun = threading.Event()
        self.may_end.set()

    def read(self) -> int:
        self.reads += 1
        number = self.reads
        self.has_begun.set()
        assert self.may_end.wait(5)
        return number


def test_it_is_read_when_it_is_too_old_and_tells_its_age() -> None:
    clock, source = ManualClock(), Source()
    board = Board(clock)
    assert board.see("numbers", source, 2.0, source.read) == (1, 0.0)
    clock.advance(2.0)
    assert board.see("numbers", source, 2.0, source.read) == (1, 2.0)
    clock.advance(0.1)
    assert board.see("numbers", source, 2.0, source.read) == (2, 0.0)
    assert board.see("others", source, 2.0, source.read) == (3, 0.0)


def test_it_is_read_anew_after_an_act_and_of_another_source() -> None:
    source, other = Source(), Source()
    board = Board(ManualClock())
    board.see("numbers", source, 2.0, source.read)
    board.clear()
    assert board.see("numbers", source, 2.0, source.read) == (2, 0.0)
    assert board.see("numbers", other, 2.0, other.read) == (1, 0.0)


def test_what_was_begun_to_be_read_before_an_act_is_not_kept() -> None:
    source = Source()
    board = Board(ManualClock())
    source.may_end.clear()
    got: list[int] = []
    early = threading.Thread(
        target=lambda: got.append(board.see("numbers", source, 9.0, source.read)[0])
    )
    early.start()
    assert source.has_begun.wait(5)
    board.clear()
    source.may_end.set()
    assert board.see("numbers", source, 9.0, source.read) == (2, 0.0)
    early.join()
    assert got == [1]
    assert board.see("numbers", source, 9.0, source.read) == (2, 0.0)


def test_one_reads_and_the_others_get_what_was_there_before() -> None:
    clock, source = ManualClock(), Source()
    board = Board(clock)
    board.see("numbers", source, 1.0, source.read)
    clock.advance(5.0)
    source.may_end.clear()
    source.has_begun.clear()
    slow = threading.Thread(target=lambda: board.see("numbers", source, 1.0, source.read))
    slow.start()
    assert source.has_begun.wait(5)
    assert [board.see("numbers", source, 1.0, source.read) for _ in range(9)] == [(1, 5.0)] * 9
    source.may_end.set()
    slow.join()
    assert (board.see("numbers", source, 1.0, source.read), source.reads) == ((2, 0.0), 2)


def test_many_that_come_first_wait_for_one_reading() -> None:
    source = Source()
    board = Board(ManualClock())
    source.may_end.clear()
    got: list[int] = []
    many = [
        threading.Thread(
            target=lambda: got.append(board.see("numbers", source, 1.0, source.read)[0])
        )
        for _ in range(8)
    ]
    for one in many:
        one.start()
    assert source.has_begun.wait(5)
    source.may_end.set()
    for one in many:
        one.join()
    assert (got, source.reads) == ([1] * 8, 1)


def test_what_could_not_be_read_is_not_kept() -> None:
    source = Source()
    board = Board(ManualClock())

    def broken() -> int:
        raise ValueError("away")

    with pytest.raises(ValueError, match="away"):
        board.see("numbers", source, 1.0, broken)
    assert board.see("numbers", source, 1.0, source.read) == (1, 0.0)


def test_whoever_waits_takes_what_was_read_however_long_that_took() -> None:
    clock, source = ManualClock(), Source()
    board, found = Board(clock), []
    source.may_end.clear()

    def look() -> None:
        found.append(board.see("numbers", source, 1.0, source.read)[0])

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert source.has_begun.wait(5)
    clock.advance(3.0)  # more than it is fresh for
    source.may_end.set()
    for thread in threads:
        thread.join(5)
    assert (found, source.reads) == ([1, 1, 1, 1], 1)
