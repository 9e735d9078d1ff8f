"""What tasks of a type usually do, as the latest of them did it.

Invariants: read-only; of each type a few of its newest tasks are looked at, found by an index.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from supervisor.store.engine import Store
from supervisor.store.schema import attempts, tasks

#: Newest tasks of a type among which one that has started is looked for; and types asked at once.
LOOK_BACK, TYPES_MOST = 50, 200


@dataclass(frozen=True, slots=True)
class LastLimits:
    """The limits under which an attempt of a type started last; the soft one None for none."""

    started_at: datetime
    timeout: float
    soft_timeout: float | None


class Habits:
    """The types of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def limits(self, types: Iterable[str]) -> dict[str, LastLimits]:
        """Return the limits that held last, by type; types of which none started lack."""
        found: dict[str, LastLimits] = {}
        with self._store.reading() as connection:
            for name in list(types)[:TYPES_MOST]:
                row = connection.execute(_latest(name)).first()
                if row is not None:
                    found[name] = LastLimits(*row)
        return found


def _latest(name: str) -> sa.Select[Any]:
    newest = (
        sa.select(tasks.c.task_id)
        .where(tasks.c.type == name)
        .order_by(tasks.c.task_id.desc())
        .limit(LOOK_BACK)
        .subquery()
    )
    return (
        sa.select(attempts.c.started_at, attempts.c.timeout, attempts.c.soft_timeout)
        .join(newest, newest.c.task_id == attempts.c.task_id)
        .where(attempts.c.started_at.is_not(None), attempts.c.timeout.is_not(None))
        .order_by(attempts.c.started_at.desc())
        .limit(1)
    )
