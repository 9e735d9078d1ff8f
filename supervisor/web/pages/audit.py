"""The page of the audit trail: who did what to which task, and who came in; as a file too.

Invariants: who came in and what they took is told to those alone who say who may come in; a cell
of the file is never taken for a formula.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from flask import Response
from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.clock import stamp
from supervisor.model.access import Right
from supervisor.model.states import Reason
from supervisor.store import HistoryLine
from supervisor.store.ledger.audit import ACCESS_REASONS, NoteReason
from supervisor.store.trail import TrailFilter, TrailPage, leaves_out_submits
from supervisor.web import wording
from supervisor.web.spreadsheet import as_csv
from supervisor.web.visit import Answer, Room, Route, Visit, a_moment, argument, show
from supervisor.words.veil import veiled_trail

PAGE = 100
#: Windows of the trail that one page reads before it says that it has found none so far.
WINDOWS_PAGE, WINDOWS_FILE = 3, 50
FILE_ROWS_MOST = 10_000
_ID = re.compile(r"[0-9]{1,18}\Z")
_COLUMNS = ("id", "at", "task_id", "attempt", "from", "to", "operator", "reason", "note")


@dataclass(frozen=True, slots=True)
class Kind:
    """What sort of acts to show."""

    label: LazyString
    reasons: Collection[str] = ()
    only_people: bool = False
    needs: Right = Right.TASKS


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "": Kind(_l("Everything")),
        "people": Kind(_l("What people did"), only_people=True),
        "moves": Kind(_l("Moves of tasks"), frozenset(Reason)),
        "nodes": Kind(
            _l("Nodes and clocks"),
            frozenset(
                {
                    NoteReason.NODE_STARTED,
                    NoteReason.NODE_ENDED,
                    NoteReason.NODE_RETURNED,
                    NoteReason.CLOCK_SET,
                    NoteReason.ARCHIVED,
                }
            ),
        ),
        "access": Kind(_l("Who came in"), ACCESS_REASONS, only_people=True, needs=Right.MANAGE),
    }
)

#: What notes say; the note itself follows.
NOTES: Mapping[str, LazyString] = MappingProxyType(
    {
        NoteReason.CANCEL_REQUESTED: _l("asked that it be canceled"),
        NoteReason.FAIL_REQUESTED: _l("asked that it be ended as FAILED"),
        NoteReason.LATE_RESULT: _l("a late result was refused"),
        NoteReason.CHILD_REFUSED: _l("a task that it submitted was refused"),
        NoteReason.QUEUE_PAUSED: _l("paused a queue"),
        NoteReason.QUEUE_RESUMED: _l("let a queue go on"),
        NoteReason.NODE_STARTED: _l("a node was started"),
        NoteReason.NODE_ENDED: _l("a node ended"),
        NoteReason.NODE_RETURNED: _l("a node came back"),
        NoteReason.CLOCK_SET: _l("the clock was set"),
        NoteReason.ARCHIVED: _l("moved old tasks to the archive"),
        NoteReason.SIGNED_IN: _l("signed in"),
        NoteReason.SIGNED_OUT: _l("signed out"),
        NoteReason.SIGN_IN_REFUSED: _l("was not let in"),
        NoteReason.USER_ADDED: _l("let somebody in"),
        NoteReason.USER_REMOVED: _l("removed somebody"),
        NoteReason.USER_DISABLED: _l("lets somebody in no more"),
        NoteReason.PASSWORD_CHANGED: _l("gave another password to"),
        NoteReason.TOKEN_CREATED: _l("made an API token"),
        NoteReason.TOKEN_REVOKED: _l("revoked an API token"),
        NoteReason.AUTOPSY_DOWNLOADED: _l("took a bundle home"),
        NoteReason.CAPTURE_ORDERED: _l("asked for evidence"),
        NoteReason.NODE_DRAIN_ORDERED: _l("asked a node to take no more"),
        NoteReason.NODE_UNDRAIN_ORDERED: _l("asked a node to take tasks again"),
        NoteReason.NODE_STOP_ORDERED: _l("asked a node to stop"),
        NoteReason.ORDER_ANSWERED: _l("a node answered"),
        NoteReason.RESUBMITTED_FROM: _l("submitted as a copy of another"),
        NoteReason.RESUBMITTED_AS: _l("was submitted again as a copy"),
        NoteReason.REQUEST_REFUSED: _l("was refused"),
        NoteReason.BULK_BEGUN: _l("began an act on many tasks"),
        NoteReason.BULK_ENDED: _l("an act on many tasks ended"),
        NoteReason.BULK_STOPPED: _l("stopped an act on many tasks"),
        NoteReason.BUNDLE_OPENED: _l("opened a bundle from a file"),
        NoteReason.BUNDLE_REFUSED: _l("gave a file that is no bundle"),
    }
)


def listing(visit: Visit) -> Answer:
    """Return one page of the trail, newest first."""
    wanted = _wanted(visit)
    found = _walked(visit, wanted, WINDOWS_PAGE)
    return show(
        "audit.html",
        visit,
        now=visit.now(),
        lines=veiled_trail(found.lines),
        told=NOTES,
        kinds={name: kind.label for name, kind in KINDS.items() if visit.may(kind.needs)},
        given=_given(),
        more=_address(found.next_id) if found.next_id else None,
        first=_address(None) if wanted.before_id else None,
        all_of_it=_address(None),
        rows_most=FILE_ROWS_MOST,
        filtered=any(_given().values()),
        # What somebody submitted, the list of tasks has.
        without_submits=bool(wanted.operator) and leaves_out_submits(wanted),
    )


def file(visit: Visit) -> Answer:
    """Send the trail as CSV, the newest rows first."""
    wanted = replace(_wanted(visit), limit=500)
    found = _walked(visit, wanted, WINDOWS_FILE, FILE_ROWS_MOST)
    headers = {"Content-Disposition": "attachment; filename=audit.csv"}
    if found.next_id is not None:
        headers["X-Goes-On-Before"] = str(found.next_id)
    rows = [*map(_values, veiled_trail(found.lines))]
    if found.next_id is not None:
        rows.append([_("There may be more, before the row %(id)s.", id=found.next_id)])
    return Response("".join(as_csv(_COLUMNS, rows)), headers=headers, mimetype="text/csv")


def _walked(visit: Visit, wanted: TrailFilter, windows: int, most: int = PAGE) -> TrailPage:
    """Read on from window to window until there is a page, or it took enough."""
    lines: list[HistoryLine] = []
    for _turn in range(windows):
        found = visit.client.trail.find(wanted)
        lines += found.lines
        if found.next_id is None or len(lines) >= most:
            return TrailPage(tuple(lines), found.next_id)
        limit = min(wanted.limit, most - len(lines))
        wanted = replace(wanted, before_id=found.next_id, limit=limit)
    return TrailPage(tuple(lines), wanted.before_id)


def _given() -> Mapping[str, str]:
    """Return what the address asks for, as it stands there."""
    return {name: argument(name) for name in ("kind", "by", "reason", "task", "since", "until")}


def _wanted(visit: Visit) -> TrailFilter:
    """Read the filter from the address. What cannot be understood is refused, not ignored."""
    given, before = _given(), argument("before")
    kind = KINDS.get(given["kind"])
    if kind is None or not visit.may(kind.needs):
        raise BadRequest(_("There is no such kind of acts, or not for you."))
    if before and not _ID.match(before):
        raise BadRequest(_("A page continues before the number of a row."))
    reasons = frozenset(filter(None, [given["reason"]])) or kind.reasons
    return TrailFilter(
        operator=given["by"],
        reasons=reasons,
        only_people=kind.only_people,
        with_access=visit.may(Right.MANAGE),
        task_id=_task_id(visit, given["task"]),
        since=a_moment(given["since"]),
        until=a_moment(given["until"]),
        before_id=int(before) if before else None,
        limit=PAGE,
    )


def _task_id(visit: Visit, given: str) -> str:
    """Return the whole id where a task is known by its beginning; of one that is gone as given."""
    if not given:
        return ""
    found = visit.reader.task(given)
    return given if found is None else found.task_id


def _address(before: int | None) -> str:
    return wording.query([*_given().items(), ("before", str(before or ""))])


def _values(line: HistoryLine) -> Sequence[object]:
    moved = (line.from_state, line.to_state)
    return (line.audit_id, stamp(line.at), line.task_id, line.attempt, *moved,
            line.operator, line.reason, line.note)  # fmt: skip


ROOM = Room("audit", _l("Audit"), Right.TASKS, "u")
ROUTES = (
    Route("audit", "/audit", listing, Right.TASKS),
    Route("audit_file", "/audit.csv", file, Right.TASKS),
)
