"""Ending attempts: what stands in the rows afterwards, and what the fence keeps out."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from ledger_scene import NODE, POLICY, START, Scene
from msgspec.structs import replace

from supervisor.model import outcome as ended
from supervisor.model.outcome import Settlement
from supervisor.model.record import ChildSpec, Ending
from supervisor.model.retry import RetryPolicy
from supervisor.model.states import Reason, State
from supervisor.store.schema import attempts, outbox, tasks

CLAIMED = ("PENDING", "RUNNING", "supervisor", "claimed", NODE)


def test_success_writes_result_attempt_state_and_audit(scene: Scene) -> None:
    claim = scene.running()
    scene.pass_time(5)
    settlement = scene.finish(
        claim, ended.returned('{"rows":3}'), started_at=START, usage={"cpu_s": 0.5}, log_tail="x"
    )
    assert settlement == Settlement(
        path=(State.RUNNING, State.SUCCESS), reason=Reason.RETURNED, retry_count=0
    )
    view = scene.reader.task(claim.task_id)
    assert view is not None
    assert (view.state, view.reason, view.ended_at, view.result_json) == (
        State.SUCCESS,
        "returned",
        scene.now,
        '{"rows":3}',
    )
    (attempt,) = scene.reader.attempts(claim.task_id)
    assert (attempt.outcome, attempt.reason, attempt.started_at, attempt.ended_at) == (
        State.SUCCESS,
        "returned",
        START,
        scene.now,
    )
    assert (attempt.usage, attempt.proof, attempt.effects_unknown) == (
        {"cpu_s": 0.5},
        "reported",
        False,
    )
    assert scene.trail(claim.task_id)[1:] == [
        CLAIMED,
        ("RUNNING", "SUCCESS", "supervisor", "returned", None),
    ]
    assert scene.reader.log(claim.task_id) is None  # a log tail is kept of failures only


def test_a_retry_is_two_moves_in_one_transaction(scene: Scene) -> None:
    claim = scene.running()
    settlement = scene.finish(
        claim, ended.raised("ValueError", "no", "trace"), chance=0.5, log_tail="last words"
    )
    due = START + timedelta(seconds=11)
    assert settlement is not None
    assert (settlement.state, settlement.run_after) == (State.PENDING, due)
    assert scene.rows(tasks, "state", "reason", "run_after", "retry_count", "ended_at") == [
        ("PENDING", "retry", due, 1, None)
    ]
    assert scene.rows(attempts, "outcome", "reason", "error_type", "error", "traceback") == [
        ("FAILED", "raised", "ValueError", "no", "trace")
    ]
    assert scene.trail(claim.task_id)[2:] == [
        ("RUNNING", "FAILED", "supervisor", "raised", "no"),
        ("FAILED", "PENDING", "supervisor", "retry", None),
    ]
    assert scene.rows(outbox, "task_id", "event_id", "run_after") == [(claim.task_id, 1, due)]
    assert scene.reader.log(claim.task_id, 1) == "last words"


def test_retries_run_out_and_the_row_reads_failed(scene: Scene) -> None:
    task_id = scene.submit()
    for attempt in (1, 2, 3):
        (claim,) = scene.claim()
        assert (claim.attempt, claim.retry_count) == (attempt, attempt - 1)
        scene.finish(claim, ended.raised("E", "no", ""))
        scene.pass_time(10_000)
    assert scene.state(task_id) is State.FAILED
    assert scene.claim() == []
    assert scene.rows(outbox, "task_id") == []


def test_three_crashes_are_a_quarantine(scene: Scene) -> None:
    patient = RetryPolicy(max_retries=99, max_crashes=3)
    task_id = scene.submit()
    for _ in range(3):
        (claim,) = scene.claim()
        scene.finish(claim, ended.crashed("SIGSEGV"), policy=patient)
        scene.pass_time(10_000)
    view = scene.reader.task(task_id)
    assert view is not None
    assert (view.state, view.quarantined, view.crash_count) == (State.FAILED, True, 3)
    assert scene.trail(task_id)[-1] == (
        "RUNNING",
        "FAILED",
        "supervisor",
        "crashed",
        "quarantined after 3 crashes",
    )


def test_an_attempt_taken_back_uses_no_retry(scene: Scene) -> None:
    claim = scene.running()
    scene.finish(claim, ended.never_started("the worker was busy"))
    (attempt,) = scene.reader.attempts(claim.task_id)
    assert attempt.requeued
    (again,) = scene.claim()
    assert (again.attempt, again.retry_count, again.crash_count) == (2, 0, 0)


@pytest.mark.parametrize("late_by", ["attempt", "state"])
def test_a_late_result_changes_nothing_and_is_told(scene: Scene, late_by: str) -> None:
    claim = scene.running()
    scene.finish(claim, ended.node_lost("gone", "pid 7 is gone"))
    scene.pass_time(3600)
    if late_by == "attempt":
        scene.claim()
    before = scene.rows(tasks, *tasks.c.keys()), scene.rows(attempts, *attempts.c.keys())
    assert scene.finish(claim, ended.raised("ValueError", "too late", "")) is None
    assert (scene.rows(tasks, *tasks.c.keys()), scene.rows(attempts, *attempts.c.keys())) == before
    assert scene.trail(claim.task_id)[-1] == (
        None,
        None,
        "supervisor",
        "late_result",
        "late result discarded after TIMEOUT: it was FAILED (raised), too late",
    )


def test_any_text_a_task_leaves_can_be_kept(scene: Scene) -> None:
    claim = scene.running()
    odd, kept = "caf\u00e9 \udcff \0 x", "caf\u00e9 \\udcff \u2400 x"
    with scene.ledger.transaction() as tx:
        assert tx.checkpoint(claim.task_id, 1, f'"{odd}"', START)
    scene.finish(claim, ended.raised(odd, odd, odd), log_tail=odd)
    (attempt,) = scene.reader.attempts(claim.task_id)
    assert (attempt.error_type, attempt.error, attempt.traceback) == (kept, kept, kept)
    assert scene.reader.log(claim.task_id) == kept
    assert scene.trail(claim.task_id)[-2][4] == kept


def test_a_long_error_stands_whole_in_the_attempt_and_cut_in_the_trail(scene: Scene) -> None:
    claim = scene.running()
    scene.finish(claim, ended.raised("E", "x" * 5000, ""))
    assert scene.reader.attempts(claim.task_id)[0].error == "x" * 5000
    note = scene.trail(claim.task_id)[-2][4]
    assert note is not None
    assert len(note) <= 1000
    assert "characters cut" in note


def test_an_attempt_ends_once_even_within_a_batch(scene: Scene) -> None:
    claim = scene.running()
    endings = [
        Ending(task_id=claim.task_id, attempt=1, outcome=out, policy=POLICY, ended_at=START)
        for out in (ended.returned("1"), ended.returned("2"))
    ]
    with scene.ledger.transaction() as tx:
        first, second = tx.finish(endings)
    assert first is not None
    assert second is None
    assert scene.rows(attempts, "result") == [("1",)]
    assert scene.trail(claim.task_id)[-1][4] == (
        "late result discarded after SUCCESS: it was SUCCESS (returned)"
    )


def test_the_result_of_an_unknown_task_is_told_too(scene: Scene) -> None:
    claim = scene.running()
    stranger = replace(claim, task_id="task_" + "0" * 32)
    assert scene.finish(stranger, ended.returned("1")) is None
    assert scene.trail(stranger.task_id) == [
        (
            None,
            None,
            "supervisor",
            "late_result",
            "late result discarded after an unknown attempt: it was SUCCESS (returned)",
        )
    ]


def test_a_large_batch_is_settled_one_by_one(scene: Scene) -> None:
    ids = [scene.submit(priority=index % 10) for index in range(40)]
    claims = scene.claim(40)
    endings = [
        Ending(
            task_id=claim.task_id,
            attempt=1,
            outcome=ended.returned("1") if claim.priority % 2 else ended.raised("E", "no", ""),
            policy=POLICY,
            ended_at=START,
        )
        for claim in claims
    ]
    with scene.ledger.transaction() as tx:
        settlements = tx.finish(endings, operator="sweeper")
    assert [settlement.state for settlement in settlements if settlement] == [
        State.SUCCESS if claim.priority % 2 else State.PENDING for claim in claims
    ]
    assert {scene.trail(task_id)[-1][2] for task_id in ids} == {"sweeper"}


def test_a_canceled_task_is_never_retried_and_names_its_operator(scene: Scene) -> None:
    claim = scene.running(dedup_key="k")
    scene.cancel(claim.task_id)
    scene.finish(claim, ended.raised("E", "no", ""))
    assert scene.trail(claim.task_id)[-1] == (
        "RUNNING",
        "CANCELED",
        "anna",
        "canceled",
        "not needed",
    )
    assert scene.rows(tasks, "state", "dedup_held", "mark_kind") == [("CANCELED", False, None)]
    assert scene.rows(attempts, "outcome", "reason") == [("CANCELED", "raised")]


def test_a_cancel_that_comes_too_late_leaves_success_and_says_so(scene: Scene) -> None:
    claim = scene.running()
    scene.cancel(claim.task_id)
    scene.finish(claim, ended.returned("1"))
    assert scene.trail(claim.task_id)[-1] == (
        "RUNNING",
        "SUCCESS",
        "supervisor",
        "returned",
        "cancel by anna came too late: the body had returned",
    )


def test_force_fail_ends_failed_without_a_retry(scene: Scene) -> None:
    claim = scene.running()
    scene.fail(claim.task_id)
    scene.finish(claim, ended.killed(State.TIMEOUT, Reason.TIMEOUT, "killed"))
    assert scene.trail(claim.task_id)[-1] == ("RUNNING", "FAILED", "anna", "forced", "stuck")
    assert scene.rows(attempts, "outcome", "effects_unknown") == [("FAILED", True)]


def test_children_come_with_success_and_know_their_parent(scene: Scene) -> None:
    claim = scene.running()
    child = ChildSpec(json.dumps({"type": "part", "params": {"n": 1}, "submitted_by": "greet"}))
    scene.finish(claim, ended.returned("1"), children=(child,))
    assert scene.rows(tasks, "type", "state", "parent_id") == [
        ("greet", "SUCCESS", None),
        ("part", "PENDING", claim.task_id),
    ]


def test_children_do_not_come_with_a_failure(scene: Scene) -> None:
    claim = scene.running()
    child = ChildSpec(json.dumps({"type": "part"}))
    scene.finish(claim, ended.raised("E", "no", ""), children=(child,))
    assert scene.rows(tasks, "type") == [("greet",)]


def test_a_child_that_is_refused_does_not_undo_the_ending(scene: Scene) -> None:
    claim = scene.running()
    taken = {"type": "part", "task_id": claim.task_id}
    children = tuple(ChildSpec(json.dumps(raw)) for raw in ({"type": "1"}, taken))
    scene.finish(claim, ended.returned("1"), children=children)
    assert scene.state(claim.task_id) is State.SUCCESS
    notes = [step for step in scene.trail(claim.task_id) if step[3] == "child_refused"]
    assert len(notes) == 2
    assert "exists with other content" in str(notes[1][4])


def test_an_ending_written_again_after_its_answer_was_lost_is_no_late_result(scene: Scene) -> None:
    child = ChildSpec('{"type": "part"}')
    claim = scene.running()
    first = scene.finish(claim, ended.returned("1"), children=(child,))
    before = scene.trail(claim.task_id)
    again = scene.finish(claim, ended.returned("1"), children=(child,))
    assert first is not None
    assert again is not None
    assert again.path == first.path
    assert scene.trail(claim.task_id) == before
    assert len(scene.rows(tasks, "task_id")) == 2  # the child was not submitted twice

    claim = scene.running(priority=9)
    scene.finish(claim, ended.raised("E", "no", ""))
    retried = scene.finish(claim, ended.raised("E", "no", ""))
    assert retried is not None
    assert (retried.state, retried.run_after) == (State.PENDING, None)
