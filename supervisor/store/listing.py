"""What a list of tasks tells beside the tasks: how many there are, who canceled which, all of them.

Invariants: each question reads a bounded number of rows in a transaction of its own, so that a walk
over all of a filter never holds a snapshot for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from supervisor.model.states import State
from supervisor.store.engine import Store
from supervisor.store.reader import Reader, history_line, task_lines
from supervisor.store.schema import audit_log
from supervisor.store.search import PAGE_MAX, Counted, count
from supervisor.store.view import HistoryLine, TaskFilter, TaskLine, TaskPage

#: No more than this is counted for a page.
COUNT_MOST = 10_000


class Listing:
    """The views around a list of tasks of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def count(self, wanted: TaskFilter, most: int = COUNT_MOST) -> Counted:
        """Count the tasks of a filter wherever its page begins, no more than `most` of a state or
        type, looking at a bounded number of rows."""
        whole = replace(wanted, before_id=None, after_id=None)
        now = self._store.clock.now()
        with self._store.reading() as connection:
            return count(connection, whole, now, most)

    def cancellations(self, task_ids: Sequence[str]) -> dict[str, list[HistoryLine]]:
        """Return the moves to CANCELED of these tasks, by their ids; in one query."""
        query = (
            sa.select(audit_log)
            .where(audit_log.c.task_id.in_(task_ids), audit_log.c.to_state == State.CANCELED)
            .order_by(audit_log.c.task_id, audit_log.c.id)
        )
        found: dict[str, list[HistoryLine]] = {}
        if task_ids:
            with self._store.reading() as connection:
                for row in connection.execute(query):
                    found.setdefault(row.task_id, []).append(history_line(row))
        return found

    def of(self, task_ids: Sequence[str]) -> list[TaskLine]:
        """Return these tasks, of those there are."""
        with self._store.reading() as connection:
            return task_lines(connection, task_ids)

    def pages(self, wanted: TaskFilter, as_of: datetime) -> Iterator[TaskPage]:
        """Return all pages of a filter, from its first one on; ages in it count from `as_of`."""
        reader = Reader(self._store)
        wanted = replace(wanted, as_of=as_of, limit=PAGE_MAX)
        while True:
            page = reader.tasks(wanted)
            yield page
            if page.next_id is None:
                return
            if wanted.oldest_first:
                wanted = replace(wanted, after_id=page.next_id)
            else:
                wanted = replace(wanted, before_id=page.next_id)
