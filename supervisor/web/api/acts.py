"""Stepping in: cancel, fail and rerun, one task or many, each id answered on its own."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.model.record import Acted
from supervisor.model.record import Answer as Outcome
from supervisor.model.states import State
from supervisor.web.api.endpoint import WRITE, Endpoint, Nothing, Trouble
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
TaskId = Annotated[str, Meta(pattern=r"^task_[0-9a-f]{32}$")]


class Act(msgspec.Struct, forbid_unknown_fields=True):
    """Why something is done."""

    reason: Reason


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
    (done,) = _act(visit, [task_id], verb, body.reason)
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


def _act(visit: Visit, task_ids: list[str], verb: str, reason: str) -> list[Acted]:
    act = {
        "cancel": visit.client.cancel,
        "fail": visit.client.fail,
        "rerun": visit.client.rerun,
    }[verb]
    return act(task_ids, by=visit.person.name, reason=reason.strip())


def _answer(acted: Acted) -> ActAnswer:
    return ActAnswer(acted.task_id, acted.done, acted.answer, acted.state, acted.detail)


ENDPOINTS = (
    Endpoint(
        method=WRITE, rule="/tasks/<task_id>/<verb>", function=act_on_task, needs=Right.ACT,
        body=Act, answer=ActAnswer, errors=(404, 409),
    ),
    Endpoint(
        method=WRITE, rule="/tasks/<verb>", function=act_on_tasks, needs=Right.ACT,
        body=ActOnMany, body_max=128 * 1024, answer=ActAnswers, errors=(404,),
    ),
)  # fmt: skip
