"""The transition table is S1's, move by move, and its drawing shows every state."""

from __future__ import annotations

from itertools import product

import pytest

from supervisor.errors import IllegalTransition
from supervisor.model import states
from supervisor.model.states import (
    ENDED,
    LIVE,
    REQUEUE_REASONS,
    TRANSITIONS,
    Reason,
    State,
    is_legal,
    require_legal,
)

#: S1 §1.2, written out by hand: this list is the specification, not a copy of the code.
LEGAL = {
    ("PENDING", "RUNNING"),
    ("PENDING", "CANCELED"),
    ("RUNNING", "SUCCESS"),
    ("RUNNING", "FAILED"),
    ("RUNNING", "CANCELED"),
    ("RUNNING", "TIMEOUT"),
    ("FAILED", "PENDING"),
    ("FAILED", "CANCELED"),
    ("TIMEOUT", "PENDING"),
    ("TIMEOUT", "CANCELED"),
}


def test_there_are_exactly_six_states() -> None:
    assert sorted(State) == ["CANCELED", "FAILED", "PENDING", "RUNNING", "SUCCESS", "TIMEOUT"]


@pytest.mark.parametrize(("before", "after"), sorted(product(State, State)))
def test_every_pair_is_legal_or_refused_as_specified(before: State, after: State) -> None:
    assert is_legal(before, after) == ((before, after) in LEGAL)
    if (before, after) in LEGAL:
        require_legal(before, after)
        return
    with pytest.raises(IllegalTransition) as caught:
        require_legal(before, after)
    assert caught.value.message == f"{before} → {after} is not in the transition table"
    assert caught.value.facts == {"from_state": before, "to_state": after}
    assert caught.value.remedy == "Report this as a bug: nothing was written."


def test_the_table_cannot_be_changed() -> None:
    assert set(TRANSITIONS) == set(State)
    with pytest.raises(TypeError):
        TRANSITIONS[State.SUCCESS] = frozenset(State)  # type: ignore[index]


def test_success_and_canceled_are_final() -> None:
    assert {state for state in State if not TRANSITIONS[state]} == {State.SUCCESS, State.CANCELED}


def test_live_and_ended_divide_the_states() -> None:
    assert {State.PENDING, State.RUNNING} == LIVE
    assert set(State) == LIVE | ENDED
    assert not LIVE & ENDED


def test_every_state_is_reached_from_pending() -> None:
    reached, todo = {State.PENDING}, [State.PENDING]
    while todo:
        new = TRANSITIONS[todo.pop()] - reached
        reached |= new
        todo += new
    assert reached == set(State)


def test_the_drawing_has_every_state() -> None:
    drawing = (states.__doc__ or "").split("Secret kept here")[0]
    assert [state for state in State if state not in drawing] == []


def test_the_reasons_that_use_no_retry() -> None:
    assert {Reason.NEVER_STARTED, Reason.SHUTDOWN, Reason.PREEMPTED} == REQUEUE_REASONS
