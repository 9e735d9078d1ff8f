"""Acts on all tasks of a query: begun once, carried out by the web processes, followed, stopped."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.model.bulk import BulkAct, BulkVerb
from supervisor.model.query import TEXT_MAX, QueryError
from supervisor.web.api.acts import Reason
from supervisor.web.api.endpoint import READ, WRITE, Endpoint, Moment, Nothing, Trouble
from supervisor.web.api.reading import bad_query
from supervisor.web.visit import Visit


class BulkGiven(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do to which tasks, and why.

    Only tasks that there were at `seen_at` (left out: now) are meant, and of those only the ones in
    a state that the verb is for.
    """

    verb: BulkVerb
    query: Annotated[str, Meta(max_length=TEXT_MAX, description="As in the list of tasks.")]
    reason: Reason
    seen_at: Moment | None = None


class BulkExample(msgspec.Struct):
    """A task that the act did nothing to, and why."""

    task_id: str
    answer: str
    detail: str


class Bulk(msgspec.Struct, kw_only=True):
    """One act on many; over when it has `ended_at`, and then stopped by `ended_by` if that is set.

    `total` is null until the tasks are counted, `counted` how many are so far. `answers` counts
    each answer. `is_known` false: it is of a later version, which carries it out.
    """

    bulk_id: str
    verb: str
    query: str
    operator: str
    reason: str
    created_at: Moment
    is_known: bool
    counted: int
    total: int | None
    done: int
    refused: int
    answers: dict[str, int]
    examples: list[BulkExample]
    ended_at: Moment | None
    ended_by: str | None


class Bulks(msgspec.Struct):
    """The acts that were begun last, newest first."""

    acts: list[Bulk]


class Why(msgspec.Struct, forbid_unknown_fields=True):
    """Why it is stopped."""

    reason: Reason


class Stopped(msgspec.Struct):
    """`stopped` false: it was over already."""

    stopped: bool


def begin_bulk(visit: Visit, _: Nothing, body: BulkGiven) -> tuple[Bulk, int]:
    """Cancel, fail or rerun all tasks of a query; it is carried out step by step."""
    try:
        begun = visit.client.bulk.begin(
            body.verb,
            body.query,
            by=visit.person.name,
            reason=body.reason.strip(),
            seen_at=body.seen_at,
        )
    except QueryError as exc:
        raise bad_query("query", exc) from exc
    return _bulk(begun), 202


def list_bulks(visit: Visit, _query: Nothing, _body: None) -> Bulks:
    """List the acts on many that were begun last."""
    return Bulks([_bulk(one) for one in visit.client.bulk.latest()])


def get_bulk(visit: Visit, _query: Nothing, _body: None, bulk_id: str) -> Bulk:
    """Show how far an act on many is."""
    found = visit.client.bulk.get(bulk_id)
    if found is None:
        raise Trouble(404, "No act on many tasks has this id.")
    return _bulk(found)


def stop_bulk(visit: Visit, _: Nothing, body: Why, bulk_id: str) -> Stopped:
    """Stop an act on many before its end; what is done stays done."""
    if visit.client.bulk.get(bulk_id) is None:
        raise Trouble(404, "No act on many tasks has this id.")
    by, reason = visit.person.name, body.reason.strip()
    return Stopped(visit.client.bulk.stop(bulk_id, by=by, reason=reason))


def _bulk(act: BulkAct) -> Bulk:
    return msgspec.convert(act, Bulk, from_attributes=True)


ENDPOINTS = (
    Endpoint(
        method=WRITE, rule="/bulk", function=begin_bulk, needs=Right.ACT,
        body=BulkGiven, answer=Bulk, codes=(202,), errors=(409,),
    ),
    Endpoint(method=READ, rule="/bulk", function=list_bulks, needs=Right.TASKS, answer=Bulks),
    Endpoint(
        method=READ, rule="/bulk/<bulk_id>", function=get_bulk, needs=Right.TASKS,
        answer=Bulk, errors=(404,),
    ),
    Endpoint(
        method=WRITE, rule="/bulk/<bulk_id>/stop", function=stop_bulk, needs=Right.ACT,
        body=Why, answer=Stopped, errors=(404,),
    ),
)  # fmt: skip
