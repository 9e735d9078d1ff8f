"""Which params of a type nobody may be shown: as a node said when it announced the type.

Read-only, over the primary key. Asked by whatever shows tasks to people.
"""

from __future__ import annotations

import json

import sqlalchemy as sa

from supervisor.store.engine import Store
from supervisor.store.schema import task_types

Marked = dict[str, frozenset[str]]


def marked_params(store: Store) -> Marked:
    """Return the names of the secret params of each type that has any."""
    query = sa.select(task_types.c.type, task_types.c.secret_params)
    query = query.where(task_types.c.secret_params.is_not(None))
    with store.reading() as connection:
        return {kind: frozenset(json.loads(names)) for kind, names in connection.execute(query)}
