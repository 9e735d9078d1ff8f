"""Dead letters: in groups of what they have in common, so many at a look, found by a query."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ledger_scene import POLICY, START, Scene

from supervisor.model import outcome as ended
from supervisor.model.query import parse
from supervisor.model.states import Reason, State
from supervisor.store import TaskFilter, dead
from supervisor.store.dead import DeadBook


@pytest.fixture
def book(scene: Scene) -> DeadBook:
    """A store with five groups and a task that waits for its retry."""
    for port in range(4):
        claim = scene.running()
        text = f"to 10.0.0.{port}:543{port} refused"
        scene.finish(claim, ended.raised("ConnectionError", text, "", retryable=False))
    scene.finish(
        scene.running(type="part"), ended.raised("ConnectionError", "to 1", "", retryable=False)
    )
    scene.pass_time(7200)
    late = ended.killed(State.TIMEOUT, Reason.TIMEOUT, "over 9 s")
    scene.finish(scene.running(), late, policy=replace(POLICY, max_retries=0))
    scene.finish(scene.running(), ended.raised("Odd[*]", "50% of 'a*b'\nmore", "", retryable=False))
    for _ in range(POLICY.max_crashes):
        (claim,) = scene.claim() or [scene.running()]
        scene.finish(claim, ended.crashed("killed by SIGSEGV", reason=Reason.NATIVE_CRASH))
        scene.pass_time(7200)
    scene.finish(scene.running(), ended.raised("ConnectionError", "later", ""))
    return DeadBook(scene.store)


def test_they_are_grouped_and_each_group_is_found_by_its_query(
    scene: Scene, book: DeadBook
) -> None:
    page = book.look(scene.now)
    shown = [
        (one.type, one.error_type, one.pattern, one.quarantined, one.count) for one in page.groups
    ]
    assert shown[0] == ("greet", "ConnectionError", "to * refused", False, 4)
    assert {one for one in shown[1:] if not one[3]} == {
        ("part", "ConnectionError", "to *", False, 1),
        ("greet", None, "over * s", False, 1),
        ("greet", "Odd[*]", "*% of *", False, 1),
    }
    assert [one[0] for one in shown if one[3]] == ["greet"]
    assert (page.looked, page.next_id) == (8, None)
    for group in page.groups:
        found = scene.reader.tasks(TaskFilter(terms=parse(group.query))).tasks
        assert len(found) == group.count, group.query
        assert found[0].task_id == group.newest.task_id


def test_a_look_is_bounded_and_goes_on(
    scene: Scene, book: DeadBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = {one.query: one.count for one in book.look(scene.now).groups}
    monkeypatch.setattr(dead, "WINDOW", 3)
    found: dict[str, int] = {}
    before_id, looks = None, 0
    while True:
        page = book.look(scene.now, before_id)
        assert page.looked <= 6
        for group in page.groups:
            found[group.query] = found.get(group.query, 0) + group.count
        looks += 1
        before_id = page.next_id
        if before_id is None:
            break
    assert looks > 2
    assert found == everything


def test_ages_are_counted(scene: Scene, book: DeadBook) -> None:
    (first, *_) = book.look(scene.now).groups
    assert (first.last_hour, first.last_day) == (0, 4)
    (first, *_) = book.look(START).groups
    assert first.last_hour == 4


def test_a_query_of_a_group_holds_no_password_of_its_errors(scene: Scene) -> None:
    error = "cannot connect to postgres://bob:hunterpass@db/x"
    scene.finish(scene.running(), ended.raised("OperationalError", error, "", retryable=False))
    (group,) = DeadBook(scene.store).look(scene.now).groups
    assert "hunterpass" not in group.query
    found = scene.reader.tasks(TaskFilter(terms=parse(group.query), as_of=scene.now)).tasks
    assert [one.task_id for one in found] == [group.newest.task_id]
