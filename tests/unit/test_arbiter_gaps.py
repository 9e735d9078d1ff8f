"""What a time in which the whole host stood still costs: nothing but that time."""

from __future__ import annotations

from test_arbiter import CLAIMED, House

from supervisor.model.states import State

GAP_S = 3600.0


def test_an_assignment_that_nobody_could_read_costs_no_worker() -> None:
    house = House(workers=1)
    house.live(1)
    task = house.run("quick")
    played, house.pool._play = house.pool._play, lambda puppet, now: None  # type: ignore[method-assign]
    house.live(0.2)
    assert house.moves(task) == [CLAIMED]
    house.clock.advance(GAP_S)
    house.live(0.2)
    house.pool._play = played  # type: ignore[method-assign]
    house.live(1)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.SUCCESS, "returned")]
    assert house.pool.calls == []


def test_the_grace_of_a_cancel_is_moved() -> None:
    house = House(cancel_grace=5.0)
    task = house.run("hopeless")
    house.live(3)
    house.scribe.cancel(task, by="ann", reason="changed my mind")
    house.live(2)
    house.clock.advance(GAP_S)
    house.live(2)
    assert house.scribe.tasks[task].state is State.RUNNING
    house.live(3)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.CANCELED, "canceled")]


def test_a_soft_limit_is_moved() -> None:
    house = House(max_retries=0)
    task = house.run("polite", timeout=20.0, soft_timeout=10.0)
    house.live(5)
    house.clock.advance(GAP_S)
    house.live(4)
    assert house.pool.calls == []
    house.live(2)
    assert house.pool.calls == [("interrupt", "soft_timeout")]
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.TIMEOUT, "soft_timeout")]


def test_the_grace_of_a_stop_is_moved() -> None:
    house = House(drain_grace=30.0)
    task = house.run("polite")
    house.live(5)
    house.pool.signal("SIGTERM")
    house.live(5)
    house.clock.advance(GAP_S)
    house.live(20)
    assert house.pool.calls == []
    house.live(10)
    assert house.moves(task)[1:] == [
        (State.RUNNING, State.FAILED, "shutdown"), (State.FAILED, State.PENDING, "requeued"),
    ]  # fmt: skip
    assert house.kills() == 0


def test_evidence_that_is_being_taken_gets_its_time() -> None:
    house = House(max_retries=0)
    house.pool.capture_s = 3.0
    task = house.run("hopeless", timeout=10.0)
    house.live(11)
    assert [call for call, _ in house.pool.calls] == ["interrupt", "capture"]
    house.clock.advance(GAP_S)
    house.live(1)
    assert [call for call, _ in house.pool.calls] == ["interrupt", "capture"]
    house.live(2)
    assert house.moves(task) == [CLAIMED, (State.RUNNING, State.TIMEOUT, "timeout")]
    assert len(house.scribe.autopsies) == 1


def test_evidence_reaches_back_to_the_begin_by_either_clock() -> None:
    """Records from before the wall clock was set forward are the attempt's own as well."""
    house = House(max_retries=0)
    begun = house.clock.now().timestamp()
    house.run("hopeless", timeout=10.0)
    house.live(3)
    house.clock.jump(GAP_S)
    house.live(9)
    (captured,) = house.scribe.autopsies
    assert 0 <= captured.facts.values["begun_at"] - begun < 1
