"""The page of settings: what is in force and where it comes from, what nodes know, and one's own.

Invariants: a setting is shown and never changed here, and without what it veils; whoever has no
hand in the tasks sees of it only the language and the password.
"""

from __future__ import annotations

import math

from flask import flash, make_response, request, session
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.model.access import Right
from supervisor.store.habit import LastLimits
from supervisor.store.view import TypeView
from supervisor.web.language import LANGUAGES, remember
from supervisor.web.visit import Answer, Room, Route, Visit, go, show
from supervisor.words.roll import roll_call
from supervisor.words.setting import in_force, scoped

#: Types that the page shows.
TYPES_MOST = 200


def page(visit: Visit) -> Answer:
    """Return settings, types, language and password."""
    return _shown(visit)


def _shown(visit: Visit, problem: str = "") -> str:
    may_look = visit.may(Right.ACT)
    known, nodes, limits = _types(visit) if may_look else ([], {}, {})
    settings = visit.client.settings
    return show(
        "settings.html",
        visit,
        now=visit.now(),
        settings=in_force(settings) if may_look else [],
        queue_tables=scoped(settings.queue_tables) if may_look else [],
        type_tables=scoped(settings.type_tables) if may_look else [],
        types=known[:TYPES_MOST],
        left_out=max(0, len(known) - TYPES_MOST),
        nodes=nodes,
        limits=limits,
        languages=LANGUAGES,
        has_password=visit.door.has_password(session),
        problem=problem,
    )


def _types(visit: Visit) -> tuple[list[TypeView], dict[str, list[str]], dict[str, LastLimits]]:
    """Return the types, the nodes that know each now, and the limits that held last."""
    known = visit.reader.types()
    nodes: dict[str, list[str]] = {}
    for node in roll_call(visit.reader).running:
        for name in node.types:
            nodes.setdefault(name, []).append(node.node_name)
    names = [one.type for one in known[:TYPES_MOST]]
    return known, nodes, visit.client.habits.limits(names)


def choose_language(_visit: Visit) -> Answer:
    """Remember the language that somebody wants to read; '' is what the browser asks for."""
    chosen = request.form.get("language", "")
    if chosen and chosen not in LANGUAGES:
        raise BadRequest(_("The pages do not speak this language."))
    answer = make_response(go("/settings"))
    remember(answer, chosen)
    return answer


def change_password(visit: Visit) -> Answer:
    """Give oneself another password."""
    if not visit.door.has_password(session):
        raise BadRequest(_("Who came in without a password has none to change."))
    old, new = request.form.get("old", ""), request.form.get("new", "")
    if new != request.form.get("again", ""):
        return _shown(visit, _("The new password was not written the same twice.")), 422
    address = request.remote_addr or "unknown"
    refusal = visit.door.change_password(visit.person, old, new, address, session)
    if refusal is None:
        flash(_("Your password is another now; your other sessions have ended."), "done")
        return go("/settings")
    if not refusal.wait_s:
        return _shown(visit, refusal.why), 422
    seconds = math.ceil(refusal.wait_s)
    why = _("%(why)s Try again in %(n)s s.", why=refusal.why, n=seconds)
    return _shown(visit, why), 429, {"Retry-After": str(seconds)}


ROOM = Room("settings", _l("Settings"), Right.TASKS, "s")
ROUTES = (
    Route("settings", "/settings", page, Right.TASKS),
    Route("choose_language", "/settings/language", choose_language, Right.TASKS, "POST"),
    Route("change_password", "/settings/password", change_password, Right.TASKS, "POST"),
)
