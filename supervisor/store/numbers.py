"""What is counted of the store: what lives in it now, and what ended in the last ten minutes.

Secret kept here: how that is found without an index of its own. An attempt that ends leaves one row
in the audit trail, whose ids grow with time: the window begins at an id that a search by halves
finds. Read-only; metrics, pages and command line ask here, so that they say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from supervisor.model.states import REQUEUE_REASONS
from supervisor.store.engine import Store
from supervisor.store.levels import QueueLevel, levels, oldest
from supervisor.store.schema import Moment, audit_log, outbox, queues, task_types
from supervisor.store.session import hinted

WINDOW_S = 600.0
#: Transactions write their rows in another order than that of their ids, by less than this.
ORDER_SLACK_S = 60.0
#: More audit rows than this in the window are too many to be read (about 1 s on SQLite).
ROWS_MOST = 1_000_000
#: The relay is far behind where so many wait: how far exactly is not worth counting.
OUTBOX_MOST = 100_000
TYPES_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The live tasks of one queue and type; `oldest_due` is None when none is due."""

    queue: str
    type: str
    in_queue: int
    scheduled: int
    running: int
    oldest_due: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What lives in the store at one moment. `paused` are the queues with any pause in force."""

    levels: tuple[Level, ...]
    paused: frozenset[str]
    outbox: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Attempts of one type that ended in the window; `type` is None for all types together.

    `p99_s` is the smallest run time that 99 % did not exceed, of all that began and were not
    requeued; None when there is none.
    """

    type: str | None
    success: int
    failed: int
    timeout: int
    canceled: int
    requeued: int
    p99_s: float | None

    @property
    def failed_rate(self) -> float | None:
        """(failed + timeout) / (success + failed + timeout); None when none was executed."""
        bad = self.failed + self.timeout
        return bad / (self.success + bad) if self.success + bad else None

    @property
    def canceled_rate(self) -> float | None:
        """Canceled by all that ended, requeued ones left out; None when none did."""
        ended = self.success + self.failed + self.timeout + self.canceled
        return self.canceled / ended if ended else None


class Numbers:
    """The numbers of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def live(self, now: datetime) -> Live:
        """Count the live tasks by queue and type, those due at `now` apart."""
        with self._store.reading() as connection:
            found = _levels(connection, now)
            paused = connection.execute(sa.select(queues.c.queue).where(queues.c.paused)).scalars()
            some = sa.select(outbox.c.task_id).limit(OUTBOX_MOST).subquery()
            waiting = connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
            return Live(levels=found, paused=frozenset(paused), outbox=waiting)

    def levels(self, now: datetime) -> tuple[QueueLevel, ...]:
        """Count the live tasks by queue, priority and type, those due at `now` apart."""
        with self._store.reading() as connection:
            return levels(connection, now)

    def lost(self, now: datetime, *, dead: Collection[str], node_id: str | None = None) -> int:
        """Count the RUNNING attempts whose node has ended, is unknown, or has no lease any more.

        So are those of `dead` nodes, which is for the caller to see: a node that was killed on a
        file leaves no word. Of a file also those of any but `node_id`, which holds its lock.
        """
        gone = "n.node_id IS NULL OR n.ended_at IS NOT NULL OR n.lease_until < :now"
        gone += " OR n.node_id IN :dead"
        more: dict[str, Any] = {"dead": list(dead)}
        if node_id is not None and not self._store.is_shared:
            gone += " OR n.node_id <> :own"
            more["own"] = node_id
        with self._store.reading() as connection:
            query = _query(_LOST.replace("GONE", gone), connection, now=now)
            query = query.bindparams(sa.bindparam("dead", type_=sa.String(), expanding=True))
            return int(connection.execute(query, more).scalar_one())

    def types(self) -> frozenset[str]:
        """Return the types that nodes have announced, the first ones by name if they are many."""
        query = sa.select(task_types.c.type).order_by(task_types.c.type).limit(TYPES_MOST)
        with self._store.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def ended(self, now: datetime, *, window_s: float = WINDOW_S) -> tuple[Ended, ...] | None:
        """Return the endings of the window by type, those of all types first.

        None when there are too many to be read. Nothing ended: of all types zeros, of none a line.
        """
        since = now - timedelta(seconds=window_s)
        with self._store.reading() as connection:
            first, last = ids_since(connection, since - timedelta(seconds=ORDER_SLACK_S))
            if last - first > ROWS_MOST:
                return None
            times = {"since": since, "now": now}
            counted = connection.execute(_query(_ENDED, connection, first=first, **times)).all()
            slow = connection.execute(_query(_P99, connection, first=first, **times)).all()
        p99 = {row.type: row.seconds for row in slow}
        return tuple(_ended(kind, counted, p99) for kind in _types(counted))


def _levels(connection: sa.Connection, now: datetime) -> tuple[Level, ...]:
    """Return the levels, those of all priorities together."""
    found: dict[tuple[str, str], list[QueueLevel]] = {}
    for one in levels(connection, now):
        found.setdefault((one.queue, one.type), []).append(one)
    return tuple(
        Level(
            queue=queue,
            type=kind,
            in_queue=sum(one.in_queue for one in some),
            scheduled=sum(one.scheduled for one in some),
            running=sum(one.running for one in some),
            oldest_due=oldest(some),
        )
        for (queue, kind), some in sorted(found.items())
    )


def ids_since(connection: sa.Connection, since: datetime) -> tuple[int, int]:
    """Return the id before the first audit row since then, and the last; by halves."""
    ends = sa.select(sa.func.max(audit_log.c.id))
    low, last = 0, int(connection.execute(ends).scalar() or 0)
    high = last + 1
    column = audit_log.c
    probe = (
        sa.select(column.id, column.at)
        .where(column.id <= sa.bindparam("middle"))
        .order_by(column.id.desc())
        .limit(1)
    )
    while high - low > 1:
        row = connection.execute(probe, {"middle": (low + high) // 2}).first()
        if row is None or row.at < since or row.id <= low:
            low = (low + high) // 2
        else:
            high = row.id
    return low, last


_REQUEUED = ", ".join(f"'{reason}'" for reason in sorted(REQUEUE_REASONS))
#: The attempts of the window: the trail names each once, by the move out of RUNNING. It is read
#: first: a planner that cannot know how few they are would read all attempts there are.
_TRAIL = """
    WITH trail AS MATERIALIZED (
        SELECT task_id, attempt FROM audit_log WHERE id > :first AND from_state = 'RUNNING'
    )"""
_WINDOW = """
    FROM trail AS l
    JOIN attempts AS a ON a.task_id = l.task_id AND a.attempt = l.attempt
    JOIN tasks AS t ON t.task_id = l.task_id
    WHERE a.ended_at > :since AND a.ended_at <= :now
"""
_ENDED = f"""{_TRAIL}
    SELECT t.type AS type, a.outcome AS outcome,
    CASE WHEN a.reason IN ({_REQUEUED}) THEN 1 ELSE 0 END AS requeued, count(*) AS number
    {_WINDOW} GROUP BY 1, 2, 3
"""
_P99 = f"""{_TRAIL}, run AS (
        SELECT t.type AS type, SECONDS AS seconds {_WINDOW}
        AND a.started_at IS NOT NULL AND a.reason NOT IN ({_REQUEUED})
    ), ranked AS (
        SELECT type, seconds, row_number() OVER (PARTITION BY type ORDER BY seconds) AS place,
        count(*) OVER (PARTITION BY type) AS number FROM run
    ), overall AS (
        SELECT seconds, row_number() OVER (ORDER BY seconds) AS place,
        count(*) OVER () AS number FROM run
    )
    SELECT type, seconds FROM ranked WHERE place = (99 * number + 99) / 100
    UNION ALL
    SELECT NULL, seconds FROM overall WHERE place = (99 * number + 99) / 100
"""  # noqa: S608 - our own words
_LOST = """
    SELECT count(*) FROM tasks AS t
    JOIN attempts AS a ON a.task_id = t.task_id AND a.attempt = t.attempt
    LEFT JOIN nodes AS n ON n.node_id = a.node_id
    WHERE t.state = 'RUNNING' AND (GONE)
"""
_SECONDS = {
    "sqlite": "(a.ended_at - a.started_at) / 1000000.0",
    "postgresql": "CAST(extract(epoch FROM a.ended_at - a.started_at) AS float)",
}


def _query(sql: str, connection: sa.Connection, **values: Any) -> sa.TextClause:
    """Return a statement as this database wants it; times are bound as it keeps them."""
    dialect = connection.dialect
    text = hinted(sql.replace("SECONDS", _SECONDS[dialect.name]), dialect)
    return sa.text(text).bindparams(
        *(
            sa.bindparam(name, value, type_=Moment() if isinstance(value, datetime) else None)
            for name, value in values.items()
        )
    )


def _types(counted: Sequence[Any]) -> list[str | None]:
    return [None, *sorted({row.type for row in counted})]


def _ended(kind: str | None, counted: Sequence[Any], p99: dict[str | None, float]) -> Ended:
    numbers: Counter[str] = Counter()
    for row in counted:
        if kind is None or row.type == kind:
            numbers["requeued" if row.requeued else str(row.outcome).lower()] += row.number
    return Ended(
        type=kind,
        success=numbers["success"],
        failed=numbers["failed"],
        timeout=numbers["timeout"],
        canceled=numbers["canceled"],
        requeued=numbers["requeued"],
        p99_s=p99.get(kind),
    )
