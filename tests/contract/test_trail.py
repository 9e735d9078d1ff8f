"""The audit trail as a whole, on both kinds of store: who is found, in pages, by which filter."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ledger_scene import START, Scene

from supervisor.store import HistoryLine, trail
from supervisor.store.ledger.audit import ACCESS_REASONS
from supervisor.store.trail import Trail, TrailFilter


@pytest.fixture
def all_of_it(scene: Scene) -> Trail:
    """Two tasks, of which anna cancels one, tom pauses a queue, and somebody comes in."""
    scene.submit("greet", submitted_by="anna")
    scene.pass_time(3600)
    second = scene.submit("part")
    scene.cancel(second)
    scene.pass_time(3600)
    scene.claim()
    with scene.ledger.transaction() as tx:
        tx.pause("default", None, by="tom", reason="bank", now=scene.now)
        tx.access.note_sign_in("tom", "from ::1", scene.now)
    return Trail(scene.store)


def told(lines: tuple[HistoryLine, ...]) -> list[tuple[str, str]]:
    return [(line.operator, line.reason) for line in lines]


def test_everything_newest_first(all_of_it: Trail) -> None:
    found = all_of_it.find(TrailFilter())
    assert told(found.lines) == [
        ("tom", "signed_in"), ("tom", "queue_paused"), ("supervisor", "claimed"),
        ("anna", "canceled"), ("unknown", "submitted"), ("anna", "submitted"),
    ]  # fmt: skip
    assert found.next_id is None


def test_each_filter_finds_its_own(scene: Scene, all_of_it: Trail) -> None:
    (canceled,) = all_of_it.find(TrailFilter(reasons={"canceled"})).lines
    assert canceled.task_id is not None
    for wanted, expected in (
        (TrailFilter(operator="anna"), ["canceled"]),
        (TrailFilter(operator="supervisor"), ["claimed"]),
        (TrailFilter(operator="nobody"), []),
        (TrailFilter(operator="anna", reasons={"submitted"}), ["submitted"]),
        (TrailFilter(operator="anna", reasons={"submitted"}, only_people=True), []),
        (TrailFilter(only_people=True), ["signed_in", "queue_paused", "canceled"]),
        (TrailFilter(only_people=True, with_access=False), ["queue_paused", "canceled"]),
        (TrailFilter(reasons=ACCESS_REASONS, only_people=True), ["signed_in"]),
        (TrailFilter(reasons=ACCESS_REASONS, with_access=False), []),
        (TrailFilter(task_id=canceled.task_id), ["canceled", "submitted"]),
        (TrailFilter(task_id=canceled.task_id, only_people=True), ["canceled"]),
        (TrailFilter(task_id=canceled.task_id, operator="anna"), ["canceled"]),
        (TrailFilter(since=START + timedelta(hours=2)), ["signed_in", "queue_paused", "claimed"]),
        (TrailFilter(until=START + timedelta(minutes=59)), ["submitted"]),
        (
            TrailFilter(since=START + timedelta(minutes=1), until=START + timedelta(hours=1)),
            ["canceled", "submitted"],
        ),
    ):
        found = all_of_it.find(wanted)
        assert ([line.reason for line in found.lines], found.next_id) == (expected, None), wanted


def test_pages_follow_each_other(all_of_it: Trail) -> None:
    found: list[int] = []
    before = None
    while True:
        page = all_of_it.find(TrailFilter(before_id=before, limit=4))
        found += [line.audit_id for line in page.lines]
        before = page.next_id
        if before is None:
            break
    assert found == sorted(found, reverse=True)
    assert len(found) == 6


def test_what_is_rare_is_looked_for_window_by_window(
    all_of_it: Trail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "WINDOW", 2)
    wanted = TrailFilter(reasons={"submitted"})
    first = all_of_it.find(wanted)
    assert (first.lines, first.next_id is None) == ((), False)
    second = all_of_it.find(TrailFilter(reasons={"submitted"}, before_id=first.next_id))
    assert second.lines == ()
    third = all_of_it.find(TrailFilter(reasons={"submitted"}, before_id=second.next_id))
    assert told(third.lines) == [("unknown", "submitted"), ("anna", "submitted")]
