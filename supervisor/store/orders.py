"""Orders to nodes as people give and read them.

Invariants: an order goes through the ledger, and the bell rings after its commit; what is open on a
node whose end is written down reads as answered, whoever looks. Called by the client for the pages
and the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from supervisor.model.order import UNANSWERED, Order
from supervisor.store.engine import Store
from supervisor.store.ledger import Ledger
from supervisor.store.schema import node_orders, nodes

#: Orders of one answer at most.
ROWS_MAX = 50


class OrderDesk:
    """Gives and reads orders of one store; `ring` says that there is one. Safe between threads."""

    def __init__(self, store: Store, ring: Callable[[], None]) -> None:
        self._store = store
        self._ring = ring

    def ask(
        self,
        node_id: str | None,
        kind: str,
        *,
        task_id: str | None = None,
        attempt: int | None = None,
        by: str,
        reason: str,
        seen_at: datetime | None = None,
    ) -> str:
        """Ask something of a node and return the order's id; one that is open is not doubled.

        `capture` names the task, and the attempt that was seen; it needs no node. Raises: Refused
        with what is true now when that attempt does not run there, the node has ended, or somebody
        else has asked something else of it after `seen_at`.
        """
        ledger = Ledger(self._store)
        now = ledger.clock.now()
        order = ledger.run(
            lambda tx: tx.orders.ask(
                node_id,
                kind,
                task_id=task_id,
                attempt=attempt,
                by=by,
                reason=reason,
                now=now,
                seen_at=seen_at,
            )
        )
        self._ring()
        return order.order_id

    def of_task(self, task_id: str) -> list[Order]:
        """Return what was asked about a task, newest first."""
        return self._read(node_orders.c.task_id == task_id)

    def of_node(self, node_id: str) -> list[Order]:
        """Return what was asked of a node, newest first."""
        return self._read(node_orders.c.node_id == node_id)

    def order(self, order_id: str) -> Order | None:
        """Return one order; None if there is none of this id."""
        return next(iter(self._read(node_orders.c.order_id == order_id)), None)

    def _read(self, wanted: sa.ColumnElement[bool]) -> list[Order]:
        query = (
            sa.select(*node_orders.c, nodes.c.ended_at)
            .select_from(node_orders.outerjoin(nodes, nodes.c.node_id == node_orders.c.node_id))
            .where(wanted)
            .order_by(node_orders.c.created_at.desc(), node_orders.c.order_id.desc())
            .limit(ROWS_MAX)
        )
        with self._store.reading() as connection:
            return [_order(row) for row in connection.execute(query)]


def _order(row: Any) -> Order:
    *fields, ended_at = row
    named = dict(zip((column.name for column in node_orders.c), fields, strict=True))
    order = Order(**named)
    if order.answered_at is None and ended_at is not None:
        return replace(order, answered_at=ended_at, answer=UNANSWERED)
    return order
