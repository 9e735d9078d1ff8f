"""How the API says that something went wrong: problem documents (RFC 9457).

Invariant: none holds more of a request than the names of its fields and what the check says of
them, and nothing of an internal error but that there was one.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from flask import Response, request
from werkzeug.exceptions import HTTPException

from supervisor.web.api.endpoint import PREFIX, Trouble

MIMETYPE = "application/problem+json"
_PHRASES = {413: "Content Too Large", 422: "Unprocessable Content"}  # as RFC 9110 calls them


class BadField(msgspec.Struct):
    """One field that is wrong, by its path in the query or body."""

    field: str
    why: str


class Problem(msgspec.Struct, omit_defaults=True):
    """What went wrong, for people and programs (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    #: What to do about it.
    remedy: str = ""
    errors: list[BadField] = []  # each gets its own


def is_api() -> bool:
    """Say whether the present request is one to the API, whatever becomes of it."""
    return request.path == PREFIX or request.path.startswith(f"{PREFIX}/")


def title_of(code: int) -> str:
    """Return what a status is called."""
    return _PHRASES.get(code) or HTTPStatus(code).phrase


def problem(
    code: int,
    why: str,
    headers: Mapping[str, str] | None = None,
    *,
    fields: Mapping[str, str] | None = None,
    remedy: str = "",
    more: Mapping[str, Any] | None = None,
) -> Response:
    """Return an error as a problem document."""
    title = title_of(code)
    slug = title.lower().replace(" ", "-").replace("'", "")
    document = Problem(
        type=f"urn:supervisor:problem:{slug}",
        title=title,
        status=code,
        detail=why,
        remedy=remedy,
        errors=[BadField(name, told) for name, told in (fields or {}).items()],
    )
    body = {**msgspec.to_builtins(document), **(more or {})}
    return Response(msgspec.json.encode(body), code, headers, mimetype=MIMETYPE)


def problem_of(error: HTTPException, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error of Flask or of ours as a problem document."""
    if isinstance(error, Trouble):
        return problem(
            error.code or 500,
            error.why,
            {**error.headers, **(headers or {})},
            fields=error.fields,
            remedy=error.remedy,
            more=error.more,
        )
    code = error.code or 500
    why = error.description or error.name
    if code == 404:
        why = f"There is nothing at this address: {PREFIX}/openapi.json has all that there is."
    elif code == 405:
        why = f"This address takes {(headers or {}).get('Allow', 'other methods')}."
    return problem(code, why, headers)
