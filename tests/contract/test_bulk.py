"""An act on all tasks of a query: frozen, in steps, by one holder after the other, stopped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta, timezone
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from ledger_scene import START, Scene

from supervisor.errors import Refused
from supervisor.model import outcome as ended
from supervisor.model.access import Role
from supervisor.model.bulk import CHANGED, BulkAct, BulkVerb, Example
from supervisor.model.query import QueryError
from supervisor.model.states import State
from supervisor.store import Store, bulk, search
from supervisor.store.bulk import BulkDesk
from supervisor.store.ledger.bulk import Hold
from supervisor.store.record import TokenRecord, UserRecord
from supervisor.store.session import Ordered


@pytest.fixture
def rung() -> list[str]:
    return []


@pytest.fixture
def desk(store: Store, rung: list[str]) -> BulkDesk:
    return BulkDesk(store, rung.append)


def begin(desk: BulkDesk, query: str = "type:greet", verb: str = "cancel") -> BulkAct:
    return desk.begin(verb, query, by="anna", reason="wrong month")


def carry(desk: BulkDesk, act: BulkAct, holder: str = "web_1") -> BulkAct:
    """Do all that is left of an act."""
    held = desk.hold(act, holder)
    while held is not None and held.ended_at is None:
        act = held
        held = desk.step(act, holder)
    assert held is not None
    return held


def counted(desk: BulkDesk, act: BulkAct, holder: str = "web_1") -> BulkAct:
    """Count all tasks of an act."""
    while act.total is None:
        moved = desk.step(act, holder)
        assert moved is not None
        act = moved
    return act


def test_all_tasks_of_the_query_that_there_were_are_acted_on(
    scene: Scene, desk: BulkDesk, rung: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP", 4)
    monkeypatch.setattr(bulk, "COUNTED_AT_ONCE", 3)
    running = scene.running()
    waiting = [scene.submit() for _ in range(9)]
    other = scene.submit("part")
    act = begin(desk)
    assert act.query.startswith("type:greet state:pending,running submitted:<=20")
    scene.now = act.created_at + timedelta(seconds=1)
    late = scene.submit()
    done = carry(desk, act)
    assert (done.total, done.done, done.refused, done.share) == (10, 10, 0, 1.0)
    assert done.answers == {"canceled": 9, "requested": 1}
    assert {scene.state(task_id) for task_id in waiting} == {State.CANCELED}
    assert (scene.state(other), scene.state(late)) == (State.PENDING, State.PENDING)
    assert rung == [BulkVerb.CANCEL] * 3
    assert scene.trail(waiting[0])[-1] == (
        "PENDING", "CANCELED", "anna", "canceled", f"wrong month ({act.bulk_id})",
    )  # fmt: skip
    view = scene.reader.task(running.task_id)
    assert view is not None
    assert view.mark is not None
    assert view.mark.reason == f"wrong month ({act.bulk_id})"
    notes = [(x.operator, x.reason) for x in scene.reader.audit() if x.task_id is None]
    assert notes == [("supervisor", "bulk_ended"), ("anna", "bulk_begun")]
    assert desk.get(act.bulk_id) == done
    assert desk.open() == []
    assert desk.latest() == [done]


def test_what_has_left_the_query_is_told_and_not_acted_on(scene: Scene, desk: BulkDesk) -> None:
    scene.submit()
    second = scene.submit()
    act = counted(desk, begin(desk, "state:pending"))
    page = desk._find(act, None, 10)
    (claim,) = scene.claim(1)
    with scene.ledger.transaction() as tx:
        moved = tx.bulk.step(act, desk._hold("web_1"), *page)
    assert moved is not None
    assert (moved.done, moved.refused, moved.answers) == (1, 1, {"canceled": 1, CHANGED: 1})
    assert moved.examples == (Example(claim.task_id, CHANGED, "it is RUNNING now"),)
    assert (scene.state(claim.task_id), scene.state(second)) == (State.RUNNING, State.CANCELED)


def test_refusals_are_counted_with_their_reasons(scene: Scene, desk: BulkDesk) -> None:
    claim = scene.running(dedup_key="order", max_retries=0)
    scene.finish(claim, ended.raised("Error", "no", "", retryable=False))
    holder = scene.submit(dedup_key="order")
    done = carry(desk, begin(desk, "error:Error", "rerun"))
    assert (done.done, done.refused, done.answers) == (0, 1, {"dedup key taken": 1})
    assert done.examples == (
        Example(claim.task_id, "dedup key taken", f"{holder} holds its dedup key"),
    )


def test_one_holds_it_until_it_is_silent_for_too_long(
    scene: Scene, desk: BulkDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP", 2)
    for _ in range(6):
        scene.submit()
    act = begin(desk)
    first = counted(desk, act)
    assert desk.hold(first, "web_2") is None
    assert desk.step(first, "web_2") is None
    step = desk.step(first, "web_1")
    assert step is not None
    assert (step.done, step.total, step.holder) == (2, 6, "web_1")
    assert desk.step(first, "web_1") is None, "a step was taken twice"
    monkeypatch.setattr(bulk, "HOLD_S", -1.0)  # its next step is its last word
    last = desk.step(step, "web_1")
    assert last is not None
    monkeypatch.undo()
    done = carry(desk, last, "web_2")
    assert (done.done, done.holder, done.answers) == (6, "web_2", {"canceled": 6})
    assert desk.step(last, "web_1") is None


def test_who_leaves_in_order_lets_another_go_on_at_once(scene: Scene, desk: BulkDesk) -> None:
    scene.submit()
    act = begin(desk)
    assert desk.hold(act, "web_1") is not None
    desk.release("web_2")
    assert desk.hold(act, "web_2") is None
    desk.release("web_1")
    assert desk.hold(act, "web_2") is not None


def test_it_is_stopped_and_what_is_done_stays(
    scene: Scene, desk: BulkDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP", 2)
    ids = [scene.submit() for _ in range(4)]
    step = desk.step(counted(desk, begin(desk)), "web_1")
    assert step is not None
    assert desk.stop(step.bulk_id, by="bert", reason="enough")
    assert not desk.stop(step.bulk_id, by="bert", reason="enough")
    assert desk.step(step, "web_1") is None
    found = desk.get(step.bulk_id)
    assert found is not None
    assert (found.ended_by, found.done, desk.open()) == ("bert", 2, [])
    assert [scene.state(one) for one in ids] == [State.PENDING] * 2 + [State.CANCELED] * 2
    newest = scene.reader.audit(limit=1)[0]
    assert (newest.operator, newest.reason) == ("bert", "bulk_stopped")
    assert newest.note == f"{step.bulk_id}: 2 done, 0 not: enough"


def test_small_windows_carry_it_through(
    scene: Scene, desk: BulkDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "WINDOW", 3)
    wanted = [scene.submit(submitted_by=("ann", None)[n % 5 > 0]) for n in range(20)][::5]
    done = carry(desk, begin(desk, "by:ann"))
    assert (done.total, done.done) == (4, 4)
    assert {scene.state(one) for one in wanted} == {State.CANCELED}


def test_what_was_seen_bounds_it(scene: Scene, desk: BulkDesk) -> None:
    scene.submit()
    scene.pass_time(10)
    later = scene.submit()
    seen = (START + timedelta(seconds=5)).astimezone(timezone(timedelta(hours=2)))
    act = desk.begin("cancel", "", by="a", reason="b", seen_at=seen)
    assert carry(desk, act).done == 1
    assert scene.state(later) is State.PENDING


def test_what_cannot_be_begun_is_refused(desk: BulkDesk) -> None:
    with pytest.raises(QueryError):
        begin(desk, "stat:failed")
    for how in (("explode", "anna", "b"), ("cancel", " ", "b"), ("cancel", "anna", "")):
        verb, by, reason = how
        with pytest.raises(Refused):
            desk.begin(verb, "", by=by, reason=reason)
    assert desk.get("bulk_1") is None
    assert not desk.stop("bulk_1", by="a", reason="b")


def test_counting_goes_step_by_step_and_on_in_another_process(
    scene: Scene, desk: BulkDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "COUNTED_AT_ONCE", 4)
    for _ in range(10):
        scene.submit()
    act = begin(desk)
    seen = []
    for holder in ("web_1", "web_1", "web_2"):
        moved = desk.step(act, holder)
        assert moved is not None
        assert desk.step(act, holder) is None, "tasks were counted twice"
        assert desk.get(act.bulk_id) == moved
        seen.append((moved.counted, moved.total, moved.gone_through, moved.share))
        desk.release(holder)
        act = desk.open()[0]
    assert seen == [(4, None, 0, None), (8, None, 0, None), (10, 10, 0, 0.0)]
    assert carry(desk, act, "web_2").done == 10


def test_it_is_stopped_while_it_is_counted(
    scene: Scene, desk: BulkDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "COUNTED_AT_ONCE", 1)
    ids = [scene.submit() for _ in range(3)]
    step = desk.step(begin(desk), "web_1")
    assert step is not None
    assert desk.stop(step.bulk_id, by="bert", reason="enough")
    assert desk.step(step, "web_1") is None
    assert {scene.state(one) for one in ids} == {State.PENDING}


def test_an_act_on_nothing_is_done_at_once(desk: BulkDesk, rung: list[str]) -> None:
    done = carry(desk, begin(desk))
    assert (done.total, done.done, done.refused, done.share) == (0, 0, 0, 1.0)
    assert (done.ended_by, rung) == (None, [])


def test_one_of_a_later_version_is_left_alone_and_can_be_stopped(
    scene: Scene, desk: BulkDesk
) -> None:
    task_id = scene.submit()
    later = [begin(desk) for _ in range(2)]
    for act, change in zip(later, ("verb = 'hold'", "query = 'mood:bad'"), strict=True):
        change += """, answers = '{"more": 1}'"""
        statement = sa.text(f"UPDATE bulk_acts SET {change} WHERE bulk_id = '{act.bulk_id}'")
        with scene.store.writing() as session:
            session.write(partial(Ordered, statement, ()))
    own = begin(desk)
    assert desk.open() == [own]
    assert carry(desk, own).done == 1
    found = {one.bulk_id: one for one in desk.latest()}
    assert [(found[one.bulk_id].verb, found[one.bulk_id].is_known) for one in (*later, own)] == [
        ("hold", False), ("cancel", False), ("cancel", True),
    ]  # fmt: skip
    for one in later:
        assert desk.stop(one.bulk_id, by="bert", reason="it waits for ever")
        stopped = desk.get(one.bulk_id)
        assert stopped is not None
        assert (stopped.verb, stopped.ended_by) == (found[one.bulk_id].verb, "bert")
    assert scene.state(task_id) is State.CANCELED


def test_acts_that_overlap_do_everything_once(
    scene: Scene, desk: BulkDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP", 3)
    ids = [scene.submit() for _ in range(8)]
    acts = [desk.begin("cancel", "type:greet", by=by, reason="b") for by in ("anna", "bert")]
    acts = [counted(desk, act, act.operator) for act in acts]
    while any(act.ended_at is None for act in acts):
        for n, act in enumerate(acts):
            acts[n] = act if act.ended_at else desk.step(act, act.operator) or act
    assert [act.total for act in acts] == [8, 8]
    assert sum(act.done for act in acts) == 8
    assert sum(act.answers.get("canceled", 0) for act in acts) == 8
    assert {len(scene.trail(one)) for one in ids} == {2}


def test_what_ends_after_it_was_seen_is_not_run_again(scene: Scene, desk: BulkDesk) -> None:
    how = ended.raised("Error", "no", "", retryable=False)
    first, second = scene.running(), scene.running()
    scene.finish(first, how)
    seen = scene.now
    scene.pass_time(10)
    scene.finish(second, how)
    done = carry(desk, desk.begin("rerun", "error:Error", by="a", reason="b", seen_at=seen))
    assert (done.total, done.done) == (1, 1)
    assert scene.state(first.task_id) is State.PENDING
    assert scene.state(second.task_id) is State.FAILED


def test_what_goes_while_it_is_carried_out_is_not_waited_for(scene: Scene, desk: BulkDesk) -> None:
    scene.submit()
    act = counted(desk, begin(desk, "state:pending"))
    scene.claim()
    done = carry(desk, act)
    assert (done.total, done.done, done.refused) == (1, 0, 0)
    assert (done.left_first, done.share) == (1, 1.0)


@pytest.mark.parametrize("how", ["disabled", "removed", "revoked"])
def test_who_is_let_in_no_more_has_no_act_that_goes_on(
    scene: Scene, desk: BulkDesk, how: str
) -> None:
    scene.submit()
    operator = "token:ann" if how == "revoked" else "ann"
    theirs = desk.begin("cancel", "", by=operator, reason="b")
    other = desk.begin("cancel", "", by="bert", reason="b")
    told: dict[str, Any] = {
        "name": "ann",
        "role": Role.OPERATOR,
        "sees_autopsies": False,
        "created_by": "root",
    }
    user = UserRecord(**told, password="h", created_at=START, changed_at=START)
    token = TokenRecord(**told, token_hash="h", created_at=START, ends_at=None)
    with scene.ledger.transaction() as tx:
        assert tx.access.add_user(user)
        assert tx.access.add_token(token)
    with scene.ledger.transaction() as tx:
        assert {
            "disabled": lambda: tx.access.disable_user("ann", "-", "root", scene.now),
            "removed": lambda: tx.access.remove_user("ann", "root", scene.now),
            "revoked": lambda: tx.access.revoke_token("ann", "root", scene.now),
        }[how]()
    found = desk.get(theirs.bulk_id)
    assert found is not None
    assert (found.ended_by, desk.open()) == ("root", [other])
    newest = scene.reader.audit(limit=1)[0]
    assert newest.note == f"{theirs.bulk_id}: 0 done, 0 not: {operator} is let in no more"
    assert desk.step(theirs, "web_1") is None


def test_ages_count_from_when_it_was_seen(scene: Scene, desk: BulkDesk) -> None:
    first = scene.submit()
    scene.pass_time(60)
    second = scene.submit()
    seen = START + timedelta(seconds=90)  # the store's own clock has gone on for months
    act = desk.begin("cancel", "submitted:>1m", by="a", reason="b", seen_at=seen)
    assert (act.as_of, desk.open()) == (seen, [act])
    assert carry(desk, act).done == 1
    assert (scene.state(first), scene.state(second)) == (State.CANCELED, State.PENDING)


def test_a_clock_that_was_set_back_leaves_no_act_held_for_long(
    scene: Scene, desk: BulkDesk
) -> None:
    now = begin(desk).created_at + timedelta(hours=1)
    (act,) = desk.open()
    with scene.ledger.transaction() as tx:
        assert tx.bulk.hold(act, Hold("web_1", now, now + timedelta(seconds=5))) is not None
    taken = desk.hold(act, "web_2")
    assert taken is not None
    assert desk.hold(taken, "web_1") is None


def test_acts_that_overlap_go_on_at_the_same_time(
    store: Store, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP", 7)
    ids = [scene.submit(dedup_key=f"key {n}") for n in range(60)]
    desks = [BulkDesk(store, lambda _: None) for _ in range(3)]
    acts = [begin(desk) for desk in desks]
    with ThreadPoolExecutor(3) as threads:
        done = list(threads.map(carry, desks, acts, ["web_1", "web_2", "web_3"]))
    assert sum(act.answers.get("canceled", 0) for act in done) == len(ids)
    assert sum(act.done for act in done) == len(ids)
    assert {scene.trail(one)[-1][4] for one in ids} <= {
        f"wrong month ({act.bulk_id})" for act in acts
    }
    assert {len(scene.trail(one)) for one in ids} == {2}


def test_what_begins_to_run_after_it_was_seen_does_not_fail(scene: Scene, desk: BulkDesk) -> None:
    first = scene.running()
    seen = scene.now
    scene.submit("part")
    scene.pass_time(1)
    (second,) = scene.claim()
    act = desk.begin("fail", "type:greet,part", by="a", reason="b", seen_at=seen)
    done = carry(desk, act)
    assert (done.total, done.answers) == (1, {"requested": 1})
    views = [scene.reader.task(one.task_id) for one in (first, second)]
    assert [view is not None and view.mark is not None for view in views] == [True, False]
