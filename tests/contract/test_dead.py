"""Dead letters: in groups of what they have in common, so many at a look, found by a query."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_scene import POLICY, START, Scene

from supervisor.model import outcome as ended
from supervisor.model.outcome import Outcome
from supervisor.model.query import parse
from supervisor.model.states import Reason, State
from supervisor.store import TaskFilter, dead
from supervisor.store.bulk import BulkDesk
from supervisor.store.dead import DeadBook
from supervisor.store.listing import Listing


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
        (one.type, one.reason, one.error_type, one.pattern, one.quarantined, one.count)
        for one in page.groups
    ]
    assert shown[0] == ("greet", "raised", "ConnectionError", "to * refused", False, 4)
    assert {one for one in shown[1:] if not one[4]} == {
        ("part", "raised", "ConnectionError", "to *", False, 1),
        ("greet", "timeout", None, "over * s", False, 1),
        ("greet", "raised", "Odd[*]", "*% of *", False, 1),
    }
    assert [one[:2] for one in shown if one[4]] == [("greet", "native_crash")]
    assert (page.looked, page.next_id) == (8, None)
    for group in page.groups:
        found = scene.reader.tasks(TaskFilter(terms=parse(group.query))).tasks
        assert len(found) == group.count, group.query
        assert found[0].task_id == group.newest.task_id


#: Errors of which one's pattern stands for another's text, or is a part of it.
ALIKE = ("", "no", "no 5", "no 5 left", "no 'a'", "5", "'a'", "to 1", "to 1 refused",
         "to * refused",
         r"to \* refused", "to 1\nmore", "no [redacted]", "a" * 159 + "7", "a" * 159 + "8 b", "ü 1",
         "password=hunter2 1", 'say "no"', "50%", "5_", "tell\0me", "NO")  # fmt: skip
HOW = st.one_of(
    st.builds(
        ended.raised, st.sampled_from(["Error", "Err*", "Error 5", ""]),
        st.sampled_from(ALIKE) | st.text(max_size=12), st.just(""),
    ),
    st.builds(
        ended.killed, st.just(State.TIMEOUT),
        st.sampled_from([Reason.TIMEOUT, Reason.STALLED, Reason.CPU_SPIN]), st.sampled_from(ALIKE),
    ),
    st.builds(ended.crashed, st.sampled_from(ALIKE), reason=st.sampled_from([Reason.CRASHED])),
)  # fmt: skip


def test_what_a_group_counts_is_found_and_acted_on(scene: Scene) -> None:
    desk, book = BulkDesk(scene.store, lambda _: None), DeadBook(scene.store)
    policy = replace(POLICY, max_retries=0, max_crashes=1)
    only = HealthCheck.function_scoped_fixture

    @settings(max_examples=12, deadline=None, database=None, suppress_health_check=[only])
    @given(st.lists(st.tuples(st.sampled_from(["greet", "part"]), HOW), min_size=1, max_size=9))
    def holds(endings: list[tuple[str, Outcome]]) -> None:
        for kind, how in endings:
            task_id = scene.submit(kind)
            (claim,) = [one for one in scene.claim(99) if one.task_id == task_id]
            scene.finish(claim, how, policy=policy)
        page = book.look(scene.now)
        assert page.looked == sum(group.count for group in page.groups)
        found = [_found(scene, group.query) for group in page.groups]
        assert [len(some) for some in found] == [group.count for group in page.groups]
        assert len({one for some in found for one in some}) == page.looked
        act = desk.begin("rerun", page.groups[-1].query, by="anna", reason="again")
        while act.ended_at is None:
            moved = desk.step(act, "web_1")
            assert moved is not None
            act = moved
        assert act.answers == {"rerun": page.groups[-1].count}
        assert {scene.state(one) for one in found[-1]} == {State.PENDING}

    holds()


def _found(scene: Scene, query: str) -> list[str]:
    wanted = TaskFilter(terms=parse(query), limit=500)
    page = scene.reader.tasks(wanted)
    assert page.next_id is None
    assert Listing(scene.store).count(wanted).count == len(page.tasks)
    return [one.task_id for one in page.tasks]


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
