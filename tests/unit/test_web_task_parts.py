"""The page of one task, its pure parts: the course, the probes, the ladder, and orders in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from supervisor.model.order import UNANSWERED, Order, OrderKind
from supervisor.model.states import TRANSITIONS, State
from supervisor.store import HistoryLine
from supervisor.store.vitals import VitalsView
from supervisor.web.course import STEPS_TOLD, WAYS, Step, course_of
from supervisor.web.probe import Progress, probe_of
from supervisor.words.asked import is_open, standing, wish
from supervisor.words.ladder import Step as Rung
from supervisor.words.ladder import to_come

START = datetime(2026, 5, 20, 10, 30, tzinfo=UTC)
PENDING, RUNNING, FAILED, SUCCESS = State.PENDING, State.RUNNING, State.FAILED, State.SUCCESS


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def line(
    at: float, before: State | None, state: State | None, reason: str = "why", by: str = "node"
) -> HistoryLine:
    return HistoryLine(
        audit_id=1, task_id="task_1", attempt=1, at=after(at), from_state=before, to_state=state,
        operator=by, reason=reason, note=None,
    )  # fmt: skip


RETRIED = [
    line(0, None, PENDING, "submitted"),
    line(2, PENDING, RUNNING, "claimed"),
    line(3, None, None, "verdict"),
    line(5, RUNNING, FAILED, "raised"),
    line(5, FAILED, PENDING, "retry"),
    line(15, PENDING, RUNNING, "claimed"),
]


class TestCourse:
    def test_every_move_that_the_table_has_is_drawn(self) -> None:
        legal = {(one, other) for one, others in TRANSITIONS.items() for other in others}
        assert set(WAYS) == legal | {(None, PENDING)}

    def test_states_are_timed_by_the_moves_out_of_them(self) -> None:
        course = course_of(RETRIED, after(18))
        stops = {stop.state: stop for stop in course.stops}
        told = {s: (stop.visits, stop.spent_s, stop.is_here) for s, stop in stops.items()}
        assert told == {
            PENDING: (2, 12.0, False),
            RUNNING: (2, 6.0, True),
            FAILED: (1, None, False),
            SUCCESS: (0, None, False),
            State.TIMEOUT: (0, None, False),
            State.CANCELED: (0, None, False),
        }
        assert stops[FAILED].last_at == after(5)
        taken = {way.path: way.taken for way in course.ways if way.taken}
        assert taken == {
            WAYS[None, PENDING]: 1,
            WAYS[PENDING, RUNNING]: 2,
            WAYS[RUNNING, FAILED]: 1,
            WAYS[FAILED, PENDING]: 1,
        }
        assert [way.taken > 0 for way in course.ways] == [False] * 7 + [True] * 4
        assert course.steps[-1] == Step(RUNNING, after(15), 3.0, "claimed", 1, "node")
        assert [step.spent_s for step in course.steps] == [2.0, 3.0, 0.0, 10.0, 3.0]

    def test_what_has_ended_is_there_at_a_time_and_for_no_time(self) -> None:
        course = course_of([*RETRIED, line(20, RUNNING, SUCCESS, "returned")], after(3600))
        (here,) = [stop for stop in course.stops if stop.is_here]
        assert (here.state, here.spent_s, here.last_at) == (SUCCESS, None, after(20))
        assert course.steps[-1].spent_s is None

    def test_a_long_life_is_told_by_its_end(self) -> None:
        moves = [line(0, None, PENDING)]
        for n in range(20):
            moves += [
                line(n, PENDING, RUNNING), line(n, RUNNING, FAILED), line(n, FAILED, PENDING)
            ]  # fmt: skip
        course = course_of(moves, after(30))
        assert (len(course.steps), course.before) == (STEPS_TOLD, 61 - STEPS_TOLD)

    def test_without_a_trail_nothing_is_lit(self) -> None:
        course = course_of([], START)
        assert {stop.visits for stop in course.stops} == {0}
        assert (course.steps, course.before) == ((), 0)


def reading(at: float, **worker: Any) -> VitalsView:
    told = {
        "slot": 0, "worker_id": "w1", "pid": 7, "state": "busy", "rss": 1000, "cpu_s": at,
        "fds": 9, "heartbeat_age_s": 0.5, "task_id": "task_1", "attempt": 1,
        "since_progress_s": 2.0, "progress": None, "verdict": None, **worker,
    }  # fmt: skip
    return VitalsView("node", after(at), {"stage": "running"}, (told,))


class TestProbe:
    def test_ages_are_as_of_now_and_cpu_is_between_two_readings(self) -> None:
        readings = [reading(0, cpu_s=1.0), reading(5, cpu_s=3.5), reading(10, cpu_s=8.5, rss=3000)]
        probe = probe_of(readings, "task_1", 1, after(12))
        assert probe is not None
        assert (probe.age_s, probe.is_old) == (2.0, False)
        assert (probe.heartbeat_age_s, probe.since_progress_s) == (2.5, 4.0)
        assert (probe.cpu, probe.cpu_trend) == (1.0, (0.5, 1.0))
        assert (probe.rss, probe.rss_trend) == (3000, (1000, 1000, 3000))
        assert (probe.fds, probe.progress) == (9, None)

    @pytest.mark.parametrize(("task_id", "attempt"), [("task_1", 2), ("task_2", 1)])
    def test_another_attempt_is_not_this_one(self, task_id: str, attempt: int) -> None:
        assert probe_of([reading(0)], task_id, attempt, START) is None

    def test_nothing_is_made_up(self) -> None:
        bare = reading(0, rss=None, cpu_s=None, fds=None, heartbeat_age_s=None)
        probe = probe_of([bare], "task_1", 1, after(60))
        assert probe is not None
        assert (probe.cpu, probe.rss, probe.fds, probe.heartbeat_age_s) == (None,) * 4
        assert probe.is_old

    @pytest.mark.parametrize(
        ("told", "progress"),
        [
            ([[10, 100], [20, 100], [30, 100]], Progress(30, 100, 2.0, 35.0)),
            ([[30, 100], [30, 100]], Progress(30, 100, 0.0, None)),
            ([[30, 100]], Progress(30, 100, None, None)),
            ([[10, None], [20, None]], Progress(20, None, 2.0, None)),
            ([None, [0, 100], [10, 100]], Progress(10, 100, 2.0, 45.0)),
            ([[50, 100], [20, 100]], Progress(20, 100, -6.0, None)),
            ([[50, 100], [120, 100]], Progress(120, 100, 14.0, 0.0)),
        ],
    )
    def test_a_rate_is_of_what_was_seen(self, told: list[Any], progress: Progress) -> None:
        readings = [reading(5 * n, progress=one) for n, one in enumerate(told)]
        probe = probe_of(readings, "task_1", 1, after(30))
        assert probe is not None
        assert probe.progress == progress

    def test_a_share_is_between_none_and_all(self) -> None:
        shares = [Progress(n, total, None, None).share for n, total in ((5, 20), (30, 20), (5, 0))]
        assert shares == [0.25, 1.0, None]


def rung(step: str, attempt: int = 1) -> Rung:
    return Rung(step, attempt, START, "anna", None)


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ([], ""),
        (["cancel_requested"], "delivered acknowledged stopped verified"),
        (["fail_requested", "cancel_delivered"], "acknowledged stopped verified"),
        (["cancel_requested", "cancel_delivered", "cancel_forced"], "stopped verified"),
        (["cancel_requested", "cancel_delivered", "cancel_acknowledged"], "stopped verified"),
        (["cancel_requested", "cancel_verified"], ""),
        (["cancel_requested", "cancel_too_late"], ""),
        (["cancel_requested", "ended"], ""),
    ],
)
def test_what_is_to_come_on_the_ladder(taken: list[str], left: str) -> None:
    steps = [rung(step) for step in taken]
    assert " ".join(to_come(steps)) == " ".join(f"cancel_{one}" for one in left.split())


def test_a_request_of_a_later_attempt_begins_anew() -> None:
    steps = [rung("cancel_requested"), rung("cancel_verified"), rung("cancel_requested", 2)]
    assert len(to_come(steps)) == 4


def order(answer: str | None = None, kind: OrderKind = OrderKind.CAPTURE) -> Order:
    return Order(
        order_id="order_1", node_id="node_a", kind=kind, task_id="task_1", attempt=3,
        operator="anna", reason="why", created_at=START, answer=answer,
    )  # fmt: skip


def test_an_order_is_told_as_it_stands() -> None:
    gone = "its node is gone: it ended before it answered"
    assert standing(order("done"), {"node_a"}) == "done"
    assert standing(order(), set()) == "its node has not answered yet"
    assert standing(order(), {"node_a"}) == gone
    assert standing(order(UNANSWERED), set()) == gone
    assert [is_open(order(), set()), is_open(order(), {"node_a"}), is_open(order("x"), set())] == [
        True, False, False,
    ]  # fmt: skip
    assert [wish(order(kind=kind)) for kind in OrderKind] == [
        "take evidence of attempt 3 now", "take no more tasks", "take tasks again", "stop",
    ]  # fmt: skip
