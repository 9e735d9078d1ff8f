"""Queues: what waits in them, and letting no more of their tasks start."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.store.levels import Gate, QueueLevel, gates, levels
from supervisor.web.api.acts import Reason
from supervisor.web.api.endpoint import READ, WRITE, Endpoint, Moment, Nothing
from supervisor.web.visit import Visit

Priority = Annotated[int, Meta(ge=0, le=9)]


class Level(msgspec.Struct):
    """The live tasks of one queue, priority and type; `oldest_due` is null when none is due."""

    queue: str
    priority: int
    type: str
    in_queue: int
    scheduled: int
    running: int
    oldest_due: Moment | None


class Pause(msgspec.Struct):
    """What was last done about the pause of a queue, or of one priority of it (null: all of it)."""

    queue: str
    priority: int | None
    paused: bool
    by: str | None
    reason: str | None
    at: Moment


class Queues(msgspec.Struct):
    """Every known queue with its pauses, and all that lives in them."""

    pauses: list[Pause]
    levels: list[Level]


class PauseGiven(msgspec.Struct, forbid_unknown_fields=True):
    """What to pause, and why."""

    reason: Reason
    #: Only this priority of it; null or left out: all of it.
    priority: Priority | None = None


class ResumeGiven(msgspec.Struct, forbid_unknown_fields=True):
    """What is to go on, and why; `paused_at` is when the pause began that is to end.

    With it, a pause that somebody else has made meanwhile is left alone: 409.
    """

    reason: Reason
    priority: Priority | None = None
    paused_at: Moment | None = None


class PauseAnswer(msgspec.Struct):
    """`changed` false: it was so already. `now` is how it is."""

    changed: bool
    now: Pause | None


def list_queues(visit: Visit, _query: Nothing, _body: None) -> Queues:
    """List queues: who paused what, and how many tasks are due, scheduled and running."""
    with visit.reader.store.reading() as connection:
        doors, found = gates(connection), levels(connection, visit.now())
    return Queues([_pause(one) for one in doors], [_level(one) for one in found])


def pause_queue(visit: Visit, _: Nothing, body: PauseGiven, queue: str) -> PauseAnswer:
    """Let no more tasks of a queue start, or of one priority of it; running ones go on."""
    changed = visit.client.pause(
        queue, body.priority, by=visit.person.name, reason=body.reason.strip()
    )
    return PauseAnswer(changed, _now(visit, queue, body.priority))


def resume_queue(visit: Visit, _: Nothing, body: ResumeGiven, queue: str) -> PauseAnswer:
    """Let tasks of a paused queue start again."""
    changed = visit.client.resume(
        queue,
        body.priority,
        by=visit.person.name,
        reason=body.reason.strip(),
        seen_at=body.paused_at,
    )
    return PauseAnswer(changed, _now(visit, queue, body.priority))


def _now(visit: Visit, queue: str, priority: int | None) -> Pause | None:
    with visit.reader.store.reading() as connection:
        doors = gates(connection)
    return next((_pause(one) for one in doors if (one.queue, one.priority) == (queue, priority)),
                None)  # fmt: skip


def _pause(one: Gate) -> Pause:
    return msgspec.convert(one, Pause, from_attributes=True)


def _level(one: QueueLevel) -> Level:
    return msgspec.convert(one, Level, from_attributes=True)


ENDPOINTS = (
    Endpoint(
        method=READ, rule="/queues", function=list_queues, needs=Right.TASKS, answer=Queues
    ),
    Endpoint(
        method=WRITE, rule="/queues/<queue>/pause", function=pause_queue, needs=Right.ACT,
        body=PauseGiven, answer=PauseAnswer, errors=(404,),
    ),
    Endpoint(
        method=WRITE, rule="/queues/<queue>/resume", function=resume_queue, needs=Right.ACT,
        body=ResumeGiven, answer=PauseAnswer, errors=(404, 409),
    ),
)  # fmt: skip
