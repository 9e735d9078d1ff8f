"""Submitting tasks: one, or many in one transaction.

Invariants: what is wrong is refused before anything is written, each bad field by its path; a task
is signed by who sends it; a submit with a dedup key may be sent again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from supervisor.errors import InvalidSpec, Problem
from supervisor.model.access import Right
from supervisor.model.spec import (
    MAX_RETRIES,
    MAX_TIMEOUT_S,
    PARAMS_MAX_BYTES,
    TaskSpec,
    parse_spec,
)
from supervisor.web.api.endpoint import WRITE, Endpoint, Nothing
from supervisor.web.api.reading import converted, whole
from supervisor.web.visit import Visit

MANY_MAX = 1000
#: Of a body with one task: its params at their longest, written with escapes, and the rest.
ONE_MAX_BYTES = 2 * PARAMS_MAX_BYTES
MANY_MAX_BYTES = 8 * 1024 * 1024
PROBLEMS_MAX = 50

Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.:-]{0,199}$(?!\n)", max_length=200)]
TaskId = Annotated[str, Meta(pattern=r"^task_[0-9a-f]{32}$(?!\n)", max_length=37)]
Seconds = Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_S)]
Tag = Annotated[str, Meta(min_length=1, max_length=64)]


class NewTask(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A task to submit. What is left out is taken from its type, its queue or the settings.

    Whoever sends it is written down as its submitter.
    """

    type: Name
    params: dict[str, Any] | UnsetType = UNSET
    task_id: Annotated[TaskId, Meta(description="An id of your own.")] | UnsetType = UNSET
    dedup_key: (
        Annotated[
            str, Meta(min_length=1, max_length=512, description="One live task has it at most.")
        ]
        | UnsetType
    ) = UNSET
    dedup_ttl: (
        Annotated[
            float,
            Meta(
                gt=0,
                le=MAX_TIMEOUT_S,
                description="How long after its end the key is still held; seconds.",
            ),
        ]
        | UnsetType
    ) = UNSET
    queue: Name | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=0, le=9, description="Higher first.")] | UnsetType = UNSET
    timeout: Seconds | UnsetType = UNSET
    soft_timeout: Seconds | UnsetType | None = UNSET
    max_retries: Annotated[int, Meta(ge=0, le=MAX_RETRIES)] | UnsetType = UNSET
    run_after: Annotated[datetime, Meta(tz=True)] | UnsetType = UNSET
    tags: Annotated[list[Tag], Meta(max_length=32)] | UnsetType = UNSET
    parent_id: TaskId | UnsetType = UNSET
    traceparent: (
        Annotated[
            str,
            Meta(pattern=r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$(?!\n)", description="W3C."),
        ]
        | UnsetType
    ) = UNSET


class NewTasks(msgspec.Struct, forbid_unknown_fields=True):
    """Tasks to submit in one transaction: all of them or none."""

    tasks: Annotated[list[NewTask], Meta(min_length=1, max_length=MANY_MAX)]


class _Unchecked(msgspec.Struct, forbid_unknown_fields=True):
    """The same, of which each task is checked on its own: all that is wrong is told at once."""

    tasks: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=MANY_MAX)]


class Submitted(msgspec.Struct):
    """`created` false: the dedup key or id is that of a task that exists; nothing was written."""

    task_id: str
    created: bool


class ManySubmitted(msgspec.Struct):
    """An answer for each task, in the order given."""

    tasks: list[Submitted]
    created: int
    existing: int


def submit_task(
    visit: Visit, _: Nothing, body: Mapping[str, Any]
) -> tuple[Submitted, Literal[200, 201]]:
    """Submit a task; with a dedup key it may be sent again: the task that holds it is answered.

    201 when it was written, 200 when it was there already.
    """
    (done,) = _submit(visit, [_checked(visit, body)])
    return done, 201 if done.created else 200


def submit_tasks(visit: Visit, _: Nothing, body: Mapping[str, Any]) -> ManySubmitted:
    """Submit many tasks in one transaction: all or none of them."""
    problems: list[Problem] = []
    specs: list[TaskSpec] = []
    for index, raw in enumerate(converted(body, _Unchecked).tasks):
        try:
            specs.append(_checked(visit, raw))
        except InvalidSpec as exc:
            problems += [Problem(f"tasks[{index}].{p.path}", p.why) for p in exc.problems]
        if len(problems) >= PROBLEMS_MAX:
            break
    if problems:
        raise InvalidSpec(problems)
    done = _submit(visit, specs)
    created = sum(one.created for one in done)
    return ManySubmitted(done, created, len(done) - created)


def _checked(visit: Visit, raw: Mapping[str, Any]) -> TaskSpec:
    """Check all fields. Raises: InvalidSpec."""
    given = {name: value if name == "params" else whole(value) for name, value in raw.items()}
    signed = {**given, "submitted_by": visit.person.name}
    if "submitted_by" not in raw:
        return parse_spec(signed)
    problems = [Problem("submitted_by", "is who sends it: leave it out")]
    try:
        parse_spec(signed)
    except InvalidSpec as exc:
        problems += exc.problems
    raise InvalidSpec(problems)


def _submit(visit: Visit, specs: Sequence[TaskSpec]) -> list[Submitted]:
    return [Submitted(one.task_id, one.created) for one in visit.client.submit(specs)]


ENDPOINTS = (
    Endpoint(
        method=WRITE, rule="/tasks", function=submit_task, needs=Right.SUBMIT,
        body=NewTask, checked=False, body_max=ONE_MAX_BYTES, answer=Submitted,
        codes=(200, 201), errors=(409,),
    ),
    Endpoint(
        method=WRITE, rule="/tasks/batch", function=submit_tasks, needs=Right.SUBMIT,
        body=NewTasks, checked=False, body_max=MANY_MAX_BYTES, answer=ManySubmitted, errors=(409,),
    ),
)  # fmt: skip
