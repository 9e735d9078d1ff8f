"""What carries rings to a server: nobody waits for it, whatever the line does.

The lines are scripted, since no server hangs or breaks at a wish; real ones are in
tests/integration/test_redis_bell.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from harness import eventually

from supervisor.model.record import Due
from supervisor.queue.bell import Kind
from supervisor.queue.ringer import MOST_IDS, PAUSE_FIRST_S, PAUSE_MOST_S, Ringer
from supervisor.testing import ManualClock

Sent = tuple[frozenset[Kind], list[str]]


class Town:
    """The lines of a test: what they sent, and whether they are held up or broken."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.connects = 0
        self.closed = 0
        self.broken = False
        self.breaks_at_send = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def connect(self) -> ScriptedLine:
        self.connects += 1
        self.go_on.wait(5)
        if self.broken:
            raise OSError("refused")
        return ScriptedLine(self)


class ScriptedLine:
    def __init__(self, town: Town) -> None:
        self._town = town

    def send(self, kinds: frozenset[Kind], dues: Sequence[Due]) -> None:
        self._town.go_on.wait(5)
        if self._town.breaks_at_send:
            self._town.breaks_at_send -= 1
            raise OSError("broken pipe")
        self._town.sent.append((kinds, [due.task_id for due in dues]))

    def close(self) -> None:
        self._town.closed += 1


@pytest.fixture
def town() -> Iterator[Town]:
    made = Town()
    yield made
    made.go_on.set()
    eventually(lambda: not [one for one in threading.enumerate() if one.name == "bell"])


def due(number: int) -> Due:
    return Due(("default", 5, "send"), f"task_{number}", 1.0)


def quiet(town: Town, ringer: Ringer, clock: ManualClock) -> float:
    """Return how long rings are dropped now, by moving the clock."""
    eventually(lambda: ringer.trouble)
    waited_s = 0.0
    while ringer.trouble:
        clock.advance(0.01)
        waited_s += 0.01
    return waited_s


def test_rings_gather_while_the_line_is_busy(town: Town) -> None:
    with Ringer(town.connect) as ringer:
        town.go_on.clear()
        ringer.ring("due", [due(0)])
        eventually(lambda: town.connects)
        ringer.ring("due", [due(1), due(2)])
        ringer.ring("cancel")
        ringer.ring("due", [due(3)])
        town.go_on.set()
        eventually(lambda: len(town.sent) == 2)
    assert town.sent == [
        (frozenset(), ["task_0"]),
        (frozenset({"cancel"}), ["task_1", "task_2", "task_3"]),
    ]
    assert (town.connects, town.closed) == (1, 1)


def test_nobody_waits_for_a_line_that_hangs(town: Town) -> None:
    ringer = Ringer(town.connect)
    town.go_on.clear()
    began = time.monotonic()
    for number in range(1000):
        ringer.ring("due", [due(number)])
    assert time.monotonic() - began < 5  # and for ever if one waited
    began = time.monotonic()
    ringer.close()
    assert 0.4 < time.monotonic() - began < 3  # the last rings had their chance


def test_a_closed_line_is_replaced_at_once_and_the_ring_goes_out(town: Town) -> None:
    with Ringer(town.connect) as ringer:
        ringer.ring("due", [due(0)])
        eventually(lambda: town.sent)
        town.breaks_at_send = 1
        ringer.ring("due", [due(1)])
        eventually(lambda: len(town.sent) == 2)
        assert ringer.trouble == ""
    assert (town.connects, town.closed) == (2, 2)


def test_a_server_that_fails_is_left_alone_for_pauses_that_grow_to_a_limit(town: Town) -> None:
    clock = ManualClock()
    town.broken = True
    with Ringer(town.connect, clock) as ringer:
        pauses: list[float] = []
        for nth in range(1, 8):
            ringer.ring("due", [due(nth)])
            eventually(lambda: ringer.trouble)
            assert ringer.trouble == "refused"
            for number in range(10):
                ringer.ring("due", [due(number)])
            assert town.connects == nth
            pauses.append(quiet(town, ringer, clock))
        assert pauses[0] < 1.3 * PAUSE_FIRST_S
        assert 0.7 * PAUSE_MOST_S < pauses[-1] < 1.3 * PAUSE_MOST_S
        town.broken = False
        ringer.ring("cancel")
        eventually(lambda: town.sent)
        town.broken, town.breaks_at_send = True, 1
        ringer.ring("cancel")
        assert quiet(town, ringer, clock) < 1.3 * PAUSE_FIRST_S  # it was well in between
    assert town.sent == [(frozenset({"cancel"}), [])]


def test_too_many_ids_become_a_look_at_the_table(town: Town) -> None:
    with Ringer(town.connect) as ringer:
        town.go_on.clear()
        ringer.ring("cancel")
        eventually(lambda: town.connects)
        ringer.ring("due", [due(number) for number in range(MOST_IDS)])
        ringer.ring("due", [due(-1)])
        ringer.ring("due", [due(-2)])
        town.go_on.set()
        eventually(lambda: len(town.sent) == 2)
    assert town.sent[1] == (frozenset({"due"}), ["task_-2"])


def test_a_bell_that_nobody_closed_sends_its_last_rings_when_it_goes(town: Town) -> None:
    ringer = Ringer(town.connect)
    ringer.ring("cancel")
    del ringer
    eventually(lambda: town.closed)
    assert town.sent == [(frozenset({"cancel"}), [])]


def test_a_bell_that_was_never_rung_makes_no_thread_and_no_line(town: Town) -> None:
    Ringer(town.connect).close()
    assert (town.connects, town.closed) == (0, 0)
