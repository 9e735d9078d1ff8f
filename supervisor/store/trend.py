"""The last hour by the minute: what was submitted, how attempts ended, and how many tasks waited.

Secret kept here: all of it is counted in the audit trail, which has a row for each move, by its own
ids; minutes that are over are counted once. How many waited follows back from how many wait now.
One instance serves all who ask: what it knows is what makes it cheap. Safe to share by threads.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from supervisor.model.states import REQUEUE_REASONS, State
from supervisor.store.engine import Store
from supervisor.store.levels import QueueLevel, levels
from supervisor.store.numbers import ORDER_SLACK_S, ids_since
from supervisor.store.schema import EPOCH, Moment, audit_log
from supervisor.store.session import hinted

MINUTES = 60
#: Audit rows that are counted at once (0.2 s on SQLite); where an hour has more, it begins later.
ROWS_MOST = 400_000
#: Minutes that transactions which are still under way may yet write to.
UNSETTLED = 2
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """One minute, the last of them not over yet.

    Attempts that were `started` are those claimed; `waiting` are the PENDING tasks at its end, due
    or not. Endings are of attempts: a task that waited and was canceled is not among them.
    """

    at: datetime
    submitted: int
    started: int
    success: int
    failed: int
    timeout: int
    canceled: int
    requeued: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Hour:
    """The minutes, oldest first, and the levels of the same moment.

    Fewer than an hour's where so much happened that the first ones could not be counted.
    """

    minutes: tuple[Minute, ...]
    levels: tuple[QueueLevel, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the hour."""
        return len(self.minutes) == MINUTES


class _Move(NamedTuple):
    from_state: str | None
    to_state: str
    requeued: bool


class Trend:
    """Counts the moves of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._over: dict[int, Counter[_Move]] = {}
        self._next = 0
        self._begins = 0

    def hour(self, now: datetime) -> Hour:
        """Return the hour that ends at `now`."""
        last = (now - EPOCH) // _MINUTE
        first = last - MINUTES + 1
        with self._lock, self.store.reading() as connection:
            alive = levels(connection, now)
            found = self._count(connection, first, last)
            begins = max(first, self._begins)
        wait = sum(one.in_queue + one.scheduled for one in alive)
        minutes: list[Minute] = []
        for number in range(last, begins - 1, -1):
            moves = found.get(number, Counter())
            minutes.append(_minute(number, moves, wait))
            wait -= sum(count * _waits(move) for move, count in moves.items())
        return Hour(tuple(reversed(minutes)), alive)

    def _count(self, connection: sa.Connection, first: int, last: int) -> dict[int, Counter[_Move]]:
        if last < self._next:  # the clock was set back
            self._over.clear()
            self._next = self._begins = 0
        start = max(first, self._next)
        read = self._read(connection, start)
        found = {**{n: one for n, one in self._over.items() if first <= n < start}, **read}
        self._next = max(first, self._begins, last - UNSETTLED)
        self._over = {number: moves for number, moves in found.items() if number < self._next}
        return found

    def _read(self, connection: sa.Connection, start: int) -> dict[int, Counter[_Move]]:
        since = EPOCH + start * _MINUTE
        before, last_id = ids_since(connection, since - timedelta(seconds=ORDER_SLACK_S))
        if last_id - before > ROWS_MOST:
            before = last_id - ROWS_MOST
            query = sa.select(audit_log.c.at).where(audit_log.c.id > before)
            at = connection.execute(query.order_by(audit_log.c.id).limit(1)).scalar_one()
            later = at + timedelta(seconds=ORDER_SLACK_S)
            self._begins = max(self._begins, (later - EPOCH) // _MINUTE + 1)
            since = EPOCH + self._begins * _MINUTE
        found: dict[int, Counter[_Move]] = {}
        for row in connection.execute(_query(connection, before, last_id, since)):
            move = _Move(row.from_state, row.to_state, bool(row.requeued))
            found.setdefault(int(row.minute), Counter())[move] += row.number
        return found


_REQUEUED = ", ".join(f"'{reason}'" for reason in sorted(REQUEUE_REASONS))
_MOVES = f"""
    SELECT MINUTE AS minute, from_state, to_state,
    CASE WHEN reason IN ({_REQUEUED}) THEN 1 ELSE 0 END AS requeued, count(*) AS number
    FROM audit_log WHERE id > :before AND id <= :last AND to_state IS NOT NULL AND at >= :since
    GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - our own words
_MINUTE_OF = {
    "sqlite": "at / 60000000",
    "postgresql": "floor(extract(epoch FROM at) / 60)",
}


def _query(connection: sa.Connection, before: int, last: int, since: datetime) -> sa.TextClause:
    dialect = connection.dialect
    text = hinted(_MOVES.replace("MINUTE", _MINUTE_OF[dialect.name]), dialect)
    values: dict[str, Any] = {"before": before, "last": last}
    return sa.text(text).bindparams(sa.bindparam("since", since, type_=Moment()), **values)


def _waits(move: _Move) -> int:
    """Return by how much a move changes the number of tasks that wait."""
    return (move.to_state == State.PENDING) - (move.from_state == State.PENDING)


def _minute(number: int, moves: Counter[_Move], wait: int) -> Minute:
    ended: Counter[str] = Counter()
    for move, count in moves.items():
        if move.from_state == State.RUNNING:
            ended["requeued" if move.requeued else move.to_state] += count
    return Minute(
        at=EPOCH + number * _MINUTE,
        submitted=sum(count for move, count in moves.items() if move.from_state is None),
        started=sum(count for move, count in moves.items() if move.to_state == State.RUNNING),
        success=ended[State.SUCCESS],
        failed=ended[State.FAILED],
        timeout=ended[State.TIMEOUT],
        canceled=ended[State.CANCELED],
        requeued=ended["requeued"],
        waiting=max(0, wait),
    )
