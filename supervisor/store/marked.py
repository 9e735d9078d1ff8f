"""Which params of a type nobody may be shown, as a node said when it announced the type; and those.

Read-only, over the primary key. Asked by whatever shows tasks to people.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import sqlalchemy as sa

from supervisor.store.engine import Store
from supervisor.store.schema import task_types, tasks

Marked = dict[str, frozenset[str]]
#: Longer params are not read for a list.
PARAMS_MOST = 64 * 1024


def marked_params(store: Store) -> Marked:
    """Return the names of the secret params of each type that has any."""
    query = sa.select(task_types.c.type, task_types.c.secret_params)
    query = query.where(task_types.c.secret_params.is_not(None))
    with store.reading() as connection:
        return {kind: frozenset(json.loads(names)) for kind, names in connection.execute(query)}


def params_of(store: Store, task_ids: Sequence[str]) -> dict[str, str | None]:
    """Return the params of these tasks as JSON; None for what is too long for a list."""
    is_short = sa.func.length(tasks.c.params) <= PARAMS_MOST
    query = sa.select(tasks.c.task_id, sa.case((is_short, tasks.c.params)))
    with store.reading() as connection:
        found = connection.execute(query.where(tasks.c.task_id.in_(task_ids)))
        return {row[0]: row[1] for row in found}
