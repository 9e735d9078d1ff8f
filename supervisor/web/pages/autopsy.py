"""The pages of one bundle: of the store by its id, or one that somebody brings as a file.

Invariants: a bundle is named by its id alone, which leads to a path through the store; it is shown
by its sections, not by the page in it, and may run nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import Response, request
from flask_babel import gettext as _
from markupsafe import Markup
from werkzeug.exceptions import NotFound

from autopsy.bundle import Bundle, Heading
from autopsy.cause import MEANINGS, Meaning
from autopsy.errors import AutopsyError
from autopsy.page import page_of
from autopsy.report import as_sections
from autopsy.report.piece import pieces
from autopsy.signature import wait_signature
from supervisor.model.access import Right
from supervisor.store import AutopsyRecord
from supervisor.web import wording
from supervisor.web.bundle import NAME_MOST, UPLOAD_MAX_BYTES, NotShown, brought, opened
from supervisor.web.download import Gone, sent
from supervisor.web.visit import Answer, Route, Visit, show
from supervisor.words.sentence import diagnosis

#: The form around the file.
_FORM_BYTES = 16 << 10
#: The report is markup with styles in it: it stands alone, in a frame that may do nothing.
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'"
)
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A part of the report as the page shows it; `markup` is None where there is none."""

    name: str
    title: str
    markup: Markup | None
    why: tuple[str, ...]
    folded: bool


def page(visit: Visit, autopsy_id: str) -> Answer:
    """Return one autopsy: verdict, diagnosis, what to do, and all evidence if the file is here."""
    record = _record(visit, autopsy_id)
    bundle, absent = _opened(visit, record)
    task = None if record.task_id is None else visit.reader.task(record.task_id)
    causes = _causes(record.diagnosis_json)
    evidence: Sequence[Evidence] = ()
    if bundle is not None:
        evidence, absent = _evidence(bundle)
    return show(
        "autopsy.html",
        visit,
        now=visit.now(),
        record=record,
        task=task,
        cause=diagnosis(record),
        causes=causes,
        signature=wait_signature(record.diagnosis_json),
        meanings=_meanings(causes),
        heading=None if bundle is None else bundle.heading,
        evidence=evidence,
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
    try:
        return sent(visit, _record(visit, autopsy_id))
    except Gone as exc:
        raise NotFound(str(exc)) from exc


def ask(visit: Visit) -> Answer:
    """Return the form that takes a bundle."""
    return show("autopsy_open.html", visit, now=visit.now(), most=UPLOAD_MAX_BYTES, problem="")


def open_file(visit: Visit) -> Answer:
    """Show a bundle that was brought as a file; nothing of it is kept."""
    file = request.files.get("bundle")
    if file is None or not file.filename:
        return _not_opened(visit, "", _("Choose the file of a bundle first."), 400)
    name = wording.line(file.filename)[:NAME_MOST]
    try:
        found, evidence = brought(visit, name, file.stream.read(), _with_evidence)
    except NotShown as exc:
        return _not_opened(visit, name, str(exc), 422)
    causes = _causes_of(found.heading)
    return show(
        "autopsy_file.html",
        visit,
        now=visit.now(),
        name=name,
        heading=found.heading,
        causes=causes,
        facts=_facts(found),
        meanings=_meanings(causes),
        evidence=evidence,
        absent="",
    )


def _with_evidence(bundle: Bundle) -> tuple[Bundle, Sequence[Evidence]]:
    evidence, why = _evidence(bundle)
    if why:
        raise NotShown(why)
    return bundle, evidence


def _not_opened(visit: Visit, name: str, why: str, code: int) -> Answer:
    problem = f"{name}: {why}" if name else why
    page_ = show(
        "autopsy_open.html", visit, now=visit.now(), most=UPLOAD_MAX_BYTES, problem=problem
    )
    return page_, code


def _record(visit: Visit, autopsy_id: str) -> AutopsyRecord:
    found = visit.reader.autopsy(autopsy_id) if _ID.match(autopsy_id) else None
    if found is None:
        raise NotFound(_("No autopsy has this id. The list of autopsies has all that there are."))
    return found


def _opened(visit: Visit, record: AutopsyRecord) -> tuple[Bundle | None, str]:
    """Return a bundle, verified; or None and why there is none to show."""
    try:
        return opened(visit, record), ""
    except Gone as gone:
        return None, str(gone)


def _evidence(bundle: Bundle) -> tuple[Sequence[Evidence], str]:
    """Return the parts of a report; or none, and why its sections cannot be shown."""
    try:
        found = pieces(bundle.heading, as_sections(bundle.entries, bundle.sections))
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError,
            RecursionError) as exc:  # fmt: skip
        return (), f"Its sections are not those of a bundle ({type(exc).__name__})."
    return [
        Evidence(
            one.name,
            one.title,
            # It was made by autopsy.report.markup, which escapes all that was collected.
            None if one.markup is None else Markup(one.markup),  # noqa: S704
            one.why,
            one.folded,
        )
        for one in found
    ], ""


def _causes(diagnosis_json: str | None) -> list[dict[str, Any]]:
    """Return what the rules found, best first; nothing where that is no list of causes."""
    try:
        found = json.loads(diagnosis_json or "[]")
    except (ValueError, RecursionError):
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _causes_of(heading: Heading) -> list[dict[str, Any]]:
    return [
        {"code": one.code, "confidence": one.confidence, "evidence": one.evidence}
        for one in heading.diagnosis
    ]


def _meanings(causes: Sequence[Mapping[str, Any]]) -> Mapping[str, Meaning]:
    """Return what the codes say and what to do, in the language of who reads."""
    codes = {str(one.get("code")) for one in causes} & set(MEANINGS)
    return {
        code: Meaning(str(_(MEANINGS[code].sentence)), str(_(MEANINGS[code].remedy)))
        for code in codes
    }


def _facts(bundle: Bundle) -> dict[str, str]:
    """Return what a bundle says of whom it is, as text."""
    facts = bundle.sections.get("facts", {})
    names = ("task_id", "attempt", "type", "queue", "node_id", "worker_id")
    return {name: str(facts[name]) for name in names if facts.get(name) is not None}


ROUTES = (
    Route("autopsy_ask", "/autopsies/open", ask, Right.AUTOPSIES),
    Route(
        "autopsy_open", "/autopsies/open", open_file, Right.AUTOPSIES, "POST",
        UPLOAD_MAX_BYTES + _FORM_BYTES,
    ),
    Route("autopsy", "/autopsies/<autopsy_id>", page, Right.AUTOPSIES),
    Route("report", "/autopsies/<autopsy_id>/report", report, Right.AUTOPSIES),
    Route("bundle", "/autopsies/<autopsy_id>/bundle", bundle, Right.AUTOPSIES),
)  # fmt: skip
