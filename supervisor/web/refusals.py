"""What this site refused, written down: by whom, what, from where; never a flood.

Secret kept here: how much is written. In a minute a few notes of one kind by one asker, some more
of the same asker, some dozens of all; strangers and those who are known have each their own. When
the minute is over a note says of each how many more there were. The log gets what is written one by
one. Safe to share between threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from flask import Flask, Response, g, request

from supervisor.client import Client
from supervisor.clock import Clock
from supervisor.errors import StoreUnavailable
from supervisor.telemetry.events import emit
from supervisor.web.beside import beside, in_turns
from supervisor.web.limiter import stranger
from supervisor.words.text import plain

WINDOW_S = 60.0
#: Notes in a minute: of one kind by one asker, of one asker, and of all who are known or are not.
OWN_MAX, ASKER_MAX, ALL_MAX = 5, 10, 60
#: How many of those who went on are named when it is over; all others are told together.
NAMED_MAX = 10
#: Askers whose further refusals are counted one by one; of more only how many there were.
KEYS_MAX = 1000
#: How often it is looked whether a minute is over, and how long the end waits for the last note.
EVERY_S, LEAVE_S = 5.0, 2.0
CROSS_SITE, TRAVERSAL = "from another site", "a path that leads out of its place"
UNCLEAN, WRONG_LINK = "text that cannot be kept", "no link that was printed last"
_KINDS = {
    401: "not signed in", 403: "no right", 408: "too slow", 413: "too large",
    429: "too many requests", 431: "too large",
}  # fmt: skip
_PATH_MAX = 120
#: Wrong passwords have notes of their own, and a bound of their own.
_ELSEWHERE, WRONG_PASSWORD = ("enter", 401), "wrong password"
UNKNOWN = "unknown"
_NOWHERE = "an unknown address"


class Key(NamedTuple):
    """What is alike: of one kind by one asker, whom a name tells or, of strangers, a `place`."""

    kind: str
    who: str
    place: str


#: Those whom there is no room to count one by one.
_OTHERS = Key("", UNKNOWN, "")


@dataclass(slots=True)
class _Minute:
    """What was written since `began`, and what was not."""

    began: float
    own: Counter[Key] = field(default_factory=Counter)
    by: Counter[tuple[str, str]] = field(default_factory=Counter)
    of_all: Counter[bool] = field(default_factory=Counter)
    untold: Counter[Key] = field(default_factory=Counter)


class Bound:
    """Says which of many alike are worth a note, and what went without one."""

    def __init__(self, clock: Clock, own: int = OWN_MAX, asker: int = ASKER_MAX) -> None:
        self._clock = clock
        self._own, self._asker = own, asker
        self._minute: _Minute | None = None
        self._untold: Counter[Key] = Counter()
        self._turn = threading.Lock()

    def take(self, key: Key) -> bool:
        """Say whether this one is written down."""
        with self._turn:
            self._look()
            if self._minute is None:
                self._minute = _Minute(self._clock.mono())
            now, asker, is_known = self._minute, (key.who, key.place), key.who != UNKNOWN
            if (
                now.own[key] >= self._own
                or now.by[asker] >= self._asker
                or now.of_all[is_known] >= ALL_MAX
            ):
                is_counted = key in now.untold or len(now.untold) < KEYS_MAX
                now.untold[key if is_counted else _OTHERS] += 1
                return False
            now.own[key] += 1
            now.by[asker] += 1
            now.of_all[is_known] += 1
            return True

    def untold(self, *, at_end: bool = False) -> Counter[Key]:
        """Return how many of each kind by each asker were not written in a minute that is over.

        Each is returned once. `at_end` the present minute counts as over.
        """
        with self._turn:
            self._look(at_end=at_end)
            found, self._untold = self._untold, Counter()
            return found

    def _look(self, *, at_end: bool = False) -> None:
        minute = self._minute
        if minute and (at_end or self._clock.mono() - minute.began >= WINDOW_S):
            self._untold += minute.untold
            self._minute = None


def more_of(untold: Counter[Key]) -> Iterator[tuple[str, str]]:
    """Yield the notes about what was not written down, each with who it is of."""
    others = untold.pop(_OTHERS, 0)
    for at, (key, count) in enumerate(untold.most_common()):
        if at < NAMED_MAX:
            place = f" from {key.place}" if key.place else ""
            yield f"{key.kind}: {count} more{place}, not written down one by one", key.who
        else:
            others += count
    if others:
        yield f"{others} more by others, not written down one by one", UNKNOWN


class Refusals:
    """Writes down what was refused; of what is bounded elsewhere what went without a note."""

    def __init__(self, client: Client, clock: Clock, elsewhere: Bound) -> None:
        self._client = client
        self._bound = Bound(clock)
        self._bounds = (self._bound, elsewhere)
        self._over = threading.Event()

    def add_to(self, app: Flask) -> None:
        """Look at every answer of the site."""
        app.after_request(self._look)

    def _look(self, answer: Response) -> Response:
        kind = _kind(answer.status_code)
        is_told = "refused" not in g and (request.endpoint, answer.status_code) == _ELSEWHERE
        if kind is not None and not is_told:
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

    def going(self) -> AbstractContextManager[None]:
        """Tell for the length of the block what went without a note."""
        return beside(self._tell_on, self._over, name="refusals", leave_s=LEAVE_S)

    def _tell_on(self) -> None:
        in_turns(self.tell, self._over, "refusals", EVERY_S)
        self.tell(at_end=True)

    def tell(self, *, at_end: bool = False) -> None:
        """Write down how many more there were in a minute that is over."""
        for bound in self._bounds:
            for text, who in more_of(bound.untold(at_end=at_end)):
                self._record(text, who)

    def _write(self, kind: str, who: str, address: str, what: str, code: int) -> None:
        place = stranger(address) if who == UNKNOWN else ""
        if not self._bound.take(Key(kind, who, place)):
            return
        emit("web.refused", why=kind, who=who, address=address, request=what, code=code)
        self._record(f"{kind}: {what} from {address}", who)

    def _record(self, text: str, who: str) -> None:
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
