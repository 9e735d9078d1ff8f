"""The wall clock is set back: what nobody put off is due again, what somebody did is due later."""

from __future__ import annotations

from datetime import timedelta

from ledger_scene import START, Scene

from supervisor.model import outcome as ended
from supervisor.model.states import State
from supervisor.store.schema import audit_log

HOUR_S = 3600.0


def set_clock(scene: Scene, step_s: float) -> int:
    scene.pass_time(step_s)
    with scene.ledger.transaction() as tx:
        return tx.clock_set(step_s, scene.now)


def test_what_was_due_is_due_again_in_its_order(scene: Scene) -> None:
    ids = []
    for _ in range(5):
        ids.append(scene.submit())
        scene.pass_time(1)
    assert set_clock(scene, -HOUR_S) == 5
    assert [claim.task_id for claim in scene.claim(9)] == ids
    assert set_clock(scene, -HOUR_S) == 0  # they run


def test_what_was_put_off_is_due_by_the_new_clock(scene: Scene) -> None:
    later = scene.submit(run_after=START + timedelta(seconds=10))
    scene.pass_time(20)
    assert set_clock(scene, -HOUR_S) == 0
    assert scene.claim(9) == []
    scene.pass_time(HOUR_S - 10)
    assert [claim.task_id for claim in scene.claim(9)] == [later]


def test_a_retry_is_not_put_off_by_it(scene: Scene) -> None:
    claim = scene.running()
    scene.finish(claim, ended.raised("E", "no", ""))
    assert set_clock(scene, -HOUR_S) == 0
    assert scene.claim() == []
    scene.pass_time(10)
    (again,) = scene.claim()
    assert (again.task_id, again.attempt, again.retry_count) == (claim.task_id, 2, 1)


def test_what_waits_longer_than_the_step_waits_as_long_as_before(scene: Scene) -> None:
    """A step of a second must not make a task due that waits for ten."""
    claim = scene.running()
    scene.finish(claim, ended.raised("E", "no", ""))  # again 10 s from now
    assert set_clock(scene, -1.2) == 0
    assert set_clock(scene, -8.8) == 0
    scene.pass_time(9.9)
    assert scene.claim() == []
    scene.pass_time(0.1)
    (again,) = scene.claim()
    assert (again.task_id, again.attempt) == (claim.task_id, 2)


def test_it_holds_for_a_second_step_and_leaves_what_has_ended(scene: Scene) -> None:
    done = scene.running()
    scene.finish(done, ended.returned("1"))
    scene.submit()
    assert [set_clock(scene, -HOUR_S) for _ in range(3)] == [1, 1, 1]
    assert len(scene.claim(9)) == 1
    assert scene.state(done.task_id) is State.SUCCESS


def test_a_step_forward_moves_nothing_and_is_told(scene: Scene) -> None:
    scene.submit(run_after=START + timedelta(hours=2))
    assert set_clock(scene, HOUR_S) == 0
    assert scene.claim(9) == []
    assert set_clock(scene, -90.0) == 0
    notes = [row for row in scene.rows(audit_log, "task_id", "reason", "note") if row[0] is None]
    assert notes == [
        (None, "clock_set", "the wall clock was set by +3600.0 s; 0 tasks are due again at once"),
        (None, "clock_set", "the wall clock was set by -90.0 s; 0 tasks are due again at once"),
    ]


def test_a_step_back_while_no_node_ran_is_noticed(scene: Scene) -> None:
    waiting = scene.submit()
    with scene.ledger.transaction() as tx:
        assert tx.mind_clock(scene.now) == 0
    scene.pass_time(-HOUR_S)
    with scene.ledger.transaction() as tx:
        assert tx.mind_clock(scene.now) == 1
    assert [claim.task_id for claim in scene.claim()] == [waiting]
    (note,) = [row[1] for row in scene.rows(audit_log, "reason", "note") if row[0] == "clock_set"]
    assert note == "the wall clock was set by -3600.0 s; 1 tasks are due again at once"


def test_an_empty_store_has_no_clock(scene: Scene) -> None:
    with scene.ledger.transaction() as tx:
        assert tx.mind_clock(scene.now) == 0
    assert scene.rows(audit_log, "reason") == []
