"""What this web process has seen of the store for an hour, for all its viewers together.

Secret kept here: what is remembered between two looks. The minutes of the audit trail are counted
once; what is due in each queue stands nowhere afterwards, so it is noted every few seconds by a
thread of its own, and whoever shows it says since when, or since when no more. Of another store
nothing is kept.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from flask import Flask, current_app
from flask_babel import gettext as _

from supervisor.client import Client
from supervisor.errors import SupervisorError
from supervisor.store import Store
from supervisor.store.levels import levels
from supervisor.store.trend import Hour, Trend
from supervisor.web.beside import beside, in_turns
from supervisor.web.survey import Surveyor

#: How long the end of the process waits for a note that is being taken.
LEAVE_S = 2.0
#: Seconds between two notes, and how many are kept: an hour's.
EVERY_S, KEPT = 15.0, 240
#: What was noted longer ago says nothing of now.
FRESH = timedelta(seconds=3 * EVERY_S)
_NAME = "supervisor.watch"


@dataclass(frozen=True, slots=True)
class Note:
    """How many tasks were due in each queue at one moment; a queue without any is not there."""

    at: datetime
    in_queue: Mapping[str, int]


class Watch:
    """Looks at one store, again and again. Safe to share between threads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._trend: Trend | None = None
        self._notes: deque[Note] = deque(maxlen=KEPT)
        self.surveyor = Surveyor()

    def join(self, app: Flask) -> None:
        """Be the watch of this site's pages."""
        app.extensions[_NAME] = self

    def going(self) -> AbstractContextManager[None]:
        """Take notes for the length of the block."""
        return beside(self._take_notes, self._over, name="watch", leave_s=LEAVE_S)

    def hour(self, now: datetime) -> Hour:
        """Return the last hour by the minute. Raises: StoreUnavailable."""
        return self._of(self._client.reader.store).hour(now)

    def notes(self) -> tuple[Note, ...]:
        """Return what was noted, oldest first."""
        with self._lock:
            return tuple(self._notes)

    def note(self) -> None:
        """Note what is due now. Raises: StoreUnavailable."""
        store = self._client.reader.store
        now = store.clock.now()
        with store.reading() as connection:
            found = levels(connection, now)
        due: Counter[str] = Counter()
        for one in found:
            due[one.queue] += one.in_queue
        self._of(store)
        with self._lock:
            self._notes.append(Note(now, dict(+due)))

    def _of(self, store: Store) -> Trend:
        """Return what counts in this store; of another one all is forgotten."""
        with self._lock:
            if self._trend is None or self._trend.store is not store:
                self._trend = Trend(store)
                self._notes.clear()
            return self._trend

    def _take_notes(self) -> None:
        def turn() -> None:
            with suppress(SupervisorError):  # the gap shows; whoever asks for a page is told
                self.note()

        in_turns(turn, self._over, "watch", EVERY_S)


def told_of(notes: Sequence[Note], now: datetime) -> str:
    """Say since when what is due is noted, or since when it is not any more."""
    if not notes:
        return str(_("What is due is noted by this web process, but has not been yet."))
    if is_fresh(notes, now):
        at = f"{notes[0].at:%H:%M}"
        return str(_("What is due is noted by this web process, since %(at)s UTC.", at=at))
    at = f"{notes[-1].at:%H:%M:%S}"
    return str(_("What is due is not noted since %(at)s UTC: this web process's log says why.",
                 at=at))  # fmt: skip


def is_fresh(notes: Sequence[Note], now: datetime) -> bool:
    """Say whether the last of these notes says something of now."""
    return bool(notes) and now - notes[-1].at <= FRESH


def watch() -> Watch:
    """Return the watch of the site that answers."""
    return cast("Watch", current_app.extensions[_NAME])
