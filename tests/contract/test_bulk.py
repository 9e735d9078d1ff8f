"""An act on all tasks of a query: frozen, in steps, by one holder after the other, stopped."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest
from ledger_scene import START, Scene

from supervisor.errors import Refused
from supervisor.model import outcome as ended
from supervisor.model.bulk import CHANGED, BulkAct, BulkVerb, Example
from supervisor.model.query import QueryError
from supervisor.model.states import State
from supervisor.store import Store, bulk, search
from supervisor.store.bulk import BulkDesk


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
        held = desk.count(act, holder) if act.total is None else desk.step(act, holder)
    assert held is not None
    return held


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
    act = desk.hold(begin(desk, "state:pending"), "web_1")
    assert act is not None
    act = desk.count(act, "web_1")
    assert act is not None
    page = desk._find(desk._wanted(act), 10)
    (claim,) = scene.claim(1)
    with scene.ledger.transaction() as tx:
        moved = tx.bulk.step(act, "web_1", *page, hold_s=5, now=act.created_at)
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
        Example(claim.task_id, "dedup key taken", f"{holder} holds the dedup key 'order'"),
    )


def test_one_holds_it_until_it_is_silent_for_too_long(
    scene: Scene, desk: BulkDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP", 2)
    for _ in range(6):
        scene.submit()
    act = begin(desk)
    first = desk.hold(act, "web_1")
    assert first is not None
    first = desk.count(first, "web_1")
    assert first is not None
    assert desk.hold(act, "web_2") is None
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
    held = desk.hold(begin(desk), "web_1")
    assert held is not None
    step = desk.step(held, "web_1")
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
