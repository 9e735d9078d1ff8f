"""The nodes of a store as people see them: who may still own something, then the latest ended.

Invariants: read-only; no node is left out that has not ended or whose attempts still read RUNNING,
however many there are; of all others the latest are read, and it can be asked how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from supervisor.model.states import State
from supervisor.store.engine import Store
from supervisor.store.schema import attempts, node_types, nodes, tasks
from supervisor.store.view import NodeView


def muster(store: Store, ended: int) -> list[NodeView]:
    """Return the nodes, those that have not ended first; so many of those that own nothing more."""
    same = (attempts.c.task_id == tasks.c.task_id) & (attempts.c.attempt == tasks.c.attempt)
    running = (
        sa.select(attempts.c.node_id, sa.func.count())
        .select_from(tasks.join(attempts, same))
        .where(tasks.c.state == State.RUNNING)
        .group_by(attempts.c.node_id)
    )
    latest = sa.select(nodes).order_by(nodes.c.started_at.desc())
    types = sa.select(node_types.c.node_id, node_types.c.type).order_by(node_types.c.type)
    is_over = nodes.c.ended_at.is_not(None)
    with store.reading() as connection:
        owned = {row[0]: row[1] for row in connection.execute(running)}
        known: dict[str, list[str]] = {}
        for node_id, name in connection.execute(types):
            known.setdefault(node_id, []).append(name)
        holding = sa.or_(~is_over, nodes.c.node_id.in_(list(owned)))
        found = [
            *connection.execute(latest.where(holding)),
            *connection.execute(latest.where(is_over, ~holding).limit(ended)),
        ]
        now = store.clock.now()
    by_id = {row.node_id: row for row in found}  # one may have ended between the two
    rows = sorted(by_id.values(), key=lambda row: row.ended_at is not None)
    return [_view(row, owned.get(row.node_id, 0), known.get(row.node_id, ()), now) for row in rows]


def count_ended(store: Store) -> int:
    """Return how many nodes have ended, ever."""
    query = sa.select(sa.func.count()).where(nodes.c.ended_at.is_not(None))
    with store.reading() as connection:
        return connection.execute(query).scalar_one()


def name_of(store: Store, node_id: str) -> str | None:
    """Return the name of a node, whenever it ran; None for one that never did."""
    query = sa.select(nodes.c.node_name).where(nodes.c.node_id == node_id)
    with store.reading() as connection:
        return connection.execute(query).scalar()


def _view(row: Any, running: int, types: Sequence[str], now: datetime) -> NodeView:
    until = row.lease_until
    return NodeView(
        node_id=row.node_id,
        node_name=row.node_name,
        pid=row.pid,
        start_ticks=row.start_ticks,
        boot_id=row.boot_id,
        pid_ns=row.pid_ns,
        version=row.version,
        listen=row.listen,
        started_at=row.started_at,
        ended_at=row.ended_at,
        note=row.note,
        running=running,
        lease_left_s=None if until is None else (until - now).total_seconds(),
        skew_s=row.skew_s or 0.0,
        types=tuple(types),
    )
