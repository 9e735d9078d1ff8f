"""The way of a stop request, read from the audit trail: requested, delivered, … verified gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from supervisor.model.states import State

if TYPE_CHECKING:
    from supervisor.store import HistoryLine, TaskView
    from supervisor.store.view import AttemptView

#: Who writes down the end of an attempt that nobody reported.
SUPERVISOR = "supervisor"
#: Notes with these beginnings are steps of it.
STEPS = ("cancel_", "fail_", "stop_")
#: The steps from the request on, where nothing goes wrong.
USUAL = ("cancel_delivered", "cancel_acknowledged", "cancel_stopped", "cancel_verified")
_OVER = frozenset({"cancel_verified", "cancel_too_late", "ended"})


@dataclass(frozen=True, slots=True)
class Step:
    """One step, of one attempt."""

    step: str
    attempt: int | None
    at: datetime
    by: str
    note: str | None


def ladder(
    task: TaskView, trail: Sequence[HistoryLine], attempts: Sequence[AttemptView]
) -> list[Step]:
    """Return the steps of all stop requests of a task, in order."""
    steps: list[Step] = []
    for line in trail:
        if line.to_state is None and line.reason.startswith(STEPS):
            steps.append(_step(line, line.reason, line.note))
        elif line.from_state is State.RUNNING and steps and not _is_over(steps[-1], line):
            steps.append(_last_step(line, attempts))
    if not steps and task.mark is not None:
        mark = task.mark
        steps = [Step(f"{mark.kind}_requested", task.attempt, mark.at, mark.by, mark.reason)]
    return steps


def to_come(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the steps of the latest stop request that have not been taken and may be yet."""
    if not steps or steps[-1].step in _OVER:
        return ()
    taken = {step.step for step in steps if step.attempt == steps[-1].attempt}
    if "cancel_forced" in taken:  # it is killed: whether it would have seen it does not matter
        taken.add("cancel_acknowledged")
    last = max((USUAL.index(step) for step in taken if step in USUAL), default=-1)
    return USUAL[last + 1 :]


def _step(line: HistoryLine, name: str, note: str | None) -> Step:
    return Step(name, line.attempt, line.at, line.operator, note)


def _last_step(line: HistoryLine, attempts: Sequence[AttemptView]) -> Step:
    """Say how an attempt ended whose node had not heard of the request, or died after it."""
    if line.to_state is State.SUCCESS:
        return _step(line, "cancel_too_late", line.note)
    ends = [f"{a.error or a.reason} ({a.proof})" for a in attempts if a.attempt == line.attempt]
    return replace(_step(line, "ended", "".join(ends)), by=SUPERVISOR)  # the move bears who asked


def _is_over(last: Step, line: HistoryLine) -> bool:
    """Whether the node itself wrote how the request ended, before the attempt's move."""
    return last.step in _OVER or last.attempt != line.attempt
