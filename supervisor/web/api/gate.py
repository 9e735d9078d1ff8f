"""The way in to the API: who asks, whether they may, what they ask; then the answer as JSON.

Invariants: an endpoint is only reached through `_answer`, which asks the door first; what changes
something is signed by an API token, or carries the CSRF token of a session in a header; every
error leaves as a problem document.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import msgspec
from flask import Flask, Response, g, request
from flask_wtf.csrf import CSRFError

from supervisor.clock import Clock
from supervisor.errors import InvalidSpec, Refused, UnknownTask
from supervisor.web.api import ENDPOINTS
from supervisor.web.api.endpoint import JSON, PREFIX, READ, Endpoint, Trouble
from supervisor.web.api.reading import body_of, parts_of, query_of
from supervisor.web.limiter import Pace, stranger
from supervisor.web.refusals import CROSS_SITE
from supervisor.web.visit import Answer, Visit

#: What an address without a token may do of what somebody known may.
OF_STRANGERS = 0.1
_WHO = {"WWW-Authenticate": 'Bearer realm="supervisor"'}


class Gate:
    """The API of one site. `visit_of` asks the door, `protect` looks for a CSRF token."""

    def __init__(
        self, visit_of: Callable[[], Visit], protect: Callable[[], None], clock: Clock, rate: int
    ) -> None:
        self._visit_of = visit_of
        self._protect = protect
        self._known = Pace(clock, rate)
        self._unknown = Pace(clock, rate * OF_STRANGERS)

    def add_to(self, app: Flask) -> None:
        """Make every endpoint a route of the site."""
        for endpoint in ENDPOINTS:
            view = functools.partial(self._answer, endpoint)
            name = f"api.{endpoint.name}"
            app.add_url_rule(
                f"{PREFIX}{endpoint.rule}",
                name.replace(".", "_"),
                view,
                methods=[endpoint.method],
            )

    def _answer(self, endpoint: Endpoint, **parts: str) -> Answer:
        request.max_content_length = endpoint.body_max
        visit = self._visit_of()
        self._slow_down(visit)
        self._admit(endpoint, visit)
        parts_of(parts)
        query, body = query_of(endpoint), body_of(endpoint)
        try:
            answer = endpoint.function(visit, query, body, **parts)
        except InvalidSpec as exc:
            fields = {problem.path: problem.why for problem in exc.problems}
            raise Trouble(422, exc.message, fields=fields, remedy=exc.remedy) from exc
        except UnknownTask as exc:
            raise Trouble(404, exc.message, remedy=exc.remedy) from exc
        except Refused as exc:
            raise Trouble(409, exc.message, remedy=exc.remedy) from exc
        return _sent(answer)

    def _slow_down(self, visit: Visit) -> None:
        """Refuse who asks too often. Raises: Trouble."""
        if visit.who is not None:
            wait_s = self._known.take(visit.who.name)
        else:
            wait_s = self._unknown.take(stranger(request.remote_addr or ""))
        if wait_s:
            after = {"Retry-After": str(math.ceil(wait_s))}
            raise Trouble(429, "Too many requests: slow down.", headers=after)

    def _admit(self, endpoint: Endpoint, visit: Visit) -> None:
        """Let in who may. Raises: Trouble."""
        if endpoint.needs is None:
            return
        who = visit.who
        if who is None:
            why = "Sign in, or send an API token: Authorization: Bearer TOKEN."
            if request.authorization is not None:
                why = "This API token is not known here: it was revoked, is over, or never was one."
            raise Trouble(401, why, headers=_WHO)
        if endpoint.method != READ and request.authorization is None:
            try:
                self._protect()  # what a browser adds by itself must not be enough
            except CSRFError as exc:
                g.refused = CROSS_SITE
                why = "This request did not come from a page of this session: nothing was done."
                remedy = "Send the session's token in X-CSRF-Token, or use an API token."
                raise Trouble(403, why, remedy=remedy) from exc
        if not who.may(endpoint.needs):
            raise Trouble(403, f"{who.name} ({who.role}) has no right to {endpoint.needs}.")


def _sent(answer: Any) -> Answer:
    if isinstance(answer, Response):
        return answer
    value, code = answer if isinstance(answer, tuple) else (answer, 200)
    return Response(msgspec.json.encode(value), code, mimetype=JSON)
