"""The page of dead letters: what ended for good, by type and error, and how all of it runs again.

Invariants: what killed its workers too often is apart from what failed; a count of what was looked
at is not told as one of all; what runs again is asked for by the query that the group shows.
"""

from __future__ import annotations

import re

from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.model.access import Right
from supervisor.model.query import pieces
from supervisor.store.dead import DeadBook, DeadGroup
from supervisor.web.visit import Answer, Room, Route, Visit, argument, show
from supervisor.words.veil import veiled_text

#: How old what all viewers share may be.
FRESH_S = 2.0
#: Groups of each table; what differs in more ways has no pattern.
GROUPS_MOST = 100
_ID = re.compile(r"task_[0-9a-f]{32}\Z")


def page(visit: Visit) -> Answer:
    """Return the newest dead letters in groups, or those before one."""
    before, now = argument("before"), visit.now()
    if before and not _ID.match(before):
        raise BadRequest(_("A page continues after the id of a task."))
    if before:
        found = DeadBook(visit.reader.store).look(now, before)
    else:
        found = visit.see("dead", FRESH_S, lambda reader: DeadBook(reader.store).look(now))
    failed = [group for group in found.groups if not group.quarantined]
    return show(
        "dead.html",
        visit,
        now=now,
        failed=failed[:GROUPS_MOST],
        quarantined=[group for group in found.groups if group.quarantined][:GROUPS_MOST],
        left_out=max(0, len(failed) - GROUPS_MOST),
        looked=found.looked,
        more=found.next_id,
        is_first=not before,
        text_of=_text,
    )


def _text(group: DeadGroup) -> str:
    """Return the pattern as people read it."""
    return veiled_text("…".join(pieces(group.pattern)))


ROOM = Room("dead", _l("Dead letters"), Right.TASKS, "d")
ROUTES = (Route("dead", "/dead", page, Right.TASKS),)
