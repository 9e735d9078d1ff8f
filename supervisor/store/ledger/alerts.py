"""What Alertmanager tells: one row for each time that an alert began.

Invariants: the same told twice changes only when it was last heard; what was told late does not
undo what was told since; a row that is over and old is removed. Called through `Transaction`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Integer, bindparam, delete, select, update

from supervisor.store.schema import alerts
from supervisor.store.session import Ordered, Session, insert_into, ordered, storable

#: A delivery may be this much older than one that came before it (a retry, a second Alertmanager);
#: what says later that an ended alert fires means that it fires again.
LATE = timedelta(seconds=60)
KEEP = timedelta(days=90)
#: The oldest of those that are over make room.
KEPT_MOST = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One alert of one delivery; `ends_at` is None while it fires."""

    fingerprint: str
    starts_at: datetime
    ends_at: datetime | None
    name: str
    severity: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Alerts:
    """The verbs about alerts, within one open transaction."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def deliver(self, told: Sequence[Telling], now: datetime) -> int:
        """Write down a delivery, and remove what is old by it; return what `take` does."""
        changed = self.take(told, now)
        self.forget(now)
        return changed

    def take(self, told: Sequence[Telling], now: datetime) -> int:
        """Write down a delivery; return how many alerts it began, changed or ended."""
        self._session.lock(["alerts"])  # one for all: a server has room for some thousand locks
        return sum(self._take(one, now) for one in told)

    def forget(self, now: datetime) -> int:
        """Remove what is over and old, and the oldest of what is too much; return how many."""
        old = self._session.encode(now - KEEP)
        gone = self._session.write(_delete_over, old, old)
        row = self._session.row(_select_last_kept, 1, KEPT_MOST)
        if row is not None:
            gone += self._session.write(_delete_over, row[0], self._session.encode(now))
        return gone

    def _take(self, one: Telling, now: datetime) -> bool:
        session = self._session
        key = one.fingerprint, session.encode(one.starts_at)
        row = session.row(_select_one, *key)
        at, ends_at = session.encode(now), session.encode(one.ends_at)
        said = _document(one.labels), _document(one.annotations)
        if row is None:
            name, severity = storable(one.name[:200]), storable(one.severity[:40])
            session.write(_insert, *key, name, severity, *said, ends_at, at)
            return True
        ended, heard = row[0], session.decode(row[1])
        if ended is not None and ends_at is None and now - heard < LATE:
            return False
        session.write(_update, *said, ends_at, at, *key)
        return bool(ended != ends_at)


def _document(values: Mapping[str, str]) -> str | None:
    return storable(json.dumps(dict(values), ensure_ascii=False, sort_keys=True))


def _select_one() -> Ordered:
    where = alerts.c.fingerprint == bindparam("of"), alerts.c.starts_at == bindparam("since")
    return ordered(select(alerts.c.ends_at, alerts.c.received_at).where(*where), "of", "since")


def _insert() -> Ordered:
    return insert_into(
        alerts,
        *("fingerprint", "starts_at", "name", "severity", "labels", "annotations", "ends_at"),
        "received_at",
    )


def _update() -> Ordered:
    statement = (
        update(alerts)
        .values(
            labels=bindparam("says"),
            annotations=bindparam("notes"),
            ends_at=bindparam("ended"),
            received_at=bindparam("heard"),
        )
        .where(alerts.c.fingerprint == bindparam("of"), alerts.c.starts_at == bindparam("since"))
    )
    return ordered(statement, "says", "notes", "ended", "heard", "of", "since")


def _select_last_kept() -> Ordered:
    query = select(alerts.c.starts_at).order_by(alerts.c.starts_at.desc())
    query = query.limit(bindparam("one", type_=Integer)).offset(bindparam("kept", type_=Integer))
    return ordered(query, "one", "kept")


def _delete_over() -> Ordered:
    """Began by then (which an index has), and over by then."""
    began, over = alerts.c.starts_at <= bindparam("began"), alerts.c.ends_at <= bindparam("over")
    return ordered(delete(alerts).where(began, over), "began", "over")
