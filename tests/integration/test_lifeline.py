"""The node's end of a worker's sockets, when the worker does not read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from supervisor.node.lifeline import Lifeline
from supervisor.worker import wire


@pytest.fixture
def line() -> Iterator[Lifeline]:
    made = Lifeline(log_records=4, tail_bytes=1024, stack_window_s=300)
    yield made
    made.given()
    made.close()


def _heard(line: Lifeline) -> list[wire.FromNode]:
    stream: wire.Stream[wire.FromNode] = wire.Stream(wire.FromNode)
    theirs = line._control_theirs  # what the worker would read
    theirs.setblocking(False)
    heard: list[wire.FromNode] = []
    while True:
        line.trim()  # the loop's every look sends what is still to be sent
        try:
            heard += stream.feed(theirs.recv(65536))
        except BlockingIOError:
            return heard


def test_messages_to_a_worker_that_does_not_read_are_whole_or_not_sent(line: Lifeline) -> None:
    sent = []
    for seq in range(1, 1000):
        message = wire.Interrupt(seq, "cancel", "x" * 5000)
        if not line.send(message):
            break
        sent.append(message)
    assert 1 < len(sent) < 999
    assert line.send(wire.Interrupt(0, "cancel", "")) is False
    assert _heard(line) == sent
    assert line.send(wire.Interrupt(7, "shutdown", "now")) is True
    assert _heard(line) == [wire.Interrupt(7, "shutdown", "now")]


def test_what_was_not_read_can_be_taken_back_once(line: Lifeline) -> None:
    for seq in (1, 2, 3):
        assert line.assign(wire.Assign(seq, "task_x", 1, "t", "{}", 60.0))
    assert line.take_back() == [1, 2, 3]
    assert line.take_back() == []


def test_what_the_queue_cannot_hold_waits_behind_it_in_order(line: Lifeline) -> None:
    for seq in range(1, 101):  # far more than any socket holds
        assert line.assign(wire.Assign(seq, "task_x", 1, "t", "x" * 256 * 1024, 60.0))
    assert line.assign(wire.Stop())
    theirs = line._assign_theirs
    read = []
    for _ in range(3):  # what a worker would read
        assign = wire.assignments.decode(theirs.recv(wire.PACKET_MAX_BYTES))
        read.append(getattr(assign, "seq", 0))
        line.trim()
    assert read == [1, 2, 3]
    assert line.take_back() == list(range(4, 101))
    assert line.take_back() == []


def test_an_assignment_that_no_queue_can_hold_is_refused(line: Lifeline) -> None:
    huge = wire.Assign(1, "task_x", 1, "t", "x" * (4 * 1024 * 1024), 60.0)
    assert line.assign(huge) is False
    assert line.take_back() == []
