"""What many see is read once, is never older than it says, and is read anew after an act."""

from __future__ import annotations

import threading

import pytest

from supervisor.testing import ManualClock
from supervisor.web.board import OLD_MOST_S, Board


class Source:
    """Counts how often it is read; waits for a word when it is told to."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.reads = 0
        self.takes_s = 0.0
        self.is_broken = False
        self.clock = clock or ManualClock()
        self.may_end = threading.Event()
        self.has_begun = threading.Event()
        self.may_end.set()

    def read(self) -> int:
        self.reads += 1
        number = self.reads
        self.has_begun.set()
        assert self.may_end.wait(5)
        self.clock.advance(self.takes_s)
        if self.is_broken:
            raise ValueError("away")
        return number


def ended() -> None:
    """Wait until no board reads beside any more."""
    for thread in threading.enumerate():
        if thread.name == "dear":
            thread.join(5)
            assert not thread.is_alive()


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


class TestWhatIsDear:
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def board(self, clock: ManualClock) -> Board:
        return Board(clock)

    @pytest.fixture
    def source(self, clock: ManualClock, board: Board) -> Source:
        """Return what took a fifth of a second to read, when the first one looked."""
        source = Source(clock)
        source.takes_s = 0.2
        assert self.see(board, source) == (1, 0.2)
        return source

    def see(self, board: Board, source: Source) -> tuple[int, float]:
        value, age_s = board.see_dear("dear", source, 5.0, source.read)
        return value, round(age_s, 3)

    def test_nobody_waits_who_can_be_shown_an_older_value(
        self, clock: ManualClock, board: Board, source: Source
    ) -> None:
        clock.advance(40.0)
        source.may_end.clear()
        assert [self.see(board, source) for _ in range(3)] == [(1, 40.2)] * 3
        clock.advance(2.0)
        assert self.see(board, source) == (1, 42.2)
        source.may_end.set()
        ended()
        assert (self.see(board, source), source.reads) == ((2, 2.2), 2)

    def test_it_rests_the_longer_the_longer_it_took(
        self, clock: ManualClock, board: Board, source: Source
    ) -> None:
        clock.advance(29.0)  # 150 times as long as it took are 30 s
        assert (self.see(board, source), source.reads) == ((1, 29.2), 1)
        source.takes_s = 0.0
        clock.advance(1.0)
        self.see(board, source)
        ended()
        assert (self.see(board, source), source.reads) == ((2, 0.0), 2)
        clock.advance(5.1)
        assert (self.see(board, source), source.reads) == ((3, 0.0), 3)

    def test_after_an_act_it_is_read_anew_and_the_older_value_is_shown_meanwhile(
        self, board: Board, source: Source
    ) -> None:
        source.may_end.clear()
        source.has_begun.clear()
        board.clear()
        board.clear()
        assert self.see(board, source) == (1, 0.2)
        assert source.has_begun.wait(5)
        board.clear()  # what is being read now began before it
        assert self.see(board, source) == (1, 0.2)
        source.may_end.set()
        ended()
        assert (self.see(board, source)[0], source.reads) == (3, 3)

    def test_what_nobody_has_looked_at_for_long_is_not_shown(
        self, clock: ManualClock, board: Board, source: Source
    ) -> None:
        clock.advance(OLD_MOST_S)
        assert self.see(board, source) == (2, 0.2)
        board.clear()
        clock.advance(OLD_MOST_S)
        assert self.see(board, source) == (3, 0.2)

    def test_a_reading_beside_that_failed_leaves_nothing_to_be_shown(
        self, clock: ManualClock, board: Board, source: Source
    ) -> None:
        clock.advance(40.0)
        source.is_broken = True
        source.may_end.clear()
        assert self.see(board, source) == (1, 40.2)
        source.may_end.set()
        ended()
        with pytest.raises(ValueError, match="away"):
            self.see(board, source)
        source.is_broken = False
        assert self.see(board, source) == (4, 0.2)

    def test_what_is_quick_by_itself_is_waited_for(
        self, clock: ManualClock, board: Board, source: Source
    ) -> None:
        source.takes_s = 0.0
        clock.advance(OLD_MOST_S)
        assert self.see(board, source) == (2, 0.0)
        board.clear()
        assert self.see(board, source) == (3, 0.0)
        clock.advance(5.1)
        assert self.see(board, source) == (4, 0.0)

    def test_what_was_read_of_another_store_is_not_shown(
        self, board: Board, source: Source
    ) -> None:
        board.clear()
        assert self.see(board, Source()) == (1, 0.0)

    def test_without_threads_it_is_read_by_whoever_looks(
        self, clock: ManualClock, board: Board, source: Source, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        clock.advance(40.0)
        assert self.see(board, source) == (2, 0.2)
