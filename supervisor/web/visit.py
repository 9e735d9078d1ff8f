"""One visit of one person: what every page gets, and the three ways a page can end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from flask import g, redirect, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import LazyString
from flask_babel import gettext as _
from werkzeug.exceptions import BadRequest

from supervisor.client import Client
from supervisor.model.access import Person, Right
from supervisor.store import Reader
from supervisor.web.board import Board
from supervisor.web.door import Door

Answer = ResponseReturnValue
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visit:
    """Who asks, and through what."""

    client: Client
    door: Door
    board: Board
    who: Person | None

    @property
    def reader(self) -> Reader:
        """What the store shows. Raises: StoreUnavailable."""
        return self.client.reader

    @property
    def person(self) -> Person:
        """Who asks, on a page that only somebody known gets."""
        assert self.who is not None
        return self.who

    def may(self, right: str) -> bool:
        """Say whether who asks has a right."""
        return self.who is not None and self.who.may(Right(right))

    def see(self, name: str, fresh_s: float, read: Callable[[Reader], T]) -> T:
        """Return what all viewers share, read at most every `fresh_s` seconds.

        `name` is a fixed word, one for each thing that is read. The page tells how old the oldest
        of what it saw is. Raises: StoreUnavailable.
        """
        reader = self.reader
        value, age_s = self.board.see(name, reader.store, fresh_s, lambda: read(reader))
        g.age_s = max(age_s, g.get("age_s", 0.0))
        return value

    def see_dear(self, name: str, fresh_s: float, read: Callable[[Reader], T]) -> tuple[T, float]:
        """Do the same for what takes long; return its age in seconds too, which is to be told.

        It is read beside the page, so without this request: `read` must not ask for it.
        """
        reader = self.reader
        return self.board.see_dear(name, reader.store, fresh_s, lambda: read(reader))

    def now(self) -> datetime:
        """Return the store's time, which all times in it are of."""
        return self.reader.store.clock.now()


@dataclass(frozen=True, slots=True)
class Route:
    """A page: where it is, and the right without which nobody gets to it (None: anybody may).

    `body_max` is the size of a request in bytes where it may be larger than others.
    """

    name: str
    rule: str
    page: Callable[..., Answer]
    needs: Right | None
    method: str = "GET"
    body_max: int | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """An entry of the navigation: the route that it leads to, and the letter to press after `g`.

    A module of pages has one as ROOM when its pages are to be found in the navigation.
    """

    name: str
    label: LazyString
    needs: Right
    key: str


def show(template: str, visit: Visit, **values: Any) -> str:
    """Return a page."""
    return render_template(template, visit=visit, age_s=g.get("age_s", 0.0), **values)


def missing(visit: Visit, what: str, why: str, **instead: str) -> Answer:
    """Return the page that says what is not there, why not, and which pages may help instead.

    `instead` maps their names to queries.
    """
    return show("missing.html", visit, what=what, why=why, instead=instead), 404


def go(path: str) -> Answer:
    """Send the browser to one of our own paths, to be asked for with GET."""
    answer = redirect(request.script_root + path, 303)
    shown = urlsplit(request.headers.get("HX-Current-URL", "")).path
    if "HX-Boosted" in request.headers and urlsplit(answer.location).path != shown:
        # Our script shows an answer only in the page that it acts from. Were it to follow to
        # another, it would take the message that is to be shown there.
        answer.status_code = 204
        answer.headers["HX-Redirect"] = answer.headers.pop("Location")
    return answer


def own_path(given: str | None) -> str:
    """Return a path to go on to; the first page for what is none of ours.

    A browser takes // and /\\ for another host.
    """
    text = given or ""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_own else "/"


def is_refresh() -> bool:
    """Say whether a page that is shown asks for its parts again, and nobody has gone anywhere."""
    return "HX-Request" in request.headers and "HX-Boosted" not in request.headers


def argument(name: str, most: int = 200) -> str:
    """Return what the address says of a name, '' when it says nothing."""
    return request.args.get(name, "").strip()[:most]


def a_moment(given: str) -> datetime | None:
    """Read a time of a form; without an offset it is UTC. None for none. Raises: BadRequest."""
    if not given:
        return None
    try:
        found = datetime.fromisoformat(given)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise BadRequest(_("A time is written like 2026-05-20T10:30, in UTC.")) from exc
