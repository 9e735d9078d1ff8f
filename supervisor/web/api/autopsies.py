"""Autopsies: what was found of a task that stood still or died, and the bundle to take home."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.store import AutopsyRecord
from supervisor.store.view import AutopsyFilter
from supervisor.web.api.endpoint import READ, Endpoint, Moment, Nothing, Trouble
from supervisor.web.download import Gone, sent
from supervisor.web.visit import Answer, Visit

PAGE_MAX = 500


class AutopsiesWanted(msgspec.Struct, kw_only=True):
    """Which autopsies to list; what is left out means any."""

    type: Annotated[str, Meta(max_length=200, description="Of tasks of this type.")] = ""
    verdict: Annotated[str, Meta(max_length=40, description="What was judged.")] = ""
    before: Annotated[str, Meta(max_length=64, description="`next` of the page before.")] | None = (
        None
    )
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX, description="Of a page, at most.")] = 50


class Autopsy(msgspec.Struct, kw_only=True):
    """One autopsy; `type` is null when its task is gone. `causes` are best first."""

    autopsy_id: str
    task_id: str | None
    attempt: int | None
    type: str | None
    node_id: str
    pid: int
    status: str
    verdict: str | None
    diagnosis: str | None
    causes: list[Any]
    created_at: Moment
    bytes: int
    ms: int


class Autopsies(msgspec.Struct):
    """One page, newest first; it may hold fewer than its limit and still have a `next`."""

    autopsies: list[Autopsy]
    next: str | None


def list_autopsies(visit: Visit, query: AutopsiesWanted, _: None) -> Autopsies:
    """List autopsies, newest first, a page at a time."""
    wanted = AutopsyFilter(
        type=query.type, verdict=query.verdict, before_id=query.before, limit=query.limit
    )
    found = visit.reader.find_autopsies(wanted)
    return Autopsies([_autopsy(one, kind) for one, kind in found.autopsies], found.next_id)


def get_autopsy(visit: Visit, _query: Nothing, _body: None, autopsy_id: str) -> Autopsy:
    """Show one autopsy: verdict, and the causes that were found."""
    record = _record(visit, autopsy_id)
    task = None if record.task_id is None else visit.reader.task(record.task_id)
    return _autopsy(record, None if task is None else task.type)


def get_bundle(visit: Visit, _query: Nothing, _body: None, autopsy_id: str) -> Answer:
    """Send the bundle of an autopsy; who takes it is written down."""
    try:
        return sent(visit, _record(visit, autopsy_id))
    except Gone as exc:
        raise Trouble(404, str(exc)) from exc


def _record(visit: Visit, autopsy_id: str) -> AutopsyRecord:
    found = visit.reader.autopsy(autopsy_id)
    if found is None:
        raise Trouble(404, "No autopsy has this id.")
    return found


def _autopsy(record: AutopsyRecord, kind: str | None) -> Autopsy:
    found = msgspec.json.decode(record.diagnosis_json or "[]")
    names = (name for name in Autopsy.__struct_fields__ if hasattr(record, name))
    own = {name: getattr(record, name) for name in names}
    return Autopsy(**own, type=kind, causes=found if isinstance(found, list) else [])


ENDPOINTS = (
    Endpoint(
        method=READ, rule="/autopsies", function=list_autopsies, needs=Right.AUTOPSIES,
        query=AutopsiesWanted, answer=Autopsies,
    ),
    Endpoint(
        method=READ, rule="/autopsies/<autopsy_id>", function=get_autopsy, needs=Right.AUTOPSIES,
        answer=Autopsy, errors=(404,),
    ),
    Endpoint(
        method=READ, rule="/autopsies/<autopsy_id>/bundle", function=get_bundle,
        needs=Right.AUTOPSIES, answer=None, mimetype="application/zip", errors=(404,),
    ),
)  # fmt: skip
