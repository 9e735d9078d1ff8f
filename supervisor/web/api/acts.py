"""Stepping in: cancel, fail and rerun, one task or many, each id answered on its own."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.model.record import Acted, Seen
from supervisor.model.record import Answer as Outcome
from supervisor.model.states import State
from supervisor.web.api.endpoint import WRITE, Endpoint, Nothing, Trouble, wrong
from supervisor.web.api.submit import Submitted
from supervisor.web.api.tasks import find
from supervisor.web.chosen import VERBS, act_on
from supervisor.web.visit import Visit

MANY_MAX = 1000
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
    """The same act on many tasks; those that are no longer as they were `seen` are left alone."""

    task_ids: Annotated[list[TaskId], Meta(min_length=1, max_length=MANY_MAX)]
    reason: Reason
    seen: dict[TaskId, SeenGiven] = {}


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
    (done,) = act_on(visit, VERBS[verb], {task_id: _seen(body.seen)}, body.reason.strip())
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
    if stray := next((one for one in body.seen if one not in body.task_ids), None):
        raise wrong(f"seen.{stray}", "is not one of `task_ids`")
    tasks = {task_id: _seen(body.seen.get(task_id)) for task_id in body.task_ids}
    acted = act_on(visit, VERBS[verb], tasks, body.reason.strip())
    done = sum(one.done for one in acted)
    return ActAnswers([_answer(one) for one in acted], done, len(acted) - done)


def resubmit_task(visit: Visit, _: Nothing, body: CopyGiven, task_id: str) -> tuple[Submitted, int]:
    """Submit a copy of a task: the same params and limits, due at once, without dedup key."""
    find(visit, task_id)
    if body.copy_id == task_id:
        raise wrong("copy_id", "is the id of the task itself")
    made = visit.client.resubmit(
        task_id, by=visit.person.name, reason=body.reason.strip(), copy_id=body.copy_id
    )
    return Submitted(made.task_id, made.created), 201 if made.created else 200


def _seen(given: SeenGiven | None) -> Seen | None:
    return None if given is None else Seen(given.state, given.attempt)


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
        body=ActOnMany, body_max=192 * 1024, answer=ActAnswers, errors=(404,),
    ),
)  # fmt: skip
