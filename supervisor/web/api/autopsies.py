"""Autopsies: what was found of a task that stood still or died, and the bundle to take home."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any

import msgspec
from flask import Response, request
from msgspec import Meta

from autopsy.bundle import Bundle
from supervisor.model.access import Right
from supervisor.store import AutopsyRecord
from supervisor.store.view import AutopsyFilter
from supervisor.web.api.endpoint import (
    JSON,
    READ,
    WRITE,
    ZIP,
    Endpoint,
    Moment,
    Nothing,
    Trouble,
)
from supervisor.web.api.task_shape import TaskInList, line_of
from supervisor.web.bundle import NAME_MOST, UPLOAD_MAX_BYTES, NotShown, brought, opened
from supervisor.web.chosen import CHOSEN_MAX
from supervisor.web.download import Gone, sent
from supervisor.web.group import Group, grouped, tasks_of
from supervisor.web.visit import Answer, Visit
from supervisor.words.veil import veiled_lines

PAGE_MAX = 500
GROUPS_MOST = 200


class AutopsiesMeant(msgspec.Struct, kw_only=True):
    """Which autopsies; what is left out means any."""

    type: Annotated[str, Meta(max_length=200, description="Of tasks of this type.")] = ""
    verdict: Annotated[str, Meta(max_length=40, description="What was judged.")] = ""
    diagnosis: Annotated[str, Meta(max_length=200, description="The code of the best cause.")] = ""
    node_id: Annotated[str, Meta(max_length=64, description="Of attempts on this node.")] = ""
    since: Annotated[datetime, Meta(tz=True)] | None = None
    until: Annotated[datetime, Meta(tz=True)] | None = None


class AutopsiesWanted(AutopsiesMeant, kw_only=True):
    """Which autopsies to list."""

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


class Cause(msgspec.Struct):
    """What a rule found, and by which evidence."""

    code: str
    confidence: float
    evidence: list[str]


class Section(msgspec.Struct):
    """What one collector saw; `cut`: it saw more. `content` is as it is in the bundle."""

    name: str
    status: str
    reason: str
    ms: float
    cut: bool
    content: dict[str, Any]


class Evidence(msgspec.Struct, kw_only=True):
    """A bundle, opened. `causes` are best first, `report` is the same for people."""

    pid: int
    why: str
    host: str
    python: str
    is_python: bool | None
    captured_at: str
    budget_s: float
    duration_ms: float
    status: str
    tools: dict[str, str]
    causes: list[Cause]
    sections: list[Section]
    report: str


class FileBrought(msgspec.Struct):
    """What the file is called."""

    name: Annotated[str, Meta(max_length=NAME_MOST, description="For the audit trail.")] = ""


class WaitGroup(msgspec.Struct, kw_only=True):
    """Attempts that wait for the same `what` at the same place (`where`); either may be "".

    `autopsies` counts its bundles, `types` those of each type ("" where the task is gone);
    `task_ids` are its tasks, the latest first, at most 200.
    """

    key: str
    code: str
    what: str
    where: str
    autopsies: int
    types: dict[str, int]
    task_ids: list[str]
    newest_id: str
    first_at: Moment
    last_at: Moment


class WaitGroups(msgspec.Struct):
    """The groups of the newest bundles, the largest first; at most 200.

    `counted` bundles were looked at; not `is_all` where there are more.
    """

    groups: list[WaitGroup]
    counted: int
    is_all: bool


class WaitGroupNow(msgspec.Struct):
    """One group and its tasks as they are now: for an act on them, as they were seen."""

    group: WaitGroup
    tasks: list[TaskInList]


def list_autopsies(visit: Visit, query: AutopsiesWanted, _: None) -> Autopsies:
    """List autopsies, newest first, a page at a time."""
    wanted = replace(_meant(query), before_id=query.before, limit=query.limit)
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


def get_evidence(visit: Visit, _query: Nothing, _body: None, autopsy_id: str) -> Answer:
    """Show all that is in the bundle of an autopsy; who takes it is written down."""
    record = _record(visit, autopsy_id)
    try:
        shown = _shown(opened(visit, record))
    except (Gone, NotShown) as exc:
        raise Trouble(404, str(exc)) from exc
    if request.method == "GET":  # HEAD takes nothing
        visit.client.note_download(record, by=visit.person.name)
    return shown


def open_bundle(visit: Visit, query: FileBrought, body: bytes) -> Answer:
    """Open a bundle that is sent as the body; nothing of it is kept, and who did it is."""
    try:
        return brought(visit, query.name, body, _shown)
    except NotShown as exc:
        raise Trouble(422, str(exc)) from exc


def list_groups(visit: Visit, query: AutopsiesMeant, _: None) -> WaitGroups:
    """Group the newest autopsies by what their attempts wait for."""
    found = grouped(visit.reader, _meant(query))
    groups = [_group(one) for one in found.groups[:GROUPS_MOST]]
    return WaitGroups(groups, found.counted, found.is_all)


def get_group(visit: Visit, query: AutopsiesMeant, _: None, key: str) -> WaitGroupNow:
    """Show a group, and its tasks as they are now."""
    found = grouped(visit.reader, _meant(query)).of(key)
    if found is None:
        raise Trouble(404, "There is no such group among the newest bundles.")
    tasks = tasks_of(visit.reader, found.task_ids[:CHOSEN_MAX])
    shown = veiled_lines(visit.reader.store, tasks)
    return WaitGroupNow(_group(found), [line_of(task) for task in shown])


def _meant(query: AutopsiesMeant) -> AutopsyFilter:
    return AutopsyFilter(
        type=query.type,
        verdict=query.verdict,
        diagnosis=query.diagnosis,
        node_id=query.node_id,
        since=query.since,
        until=query.until,
    )


def _group(one: Group) -> WaitGroup:
    return WaitGroup(
        key=one.signature.key,
        code=one.signature.code,
        what=one.signature.what,
        where=one.signature.where,
        autopsies=len(one.rows),
        types={kind or "": count for kind, count in one.types},
        task_ids=one.task_ids[:CHOSEN_MAX],
        newest_id=one.newest.autopsy_id,
        first_at=one.oldest.created_at,
        last_at=one.newest.created_at,
    )


def _shown(bundle: Bundle) -> Answer:
    """Return a bundle as JSON, whatever is in it. Raises: NotShown when that is no evidence."""
    sections = [
        {
            **{name: getattr(one, name) for name in ("name", "status", "reason", "ms", "cut")},
            "content": bundle.sections[one.name],
        }
        for one in bundle.entries
    ]
    heading = asdict(bundle.heading)
    causes = heading.pop("diagnosis")
    del heading["start_ticks"]
    document = {**heading, "causes": causes, "sections": sections, "report": bundle.report}
    try:
        msgspec.convert(document, Evidence)  # anybody may have written the manifest
        text = json.dumps(document)
        if "NaN" in text or "Infinity" in text:  # perhaps numbers, which JSON does not have
            text = json.dumps(json.loads(text, parse_constant=lambda _: None))
    except (msgspec.ValidationError, RecursionError) as exc:
        raise NotShown("its contents are not those of a bundle") from exc
    return Response(text, mimetype=JSON)


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
        method=READ, rule="/autopsies/groups", function=list_groups, needs=Right.AUTOPSIES,
        query=AutopsiesMeant, answer=WaitGroups,
    ),
    Endpoint(
        method=READ, rule="/autopsies/groups/<key>", function=get_group, needs=Right.AUTOPSIES,
        query=AutopsiesMeant, answer=WaitGroupNow, errors=(404,),
    ),
    Endpoint(
        method=WRITE, rule="/autopsies/open", function=open_bundle, needs=Right.AUTOPSIES,
        query=FileBrought, takes=ZIP, body_max=UPLOAD_MAX_BYTES, answer=Evidence,
    ),
    Endpoint(
        method=READ, rule="/autopsies/<autopsy_id>/evidence", function=get_evidence,
        needs=Right.AUTOPSIES, answer=Evidence, errors=(404,),
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
