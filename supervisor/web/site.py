"""The site: every route with the right it needs, what goes with every answer, and how errors end.

Invariants: a page is only reached through `_guarded`, which asks the door first; what changes
something carries a token of this session or is signed by an API token; no answer may run another
script than our own files or be framed by another site; while the store is away every page says so
with 503.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Response, g, render_template, request, session, url_for
from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_wtf.csrf import CSRFError, CSRFProtect
from werkzeug.exceptions import Forbidden, HTTPException

from supervisor import __version__
from supervisor.client import Client
from supervisor.clock import Clock, SystemClock
from supervisor.errors import DependencyAway, Refused, StoreUnavailable, StoreUnready
from supervisor.model.access import Person, Right
from supervisor.telemetry.events import emit
from supervisor.web import language, wording
from supervisor.web.api import ENDPOINTS
from supervisor.web.api.gate import Gate
from supervisor.web.api.problem import is_api, problem, problem_of
from supervisor.web.asset import Assets
from supervisor.web.board import Board
from supervisor.web.chosen import as_seen
from supervisor.web.clean import refuse_unclean, refuse_unclean_form
from supervisor.web.cookie import Cookie
from supervisor.web.door import Door
from supervisor.web.measure import Measure
from supervisor.web.pages import ROOMS
from supervisor.web.refusals import CROSS_SITE, Refusals
from supervisor.web.visit import Answer, Room, Route, Visit, go, is_refresh
from supervisor.words.retold import retold

ROUTES = tuple(route for room in ROOMS for route in room.ROUTES)
NAVIGATION: tuple[Room, ...] = tuple(room.ROOM for room in ROOMS if hasattr(room, "ROOM"))
#: Far more than any form of ours; nothing is uploaded.
REQUEST_MAX_BYTES = 64 * 1024
#: More than any page or endpoint takes; each refuses what is too large for it, and that is noted.
LARGEST_BODY_BYTES = 2 * max(
    REQUEST_MAX_BYTES,
    *(route.body_max or 0 for route in ROUTES),
    *(endpoint.body_max for endpoint in ENDPOINTS),
)
#: How soon a page that found no store is asked for again.
AGAIN_S = 5
#: Said of a request that was refused before any page of ours saw it.
_WHY: Mapping[int, LazyString] = {
    400: _l("This request cannot be read."),
    404: _l("There is no such page."),
    405: _l("This address does not take this kind of request."),
    413: _l("This is more than the page takes."),
}
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Reach:
    """Tells the log once that the store is away, and once that it is back. Safe to share."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = threading.Lock()
        self._away_since: float | None = None
        self._last_lost = 0.0

    def lost(self, error: str) -> None:
        """The store did not answer."""
        with self._turn:
            self._last_lost = self._clock.mono()
            if self._away_since is None:
                self._away_since = self._last_lost
                emit("store.lost", error=error)

    def found(self, begun: float) -> None:
        """It answered a request that began then: one from before it was lost tells nothing."""
        with self._turn:
            if self._away_since is not None and begun > self._last_lost:
                away_s = round(self._clock.mono() - self._away_since, 3)
                self._away_since = None
                emit("store.recovered", away_s=away_s)


class Site:
    """The parts of one site, put together."""

    def __init__(self, client: Client, door: Door, cookie_name: str) -> None:
        self._client = client
        self._door = door
        self._csrf = CSRFProtect()
        self._reach = Reach(SystemClock())
        self.measure = Measure()
        self.refusals = Refusals(client, SystemClock(), door.bound)
        self._assets = Assets()
        self._board = Board(SystemClock())
        self.app = Flask("supervisor.web")
        self.app.session_interface = Cookie(client)
        self.app.config.update(
            MAX_CONTENT_LENGTH=REQUEST_MAX_BYTES,
            SESSION_COOKIE_HTTPONLY=True,
            SESSION_COOKIE_NAME=cookie_name,
            SESSION_COOKIE_SAMESITE="Lax",
            WTF_CSRF_CHECK_DEFAULT=False,
            WTF_CSRF_TIME_LIMIT=None,  # as long as the session
        )
        self._csrf.init_app(self.app)
        language.add_to(self.app)
        self._add_pages()
        self._add_words()
        self._add_edges()

    # --- pages --------------------------------------------------------------------------------

    def _add_pages(self) -> None:
        for route in ROUTES:
            view = functools.partial(self._guarded, route)
            self.app.add_url_rule(route.rule, route.name, view, methods=[route.method])
        Gate(self._visit, self._csrf.protect, SystemClock(), self._client.settings.web_rate).add_to(
            self.app
        )
        self.app.add_url_rule("/healthz", "healthz", _healthz)
        self.app.add_url_rule("/readyz", "readyz", self._readyz)
        self.app.add_url_rule("/metrics", "metrics", self._metrics)

    def _guarded(self, route: Route, **given: str) -> Answer:
        """Ask the door, then the page."""
        visit = self._visit()
        who = visit.who
        if route.body_max and who and route.needs and who.may(route.needs):
            request.max_content_length = route.body_max
        if route.method != "GET" and not (who and request.authorization):
            self._csrf.protect()  # what a browser adds by itself must not be enough
        if route.method != "GET":
            refuse_unclean_form()
        if route.needs is None:
            return route.page(visit, **given)
        if who is None:
            return _unknown()
        if not who.may(route.needs):
            raise Forbidden(_lacks(who, route.needs))
        return route.page(visit, **given)

    def _visit(self) -> Visit:
        """Ask the door who it is. Raises: StoreUnavailable."""
        if "away" in g:
            raise g.away
        who = self._door.who(request, session)
        visit = Visit(self._client, self._door, self._board, who)
        g.visit = visit
        return visit

    def _readyz(self) -> Answer:
        """Say whether pages can be shown now: whether the store answers."""
        try:
            self._client.access.has_users()
        except StoreUnavailable as exc:
            why = "is not ready" if isinstance(exc, StoreUnready) else "does not answer"
            return Response(f"the store {why}\n", 503, mimetype="text/plain")
        return Response("ok\n", mimetype="text/plain")

    def _metrics(self) -> Answer:
        return Response(self.measure.render(), mimetype="text/plain; version=0.0.4")

    # --- words of all pages -------------------------------------------------------------------

    def _add_words(self) -> None:
        self.app.jinja_env.filters.update(wording.FILTERS, as_seen=as_seen)
        self.app.jinja_env.trim_blocks = self.app.jinja_env.lstrip_blocks = True
        self.app.jinja_env.globals.update(
            version=__version__,
            asset=self._asset,
            navigation=NAVIGATION,
            language=language.language,
            languages=language.LANGUAGES,
            is_refresh=is_refresh,
        )

    def _asset(self, name: str) -> str:
        return url_for("static", filename=name, v=self._assets.version(name))

    # --- before, after, instead ---------------------------------------------------------------

    def _add_edges(self) -> None:
        self.app.before_request(self.measure.begin)
        self.app.before_request(refuse_unclean)
        self.refusals.add_to(self.app)
        self.app.after_request(self._finish)
        errors: Mapping[Any, Callable[[Any], Answer]] = {
            HTTPException: _refused,
            CSRFError: _stale,
            StoreUnavailable: self._store_away,
            DependencyAway: _away,
            Refused: _not_possible,
            Exception: _broken,
        }
        for kind, answer in errors.items():
            self.app.register_error_handler(kind, answer)

    def _finish(self, answer: Response) -> Response:
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        if request.endpoint == "static":
            file = (request.view_args or {}).get("filename")
            answer.headers["Cache-Control"] = self._assets.caching(file, request.args.get("v"))
        visit: Visit | None = g.get("visit")
        if visit is not None and visit.who is not None and answer.status_code < 500:
            self._reach.found(g.begun)
            # Whoever did something on a page is shown what has become of it. Programs, which may
            # do much, see it a little later, as those do who act elsewhere.
            if request.method not in ("GET", "HEAD") and request.authorization is None:
                self._board.clear()
        self.measure.end(answer.status_code)
        return answer

    def _store_away(self, error: StoreUnavailable) -> Answer:
        self._reach.lost(error.message)
        return _away(error)


def _lacks(who: Person, right: Right) -> str:
    values = {"name": who.name, "role": who.role, "right": right}
    return str(_("%(name)s (%(role)s) has no right to %(right)s.", **values))


def _healthz() -> Answer:
    return Response("ok\n", mimetype="text/plain")


def _unknown() -> Answer:
    """Send a browser to the door; tell a program what is missing."""
    if request.authorization is not None:
        why = _("This API token is not known here.")
        return _told(401, why, {"WWW-Authenticate": "Bearer"})
    following = request.full_path.rstrip("?") if request.method == "GET" else "/"
    return go(f"/sign-in?{wording.query([('next', following)])}")


def _refused(error: HTTPException) -> Answer:
    allowed = error.get_response().headers.get("Allow")
    headers = {} if allowed is None else {"Allow": allowed}
    if is_api():
        return problem_of(error, headers)
    code, why = error.code or 500, error.description
    if why == type(error).description:  # nobody has said more than the server's own English
        why = str(_WHY.get(code, error.name))
    return _told(code, why or error.name, headers)


def _stale(error: CSRFError) -> Answer:
    g.refused = CROSS_SITE
    told = _("This form did not come from this session (%(why)s) Nothing was done: go back, load "
             "the page again and repeat it.", why=error.description)  # fmt: skip
    return _told(400, told)


def _away(error: DependencyAway) -> Answer:
    why = _("The task store does not answer.")
    if isinstance(error, StoreUnready):
        why = _("There is no task store yet, or an older one: run `supervisor db upgrade`.")
    if request.method == "GET" and not is_api():
        why += " " + _("This page is tried again every few seconds by itself.")
    return _told(503, why, {"Retry-After": str(AGAIN_S)})


def _not_possible(error: Refused) -> Answer:
    return _told(409, f"{retold(error.message)}. {retold(error.remedy)}")


def _broken(error: Exception) -> Answer:
    emit("web.failed", exc_info=True, route=str(request.url_rule), error=f"{type(error).__name__}")
    return _told(500, _("This is a bug of the supervisor. Its log has the details."))


def _told(code: int, why: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an error as a page; to whoever came with a token as text; to programs a problem."""
    if is_api():
        return problem(code, why, headers)
    if request.authorization is not None:
        return Response(f"{why}\n", code, headers, mimetype="text/plain")
    again = AGAIN_S if code == 503 and request.method == "GET" else None
    # Nothing is asked of the store for it: who asks is known, or nobody is.
    values = {"visit": g.get("visit"), "code": code, "why": why, "again": again}
    page = render_template("error.html", **values)
    return Response(page, code, headers)
