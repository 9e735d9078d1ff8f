"""Dead letters: what ended FAILED or TIMEOUT for good, by what it has in common."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.store.dead import DeadBook, DeadGroup
from supervisor.web.api.endpoint import READ, Endpoint
from supervisor.web.visit import Visit


class DeadWanted(msgspec.Struct):
    """Where to look."""

    before: (
        Annotated[str, Meta(pattern=r"^task_[0-9a-f]{32}$(?!\n)", description="`next` of a look.")]
        | None
    ) = None


class DeadLetters(msgspec.Struct, kw_only=True):
    """Tasks of one type that ended alike; counts are of those looked at.

    `query` finds them and no others, also what was not looked at: for the list, and for acts on
    many.
    """

    type: str
    reason: str
    error_type: str | None
    quarantined: bool
    count: int
    last_hour: int
    last_day: int
    newest_id: str
    query: str


class Dead(msgspec.Struct):
    """Groups, the largest first; `next` is the `before` of older ones, null at the end."""

    groups: list[DeadLetters]
    looked: int
    next: str | None


def list_dead(visit: Visit, query: DeadWanted, _: None) -> Dead:
    """Show the newest dead letters in groups."""
    found = DeadBook(visit.reader.store).look(visit.now(), query.before)
    return Dead([_group(one) for one in found.groups], found.looked, found.next_id)


def _group(one: DeadGroup) -> DeadLetters:
    return DeadLetters(
        type=one.type,
        reason=one.reason,
        error_type=one.error_type,
        quarantined=one.quarantined,
        count=one.count,
        last_hour=one.last_hour,
        last_day=one.last_day,
        newest_id=one.newest.task_id,
        query=one.query,
    )


ENDPOINTS = (
    Endpoint(
        method=READ, rule="/dead", function=list_dead, needs=Right.TASKS,
        query=DeadWanted, answer=Dead,
    ),
)  # fmt: skip
