"""The page of who may come in: users and API tokens, made, disabled, removed and revoked.

Invariants: a token is shown once, in the answer that made it, and never leads through an address or
a cookie; nobody takes the way in from oneself; every act is what the command line does, and noted.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from flask import flash, request
from flask_babel import gettext as _
from werkzeug.exceptions import BadRequest

from supervisor.model.access import NAME_ACCEPTED, OF_PEOPLE, Right, Role, is_name
from supervisor.store.ledger.access import Access
from supervisor.store.record import TokenRecord, UserRecord
from supervisor.web import secret
from supervisor.web.visit import Answer, Route, Visit, go, show

DAYS_MOST = 3650
_HERE = "/settings/access"


def page(visit: Visit) -> Answer:
    """Return users and tokens."""
    return _shown(visit)


def _shown(visit: Visit, problem: str = "", token: tuple[str, str] | None = None) -> str:
    book, now = visit.client.access, visit.now()
    return show(
        "access.html",
        visit,
        now=now,
        users=[(one, one.password == secret.NOBODY) for one in book.users()],
        tokens=[(one, one.ends_at is not None and one.ends_at <= now) for one in book.tokens()],
        roles=OF_PEOPLE,
        token_roles=list(Role),
        days_most=DAYS_MOST,
        problem=problem,
        made=token,
        accepted=NAME_ACCEPTED,
    )


def add_user(visit: Visit) -> Answer:
    """Let somebody in."""
    name, role = _name(), _role(OF_PEOPLE)
    password = request.form.get("password", "")
    if bad := _bad_name(name) or _bad_password(password):
        return _shown(visit, bad), 422
    hashed, by = secret.hash_password(password), visit.person.name
    sees = "autopsies" in request.form

    def add(access: Access, now: datetime) -> bool:
        return access.add_user(
            UserRecord(
                name=name,
                password=hashed,
                role=role,
                sees_autopsies=sees,
                created_at=now,
                created_by=by,
                changed_at=now,
            )
        )

    if not visit.client.change_access(add):
        return _shown(visit, _("There is a user %(name)s already.", name=name)), 409
    return _done(_("%(name)s may come in now.", name=name))


def set_password(visit: Visit) -> Answer:
    """Give somebody another password, which also lets in again who was disabled."""
    name, password = _name(), request.form.get("password", "")
    if bad := _bad_password(password):
        return _shown(visit, bad), 422
    hashed, by = secret.hash_password(password), visit.person.name
    done = visit.client.change_access(
        lambda access, now: access.change_password(name, hashed, by, now)
    )
    return _of_user(
        visit,
        _("%(name)s has another password; the sessions have ended.", name=name),
        done=done,
    )


def disable_user(visit: Visit) -> Answer:
    """Let somebody in no more until there is another password."""
    name, by = _name(), visit.person.name
    if name == by:
        return _shown(visit, _("You cannot take the way in from yourself.")), 409
    done = visit.client.change_access(
        lambda access, now: access.disable_user(name, secret.NOBODY, by, now)
    )
    return _of_user(visit, _("%(name)s may come in no more.", name=name), done=done)


def remove_user(visit: Visit) -> Answer:
    """Forget somebody."""
    name, by = _name(), visit.person.name
    if name == by:
        return _shown(visit, _("You cannot take the way in from yourself.")), 409
    done = visit.client.change_access(lambda access, now: access.remove_user(name, by, now))
    return _of_user(visit, _("%(name)s is removed.", name=name), done=done)


def add_token(visit: Visit) -> Answer:
    """Make a token and show it, this once."""
    name, role, days = _name(), _role(tuple(Role)), request.form.get("days", "").strip()
    if days and not (
        days.isascii() and days.isdecimal() and len(days) < 5 and 1 <= int(days) <= DAYS_MOST
    ):
        return _shown(visit, _("A token lasts 1 to %(most)s days.", most=DAYS_MOST)), 422
    if bad := _bad_name(name):
        return _shown(visit, bad), 422
    token, by = secret.new_token(), visit.person.name
    sees = "autopsies" in request.form and role in OF_PEOPLE

    def add(access: Access, now: datetime) -> bool:
        return access.add_token(
            TokenRecord(
                name=name,
                token_hash=secret.digest(token),
                role=role,
                sees_autopsies=sees,
                created_at=now,
                created_by=by,
                ends_at=now + timedelta(days=int(days)) if days else None,
            )
        )

    if not visit.client.change_access(add):
        return _shown(visit, _("There is a token %(name)s already.", name=name)), 409
    return _shown(visit, token=(name, token))


def revoke_token(visit: Visit) -> Answer:
    """Let a token in no more, at once."""
    name, by = _name(), visit.person.name
    done = visit.client.change_access(lambda access, now: access.revoke_token(name, by, now))
    if not done:
        return _shown(visit, _("No token is called this; it may have just been revoked.")), 409
    return _done(_("The token %(name)s is revoked.", name=name))


def _of_user(visit: Visit, told: str, *, done: bool) -> Answer:
    if not done:
        return _shown(visit, _("No user is called this; it may have just been removed.")), 409
    return _done(told)


def _done(told: str) -> Answer:
    flash(told, "done")
    return go(_HERE)


def _name() -> str:
    return request.form.get("name", "").strip()


def _bad_name(name: str) -> str:
    return "" if is_name(name) else str(_("A name is %(what)s.", what=NAME_ACCEPTED))


def _bad_password(password: str) -> str:
    bad = secret.bad_password(password)
    return str(_("The password cannot be taken: %(why)s.", why=bad)) if bad else ""


def _role(among: tuple[Role, ...]) -> Role:
    given = request.form.get("role", "")
    if given not in among:
        raise BadRequest(_("There is no such role."))
    return Role(given)


ROUTES = (
    Route("access", _HERE, page, Right.MANAGE),
    Route("access_user", f"{_HERE}/users", add_user, Right.MANAGE, "POST"),
    Route("access_password", f"{_HERE}/users/password", set_password, Right.MANAGE, "POST"),
    Route("access_disable", f"{_HERE}/users/disable", disable_user, Right.MANAGE, "POST"),
    Route("access_remove", f"{_HERE}/users/remove", remove_user, Right.MANAGE, "POST"),
    Route("access_token", f"{_HERE}/tokens", add_token, Right.MANAGE, "POST"),
    Route("access_revoke", f"{_HERE}/tokens/revoke", revoke_token, Right.MANAGE, "POST"),
)
