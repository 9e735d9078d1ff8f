"""Forgetting what a cold file holds.

Invariants: a task goes only as it was copied: still ended, by the same attempt at the same time; of
its trail and evidence only the rows that were copied go. What was written after the copy stays, and
so does the newest audit row of all: its time is the store's last, and its number is never given
again. Called through `Transaction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Table, bindparam, delete, literal_column, select

from supervisor.model.states import ENDED, State
from supervisor.store.record import Retired
from supervisor.store.schema import (
    attempt_logs,
    attempts,
    audit_log,
    autopsies,
    checkpoints,
    node_orders,
    outbox,
    tasks,
)
from supervisor.store.session import Ordered, Session, id_names, ids, ordered


def forget(session: Session, copies: Sequence[Retired]) -> list[str]:
    """Delete these tasks with what was copied of them; return the ids of those unchanged."""
    rows = {row[0]: row[1:] for row in session.rows_of(_select_ends, _ids(copies))}
    newest = _newest(session)
    same = [
        copy
        for copy in copies
        if _is_same(session, copy, rows.get(copy.task_id)) and newest not in copy.audit_ids
    ]
    task_ids = _ids(same)
    for build in _OF_TASKS:
        session.rows_of(build, task_ids)
    session.rows_of(_delete_autopsies, [one for copy in same for one in copy.autopsy_ids])
    session.rows_for(_delete_audit, [(one,) for copy in same for one in copy.audit_ids])
    return task_ids


def forget_audit(session: Session, audit_ids: Sequence[int]) -> None:
    """Delete these audit rows, but for the newest of all."""
    newest = _newest(session)
    session.rows_for(_delete_audit, [(one,) for one in audit_ids if one != newest])


def _newest(session: Session) -> int | None:
    row = session.row(_select_newest)
    return None if row is None else row[0]


def _ids(copies: Sequence[Retired]) -> list[str]:
    return [copy.task_id for copy in copies]


def _is_same(session: Session, copy: Retired, row: tuple[Any, ...] | None) -> bool:
    if row is None:
        return False
    state, attempt, ended_at = row
    now = (state, attempt, session.decode(ended_at))
    return State(state) in ENDED and now == (copy.state, copy.attempt, copy.ended_at)


def _select_newest() -> Ordered:
    column = audit_log.c.id
    return ordered(
        select(column)
        .order_by(column.desc())
        .limit(literal_column("1"))
        .offset(literal_column("0"))
    )


def _select_ends(size: int) -> Ordered:
    # Locked where rows can be: a rerun must wait until the task is gone, and then finds none.
    column = tasks.c
    query = select(column.task_id, column.state, column.attempt, column.ended_at)
    return ordered(query.where(column.task_id.in_(ids(size))).with_for_update(), *id_names(size))


def _of_tasks(table: Table, size: int) -> Ordered:
    return ordered(delete(table).where(table.c.task_id.in_(ids(size))), *id_names(size))


def _delete_tasks(size: int) -> Ordered:
    return _of_tasks(tasks, size)


def _delete_attempts(size: int) -> Ordered:
    return _of_tasks(attempts, size)


def _delete_logs(size: int) -> Ordered:
    return _of_tasks(attempt_logs, size)


def _delete_checkpoints(size: int) -> Ordered:
    return _of_tasks(checkpoints, size)


def _delete_due(size: int) -> Ordered:
    return _of_tasks(outbox, size)


def _delete_orders(size: int) -> Ordered:
    return _of_tasks(node_orders, size)


_OF_TASKS = (
    _delete_tasks,
    _delete_attempts,
    _delete_logs,
    _delete_checkpoints,
    _delete_due,
    _delete_orders,
)


def _delete_autopsies(size: int) -> Ordered:
    return ordered(delete(autopsies).where(autopsies.c.autopsy_id.in_(ids(size))), *id_names(size))


def _delete_audit(size: int) -> Ordered:
    names = id_names(size)
    numbers = [bindparam(name, type_=BigInteger) for name in names]
    return ordered(delete(audit_log).where(audit_log.c.id.in_(numbers)), *names)
