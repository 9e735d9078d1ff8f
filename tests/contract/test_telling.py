"""What a worker tells of its attempt: once a second at most, whole, and never waiting."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from supervisor.clock import mono_ns
from supervisor.model.label import NO_WORDS
from supervisor.worker import telling, wire
from supervisor.worker.tally import Tally
from supervisor.worker.telling import Telling
from supervisor.worker.vitals import Calling, Vitals, create


class Line:
    """A worker's line to the node, and the node's end of it."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.lock = threading.Lock()
        fd = create()
        self.vitals = Vitals(fd)
        os.close(fd)
        self.telling = Telling(self.theirs, self.lock, self.vitals)
        self._stream: wire.Stream[Any] = wire.Stream(wire.FromWorker)

    def heard(self) -> list[Any]:
        """Return what has arrived."""
        found = []
        while select.select([self.ours], [], [], 0)[0]:
            found += self._stream.feed(self.ours.recv(2**20))
        return found


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.ours.close()
    made.theirs.close()
    made.vitals.close()


def tally() -> Tally:
    return Tally(NO_WORDS, lambda: None, lambda _: None)


def test_a_million_counts_are_a_handful_of_messages(line: Line) -> None:
    line.telling.begin(mono_ns())
    said = line.telling.gather(7, tally())
    began, heard = mono_ns(), []
    for number in range(1_000_000):
        said.count("rows", 1)
        if not number % 1000:  # many times more often than a pulse beats
            line.telling.tell(7)
            heard += line.heard()
    seconds = (mono_ns() - began) / 1e9
    assert 1 <= len(heard) <= seconds + 1
    told = line.telling.said(7)
    assert told is not None
    assert told.counts == {"rows": 1e6}
    assert {type(one) for one in heard} == {wire.Tallied}
    sizes = [len(wire.frame(one)) for one in heard]
    assert max(sizes) < 200


def test_what_is_told_is_the_sum_so_far(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "TELL_EVERY_NS", 0)
    line.telling.begin(mono_ns())
    line.telling.tell(7)
    said = line.telling.gather(7, tally())
    said.count("rows", 2)
    line.telling.tell(7)
    with said.call("payments"):
        said.count("rows", 3)
        line.telling.tell(7)
    first, second, third = line.heard()
    assert (first.seq, first.tally) == (7, None)
    assert second.tally == wire.Tally(counts={"rows": 2.0})
    assert third.tally.counts == {"rows": 5.0}
    assert third.tally.in_flight["payments"].number == 1
    assert third.spent.user_s >= second.spent.user_s >= first.spent.user_s > 0


def test_all_threads_of_an_attempt_gather_in_one_place(line: Line) -> None:
    one, other = tally(), tally()
    assert line.telling.gather(7, one) is one
    assert line.telling.gather(7, other) is one
    line.telling.begin(mono_ns())
    assert line.telling.said(7) is None
    assert line.telling.gather(8, other) is other


def test_it_does_not_wait_for_a_node_that_does_not_read(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "TELL_EVERY_NS", 0)
    line.telling.begin(mono_ns())
    said = line.telling.gather(7, tally())
    for number in range(200):
        said.count(f"a-rather-long-name-of-something-that-is-counted-{number}", 1)
    for _ in range(5000):  # a socket holds a few hundred kilobytes
        line.telling.tell(7)
    told = len(line.heard())
    assert 1 <= told < 500
    line.telling.tell(7)
    assert len(line.heard()) == 1


def test_it_does_not_wait_for_whoever_is_talking(line: Line) -> None:
    line.telling.begin(mono_ns())
    with line.lock:
        line.telling.tell(7)
        assert line.heard() == []
    line.telling.tell(7)
    assert len(line.heard()) == 1


def test_people_of_this_host_see_the_oldest_call(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "TELL_EVERY_NS", 0)
    line.vitals.begin(7, mono_ns(), 0)
    line.telling.begin(mono_ns())
    said = line.telling.gather(7, tally())
    before = mono_ns()
    with said.call("payments"):
        between = mono_ns()
        with said.call("x" * 64):
            line.telling.tell(7)
            seen = line.vitals.read_calling()
    assert seen is not None
    assert seen == Calling(2, "payments", seen.since_ns)
    assert before <= seen.since_ns <= between
    line.telling.tell(7)
    assert line.vitals.read_calling() is None
    with said.call("x" * 64):
        line.telling.tell(7)
        assert line.vitals.read_calling() == Calling(
            1, "x" * 64, line.heard()[-1].tally.in_flight["x" * 64].since_ns
        )
        line.vitals.begin(8, mono_ns(), 0)  # it is not the next attempt that waits
        assert line.vitals.read_calling() is None
