"""The pages of evidence: the list, the newest of a type or verdict, one bundle, its file.

Invariants: a bundle is named by its id alone, which leads to a path through the store; what is sent
was verified to be a bundle; its page is made here of its sections, not taken from the file, and may
run nothing. Who takes a bundle home stands in the audit trail before the first byte is sent.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from flask import Response, send_file
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import NotFound

from autopsy.bundle import Bundle, read_bundle
from autopsy.cause import MEANINGS
from autopsy.errors import AutopsyError
from autopsy.page import page_of
from supervisor.model.access import Right
from supervisor.store import AutopsyRecord
from supervisor.store.view import AutopsyFilter
from supervisor.web import wording
from supervisor.web.visit import Answer, Room, Route, Visit, argument, go, missing, show
from supervisor.words.sentence import diagnosis

PAGE = 50
#: The report is markup with styles in it: it stands alone, in a frame that may do nothing.
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'"
)
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
_WHEN = (
    "One is taken before a kill, after a crash, on suspicion (at most one of an attempt every two "
    "minutes), or by `supervisor autopsy capture`; old ones are removed after autopsy_keep_days."
)


def listing(visit: Visit) -> Answer:
    """Return one page of bundles, newest first."""
    wanted = AutopsyFilter(
        type=argument("type"),
        verdict=argument("verdict"),
        before_id=argument("before") or None,
        limit=PAGE,
    )
    found = visit.reader.find_autopsies(wanted)
    same = [("type", wanted.type), ("verdict", wanted.verdict)]
    return show(
        "autopsies.html",
        visit,
        now=visit.now(),
        wanted=wanted,
        autopsies=found.autopsies,
        cause=diagnosis,
        more=wording.query([*same, ("before", found.next_id)]) if found.next_id else None,
        first=wording.query(same) if wanted.before_id else None,
        when=_WHEN,
    )


def latest(visit: Visit) -> Answer:
    """Lead to the newest bundle of a type and verdict: what alerts link to."""
    wanted = AutopsyFilter(type=argument("type"), verdict=argument("verdict"), limit=1)
    found = visit.reader.find_autopsies(wanted).autopsies
    if found:
        return go(f"/autopsies/{found[0][0].autopsy_id}")
    what = " ".join(
        filter(
            None,
            (
                "No autopsy",
                wanted.type and f"of type {wording.line(wanted.type)}",
                wanted.verdict and f"with the verdict {wording.line(wanted.verdict)}",
            ),
        )
    )
    runs = wording.query([("state", "RUNNING"), ("type", wanted.type)])
    alike = {"autopsies": wording.query([("type", wanted.type)])} if wanted.type else {}
    return missing(visit, f"{what} yet", _WHEN, tasks=runs, **alike)


def page(visit: Visit, autopsy_id: str) -> Answer:
    """Return one autopsy: verdict, diagnosis, evidence, and the report if the file is here."""
    record = _record(visit, autopsy_id)
    bundle, absent = _opened(visit, record)
    task = None if record.task_id is None else visit.reader.task(record.task_id)
    return show(
        "autopsy.html",
        visit,
        now=visit.now(),
        record=record,
        task=task,
        cause=diagnosis(record),
        causes=_causes(record),
        meanings=MEANINGS,
        bundle=bundle,
        absent=absent,
    )


def report(visit: Visit, autopsy_id: str) -> Answer:
    """Return the report of a bundle as a page of its own that may do nothing."""
    bundle, absent = _opened(visit, _record(visit, autopsy_id))
    if bundle is None:
        raise NotFound(absent)
    try:
        text = page_of(bundle)
    except AutopsyError as exc:
        raise NotFound(f"{exc.message}. {exc.remedy}") from exc
    headers = {"Content-Security-Policy": REPORT_POLICY, "X-Frame-Options": "SAMEORIGIN"}
    return Response(text, headers=headers, mimetype="text/html")


def bundle(visit: Visit, autopsy_id: str) -> Answer:
    """Send the file of a bundle, and write down who took it."""
    record = _record(visit, autopsy_id)
    found, absent = _opened(visit, record)
    if found is None:
        raise NotFound(absent)
    visit.client.note_download(record, by=visit.person.name)
    return send_file(
        Path(record.path),
        mimetype="application/zip",
        as_attachment=True,
        download_name=f"{autopsy_id}.zip",
        etag=False,
    )


def _record(visit: Visit, autopsy_id: str) -> AutopsyRecord:
    found = visit.reader.autopsy(autopsy_id) if _ID.match(autopsy_id) else None
    if found is None:
        raise NotFound("No autopsy has this id. The list of autopsies has all that there are.")
    return found


def _opened(visit: Visit, record: AutopsyRecord) -> tuple[Bundle | None, str]:
    """Return a bundle, verified; or None and why there is none to show."""
    if not record.path:
        return None, "No evidence could be saved: the log of its node says why."
    file = Path(record.path)
    if not file.is_file():
        return None, (
            f"The bundle is not on this host. It was written by {_host(visit, record)} to "
            f"{record.path}; old bundles are removed after autopsy_keep_days."
        )
    try:
        return read_bundle(file), ""
    except (AutopsyError, OSError) as exc:
        remedy = getattr(exc, "remedy", "")
        return None, f"The bundle {record.path} cannot be read: {exc} {remedy}".rstrip()


def _host(visit: Visit, record: AutopsyRecord) -> str:
    names = {node.node_id: node.node_name for node in visit.reader.nodes()}
    host = names.get(record.node_id)
    return f"node {record.node_id}" if host is None else f"the node of host {host}"


def _causes(record: AutopsyRecord) -> list[dict[str, Any]]:
    """Return what the rules found, best first; nothing where that is no list of causes."""
    found = json.loads(record.diagnosis_json or "[]")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


ROOM = Room("autopsies", _l("Autopsies"), Right.AUTOPSIES, "a")
ROUTES = (
    Route("autopsies", "/autopsies", listing, Right.AUTOPSIES),
    Route("latest", "/autopsies/latest", latest, Right.AUTOPSIES),
    Route("autopsy", "/autopsies/<autopsy_id>", page, Right.AUTOPSIES),
    Route("report", "/autopsies/<autopsy_id>/report", report, Right.AUTOPSIES),
    Route("bundle", "/autopsies/<autopsy_id>/bundle", bundle, Right.AUTOPSIES),
)
