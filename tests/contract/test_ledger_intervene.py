"""Operator acts: each id answered for itself, each act with its operator and reason."""

from __future__ import annotations

import pytest
from ledger_scene import START, Scene

from supervisor.errors import Refused, UnknownTask
from supervisor.model import outcome as ended
from supervisor.model.outcome import StopMark
from supervisor.model.record import Acted, Answer, Mark, Seen
from supervisor.model.retry import RetryPolicy
from supervisor.model.states import State
from supervisor.store.kin import Child, children_of
from supervisor.store.schema import audit_log, outbox, tasks

NOBODY = "task_" + "0" * 32


def test_cancel_answers_one_by_one(scene: Scene) -> None:
    done = scene.running()
    scene.finish(done, ended.returned("1"))
    running = scene.running()
    waiting = scene.submit(dedup_key="k")
    assert scene.cancel(waiting, running.task_id, done.task_id, NOBODY, waiting) == [
        Acted(task_id=waiting, answer=Answer.CANCELED, state=State.CANCELED),
        Acted(task_id=running.task_id, answer=Answer.REQUESTED, state=State.RUNNING),
        Acted(
            task_id=done.task_id,
            answer=Answer.ALREADY_ENDED,
            state=State.SUCCESS,
            detail="too late: it ended SUCCESS at 2026-05-20 10:30:00.000Z",
        ),
        Acted(task_id=NOBODY, answer=Answer.NOT_FOUND, detail="no task has this id"),
        Acted(
            task_id=waiting,
            answer=Answer.ALREADY_ENDED,
            state=State.CANCELED,
            detail="too late: it ended CANCELED at 2026-05-20 10:30:00.000Z",
        ),
    ]


def test_a_pending_task_is_canceled_at_once_and_never_claimed(scene: Scene) -> None:
    task_id = scene.submit(dedup_key="k")
    scene.cancel(task_id)
    assert scene.trail(task_id)[1:] == [("PENDING", "CANCELED", "anna", "canceled", "not needed")]
    assert scene.rows(tasks, "state", "ended_at", "dedup_held") == [("CANCELED", START, False)]
    assert scene.rows(outbox, "task_id") == []
    assert scene.claim() == []


def test_a_running_task_gets_a_mark_for_its_node_only(scene: Scene) -> None:
    claim = scene.running()
    scene.cancel(claim.task_id)
    assert scene.state(claim.task_id) is State.RUNNING
    mark = StopMark(kind="cancel", by="anna", reason="not needed", at=START)
    with scene.ledger.looking() as look:
        assert look.marks("node_a") == [Mark(task_id=claim.task_id, attempt=1, mark=mark)]
        assert look.marks("node_b") == []
    assert scene.trail(claim.task_id)[-1] == (None, None, "anna", "cancel_requested", "not needed")
    assert (
        scene.cancel(claim.task_id)
        == scene.fail(claim.task_id)
        == [
            Acted(
                task_id=claim.task_id,
                answer=Answer.ALREADY_REQUESTED,
                state=State.RUNNING,
                detail="cancel was requested before",
            )
        ]
    )
    scene.finish(claim, ended.canceled())
    with scene.ledger.looking() as look:
        assert look.marks("node_a") == []


def test_only_a_running_task_can_be_failed(scene: Scene) -> None:
    running = scene.running()
    waiting = scene.submit()
    canceled = scene.submit()
    scene.cancel(canceled)
    answers = [acted.answer for acted in scene.fail(running.task_id, waiting, canceled, NOBODY)]
    assert answers == [
        Answer.REQUESTED,
        Answer.NOT_RUNNING,
        Answer.ALREADY_ENDED,
        Answer.NOT_FOUND,
    ]
    assert scene.state(waiting) is State.PENDING


def _dead(scene: Scene, **fields: object) -> str:
    claim = scene.running(**fields)
    scene.finish(claim, ended.crashed("SIGKILL"), policy=RetryPolicy(max_crashes=1))
    return claim.task_id


def test_a_rerun_starts_afresh(scene: Scene) -> None:
    task_id = _dead(scene, dedup_key="k")
    scene.pass_time(60)
    assert scene.rerun(task_id) == [
        Acted(task_id=task_id, answer=Answer.RERUN, state=State.PENDING)
    ]
    assert scene.trail(task_id)[-1] == ("FAILED", "PENDING", "anna", "rerun", "fixed")
    assert scene.rows(
        tasks, "run_after", "crash_count", "quarantined", "ended_at", "dedup_held"
    ) == [(scene.now, 0, False, None, True)]
    assert scene.rows(outbox, "task_id", "event_id") == [(task_id, 1)]
    (claim,) = scene.claim()
    assert (claim.task_id, claim.attempt) == (task_id, 2)


def test_a_rerun_is_refused_while_another_task_holds_the_key(scene: Scene) -> None:
    task_id = _dead(scene, dedup_key="k")
    holder = scene.submit(dedup_key="k")
    assert scene.rerun(task_id) == [
        Acted(
            task_id=task_id,
            answer=Answer.DEDUP_TAKEN,
            state=State.FAILED,
            detail=f"{holder} holds its dedup key",
        )
    ]
    scene.cancel(holder)
    assert scene.rerun(task_id)[0].answer == Answer.RERUN


def test_of_two_reruns_of_one_key_the_first_wins(scene: Scene) -> None:
    first = _dead(scene, dedup_key="k")
    second = _dead(scene, dedup_key="k")
    assert [acted.answer for acted in scene.rerun(first, second)] == [
        Answer.RERUN,
        Answer.DEDUP_TAKEN,
    ]


def test_live_and_good_tasks_are_not_rerun(scene: Scene) -> None:
    done = scene.running()
    scene.finish(done, ended.returned("1"))
    waiting = scene.submit()
    assert [acted.answer for acted in scene.rerun(done.task_id, waiting, NOBODY)] == [
        Answer.NOT_RERUNNABLE,
        Answer.NOT_RERUNNABLE,
        Answer.NOT_FOUND,
    ]


@pytest.mark.parametrize("verb", ["cancel", "fail", "rerun"])
@pytest.mark.parametrize(("by", "reason"), [("", "why"), ("who", ""), (" ", "\n")])
def test_operator_and_reason_are_mandatory(scene: Scene, verb: str, by: str, reason: str) -> None:
    task_id = scene.submit()
    with scene.ledger.transaction() as tx, pytest.raises(Refused, match="is missing") as refused:
        getattr(tx, verb)([task_id], by=by, reason=reason, now=START)
    assert refused.value.remedy
    assert len(scene.rows(audit_log, "id")) == 1


def test_an_act_on_what_has_changed_is_refused_with_what_it_is_now(scene: Scene) -> None:
    claim = scene.running()
    seen = Seen(State.PENDING, 0)
    for verb in ("cancel", "fail", "rerun"):
        with scene.ledger.transaction() as tx:
            act = getattr(tx, verb)
            (answer,) = act([claim.task_id], by="bob", reason="old", now=scene.now, seen=seen)
        assert answer == Acted(
            task_id=claim.task_id,
            answer="changed meanwhile",
            state=State.RUNNING,
            detail="it was PENDING (attempt 0) when you looked and is RUNNING (attempt 1) now",
        )
        assert not answer.done
    with scene.ledger.transaction() as tx:
        (answer,) = tx.cancel(
            [claim.task_id], by="anna", reason="now", now=scene.now, seen=Seen(State.RUNNING, 1)
        )
    assert answer.done


def test_a_copy_is_a_new_task_and_both_trails_name_the_other(scene: Scene) -> None:
    parent = scene.submit()
    first = scene.submit(
        params_json='{"who":"anna"}', queue="mail", priority=7, timeout=9.0, soft_timeout=8.0,
        max_retries=4, tags=("a", "b"), dedup_key="k", parent_id=parent, submitted_by="zoe",
    )  # fmt: skip
    scene.cancel(first)
    scene.pass_time(60)
    copy_id = f"task_{7:032x}"
    for expected in (True, False):  # a second time the same form is sent
        with scene.ledger.transaction() as tx:
            made = tx.resubmit(first, by="bob", reason="again", now=scene.now, copy_id=copy_id)
        assert (made.task_id, made.created) == (copy_id, expected)
    old, new = scene.reader.task(first), scene.reader.task(copy_id)
    assert old is not None
    assert new is not None
    for name in ("type", "params_json", "queue", "priority", "timeout", "soft_timeout"):
        assert getattr(new, name) == getattr(old, name)
    assert (new.max_retries, new.tags, new.parent_id) == (4, ("a", "b"), parent)
    assert (new.state, new.attempt, new.run_after) == (State.PENDING, 0, scene.now)
    assert (new.dedup_key, new.submitted_by) == (None, "bob")
    assert old.state is State.CANCELED
    about = (None, None, "bob")
    assert scene.trail(copy_id)[1:] == [(*about, "resubmitted_from", f"a copy of {first}: again")]
    assert scene.trail(first)[-1] == (*about, "resubmitted_as", f"its copy is {copy_id}: again")
    children = {Child(copy_id, "greet", State.PENDING), Child(first, "greet", State.CANCELED)}
    assert set(children_of(scene.store, parent)) == children
    with scene.ledger.transaction() as tx, pytest.raises(UnknownTask):
        tx.resubmit("task_0", by="bob", reason="again", now=scene.now)
