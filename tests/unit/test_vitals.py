"""Vital signs: what the worker writes the node reads, and equal progress is no progress."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from supervisor.worker import vitals
from supervisor.worker.vitals import KINDS, SIZE, Reading, Vitals, create

NOTHING = Reading(
    beats=0,
    ticks=0,
    seq=0,
    last_seq=0,
    started_ns=0,
    progress_changes=0,
    progress_done=0.0,
    progress_total=0.0,
    progress_changed_ns=0,
    acknowledged_seq=0,
    acknowledged_kind="",
    finished=0,
    output_start=0,
)
words = st.integers(0, 2**64 - 1)


class Pair:
    """The two ends of one worker's vital signs: `worker` writes, `node` reads."""

    def __init__(self) -> None:
        self.fd = create()
        self.worker, self.node = Vitals(self.fd), Vitals(self.fd)

    def close(self) -> None:
        self.worker.close()
        self.node.close()
        os.close(self.fd)


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_new_signs_are_all_nothing(pair: Pair) -> None:
    assert pair.node.read() == NOTHING


def test_a_whole_attempt_is_read_as_it_was_written(pair: Pair) -> None:
    worker, node = pair.worker, pair.node
    worker.beat()
    worker.begin(7, 1_000, 42)
    begun = replace(
        NOTHING,
        beats=1,
        seq=7,
        last_seq=7,
        started_ns=1_000,
        progress_changed_ns=1_000,
        output_start=42,
    )
    assert node.read() == begun
    worker.tick()
    worker.progress(2.5, 10, 1_500)
    worker.acknowledge(7, "soft_timeout")
    told = replace(
        begun,
        ticks=1,
        progress_changes=1,
        progress_done=2.5,
        progress_total=10.0,
        progress_changed_ns=1_500,
        acknowledged_seq=7,
        acknowledged_kind="soft_timeout",
    )
    assert node.read() == told
    worker.end()
    assert node.read() == replace(told, seq=0, finished=1)


def test_the_next_attempt_starts_without_the_progress_of_the_last(pair: Pair) -> None:
    pair.worker.begin(1, 100, 0)
    pair.worker.progress(5, 9, 200)
    pair.worker.end()
    pair.worker.begin(2, 300, 77)
    assert pair.node.read() == replace(
        NOTHING,
        seq=2,
        last_seq=2,
        started_ns=300,
        progress_changed_ns=300,
        finished=1,
        output_start=77,
    )


class Racing:
    """The words as the node sees them, while the worker changes its attempt `times` times."""

    def __init__(self, pair: Pair, times: int) -> None:
        self._words, self._worker, self._times = pair.node._words, pair.worker, times

    def __getitem__(self, word: int) -> int:
        if word == vitals._STARTED and self._times:
            self._times -= 1
            seq = self._worker.current() + 1
            self._worker.end()
            self._worker.begin(seq, seq * 100, seq)
        return self._words[word]

    def release(self) -> None:
        self._words.release()


@pytest.mark.parametrize(
    ("changes", "seen"), [(0, (7, 700)), (1, (8, 800)), (2, (9, 900)), (3, (0, 1_000))]
)
def test_an_attempt_is_never_read_with_the_start_of_another(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, changes: int, seen: tuple[int, int]
) -> None:
    """One that changes during every glance is between attempts."""
    pair.worker.begin(7, 700, 7)
    monkeypatch.setattr(pair.node, "_words", Racing(pair, changes))
    reading = pair.node.read()
    assert (reading.seq, reading.started_ns) == seen


class TestProgress:
    def test_the_first_report_counts_even_if_it_is_zero(self, pair: Pair) -> None:
        pair.worker.begin(1, 100, 0)
        pair.worker.progress(0, 10, 200)
        seen = pair.node.read()
        assert (seen.progress_changes, seen.progress_changed_ns) == (1, 200)

    def test_an_equal_value_is_no_progress(self, pair: Pair) -> None:
        pair.worker.begin(1, 100, 0)
        pair.worker.progress(3, 10, 200)
        first = pair.node.read()
        for now in range(300, 900, 100):
            pair.worker.progress(3.0, 10, now)
        assert pair.node.read() == first

    def test_what_is_not_a_number_is_progress_once(self, pair: Pair) -> None:
        pair.worker.begin(1, 100, 0)
        for now in range(300, 900, 100):
            pair.worker.progress(float("nan"), 10, now)
        seen = pair.node.read()
        assert (seen.progress_changes, seen.progress_changed_ns) == (1, 300)

    def test_a_total_that_becomes_known_later_is_shown(self, pair: Pair) -> None:
        pair.worker.begin(1, 100, 0)
        pair.worker.progress(0, 0, 200)
        pair.worker.progress(0, 100, 300)
        seen = pair.node.read()
        assert (seen.progress_total, seen.progress_changes) == (100.0, 1)

    def test_a_smaller_value_is_a_change(self, pair: Pair) -> None:
        pair.worker.begin(1, 100, 0)
        pair.worker.progress(3, 10, 200)
        pair.worker.progress(2, 10, 300)
        seen = pair.node.read()
        assert (seen.progress_done, seen.progress_changes, seen.progress_changed_ns) == (2, 2, 300)

    @settings(deadline=None, max_examples=50)
    @given(values=st.lists(st.integers(-3, 3), max_size=20))
    def test_it_counts_exactly_the_changes(self, shared: Pair, values: list[int]) -> None:
        shared.worker.begin(1, 0, 0)
        for now, value in enumerate(values):
            shared.worker.progress(value, 0, now)
        changed = [now for now, value in enumerate(values) if now == 0 or value != values[now - 1]]
        seen = shared.node.read()
        assert seen.progress_changes == len(changed)
        assert seen.progress_changed_ns == (changed[-1] if changed else 0)
        assert seen.progress_done == (values[-1] if values else 0)


@settings(deadline=None, max_examples=50)
@given(seq=words, started_ns=words, output_start=words, done=st.floats(allow_nan=False))
def test_any_word_and_any_number_comes_back(
    shared: Pair, seq: int, started_ns: int, output_start: int, done: float
) -> None:
    shared.worker.begin(seq, started_ns, output_start)
    shared.worker.progress(done, -done, started_ns)
    seen = shared.node.read()
    assert (seen.seq, seen.last_seq, seen.started_ns) == (seq, seq, started_ns)
    assert (seen.output_start, seen.progress_changed_ns) == (output_start, started_ns)
    assert (seen.progress_done, seen.progress_total) == (done, -done)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_each_interruption_is_acknowledged_by_name(pair: Pair, kind: str) -> None:
    pair.worker.acknowledge(9, kind)
    seen = pair.node.read()
    assert (seen.acknowledged_seq, seen.acknowledged_kind) == (9, kind)


def test_an_unknown_interruption_is_not_written(pair: Pair) -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        pair.worker.acknowledge(9, "whim")
    assert pair.node.read() == NOTHING


class TestMemory:
    @pytest.mark.parametrize("size", [0, 1, SIZE - 1, SIZE + 1])
    def test_a_worker_cannot_resize_it(self, pair: Pair, size: int) -> None:
        pair.worker.beat()
        with pytest.raises(PermissionError):
            os.ftruncate(pair.fd, size)
        assert os.fstat(pair.fd).st_size == SIZE
        assert pair.node.read().beats == 1

    def test_a_worker_that_scribbles_over_it_breaks_no_reader(self, pair: Pair) -> None:
        with mmap.mmap(pair.fd, SIZE) as scribbled:
            scribbled[:] = b"\xff" * SIZE
        seen = pair.node.read()
        assert seen.beats == 2**64 - 1
        assert seen.acknowledged_kind in KINDS
        assert math.isnan(seen.progress_done)

    def test_it_lives_on_when_one_end_is_closed(self) -> None:
        fd = create()
        worker, node = Vitals(fd), Vitals(fd)
        os.close(fd)
        worker.begin(3, 1, 0)
        worker.close()
        assert node.read().seq == 3
        node.close()

    def test_it_is_not_inherited_by_programs(self, pair: Pair) -> None:
        assert not os.get_inheritable(pair.fd)
