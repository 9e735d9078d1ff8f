"""The course of a task as a drawing: its states, the ways between them, and those it has taken.

Secret kept here: where each state stands and how each way runs. Pure: made of the trail alone, and
drawn by the template as SVG; the same is told as a list of steps for whoever cannot see it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from supervisor.model.states import ENDED, State
from supervisor.store import HistoryLine

WIDTH, HEIGHT = 720, 252
BOX_WIDTH, BOX_HEIGHT = 116, 42
#: Steps that are told; of a task that was retried for days the latest.
STEPS_TOLD = 12

_PLACES: Mapping[State, tuple[int, int]] = MappingProxyType(
    {
        State.PENDING: (94, 128),
        State.RUNNING: (312, 128),
        State.SUCCESS: (596, 46),
        State.FAILED: (596, 104),
        State.TIMEOUT: (596, 162),
        State.CANCELED: (596, 220),
    }
)
WAYS: Mapping[tuple[State | None, State], str] = MappingProxyType(
    {
        (None, State.PENDING): "M6 128 H32",
        (State.PENDING, State.RUNNING): "M154 128 H250",
        (State.RUNNING, State.SUCCESS): "M372 116 C460 116 450 46 534 46",
        (State.RUNNING, State.FAILED): "M372 124 C460 124 450 104 534 104",
        (State.RUNNING, State.TIMEOUT): "M372 132 C460 132 450 162 534 162",
        (State.RUNNING, State.CANCELED): "M372 140 C460 140 450 212 534 212",
        (State.PENDING, State.CANCELED): "M94 151 C94 244 260 230 534 230",
        (State.FAILED, State.PENDING): "M656 98 H690 V10 H108 V103",
        (State.TIMEOUT, State.PENDING): "M656 156 H706 V18 H80 V103",
        (State.FAILED, State.CANCELED): "M656 112 C684 130 684 200 658 212",
        (State.TIMEOUT, State.CANCELED): "M656 168 C672 180 672 200 658 216",
    }
)


@dataclass(frozen=True, slots=True)
class Stop:
    """A state: its box, how often it was entered, and for how long it was in it in all."""

    state: State
    x: int
    y: int
    visits: int
    is_here: bool
    spent_s: float | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class Way:
    """A move that is possible, and how often it was made."""

    path: str
    taken: int


@dataclass(frozen=True, slots=True)
class Step:
    """One state that the task was in; `spent_s` is None where it has ended."""

    state: State
    at: datetime
    spent_s: float | None
    reason: str
    attempt: int | None
    by: str


@dataclass(frozen=True, slots=True)
class Course:
    """What is drawn, and the steps in order; `before` are not told."""

    stops: tuple[Stop, ...]
    ways: tuple[Way, ...]
    steps: tuple[Step, ...]
    before: int


def course_of(trail: Sequence[HistoryLine], now: datetime) -> Course:
    """Return the course that a trail tells of."""
    moves = [line for line in trail if line.to_state is not None]
    steps = [_step(line, following, now) for line, following in _followed(moves)]
    taken = Counter((line.from_state, line.to_state) for line in moves)
    here = steps[-1].state if steps else None
    ways = sorted(
        (Way(path, taken[pair]) for pair, path in WAYS.items()), key=lambda way: way.taken > 0
    )  # what was taken is drawn over what was not
    return Course(
        stops=tuple(_stop(state, steps, here) for state in _PLACES),
        ways=tuple(ways),
        steps=tuple(steps[-STEPS_TOLD:]),
        before=max(0, len(steps) - STEPS_TOLD),
    )


def _followed(
    moves: Sequence[HistoryLine],
) -> list[tuple[HistoryLine, HistoryLine | None]]:
    return list(zip(moves, [*moves[1:], None], strict=True)) if moves else []


def _step(line: HistoryLine, following: HistoryLine | None, now: datetime) -> Step:
    state = line.to_state
    assert state is not None
    until = following.at if following is not None else None if state in ENDED else now
    spent_s = None if until is None else max(0.0, (until - line.at).total_seconds())
    return Step(state, line.at, spent_s, line.reason, line.attempt, line.operator)


def _stop(state: State, steps: Sequence[Step], here: State | None) -> Stop:
    x, y = _PLACES[state]
    visits = [step for step in steps if step.state is state]
    spent = [step.spent_s for step in visits if step.spent_s is not None]
    return Stop(
        state=state,
        x=x,
        y=y,
        visits=len(visits),
        is_here=state is here,
        spent_s=sum(spent) if spent and state not in ENDED else None,
        last_at=visits[-1].at if visits else None,
    )
