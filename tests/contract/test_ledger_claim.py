"""Claiming: who gets what, in which order, and what is left alone."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from ledger_scene import NODE, START, Scene

from supervisor.errors import Refused
from supervisor.model.outcome import raised
from supervisor.model.record import Claim, Started
from supervisor.model.states import State
from supervisor.store.schema import attempts, audit_log, outbox


def test_a_claim_writes_state_attempt_and_audit_and_takes_the_event(scene: Scene) -> None:
    task_id = scene.submit(
        params_json='{"n":1}', dedup_key="k", submitted_by="user_1", timeout=9.0, tags=("x",)
    )
    scene.pass_time(3)
    assert scene.claim() == [
        Claim(
            task_id=task_id,
            attempt=1,
            type="greet",
            queue="default",
            params_json='{"n":1}',
            priority=5,
            timeout=9.0,
            soft_timeout=None,
            max_retries=None,
            retry_count=0,
            crash_count=0,
            run_after=START,
            claimed_at=scene.now,
            worker_id="worker_0",
            submitted_by="user_1",
            dedup_key="k",
            tags=("x",),
        )
    ]
    assert scene.state(task_id) is State.RUNNING
    assert scene.rows(
        attempts, "task_id", "attempt", "node_id", "worker_id", "pid", "start_ticks", "claimed_at"
    ) == [(task_id, 1, NODE, "worker_0", 100, 5000, scene.now)]
    assert scene.trail(task_id)[1:] == [("PENDING", "RUNNING", "supervisor", "claimed", NODE)]
    assert scene.rows(outbox, "task_id") == []
    assert scene.claim() == []


def test_priority_goes_across_queues_then_the_longest_due(scene: Scene) -> None:
    late = scene.submit(queue="a", run_after=START - timedelta(seconds=1))
    first = scene.submit(queue="b", run_after=START - timedelta(seconds=2))
    urgent = scene.submit(queue="c", priority=9, type="part")
    idle = scene.submit(queue="a", priority=0, run_after=START - timedelta(days=1))
    same = [scene.submit(queue=name) for name in ("b", "a", "c")]  # one due time: as submitted
    claims = scene.claim(10)
    assert [claim.task_id for claim in claims] == [urgent, first, late, *same, idle]
    assert [claim.worker_id for claim in claims] == [f"worker_{index}" for index in range(7)]


def test_no_more_than_the_owners_are_claimed(scene: Scene) -> None:
    ids = [scene.submit(priority=priority) for priority in (9, 5, 5, 1)]
    assert [claim.task_id for claim in scene.claim(2)] == ids[:2]
    assert scene.claim(0) == []
    assert [claim.task_id for claim in scene.claim(9)] == ids[2:]


def test_places_for_some_types_overtake_no_task_of_another(scene: Scene) -> None:
    first = scene.submit("greet")
    scene.pass_time(1)
    other = scene.submit("part")
    scene.pass_time(1)
    behind = scene.submit("greet")
    urgent = scene.submit("greet", priority=9)
    only = frozenset({"greet"})
    assert [claim.task_id for claim in scene.claim(4, only=only)] == [urgent, first]
    assert scene.claim(4, only=only) == []
    assert [claim.task_id for claim in scene.claim(4)] == [other, behind]


def test_a_future_task_is_claimed_at_its_second_and_not_before(scene: Scene) -> None:
    due = START + timedelta(seconds=30)
    task_id = scene.submit(run_after=due, priority=9)
    with scene.ledger.looking() as look:
        assert look.outlook(None, {"greet"})().next_due == due
    scene.pass_time(29.999999)
    assert scene.claim() == []
    scene.pass_time(0.000001)
    assert [claim.task_id for claim in scene.claim()] == [task_id]
    with scene.ledger.looking() as look:
        assert look.outlook(None, {"greet"})().next_due is None


def test_a_type_the_node_does_not_know_stays_pending(scene: Scene) -> None:
    task_id = scene.submit(type="alien", priority=9)
    known = scene.submit()
    assert [claim.task_id for claim in scene.claim(5)] == [known]
    assert scene.state(task_id) is State.PENDING
    with scene.ledger.looking() as look:
        assert look.outlook(None, {"greet"})().next_due is None
        assert look.outlook(None, {"alien"})().next_due == START


def test_only_the_named_queues_are_claimed_from(scene: Scene) -> None:
    scene.submit(queue="a")
    wanted = scene.submit(queue="b")
    assert [claim.task_id for claim in scene.claim(5, queues=["b", "c"])] == [wanted]


def test_a_paused_queue_rests_until_it_is_resumed(scene: Scene) -> None:
    task_id = scene.submit(queue="mail")
    who = {"by": "anna", "reason": "provider down"}
    with scene.ledger.transaction() as tx:
        assert tx.pause("mail", None, **who, now=START)
        assert not tx.pause("mail", None, **who, now=START)
        assert tx.outlook(None, {"greet"})().next_due is None
    assert scene.claim() == []
    with scene.ledger.transaction() as tx:
        assert tx.resume("mail", None, **who, now=START)
        assert not tx.resume("mail", None, **who, now=START)
    assert [claim.task_id for claim in scene.claim()] == [task_id]
    notes = scene.rows(audit_log, "task_id", "operator", "reason", "note")
    assert [note for note in notes if note[0] is None] == [
        (None, "anna", "queue_paused", "mail: provider down"),
        (None, "anna", "queue_resumed", "mail: provider down"),
    ]


def test_only_the_pause_that_was_seen_is_ended(scene: Scene) -> None:
    later = START + timedelta(seconds=9.25)
    for at, why in ((START, "provider down"), (later, "the bank is down")):
        with scene.ledger.transaction() as tx:
            assert tx.pause("mail", None, by="ben", reason=why, now=at)
            if at == START:
                assert tx.resume("mail", None, by="anna", reason="up", now=at, seen_at=START)
    said = "mail was paused anew by ben at 2026-05-20 10:30:09.250Z: the bank is down"
    with pytest.raises(Refused, match=re.escape(said)), scene.ledger.transaction() as tx:
        tx.resume("mail", None, by="anna", reason="up", now=later, seen_at=START)
    with scene.ledger.transaction() as tx:
        assert tx.resume("mail", None, by="anna", reason="up", now=later, seen_at=later)
        assert not tx.resume("mail", None, by="anna", reason="up", now=later, seen_at=START)


def test_one_priority_can_be_paused(scene: Scene) -> None:
    low, high = scene.submit(priority=2), scene.submit(priority=8)
    with scene.ledger.transaction() as tx:
        assert tx.pause("default", 8, by="anna", reason="flood", now=START)
    assert [claim.task_id for claim in scene.claim(5)] == [low]
    with scene.ledger.transaction() as tx:
        assert tx.resume("default", 8, by="anna", reason="over", now=START)
    assert [claim.task_id for claim in scene.claim(5)] == [high]


def test_a_pause_needs_a_real_priority_an_operator_and_a_reason(scene: Scene) -> None:
    with scene.ledger.transaction() as tx:
        for priority, by, reason in ((10, "a", "b"), (None, " ", "b"), (None, "a", "")):
            with pytest.raises(Refused):
                tx.pause("default", priority, by=by, reason=reason, now=START)
    assert scene.rows(audit_log, "id") == []


def test_started_keeps_the_moment_and_the_effective_limits(scene: Scene) -> None:
    claim = scene.running()
    at = START + timedelta(seconds=1)
    with scene.ledger.transaction() as tx:
        tx.started(
            [
                Started(
                    task_id=claim.task_id, attempt=1, started_at=at, timeout=60.0, soft_timeout=54.0
                )
            ]
        )
    assert scene.rows(attempts, "started_at", "timeout", "soft_timeout") == [(at, 60.0, 54.0)]
    view = scene.reader.task(claim.task_id)
    assert view is not None
    assert not view.assigned


def test_a_later_attempt_gets_the_last_checkpoint(scene: Scene) -> None:
    claim = scene.running()
    with scene.ledger.transaction() as tx:
        assert tx.checkpoint(claim.task_id, 1, '{"page":1}', START)
        assert tx.checkpoint(claim.task_id, 1, '{"page":2}', START)
    scene.finish(claim, raised("Error", "no", ""))
    with scene.ledger.transaction() as tx:
        assert not tx.checkpoint(claim.task_id, 1, '{"page":3}', START)
    scene.pass_time(10)
    (second,) = scene.claim()
    assert (second.attempt, second.checkpoint_json) == (2, '{"page":2}')
    with scene.ledger.transaction() as tx:
        assert not tx.checkpoint(claim.task_id, 1, '{"page":4}', START)
        assert tx.checkpoint(claim.task_id, 2, '{"page":5}', START)


def test_of_what_the_bell_named_only_what_waits_and_may_run_is_claimed(scene: Scene) -> None:
    low, high = scene.submit(priority=3), scene.submit(priority=7)
    gone = scene.submit(priority=9)
    scene.cancel(gone)
    later = scene.submit(run_after=scene.now + timedelta(hours=1))
    unknown = scene.submit(type="unknown")
    unnamed = scene.submit(priority=9)
    tips = [low, gone, later, unknown, high, "task_none"]
    claimed = scene.claim(9, tips=tips, scan=False)
    assert [claim.task_id for claim in claimed] == [high, low]
    assert [claim.task_id for claim in scene.claim(9, tips=tips)] == [unnamed]


def test_a_bell_that_names_enough_hides_nothing_that_is_better(scene: Scene) -> None:
    forgotten = scene.submit()
    scene.pass_time(2.5)
    tips = [scene.submit(), scene.submit()]
    urgent = scene.submit(priority=9)
    later = scene.submit()
    assert [claim.task_id for claim in scene.claim(2, tips=tips)] == [urgent, forgotten]
    assert [claim.task_id for claim in scene.claim(4, tips=tips)] == [*tips, later]


def test_what_is_due_a_moment_longer_than_what_was_named_is_left_to_others(scene: Scene) -> None:
    underway = scene.submit()
    scene.pass_time(1.5)
    tips = [scene.submit(), scene.submit()]
    assert [claim.task_id for claim in scene.claim(2, tips=tips)] == tips
    assert [claim.task_id for claim in scene.claim(2, tips=tips)] == [underway]
