"""Orders to nodes: written down by whoever asks, read by the node they are for, answered once.

Invariants: nothing is asked of a node whose end is written down, and that end answers what is open;
the same order is not written twice while it is open; evidence is asked of the attempt that runs.
Each order and each answer has its note in the trail. Called through `Transaction` and `Look`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import uuid_utils
from sqlalchemy import bindparam, literal_column, select, text, update

from supervisor.clock import stamp
from supervisor.errors import Refused, UnknownTask
from supervisor.model.order import UNANSWERED, Order, OrderKind
from supervisor.model.states import State
from supervisor.store.ledger.audit import SUPERVISOR, NoteReason, storable_note, write_note
from supervisor.store.ledger.intervene import Act
from supervisor.store.schema import attempts, node_orders, nodes, tasks
from supervisor.store.session import Ordered, Session, insert_into, ordered

_ASKED = {
    OrderKind.CAPTURE: NoteReason.CAPTURE_ORDERED,
    OrderKind.DRAIN: NoteReason.NODE_DRAIN_ORDERED,
    OrderKind.UNDRAIN: NoteReason.NODE_UNDRAIN_ORDERED,
    OrderKind.STOP: NoteReason.NODE_STOP_ORDERED,
}
_NODES = "`supervisor nodes` lists those that run."


class Orders:
    """The verbs about orders, within one open transaction."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def ask(
        self,
        node_id: str | None,
        kind: str,
        *,
        task_id: str | None = None,
        attempt: int | None = None,
        by: str,
        reason: str,
        now: datetime,
        seen_at: datetime | None = None,
    ) -> Order:
        """Write down what is asked of a node; the same that is open already is returned instead.

        Evidence of an attempt is asked of its own node when none is named. Raises: Refused when
        operator or reason is blank, the node has ended, or the attempt does not run there, or
        somebody else has asked something else of the node after `seen_at`; UnknownTask.
        """
        act, wanted = Act(by, reason, now), _kind(kind)
        if (task_id is None) is (wanted is OrderKind.CAPTURE):
            raise Refused(
                f"{wanted} names a task if, and only if, it is {OrderKind.CAPTURE}",
                remedy="Ask for evidence of a task, or for anything else of a node.",
            )
        if task_id is not None:
            node_id, attempt = self._place(task_id, attempt, node_id)
        node_id = node_id or ""
        self._require_node(node_id)
        if seen_at is not None:
            self._require_seen(node_id, wanted, by, seen_at)
        for open_one in reversed(open_orders(self._session, node_id)):
            if (open_one.kind, open_one.task_id, open_one.attempt) == (wanted, task_id, attempt):
                return open_one
            if {open_one.kind, wanted} == {OrderKind.DRAIN, OrderKind.UNDRAIN}:
                break  # the newest of them says the contrary
        return self._write(node_id, wanted, task_id, attempt, act)

    def answer(self, order_id: str, answer: str, now: datetime) -> bool:
        """Write down what became of an order; False when it is answered already."""
        found = self._session.row(_select_order, order_id)
        return found is not None and _answer(
            self._session, _order(self._session, found), answer, now
        )

    def _place(self, task_id: str, attempt: int | None, node_id: str | None) -> tuple[str, int]:
        """Return where the attempt runs, and which it is."""
        row = self._session.row(_select_place, task_id)
        if row is None:
            raise UnknownTask(f"no task {task_id}", remedy="Check the id and the store.")
        state, running, its_node = row
        if state != State.RUNNING:
            raise Refused(
                f"{task_id} is {state}: nothing of it runs",
                remedy="Evidence is taken of what runs; its bundles, if it has any, stay.",
            )
        if attempt not in (None, running):
            raise Refused(
                f"attempt {attempt} of {task_id} is over: attempt {running} runs now",
                remedy="Look at the task again, then ask about the attempt that runs.",
            )
        if node_id not in (None, its_node):
            raise Refused(
                f"{task_id} runs on {its_node}, not on {node_id}", remedy="Ask that node."
            )
        return its_node, running

    def _require_node(self, node_id: str) -> None:
        self._session.lock([f"orders:{node_id}"])
        row = self._session.row(_select_node, node_id)
        if row is None:
            raise Refused(f"no node {node_id}", remedy=_NODES)
        if row[0] is not None:
            raise Refused(f"node {node_id} has ended", remedy=_NODES)

    def _require_seen(self, node_id: str, kind: OrderKind, by: str, seen_at: datetime) -> None:
        row = self._session.row(_select_newest, node_id)
        if row is None or row[0] == kind or row[1] == by:
            return
        at = self._session.decode(row[2])
        if at > seen_at:
            raise Refused(
                f"{row[1]} asked node {node_id} to {row[0]} at {stamp(at)}",
                remedy="Look at the node again once it has answered.",
            )

    def _write(
        self, node_id: str, kind: OrderKind, task_id: str | None, attempt: int | None, act: Act
    ) -> Order:
        order = Order(
            order_id=f"order_{uuid_utils.uuid7().hex}",
            node_id=node_id,
            kind=kind,
            task_id=task_id,
            attempt=attempt,
            operator=act.by,
            reason=act.reason,
            created_at=act.now,
        )
        self._session.write(
            _insert_order,
            *(order.order_id, node_id, str(kind), task_id, attempt, act.by, act.reason),
            self._session.encode(act.now),
        )
        told = act.reason if task_id is not None else f"{node_id}: {act.reason}"
        _note(self._session, order, act.by, _ASKED[kind], told, act.now)
        return order


def open_orders(session: Session, node_id: str) -> list[Order]:
    """Return what a node has not answered yet, oldest first."""
    return [_order(session, row) for row in session.rows(_select_open, node_id)]


def answer_for_the_gone(session: Session, node_id: str, now: datetime) -> None:
    """Answer what a node whose end is being written has left open."""
    for order in open_orders(session, node_id):
        _answer(session, order, UNANSWERED, now)


def _answer(session: Session, order: Order, answer: str, now: datetime) -> bool:
    told = storable_note(answer)
    if not session.write(_update_answer, session.encode(now), told, order.order_id):
        return False
    said = f"{order.kind}: {told}"
    if order.task_id is None:
        said = f"{order.node_id}: {said}"
    _note(session, order, SUPERVISOR, NoteReason.ORDER_ANSWERED, said, now)
    return True


def _note(
    session: Session, order: Order, by: str, reason: NoteReason, told: str, now: datetime
) -> None:
    write_note(
        session, now,
        task_id=order.task_id, attempt=order.attempt, operator=by, reason=reason, text=told,
    )  # fmt: skip


def _kind(kind: str) -> OrderKind:
    if kind not in tuple(OrderKind):
        raise Refused(f"no order is called {kind!r}", remedy=f"One of {', '.join(OrderKind)}.")
    return OrderKind(kind)


def _order(session: Session, row: Any) -> Order:
    return Order(
        order_id=row[0],
        node_id=row[1],
        kind=row[2],
        task_id=row[3],
        attempt=row[4],
        operator=row[5],
        reason=row[6],
        created_at=session.decode(row[7]),
    )


def _insert_order() -> Ordered:
    return insert_into(node_orders, *(column.name for column in _OPEN_COLUMNS))


def _update_answer() -> Ordered:
    return ordered(
        update(node_orders)
        .values(answered_at=bindparam("now"), answer=bindparam("told"))
        .where(
            node_orders.c.order_id == bindparam("the_order"), node_orders.c.answered_at.is_(None)
        ),
        "now",
        "told",
        "the_order",
    )


def _select_order() -> Ordered:
    wanted = node_orders.c.order_id == bindparam("the_order")
    return ordered(select(*_OPEN_COLUMNS).where(wanted), "the_order")


def _select_open() -> Ordered:
    column = node_orders.c
    return ordered(
        select(*_OPEN_COLUMNS)
        .where(column.node_id == bindparam("the_node"), text("answered_at IS NULL"))
        .order_by(column.created_at, column.order_id),
        "the_node",
    )


def _select_newest() -> Ordered:
    column = node_orders.c
    return ordered(
        select(column.kind, column.operator, column.created_at)
        .where(column.node_id == bindparam("the_node"), column.task_id.is_(None))
        .order_by(column.created_at.desc(), column.order_id.desc())
        .limit(literal_column("1"))
        .offset(literal_column("0")),
        "the_node",
    )


def _select_node() -> Ordered:
    # Held where rows can be: its end waits for us, and then answers what we write.
    query = select(nodes.c.ended_at).where(nodes.c.node_id == bindparam("the_node"))
    return ordered(query.with_for_update(read=True), "the_node")


def _select_place() -> Ordered:
    joined = tasks.outerjoin(
        attempts,
        (attempts.c.task_id == tasks.c.task_id) & (attempts.c.attempt == tasks.c.attempt),
    )
    return ordered(
        select(tasks.c.state, tasks.c.attempt, attempts.c.node_id)
        .select_from(joined)
        .where(tasks.c.task_id == bindparam("the_task")),
        "the_task",
    )


#: What an order is read from, in this order, as long as it is open.
_OPEN_COLUMNS = tuple(
    node_orders.c[name]
    for name in (
        "order_id", "node_id", "kind", "task_id", "attempt", "operator", "reason", "created_at",
    )
)  # fmt: skip
