"""From rows to cold records and back to what people look at.

Secret kept here: which rows belong to a task, and how a row stands in a record: a dict without its
empty columns, times as ISO 8601. A column that a record does not have reads as empty, one that this
version does not know is left alone. Only the archive's modules use it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa

from supervisor.model.states import ENDED, State
from supervisor.store.archive_file import Record
from supervisor.store.reader import attempt_view, history_line, task_view
from supervisor.store.record import AutopsyRecord, Retired
from supervisor.store.schema import (
    Moment,
    attempt_logs,
    attempts,
    audit_log,
    autopsies,
    checkpoints,
    tasks,
)
from supervisor.store.view import AttemptView, CheckpointView, HistoryLine, TaskView

#: Rows of a table in one body, by the name they have there.
_PARTS: Mapping[str, sa.Table] = {
    "attempts": attempts,
    "logs": attempt_logs,
    "checkpoints": checkpoints,
    "audit": audit_log,
    "autopsies": autopsies,
}
#: Rows that one question may return.
PAGE = 1000

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """What decides whether a task may go."""

    task_id: str
    type: str
    state: State
    ended_at: datetime | None
    dedup_held: bool
    dedup_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdTask:
    """A task as its cold files have it, in the form the reader gives; `files` name them."""

    view: TaskView
    attempts: tuple[AttemptView, ...]
    history: tuple[HistoryLine, ...]
    autopsies: tuple[AutopsyRecord, ...]
    checkpoint: CheckpointView | None
    logs: Mapping[int, str]
    files: tuple[Path, ...]


# -- from the store


def ended_page(connection: sa.Connection, state: State, after: str) -> list[Ended]:
    """Return the next tasks of a state by their ids."""
    query = (
        _ends()
        .where(tasks.c.state == state, tasks.c.task_id > after)
        .order_by(tasks.c.task_id)
        .limit(PAGE)
    )
    return [_ended(row) for row in connection.execute(query)]


def _ends() -> sa.Select[Any]:
    column = tasks.c
    return sa.select(
        column.task_id,
        column.type,
        column.state,
        column.ended_at,
        column.dedup_held,
        column.dedup_until,
    )


def _ended(row: sa.Row[Any]) -> Ended:
    return Ended(
        task_id=row.task_id,
        type=row.type,
        state=State(row.state),
        ended_at=row.ended_at,
        dedup_held=row.dedup_held,
        dedup_until=row.dedup_until,
    )


def count_audit(connection: sa.Connection, ids: Sequence[str]) -> int:
    """Return how many audit rows these tasks have."""
    query = sa.select(sa.func.count()).where(audit_log.c.task_id.in_(ids))
    return connection.execute(query).scalar() or 0


def load_tasks(connection: sa.Connection, ids: Sequence[str]) -> list[Record]:
    """Return these tasks with everything that belongs to them; one that is gone is left out."""
    parts = [(name, _by_task(connection, table, ids)) for name, table in _PARTS.items()]
    query = sa.select(tasks).where(tasks.c.task_id.in_(ids))
    found = []
    # Sorted here, as below: told to sort, a planner may read the whole of a table in that order.
    for row in sorted(connection.execute(query), key=lambda row: str(row.task_id)):
        body: Row = {"kind": "task", "task": _kept(row), "audit": []}
        for name, rows in parts:
            if row.task_id in rows:
                body[name] = rows[row.task_id]
        ended_at = row.ended_at or row.created_at
        found.append(
            Record(row.task_id, "task", row.type, row.state, row.created_at, ended_at, body)
        )
    return found


def _by_task(
    connection: sa.Connection, table: sa.Table, ids: Sequence[str]
) -> dict[str, list[Row]]:
    # In the order in which they came: the last column of a key counts up, an autopsy has its time.
    last = table.c.created_at if table is autopsies else [*table.primary_key][-1]
    rows = connection.execute(sa.select(table).where(table.c.task_id.in_(ids)))
    found: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row._mapping[last]):
        found[row.task_id].append(_kept(row))
    return found


def newest_audit(connection: sa.Connection) -> tuple[int, str | None]:
    """Return id and task of the newest audit row, which stays: its time is the store's last."""
    column = audit_log.c
    query = sa.select(column.id, column.task_id).order_by(column.id.desc()).limit(1)
    row = connection.execute(query).first()
    return (0, None) if row is None else (row.id, row.task_id)


def audit_page(connection: sa.Connection, after: int, last: int) -> Sequence[sa.Row[Any]]:
    """Return the next audit rows by id, of all tasks and of none."""
    query = (
        sa.select(audit_log)
        .where(audit_log.c.id > after, audit_log.c.id < last)
        .order_by(audit_log.c.id)
        .limit(PAGE)
    )
    return connection.execute(query).all()


def audit_records(
    connection: sa.Connection, rows: Iterable[sa.Row[Any]], moves: Callable[[Ended], bool]
) -> list[Record]:
    """Return these rows as one record for each task, and one for those of no task.

    Left out are tasks that are alive, and those that are to be moved as a whole.
    """
    by_task: dict[str | None, list[sa.Row[Any]]] = defaultdict(list)
    for row in rows:
        by_task[row.task_id].append(row)
    ids = [task_id for task_id in by_task if task_id is not None]
    query = _ends().where(tasks.c.task_id.in_(ids))
    known = {row.task_id: _ended(row) for row in connection.execute(query)}
    found = []
    for task_id, its_rows in by_task.items():
        task = known.get(task_id or "")
        if task is None or (task.state in ENDED and not moves(task)):
            body = {"kind": "audit", "audit": [_kept(row) for row in its_rows]}
            type_, state = (None, None) if task is None else (task.type, str(task.state))
            first, last = its_rows[0].at, its_rows[-1].at
            found.append(Record(task_id, "audit", type_, state, first, last, body))
    return found


def _kept(row: sa.Row[Any]) -> Row:
    kept = {name: value for name, value in row._mapping.items() if value is not None}
    for name, value in kept.items():
        if isinstance(value, float) and math.isinf(value):
            kept[name] = "inf"  # a soft limit that never comes: JSON has no infinity
    return kept


# -- to the store's own verb


def retired(body: Mapping[str, Any]) -> Retired:
    """Return what identifies the rows of a whole task, so that nothing else is deleted."""
    task = body["task"]
    return Retired(
        task_id=task["task_id"],
        state=task["state"],
        attempt=task["attempt"],
        ended_at=_time(task.get("ended_at")),
        audit_ids=tuple(audit_ids(body)),
        autopsy_ids=tuple(row["autopsy_id"] for row in body.get("autopsies", ())),
    )


def audit_ids(body: Mapping[str, Any]) -> list[int]:
    """Return the ids of a record's audit rows."""
    return [row["id"] for row in body["audit"]]


# -- to people


def cold_task(
    bodies: Sequence[Mapping[str, Any]], files: Sequence[Path], own: Collection[HistoryLine] = ()
) -> ColdTask | None:
    """Return a task from its records, oldest first; the last whole one counts.

    `own` is what the store still has of its trail. None when no record is of the whole task.
    """
    whole = [body for body in bodies if body["kind"] == "task"]
    if not whole:
        return None
    last = whole[-1]
    runs = [_row(attempts, row) for row in last.get("attempts", ())]
    task = _row(tasks, last["task"])
    current = next((run for run in runs if run["attempt"] == task["attempt"]), _row(attempts, {}))
    saved = last.get("checkpoints", ())
    return ColdTask(
        view=task_view(SimpleNamespace(**{**current, **task})),
        attempts=tuple(attempt_view(SimpleNamespace(_mapping=run)) for run in runs),
        history=tuple(history_lines(bodies, own)),
        autopsies=tuple(
            AutopsyRecord(**_row(autopsies, row)) for row in reversed(last.get("autopsies", ()))
        ),
        checkpoint=_checkpoint(_row(checkpoints, saved[-1])) if saved else None,
        logs={row["attempt"]: row["log_tail"] for row in last.get("logs", ())},
        files=tuple(dict.fromkeys(files)),
    )


def history_lines(
    bodies: Iterable[Mapping[str, Any]], own: Iterable[HistoryLine] = ()
) -> list[HistoryLine]:
    """Return every audit row of these records and of the store once, in order."""
    lines = {line.audit_id: line for line in own}
    for body in bodies:
        for row in body["audit"]:
            lines.setdefault(row["id"], history_line(SimpleNamespace(**_row(audit_log, row))))
    return [lines[audit_id] for audit_id in sorted(lines)]


def _checkpoint(row: Row) -> CheckpointView:
    return CheckpointView(row["attempt"], row["at"], row["value"])


def _row(table: sa.Table, kept: Mapping[str, Any]) -> Row:
    return {column.name: _value(column, kept.get(column.name)) for column in table.columns}


def _value(column: sa.Column[Any], value: Any) -> Any:
    if isinstance(column.type, Moment):
        return _time(value)
    return math.inf if value == "inf" and isinstance(column.type, sa.Float) else value


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
