"""Oneself: who asks and what that one may, one's own language and one's own password."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec
from flask import Response, request, session
from msgspec import Meta

from supervisor.model.access import Right, Role
from supervisor.web import language as tongue
from supervisor.web.api.access import Password
from supervisor.web.api.endpoint import JSON, READ, WRITE, Endpoint, Nothing, Trouble
from supervisor.web.secret import PASSWORD_MAX
from supervisor.web.visit import Visit

Language = Literal["en", "zh_Hans"]


class Me(msgspec.Struct, kw_only=True):
    """Who asks. `language` is what sentences are answered in, `has_password` whether there is one
    to change: only who signed in with it has."""

    name: str
    role: Role
    rights: list[Right]
    language: str
    has_password: bool


class OwnPassword(msgspec.Struct, forbid_unknown_fields=True):
    """The password of now, and the one from now on."""

    old: Annotated[str, Meta(max_length=PASSWORD_MAX)]
    new: Password


class OwnLanguage(msgspec.Struct, forbid_unknown_fields=True):
    """What to be answered in; null: what `Accept-Language` asks for."""

    language: Language | None


class Changed(msgspec.Struct):
    """Who it is of."""

    name: str


def get_me(visit: Visit, _query: Nothing, _body: None) -> Me:
    """Show who asks, and what that one may."""
    return Me(
        name=visit.person.name,
        role=visit.person.role,
        rights=[right for right in Right if visit.may(right)],
        language=tongue.language(),
        has_password=_has_password(visit),
    )


def change_own_password(visit: Visit, _: Nothing, body: OwnPassword) -> Changed:
    """Give oneself another password.

    All other sessions end; this one goes on with a new cookie and a new CSRF token. Who came in
    without a password has none: 409.
    """
    if not _has_password(visit):
        raise Trouble(409, "Who came in without a password has none to change.")
    address = request.remote_addr or "unknown"
    refusal = visit.door.change_password(visit.person, body.old, body.new, address, session)
    if refusal is None:
        return Changed(visit.person.name)
    if not refusal.wait_s:
        raise Trouble(422, refusal.why)
    after = {"Retry-After": str(math.ceil(refusal.wait_s))}
    raise Trouble(429, refusal.why, headers=after)


def choose_own_language(visit: Visit, _: Nothing, body: OwnLanguage) -> Response:
    """Choose what to be answered in, by a cookie, as on the pages."""
    told = msgspec.json.encode(Changed(visit.person.name))
    answer = Response(told, mimetype=JSON)
    tongue.remember(answer, body.language or "")
    return answer


def _has_password(visit: Visit) -> bool:
    return request.authorization is None and visit.door.has_password(session)


ENDPOINTS = (
    Endpoint(method=READ, rule="/me", function=get_me, needs=Right.TASKS, answer=Me),
    Endpoint(
        method=WRITE, rule="/me/password", function=change_own_password, needs=Right.TASKS,
        body=OwnPassword, answer=Changed, errors=(409,),
    ),
    Endpoint(
        method=WRITE, rule="/me/language", function=choose_own_language, needs=Right.TASKS,
        body=OwnLanguage, answer=Changed,
    ),
)  # fmt: skip
