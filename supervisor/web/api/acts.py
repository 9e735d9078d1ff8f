"""Stepping in: cancel, fail and rerun, one task or many, each id answered on its own."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.model.record import Acted, Seen
from supervisor.model.record import Answer as Outcome
from supervisor.model.states import State
from supervisor.web.api.endpoint import WRITE, Endpoint, Nothing, Trouble
from supervisor.web.api.submit import Submitted
from supervisor.web.api.tasks import find
from supervisor.web.visit import Visit

MANY_MAX = 1000
Verb = Literal["cancel", "fail", "rerun"]
Reason = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1000,
        pattern=r"\S",
        description="Why, not blank; it stands in the audit trail.",
    ),
]
TaskId = Annotated[str, Meta(pattern=r"^task_[0-9a-f]{32}$(?!\n)")]


class SeenGiven(msgspec.Struct, forbid_unknown_fields=True):
    """How the task was when somebody decided: if it is another by now, nothing is done (409)."""

    state: State
    attempt: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Act(msgspec.Struct, forbid_unknown_fields=True):
    """Why something is done."""

    reason: Reason
    seen: SeenGiven | None = None


class CopyGiven(msgspec.Struct, forbid_unknown_fields=True):
    """Why a copy is submitted; with `copy_id` the same call makes but one."""

    reason: Reason
    copy_id: TaskId | None = None


class ActOnMany(msgspec.Struct, forbid_unknown_fields=True):
    """The same act on many tasks."""

    task_ids: Annotated[list[TaskId], Meta(min_length=1, max_length=MANY_MAX)]
    reason: Reason


class ActAnswer(msgspec.Struct):
    """What an act did to one task: the state after it and, if it was refused, why."""

    task_id: str
    done: bool
    answer: str
    state: State | None
    detail: str


class ActAnswers(msgspec.Struct):
    """An answer for each different id, in the order given: never all or nothing."""

    answers: list[ActAnswer]
    done: int
    refused: int


def act_on_task(visit: Visit, _: Nothing, body: Act, task_id: str, verb: str) -> ActAnswer:
    """Cancel, fail or rerun one task.

    A task that runs is told, and killed after its grace: see `stop` of the task. 409 when the
    state of the task does not allow it, with `state` and `answer`; to ask for what is being done
    already is no error.
    """
    seen = None if body.seen is None else Seen(body.seen.state, body.seen.attempt)
    (done,) = _act(visit, [task_id], verb, body.reason, seen)
    answer = _answer(done)
    if done.answer == Outcome.NOT_FOUND:
        raise Trouble(404, f"No task {task_id} is in the store.")
    if not done.done and done.answer != Outcome.ALREADY_REQUESTED:
        why = f"The task is {done.state}: {done.answer}"
        why += f" ({done.detail})" if done.detail else ""
        raise Trouble(409, f"{why}.", **msgspec.to_builtins(answer))
    return answer


def act_on_tasks(visit: Visit, _: Nothing, body: ActOnMany, verb: str) -> ActAnswers:
    """Cancel, fail or rerun many tasks: each id is answered on its own."""
    acted = _act(visit, body.task_ids, verb, body.reason)
    done = sum(one.done for one in acted)
    return ActAnswers([_answer(one) for one in acted], done, len(acted) - done)


def resubmit_task(visit: Visit, _: Nothing, body: CopyGiven, task_id: str) -> tuple[Submitted, int]:
    """Submit a copy of a task: the same params and limits, due at once, without dedup key."""
    find(visit, task_id)
    made = visit.client.resubmit(
        task_id, by=visit.person.name, reason=body.reason.strip(), copy_id=body.copy_id
    )
    return Submitted(made.task_id, made.created), 201 if made.created else 200


def _act(
    visit: Visit, task_ids: list[str], verb: str, reason: str, seen: Seen | None = None
) -> list[Acted]:
    act = {
        "cancel": visit.client.cancel,
        "fail": visit.client.fail,
        "rerun": visit.client.rerun,
    }[verb]
    return act(task_ids, by=visit.person.name, reason=reason.strip(), seen=seen)


def _answer(acted: Acted) -> ActAnswer:
    return ActAnswer(acted.task_id, acted.done, acted.answer, acted.state, acted.detail)


ENDPOINTS = (
    Endpoint(
        method=WRITE, rule="/tasks/<task_id>/resubmit", function=resubmit_task,
        needs=Right.SUBMIT, body=CopyGiven, answer=Submitted, codes=(200, 201), errors=(404, 409),
    ),
    Endpoint(
        method=WRITE, rule="/tasks/<task_id>/<verb>", function=act_on_task, needs=Right.ACT,
        body=Act, answer=ActAnswer, errors=(404, 409),
    ),
    Endpoint(
        method=WRITE, rule="/tasks/<verb>", function=act_on_tasks, needs=Right.ACT,
        body=ActOnMany, body_max=128 * 1024, answer=ActAnswers, errors=(404,),
    ),
)  # fmt: skip
