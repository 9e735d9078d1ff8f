"""Short tasks are handed out ahead; behind a slow one they are taken back."""

from __future__ import annotations

import time
from pathlib import Path

from harness import FAILED, PENDING, RUNNING, SUCCESS, NodeUnderTest, Start, eventually

from supervisor.model.states import State


def test_behind_a_slow_one(node: NodeUnderTest, tmp_path: Path) -> None:
    """The type is known to be quick; then one of it takes longer than all others together."""
    warm = [node.submit("quick_or_slow") for _ in range(200)]
    node.app.wait([h.task_id for h in warm], 20)
    path, enough = tmp_path / "ran", tmp_path / "enough"
    fast = {"type": "quick_or_slow", "params": {"path": str(path)}}
    slow = {"type": "quick_or_slow", "params": {"until": str(enough), "path": str(path)}}
    handles = node.app.submit_many([*[fast] * 20, slow, *[fast] * 300])
    slow_handle = handles.pop(20)
    views = node.app.wait([h.task_id for h in handles], 20)
    assert slow_handle.state() is State.RUNNING, "all others ended while it ran"
    enough.touch()
    assert {v.state for v in views} == {State.SUCCESS}
    moved = [v for v in views if v.attempt > 1]
    assert moved, "some had been handed to the worker that was held up"
    for view in moved:
        assert (view.retry_count, view.crash_count) == (0, 0)
        moves = node.moves(view.task_id)
        back = [(RUNNING, FAILED, "node", "never_started"), (FAILED, PENDING, "node", "requeued")]
        assert moves[2:4] == back
        assert moves[-1] == (RUNNING, SUCCESS, "node", "returned")
        assert node.endings(view.task_id)[0] == (FAILED, "never_started", "taken_back", False)
    assert slow_handle.wait(10).state is State.SUCCESS
    ran = [line.split()[0] for line in path.read_text().splitlines()]
    assert sorted(ran) == sorted(h.task_id for h in [*handles, slow_handle])  # each ran once
    slow_pid = node.attempts(slow_handle.task_id)[0].pid
    assert all(node.attempts(v.task_id)[-1].pid != slow_pid for v in moved)


def test_cancel_of_one_handed_out_ahead(node: NodeUnderTest, tmp_path: Path) -> None:
    """Canceled while it waits in a worker's hands: it never runs a line."""
    path = tmp_path / "ran"
    fast = {"type": "quick_or_slow", "params": {"s": 0.01, "path": str(path)}}
    handles = node.app.submit_many([fast] * 200)
    last = [h.task_id for h in handles[-50:]]
    answers = node.app.cancel(last, by="anna", reason="changed my mind")
    views = node.app.wait([h.task_id for h in handles], 20)
    ran = {line.split()[0] for line in path.read_text().splitlines()}
    by_id = {v.task_id: v for v in views}
    for answer in answers:
        view = by_id[answer.task_id]
        if answer.answer == "canceled":
            assert (view.state, view.task_id in ran) == (State.CANCELED, False)
        else:
            assert view.state in (State.CANCELED, State.SUCCESS)
            assert (view.state is State.SUCCESS) <= (view.task_id in ran)
    assert {v.state for v in views[:-50]} == {State.SUCCESS}


def test_nothing_is_claimed_for_a_worker_that_was_interrupted(start_node: Start) -> None:
    """It leaves after its attempt; what waits begins on its successor, as a first attempt."""
    node = start_node(workers=1)
    handles = [node.submit(kind) for _ in range(4) for kind in ("holds_regex_too_long", "ok")]
    views = node.app.wait([handle.task_id for handle in handles], 30)
    assert [view.attempt for view in views] == [1] * 8


def test_what_was_taken_back_does_not_use_up_a_worker(start_node: Start) -> None:
    """A worker counts what it has run, and so does the node: it goes on, or is recycled."""
    node = start_node(workers=1, recycle_after_tasks=300)
    quick, slow = {"type": "quick_or_slow"}, {"type": "quick_or_slow", "params": {"s": 0.15}}
    handles = node.app.submit_many([*[quick] * 100, *([slow, *[quick] * 60] * 8)])
    views = node.app.wait([handle.task_id for handle in handles], 60)
    assert {view.state for view in views} == {State.SUCCESS}
    assert sum(view.attempt for view in views) > len(views), "some had been taken back"


def test_a_task_that_may_not_wait_behind_others_gets_its_turn(start_node: Start) -> None:
    node = start_node(workers=1)
    backlog = [{"type": "quick_or_slow", "params": {"s": 0.001}}] * 4000
    node.app.submit_many(backlog)
    eventually(lambda: _left(node) < 3500, 20)
    urgent = node.submit("slow_work", spec={"priority": 9}, s=0.1)
    assert urgent.wait(10).state is State.SUCCESS
    assert _left(node) > 1000, "the others still wait"
    node.app.cancel(_waiting(node), by="test", reason="enough")


def test_a_type_that_becomes_slow_is_taken_back_and_no_worker_blamed(
    start_node: Start, tmp_path: Path
) -> None:
    node = start_node(workers=1)
    slow_now = tmp_path / "slow"
    spec = {"type": "grows", "params": {"path": str(slow_now)}}
    node.app.submit_many([spec] * 6000)
    eventually(lambda: _left(node) < 5000, 20)
    slow_now.write_text("")
    time.sleep(0.2)
    urgent = node.submit("quick_or_slow", spec={"priority": 9})
    assert urgent.wait(3).state is State.SUCCESS
    time.sleep(1.5)  # as long as it would take to call the worker one that does not read
    node.app.cancel(_waiting(node), by="test", reason="enough")
    whys = {row[0] for row in node.query("SELECT error FROM attempts WHERE error IS NOT NULL")}
    assert "its worker did not read it" not in whys
    assert node.query("SELECT count(*) FROM autopsies") == [(0,)]
    assert node.events("worker.exited") == []


def _left(node: NodeUnderTest) -> int:
    return int(node.query("SELECT count(*) FROM tasks WHERE state = 'PENDING'")[0][0])


def _waiting(node: NodeUnderTest) -> list[str]:
    return [row[0] for row in node.query("SELECT task_id FROM tasks WHERE state = 'PENDING'")]
