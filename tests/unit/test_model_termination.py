"""A worker's way out goes through its phases, each within its budget, and is remembered."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.model.termination import Budgets, Farewell, Phase

BUDGETS = Budgets()
ORDER = list(Phase)


def walk(
    farewell: Farewell, *, in_body: bool, unread: bool, until: float, step: float = 0.5
) -> Farewell:
    """Let time pass in steps and go on whenever it is time."""
    ticks = round((until - farewell.since) / step)
    start = farewell.since
    for tick in range(ticks + 1):
        now = start + tick * step
        while (phase := farewell.next(BUDGETS, now, unread=unread, in_body=in_body)) is not None:
            farewell = farewell.enter(phase, now)
    return farewell


def begin(phase: Phase = Phase.DRAIN) -> Farewell:
    return Farewell(phase=phase, since=100.0)


def test_the_order_and_the_budgets_are_those_of_the_specification() -> None:
    assert [(phase, BUDGETS.of(phase)) for phase in ORDER] == [
        (Phase.DRAIN, 1.0),
        (Phase.CHECKPOINT, 30.0),
        (Phase.RELEASE, 15.0),
        (Phase.EXIT, 10.0),
        (Phase.CAPTURE, 10.0),
        (Phase.KILL, math.inf),
    ]


def test_a_body_that_never_leaves_is_killed_after_its_budgets_and_not_released() -> None:
    gone = walk(begin(), in_body=True, unread=True, until=200.0)
    assert gone.phase is Phase.KILL
    assert gone.spent == (
        (Phase.DRAIN, 1.0),
        (Phase.CHECKPOINT, 30.0),
        (Phase.EXIT, 10.0),
        (Phase.CAPTURE, 10.0),
    )
    assert gone.times(gone.since + 0.25) == (
        "drain 1.00 s, checkpoint 30.00 s, exit 10.00 s, capture 10.00 s, kill 0.25 s"
    )


def test_an_idle_worker_that_never_leaves_goes_through_release() -> None:
    gone = walk(begin(), in_body=False, unread=False, until=200.0)
    assert gone.phase is Phase.KILL
    assert gone.spent == (
        (Phase.DRAIN, 0.0),
        (Phase.RELEASE, 15.0),
        (Phase.EXIT, 10.0),
        (Phase.CAPTURE, 10.0),
    )


def test_a_body_that_leaves_in_time_is_released() -> None:
    told = walk(begin(), in_body=True, unread=False, until=110.0)
    assert told.phase is Phase.CHECKPOINT
    left = walk(told, in_body=False, unread=False, until=told.since + 5)
    assert left.phase is Phase.RELEASE


def test_a_forced_kill_starts_at_the_evidence_and_skips_the_rest() -> None:
    forced = walk(begin(Phase.CAPTURE), in_body=True, unread=True, until=150.0)
    assert (forced.phase, forced.spent) == (Phase.KILL, ((Phase.CAPTURE, 10.0),))


def test_a_sent_kill_is_waited_for_without_end() -> None:
    killed = begin(Phase.KILL)
    assert killed.next(BUDGETS, 1e12, unread=True, in_body=True) is None


@pytest.mark.parametrize(
    ("phase", "late", "unread", "in_body", "expected"),
    [
        (Phase.DRAIN, False, True, True, None),
        (Phase.DRAIN, False, True, False, None),
        (Phase.DRAIN, False, False, True, Phase.CHECKPOINT),
        (Phase.DRAIN, False, False, False, Phase.RELEASE),
        (Phase.DRAIN, True, True, True, Phase.CHECKPOINT),
        (Phase.DRAIN, True, True, False, Phase.RELEASE),
        (Phase.CHECKPOINT, False, False, True, None),
        (Phase.CHECKPOINT, True, False, True, Phase.EXIT),
        (Phase.CHECKPOINT, False, False, False, Phase.RELEASE),
        (Phase.CHECKPOINT, True, False, False, Phase.RELEASE),
        (Phase.RELEASE, False, False, False, None),
        (Phase.RELEASE, True, False, False, Phase.EXIT),
        (Phase.EXIT, False, False, True, None),
        (Phase.EXIT, True, False, True, Phase.CAPTURE),
        (Phase.CAPTURE, False, False, True, None),
        (Phase.CAPTURE, True, False, True, Phase.KILL),
    ],
)
def test_when_it_is_time_for_which_phase(
    phase: Phase, late: bool, unread: bool, in_body: bool, expected: Phase | None
) -> None:
    now = 100.0 + BUDGETS.of(phase) - (0.0 if late else 0.01)
    assert begin(phase).next(BUDGETS, now, unread=unread, in_body=in_body) is expected


def test_time_in_which_nobody_looked_uses_no_budget() -> None:
    late = begin(Phase.EXIT).shifted(3600.0)
    assert late.next(BUDGETS, 100.0 + 3600.0 + 9.9, unread=False, in_body=True) is None
    assert late.times(3705.0) == "exit 5.00 s"


def test_a_clock_behind_the_start_is_no_negative_time() -> None:
    assert begin().times(99.0) == "drain 0.00 s"
    assert begin().enter(Phase.RELEASE, 99.0).spent == ((Phase.DRAIN, 0.0),)


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(ORDER),
    st.lists(st.tuples(st.floats(0, 40), st.booleans(), st.booleans()), max_size=20),
)
def test_it_only_ever_goes_on_and_accounts_for_all_its_time(
    first: Phase, looks: list[tuple[float, bool, bool]]
) -> None:
    farewell, now = begin(first), 100.0
    for passed, unread, in_body in looks:
        now += passed
        phase = farewell.next(BUDGETS, now, unread=unread, in_body=in_body)
        if phase is None:
            assert now - farewell.since < BUDGETS.of(farewell.phase)
            continue
        assert ORDER.index(phase) > ORDER.index(farewell.phase)
        farewell = farewell.enter(phase, now)
    total = sum(seconds for _, seconds in farewell.spent) + now - farewell.since
    assert total == pytest.approx(now - 100.0)
