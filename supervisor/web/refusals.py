"""What this site refused, written down: by whom, what, from where; never a flood.

Secret kept here: how much is written. Of one kind and one asker a few notes a minute, of all
together some dozens; how many more there were stands in the next one that is written. The log gets
the same. Safe to share between threads.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from urllib.parse import unquote

from flask import Flask, Response, g, request

from supervisor.client import Client
from supervisor.clock import Clock
from supervisor.errors import StoreUnavailable
from supervisor.telemetry.events import emit
from supervisor.words.text import plain

WINDOW_S = 60.0
#: Notes in a minute: of one kind by one asker, and of all.
OWN_MAX, ALL_MAX = 5, 60
#: Askers that are remembered; those seen longest ago are forgotten first.
KEYS_MAX = 1000
CROSS_SITE, TRAVERSAL = "from another site", "a path that leads out of its place"
UNCLEAN = "text that cannot be kept"
_KINDS = {
    401: "not signed in", 403: "no right", 408: "too slow", 413: "too large",
    429: "too many requests", 431: "too large",
}  # fmt: skip
_PATH_MAX = 120
#: Wrong passwords have notes of their own.
_ELSEWHERE = frozenset({"enter"})
UNKNOWN = "unknown"
_NOWHERE = "an unknown address"


@dataclass(slots=True)
class _Asker:
    """The latest notes of one kind by one asker, and how many more there were."""

    notes: deque[float] = field(default_factory=deque)
    untold: int = 0


class Bound:
    """Says which of many alike are worth a note."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._askers: dict[tuple[str, str], _Asker] = {}
        self._all: deque[float] = deque()
        self._turn = threading.Lock()

    def take(self, kind: str, asker: str) -> int | None:
        """Return how many went untold before this one; None when this one does, too."""
        with self._turn:
            now = self._clock.mono()
            one = self._askers.pop((kind, asker), None) or _Asker()
            self._askers[kind, asker] = one  # at the end: it was seen last
            while len(self._askers) > KEYS_MAX:
                del self._askers[next(iter(self._askers))]
            _forget(one.notes, now)
            _forget(self._all, now)
            if len(one.notes) >= OWN_MAX or len(self._all) >= ALL_MAX:
                one.untold += 1
                return None
            one.notes.append(now)
            self._all.append(now)
            untold, one.untold = one.untold, 0
            return untold


def _forget(times: deque[float], now: float) -> None:
    while times and times[0] <= now - WINDOW_S:
        times.popleft()


class Refusals:
    """Writes down what was refused."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._bound = Bound(clock)

    def add_to(self, app: Flask) -> None:
        """Look at every answer of the site."""
        app.after_request(self._look)

    def _look(self, answer: Response) -> Response:
        kind = _kind(answer.status_code)
        if kind is not None and request.endpoint not in _ELSEWHERE:
            self._note(kind, answer.status_code)
        return answer

    def of_server(self, code: int, address: str) -> None:
        """Write down what was refused before it was a request of the site."""
        kind = _KINDS.get(code, "no request that can be read")
        self._write(kind, UNKNOWN, address or _NOWHERE, "a request", code)

    def _note(self, kind: str, code: int) -> None:
        visit = g.get("visit")
        who = visit.who.name if visit is not None and visit.who is not None else UNKNOWN
        what = f"{plain(request.method, keep='')[:10]} {_path()}"
        self._write(kind, who, request.remote_addr or _NOWHERE, what, code)

    def _write(self, kind: str, who: str, address: str, what: str, code: int) -> None:
        untold = self._bound.take(kind, address if who == UNKNOWN else who)
        if untold is None:
            return
        text = f"{kind}: {what} from {address}"
        if untold:
            text += f"; {untold} more like it were not written down"
        emit("web.refused", why=kind, who=who, address=address, request=what, code=code)
        try:
            self._client.change_access(
                lambda access, now: access.note_refused_request(text, who, now)
            )
        except StoreUnavailable as exc:
            emit("web.unrecorded", error=exc.message)  # the refusal stands; the log has it


def _kind(code: int) -> str | None:
    if told := g.get("refused"):
        return str(told)
    if code in (400, 404) and leads_out(request.full_path):
        return TRAVERSAL
    return _KINDS.get(code)


def leads_out(path: str) -> bool:
    """Say whether somebody tries to get at what is above a path of ours."""
    once = unquote(path)
    texts = (once, unquote(once))
    return any("../" in text or "..\\" in text or text.endswith("/..") for text in texts)


def _path() -> str:
    """Return the route that was asked for; the beginning of the path where there is none."""
    if request.url_rule is not None and not leads_out(request.path):
        return request.url_rule.rule
    return plain(request.path, keep="")[:_PATH_MAX]
