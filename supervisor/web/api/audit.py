"""The audit trail: who did what, newest first."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.model.query import VALUES_MAX
from supervisor.store.trail import PAGE_MAX, TrailFilter, leaves_out_submits
from supervisor.web.api.endpoint import READ, Endpoint
from supervisor.web.api.task_shape import HistoryEntry
from supervisor.web.visit import Visit
from supervisor.words.veil import veiled_trail

AuditId = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class AuditWanted(msgspec.Struct, kw_only=True):
    """Which lines to list; what is left out means any."""

    operator: Annotated[
        str,
        Meta(
            max_length=200,
            description="What this one did; submits only with `reason=submitted`, or of one task.",
        ),
    ] = ""
    reason: Annotated[
        list[Annotated[str, Meta(max_length=40)]],
        Meta(max_length=VALUES_MAX, description="Any of these; may be repeated."),
    ] = []
    people: Annotated[bool, Meta(description="Only what people did, submits left out.")] = False
    task_id: Annotated[str, Meta(pattern=r"^task_[0-9a-f]{32}$(?!\n)")] | None = None
    since: Annotated[datetime, Meta(tz=True, description="To the minute.")] | None = None
    until: Annotated[datetime, Meta(tz=True, description="To the minute.")] | None = None
    before: Annotated[AuditId, Meta(description="`next` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX, description="Lines of a page, at most.")] = 100


class AuditLines(msgspec.Struct):
    """One page, newest first; it may hold fewer lines than its limit and still have a `next`.

    `without_submits`: submits were not looked for.
    """

    lines: list[HistoryEntry]
    next: int | None
    without_submits: bool


def list_audit(visit: Visit, query: AuditWanted, _: None) -> AuditLines:
    """List the audit trail of everything.

    Who came in, and what they took, is told to those alone who say who may come in.
    """
    wanted = TrailFilter(
        operator=query.operator,
        reasons=tuple(query.reason),
        only_people=query.people,
        with_access=visit.may(Right.MANAGE),
        task_id=query.task_id or "",
        since=query.since,
        until=query.until,
        before_id=query.before,
        limit=query.limit,
    )
    found = visit.client.trail.find(wanted)
    lines = [
        msgspec.convert(one, HistoryEntry, from_attributes=True)
        for one in veiled_trail(found.lines)
    ]
    return AuditLines(lines, found.next_id, leaves_out_submits(wanted))


ENDPOINTS = (
    Endpoint(
        method=READ, rule="/audit", function=list_audit, needs=Right.TASKS,
        query=AuditWanted, answer=AuditLines,
    ),
)  # fmt: skip
