"""The children of a task: what it has submitted while it ran.

Read-only, over an index of its own. Asked by the page of a task and the API.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from supervisor.model.states import State
from supervisor.store.engine import Store
from supervisor.store.schema import tasks

#: Children of one answer at most.
ROWS_MAX = 50


@dataclass(frozen=True, slots=True)
class Child:
    """A task that another one submitted."""

    task_id: str
    type: str
    state: State


def children_of(store: Store, task_id: str, limit: int = ROWS_MAX) -> list[Child]:
    """Return the children of a task, oldest first, at most that many."""
    column = tasks.c
    query = (
        sa.select(column.task_id, column.type, column.state)
        .where(column.parent_id == task_id)
        .order_by(column.task_id)
        .limit(limit)
    )
    with store.reading() as connection:
        return [Child(row[0], row[1], State(row[2])) for row in connection.execute(query)]
