"""Vital signs of nodes as people read them: the latest, and those of a while.

Invariants: read-only, each question over the primary key or the index of times; a node that says
nothing has no reading, and a reading has its own time. Called by the pages and the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from supervisor.store.engine import Store
from supervisor.store.schema import vitals

#: Rows of one answer at most: those of an hour.
ROWS_MAX = 1000


@dataclass(frozen=True, slots=True)
class VitalsView:
    """What a node saw at one moment.

    Shapes: `node` has cpu_s, rss, loop_lag_s, stage, workers_desired, workers_alive and zombies (by
    kind, as the metrics: stalled, heartbeat_lost, orphan); each of `workers` has slot, worker_id,
    pid, state, rss, cpu_s, fds, heartbeat_age_s, and task_id, attempt, since_progress_s, progress
    ([done, total] or None), verdict.
    """

    node_id: str
    at: datetime
    node: dict[str, Any]
    workers: tuple[dict[str, Any], ...]

    def of_attempt(self, task_id: str, attempt: int) -> dict[str, Any] | None:
        """Return the worker that had this attempt in hand; None if none had."""
        wanted = (task_id, attempt)
        return next((w for w in self.workers if (w["task_id"], w["attempt"]) == wanted), None)


class VitalsBook:
    """The vital signs of a store's nodes. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def latest(self, node_id: str) -> VitalsView | None:
        """Return the latest reading of a node; None if there is none."""
        query = _of(node_id).order_by(vitals.c.at.desc()).limit(1)
        with self._store.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else _view(row)

    def latest_of(self, node_ids: Iterable[str]) -> dict[str, VitalsView]:
        """Return the latest reading of each of these nodes that has one."""
        found = {node_id: self.latest(node_id) for node_id in node_ids}
        return {node_id: view for node_id, view in found.items() if view is not None}

    def since(self, node_id: str, moment: datetime) -> list[VitalsView]:
        """Return the readings of a node after a moment, oldest first; the last thousand at most."""
        query = _of(node_id).where(vitals.c.at > moment).order_by(vitals.c.at.desc())
        with self._store.reading() as connection:
            rows = connection.execute(query.limit(ROWS_MAX)).all()
        return [_view(row) for row in reversed(rows)]

    def all_since(self, moment: datetime) -> dict[str, list[VitalsView]]:
        """Return the readings of all nodes after a moment, oldest first, by node; the last
        thousand at most."""
        query = sa.select(vitals).where(vitals.c.at > moment).order_by(vitals.c.at.desc())
        with self._store.reading() as connection:
            rows = connection.execute(query.limit(ROWS_MAX)).all()
        found: dict[str, list[VitalsView]] = {}
        for row in reversed(rows):
            found.setdefault(row.node_id, []).append(_view(row))
        return found

    def by_minute(self, node_id: str, moment: datetime) -> list[VitalsView]:
        """Return the last reading of each minute after a moment, oldest first."""
        with self._store.reading() as connection:
            minute: sa.ColumnElement[Any] = sa.literal_column(_MINUTE_OF[connection.dialect.name])
            newest = sa.select(sa.func.max(vitals.c.at)).where(
                vitals.c.node_id == node_id, vitals.c.at > moment
            )
            query = _of(node_id).where(vitals.c.at.in_(newest.group_by(minute)))
            rows = connection.execute(query.order_by(vitals.c.at).limit(ROWS_MAX)).all()
        return [_view(row) for row in rows]


_MINUTE_OF = {"sqlite": "at / 60000000", "postgresql": "floor(extract(epoch FROM at) / 60)"}


def _of(node_id: str) -> sa.Select[Any]:
    return sa.select(vitals).where(vitals.c.node_id == node_id)


def _view(row: Any) -> VitalsView:
    document = msgspec.json.decode(row.document)
    return VitalsView(row.node_id, row.at, document["node"], tuple(document["workers"]))
