"""Who is at work: the attempts that run, oldest first, and the workers of nodes, living and ended.

Invariants: read-only; what runs is found by its state, never by reading what has ended, and every
list is cut at a length. Called by the pages.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from supervisor.store.engine import Store
from supervisor.store.record import WorkerRecord
from supervisor.store.schema import attempts, tasks, workers

#: Attempts that are looked at one by one; a hundred hosts run fewer.
RUNNING_MOST = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """A RUNNING attempt; `started_at` is None as long as it is only assigned."""

    task_id: str
    type: str
    queue: str
    attempt: int
    node_id: str
    worker_id: str
    claimed_at: datetime
    started_at: datetime | None
    mark_kind: str | None
    mark_at: datetime | None


class Roster:
    """What runs on one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def at_work(self, limit: int = RUNNING_MOST) -> tuple[AtWork, ...]:
        """Return what runs: the longest running first, what is only assigned last."""
        query = (
            sa.select(
                tasks.c.task_id,
                tasks.c.type,
                tasks.c.queue,
                tasks.c.attempt,
                attempts.c.node_id,
                attempts.c.worker_id,
                attempts.c.claimed_at,
                attempts.c.started_at,
                tasks.c.mark_kind,
                tasks.c.mark_at,
            )
            .join(
                attempts,
                (attempts.c.task_id == tasks.c.task_id) & (attempts.c.attempt == tasks.c.attempt),
            )
            # Said as a word, so that a planner knows how few they are; and all of them: told to
            # stop after some, it would rather read the table from its beginning.
            .where(sa.text("tasks.state = 'RUNNING'"))
        )
        with self._store.reading() as connection:
            found = [AtWork(**row._mapping) for row in connection.execute(query)]
        return tuple(sorted(found, key=_age)[:limit])

    def living(self) -> list[WorkerRecord]:
        """Return the workers of all nodes that have not ended, the latest born first."""
        query = (
            sa.select(workers)
            .where(sa.text("ended_at IS NULL"))
            .order_by(workers.c.started_at.desc(), workers.c.worker_id)
            .limit(RUNNING_MOST)
        )
        with self._store.reading() as connection:
            return [WorkerRecord(**row._mapping) for row in connection.execute(query)]

    def over(self, worker_ids: Collection[str]) -> frozenset[str]:
        """Return those of these workers that have ended."""
        if not worker_ids:
            return frozenset()
        query = sa.select(workers.c.worker_id).where(
            workers.c.worker_id.in_(worker_ids), workers.c.ended_at.is_not(None)
        )
        with self._store.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def ended_workers(self, limit: int = 50) -> list[WorkerRecord]:
        """Return workers that have ended, the latest ends first, among those born last."""
        query = (
            sa.select(workers)
            .where(workers.c.ended_at.is_not(None))
            .order_by(workers.c.started_at.desc())
            .limit(limit)
        )
        with self._store.reading() as connection:
            found = [WorkerRecord(**row._mapping) for row in connection.execute(query)]
        return sorted(found, key=lambda one: one.ended_at or one.started_at, reverse=True)


def _age(one: AtWork) -> tuple[bool, datetime]:
    return one.started_at is None, one.started_at or one.claimed_at
