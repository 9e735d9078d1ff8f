"""The pages that let people in and out."""

from __future__ import annotations

import math

from flask import g, request, session
from flask_babel import gettext as _

from supervisor.model.access import Right
from supervisor.web.door import Refusal
from supervisor.web.refusals import WRONG_LINK
from supervisor.web.visit import Answer, Route, Visit, go, own_path, show


def page(visit: Visit) -> Answer:
    """Ask for name and password, or for the token that was printed; take one from the address."""
    token = request.args.get("token")
    if not token:
        return _asking(visit, "")
    refusal = _by_link(visit, token)
    if refusal is not None:
        return _asking(visit, refusal.why)
    return go(own_path(request.args.get("next")))


def enter(visit: Visit) -> Answer:
    """Let somebody in."""
    token, name = request.form.get("token"), request.form.get("name", "").strip()
    if token is not None:
        refusal = _by_link(visit, token.strip())
    else:
        address = request.remote_addr or "unknown"
        refusal = visit.door.open_by_password(
            name, request.form.get("password", ""), address, session
        )
    if refusal is None:
        return go(own_path(request.form.get("next")))
    if not refusal.wait_s:
        return _asking(visit, refusal.why), 401
    seconds = math.ceil(refusal.wait_s)
    text = _asking(visit, _("%(why)s Try again in %(n)s s.", why=refusal.why, n=seconds))
    return text, 429, {"Retry-After": str(seconds)}


def _by_link(visit: Visit, token: str) -> Refusal | None:
    refusal = visit.door.open_by_link(token, session)
    if refusal is not None:
        g.refused = WRONG_LINK
    return refusal


def leave(visit: Visit) -> Answer:
    """Sign out."""
    visit.door.shut(visit.person, session)
    return go("/sign-in")


def _asking(visit: Visit, problem: str) -> str:
    following = request.form.get("next") or request.args.get("next")
    return show(
        "sign_in.html",
        visit,
        following=own_path(following),
        problem=problem,
        by_link=visit.door.takes_link(),
        by_password=visit.door.has_users(),
    )


ROUTES = (
    Route("sign_in", "/sign-in", page, None),
    Route("enter", "/sign-in", enter, None, "POST"),
    Route("leave", "/sign-out", leave, Right.TASKS, "POST"),
)
