"""A bell that names what is due: that is claimed, and the table is looked through now and then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from test_arbiter import House

from supervisor.model.lease import plan
from supervisor.model.record import Due
from supervisor.model.states import State
from supervisor.testing.bell import MemoryDoor

SUCCESS, PENDING = State.SUCCESS, State.PENDING


class Belled(House):
    """A node in memory that shares its store, with a bell that names ids."""

    def __init__(self, **settings: object) -> None:
        super().__init__(None, **settings)
        self.door = MemoryDoor(self.clock)
        self.bell = self.door.bell()
        floor = self.arbiter.floor
        floor.lease = plan(90.0, 10.0, 10.0)
        floor.renewed_at = self.clock.boot()
        self.listener = floor.listener = self.door.listener()
        self.live(1.5)

    def live(self, seconds: float) -> int:
        """Let time pass; the real loop hears the bell between its turns."""
        turns = 0
        end = self.clock.mono() + seconds
        while self.clock.mono() < end:
            self.door.serve()
            self.arbiter.ring(self.listener.heard())
            pause = self.arbiter.turn(self.clock.mono())
            self.clock.advance(max(min(pause, 0.01), 0.001))
            turns += 1
        return turns

    def ring(self, task_id: str, kind: str = "quick", priority: int = 5) -> None:
        level = ("default", priority, kind)
        self.bell.ring("due", [Due(level, task_id, self.clock.now().timestamp())])


@pytest.fixture
def house() -> Iterator[Belled]:
    made = Belled()
    yield made
    made.listener.close()


def test_what_the_bell_names_is_claimed_at_once_without_a_look_at_the_table(house: Belled) -> None:
    scans = house.scribe.scans
    task = house.run("quick")
    house.ring(task)
    house.live(0.05)
    assert house.scribe.tasks[task].state is SUCCESS
    assert house.scribe.scans == scans


def test_what_no_bell_named_is_found_within_a_second(house: Belled) -> None:
    task = house.run("quick")
    house.live(1.1)
    assert house.scribe.tasks[task].state is SUCCESS


def test_the_table_is_looked_at_more_often_while_the_bell_is_away(house: Belled) -> None:
    scans = house.scribe.scans
    house.live(5)
    quiet = house.scribe.scans - scans
    assert 4 <= quiet <= 6
    house.door.break_down("gone")
    house.live(5)
    assert 20 <= house.scribe.scans - scans - quiet <= 30
    house.door.mend()
    scans = house.scribe.scans
    house.live(5)
    assert 4 <= house.scribe.scans - scans <= 7


def test_a_backlog_that_nobody_rang_for_is_worked_off_at_full_speed(house: Belled) -> None:
    tasks = [house.run("quick") for _ in range(100)]
    house.live(2)
    assert {house.scribe.tasks[task].state for task in tasks} == {SUCCESS}


def test_a_row_that_somebody_holds_is_not_asked_for_again_and_again(house: Belled) -> None:
    task = house.run("quick")
    house.scribe.locked = {task}
    house.live(1.1)
    scans = house.scribe.scans
    house.live(2)
    assert 8 <= house.scribe.scans - scans <= 11
    other = house.run("quick")
    house.ring(other)
    house.live(0.05)
    assert house.scribe.tasks[other].state is SUCCESS
    house.scribe.locked.clear()
    house.live(0.25)
    assert house.scribe.tasks[task].state is SUCCESS


def test_a_ring_for_what_is_gone_costs_nothing(house: Belled) -> None:
    task = house.run("quick")
    house.scribe.cancel(task, by="me", reason="no")
    house.ring(task)
    house.ring("task_never_heard_of")
    house.live(0.2)
    other = house.run("quick")
    house.ring(other)
    house.live(0.05)
    assert house.scribe.tasks[other].state is SUCCESS
    shown = house.arbiter.floor.metrics.render()[0].decode().splitlines()
    counted = {line for line in shown if line.startswith("supervisor_claims_")}
    assert counted == {"supervisor_claims_tried_total 3.0", "supervisor_claims_missed_total 2.0"}


def test_only_what_may_be_started_here_is_let_in(house: Belled) -> None:
    stranger = house.run("quick")
    house.ring(stranger, kind="strange")
    house.live(0.05)
    assert house.door.waiting() == {stranger}


def test_busy_workers_leave_the_ids_to_others(house: Belled) -> None:
    busy = [house.run("polite") for _ in range(2)]
    for task in busy:
        house.ring(task, "polite")
    house.live(0.1)
    waiting = house.run("polite")
    house.ring(waiting, "polite")
    house.live(0.5)
    assert house.door.waiting() == {waiting}
    assert house.scribe.tasks[waiting].state is PENDING


def test_what_is_paused_is_let_alone(house: Belled) -> None:
    house.scribe.paused = frozenset({("default", 5)})
    house.live(1.1)  # a look at the table tells
    task = house.run("quick")
    house.ring(task)
    house.live(0.05)
    assert house.door.waiting() == {task}


def test_a_fenced_node_lets_nothing_in(house: Belled) -> None:
    house.scribe.go_away()
    house.live(70)
    task = house.run("quick")
    house.ring(task)
    house.live(1)
    assert house.door.waiting() == {task}
