"""What people look at: read-only views of the store, each over an index.

Invariants: a reader never writes (its connections are query-only) and never waits for a writer; a
list is paged by id, newest first, and one page reads a bounded number of rows. The client, the web
pages and the command line use it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from supervisor.errors import Refused
from supervisor.model.outcome import StopMark
from supervisor.model.states import State
from supervisor.store.engine import Store
from supervisor.store.levels import waiting
from supervisor.store.muster import muster
from supervisor.store.record import AutopsyRecord, WorkerRecord
from supervisor.store.schema import (
    WHOLE_QUEUE,
    attempt_logs,
    attempts,
    audit_log,
    autopsies,
    checkpoints,
    queues,
    task_types,
    tasks,
    workers,
)
from supervisor.store.search import find_autopsies, find_ends, find_page
from supervisor.store.view import (
    AttemptView,
    AutopsyFilter,
    AutopsyPage,
    Backlog,
    CheckpointView,
    Counts,
    HistoryLine,
    NodeView,
    PauseView,
    QueueView,
    TaskFilter,
    TaskLine,
    TaskPage,
    TaskView,
    TypeView,
)

#: Of one task so many are shown: its latest attempts, the latest rows of its trail.
ATTEMPTS_SHOWN, HISTORY_SHOWN = 100, 1_000
_PREFIX = re.compile(r"(?:task_)?([0-9a-f]{8,32})\Z")
_PREFIX_MATCHES = 5
_LINE_COLUMNS = (
    "task_id", "type", "queue", "priority", "reason", "run_after", "created_at", "ended_at",
    "attempt", "retry_count", "crash_count", "quarantined", "dedup_key", "submitted_by",
)  # fmt: skip
_VIEW_COLUMNS = (
    "timeout", "soft_timeout", "max_retries", "dedup_held", "dedup_ttl", "dedup_until",
    "parent_id", "traceparent",
)  # fmt: skip
_ATTEMPT_COLUMNS = (
    "node_id", "worker_id", "claimed_at", "started_at", "error_type", "error", "verdict"
)  # fmt: skip


class Reader:
    """The views of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def store(self) -> Store:
        """The store that is looked at: its name, and its clock, which all times here are of."""
        return self._store

    def task(self, task_id: str) -> TaskView | None:
        """Return a task by its id or by a prefix of at least 8 hex digits; None if there is none.

        Raises: Refused when several tasks begin like this.
        """
        with self._store.reading() as connection:
            full = _full_id(connection, task_id)
            row = None if full is None else _task_rows(connection, [full], tasks.c.params).first()
            return None if row is None else task_view(row)

    def tasks(self, wanted: TaskFilter | None = None) -> TaskPage:
        """Return one page of tasks."""
        now = self._store.clock.now()
        with self._store.reading() as connection:
            found = find_page(connection, wanted or TaskFilter(), now)
            lines = {line.task_id: line for line in task_lines(connection, found.ids)}
        return TaskPage(
            tuple(lines[task_id] for task_id in found.ids),
            found.next_id,
            found.prev_id,
            found.looked,
        )

    def ids_ending(self, end: str) -> list[str]:
        """Return the ids that end like this, a few if they are many; reads every id there is.

        Shapes: `end` is hex digits. Among the newest million tasks of each state.
        """
        with self._store.reading() as connection:
            return find_ends(connection, end, _PREFIX_MATCHES)

    def attempts(self, task_id: str, latest: int | None = None) -> list[AttemptView]:
        """Return the runs of a task in order, or only so many of its latest."""
        query = sa.select(attempts).where(attempts.c.task_id == task_id)
        query = query.order_by(attempts.c.attempt.desc()).limit(latest)
        with self._store.reading() as connection:
            return [attempt_view(row) for row in reversed(connection.execute(query).all())]

    def history(self, task_id: str, latest: int | None = None) -> list[HistoryLine]:
        """Return the audit trail of a task in order, or only so many of its latest rows."""
        query = sa.select(audit_log).where(audit_log.c.task_id == task_id)
        query = query.order_by(audit_log.c.id.desc()).limit(latest)
        with self._store.reading() as connection:
            return [history_line(row) for row in reversed(connection.execute(query).all())]

    def audit(self, *, before_id: int | None = None, limit: int = 100) -> list[HistoryLine]:
        """Return the newest audit rows of everything, newest first, continued by `before_id`."""
        query = sa.select(audit_log).order_by(audit_log.c.id.desc()).limit(limit)
        if before_id is not None:
            query = query.where(audit_log.c.id < before_id)
        with self._store.reading() as connection:
            return [history_line(row) for row in connection.execute(query)]

    def checkpoint(self, task_id: str) -> CheckpointView | None:
        """Return the last checkpoint of a task, of whichever attempt; None if there is none."""
        query = (
            sa.select(checkpoints.c.attempt, checkpoints.c.at, checkpoints.c.value)
            .where(checkpoints.c.task_id == task_id)
            .order_by(checkpoints.c.attempt.desc())
            .limit(1)
        )
        with self._store.reading() as connection:
            row = connection.execute(query).first()
            return None if row is None else CheckpointView(*row)

    def log(self, task_id: str, attempt: int | None = None) -> str | None:
        """Return the kept log tail of an attempt, or of the latest one that has any."""
        query = (
            sa.select(attempt_logs.c.log_tail)
            .where(attempt_logs.c.task_id == task_id)
            .order_by(attempt_logs.c.attempt.desc())
            .limit(1)
        )
        if attempt is not None:
            query = query.where(attempt_logs.c.attempt == attempt)
        with self._store.reading() as connection:
            return connection.execute(query).scalar()

    def counts(self, now: datetime) -> Counts:
        """Count tasks by state, and those in the queue at `now`."""
        with self._store.reading() as connection:
            in_queue = sum(level.due for level in waiting(connection, now))
            return Counts(_by_state(connection), in_queue)

    def by_state(self) -> dict[State, int]:
        """Count tasks by state."""
        with self._store.reading() as connection:
            return _by_state(connection)

    def backlog_by_queue(self, now: datetime) -> list[Backlog]:
        """Count the live tasks of each queue that has any, by name."""
        with self._store.reading() as connection:
            return _backlog(connection, "queue", now)

    def backlog_by_type(self, now: datetime) -> list[Backlog]:
        """Count the live tasks of each type that has any, by name."""
        with self._store.reading() as connection:
            return _backlog(connection, "type", now)

    def queues(self, now: datetime) -> list[QueueView]:
        """Return every known queue with its pauses and live tasks, by name."""
        with self._store.reading() as connection:
            backlog = {line.name: line for line in _backlog(connection, "queue", now)}
            query = sa.select(queues).order_by(queues.c.queue, queues.c.priority)
            rows = connection.execute(query).all()
        by_name: dict[str, list[Any]] = {}
        for row in rows:
            by_name.setdefault(row.queue, []).append(row)
        return [_queue_view(name, levels, backlog.get(name)) for name, levels in by_name.items()]

    def pauses(self, queue: str, priority: int) -> list[PauseView]:
        """Return the pauses that hold back tasks of this queue and priority, the widest first."""
        query = (
            sa.select(queues)
            .where(queues.c.queue == queue, queues.c.priority.in_((WHOLE_QUEUE, priority)))
            .where(queues.c.paused)
            .order_by(queues.c.priority)
        )
        with self._store.reading() as connection:
            return [_pause_view(row) for row in connection.execute(query)]

    def every_pause(self) -> list[PauseView]:
        """Return all pauses in force, by queue."""
        query = sa.select(queues).where(queues.c.paused)
        query = query.order_by(queues.c.queue, queues.c.priority)
        with self._store.reading() as connection:
            return [_pause_view(row) for row in connection.execute(query)]

    def knows_queue(self, queue: str) -> bool:
        """Say whether a task or a pause has ever named this queue."""
        query = sa.select(queues.c.queue).where(queues.c.queue == queue).limit(1)
        with self._store.reading() as connection:
            return connection.execute(query).first() is not None

    def nodes(self, ended: int = 100) -> list[NodeView]:
        """Return the nodes, those that have not ended first; of those that own nothing the latest.

        `ended` is how many of the latter.
        """
        return muster(self._store, ended)

    def types(self) -> list[TypeView]:
        """Return every task type that a node has ever announced, by name."""
        query = sa.select(task_types).order_by(task_types.c.type)
        with self._store.reading() as connection:
            return [TypeView(*row[:4]) for row in connection.execute(query)]

    def workers(self, node_id: str | None = None, limit: int = 500) -> list[WorkerRecord]:
        """Return the workers (of one node), those that live first, then the latest born."""
        query = sa.select(workers).order_by(workers.c.started_at.desc(), workers.c.worker_id)
        if node_id is not None:
            query = query.where(workers.c.node_id == node_id)
        ended_at = workers.c.ended_at
        with self._store.reading() as connection:
            found = connection.execute(query.where(ended_at.is_(None)).limit(limit)).all()
            ended = query.where(ended_at.is_not(None)).limit(limit - len(found))
            found = [*found, *connection.execute(ended)]
        return [WorkerRecord(**row._mapping) for row in found]

    def autopsies(self, task_id: str | None = None, limit: int = 100) -> list[AutopsyRecord]:
        """Return the bundles (of one task), newest first."""
        query = sa.select(autopsies)
        if task_id is not None:
            query = query.where(autopsies.c.task_id == task_id)
        query = query.order_by(autopsies.c.created_at.desc()).limit(limit)
        with self._store.reading() as connection:
            return [AutopsyRecord(**row._mapping) for row in connection.execute(query)]

    def find_autopsies(self, wanted: AutopsyFilter) -> AutopsyPage:
        """Return one page of bundles, newest first."""
        with self._store.reading() as connection:
            return find_autopsies(connection, wanted)

    def autopsy(self, autopsy_id: str) -> AutopsyRecord | None:
        """Return one bundle's record; None if there is none."""
        query = sa.select(autopsies).where(autopsies.c.autopsy_id == autopsy_id)
        with self._store.reading() as connection:
            row = connection.execute(query).first()
            return None if row is None else AutopsyRecord(**row._mapping)


def _full_id(connection: sa.Connection, given: str) -> str | None:
    match = _PREFIX.match(given)
    if match is None:
        return None
    low = f"task_{match[1]}"
    query = (
        sa.select(tasks.c.task_id)
        .where(tasks.c.task_id >= low, tasks.c.task_id < low + "g")  # g sorts after any hex digit
        .order_by(tasks.c.task_id)
        .limit(_PREFIX_MATCHES)
    )
    found = list(connection.execute(query).scalars())
    if len(found) > 1:
        raise Refused(
            f"{given} is the beginning of several tasks: {', '.join(found)} …",
            remedy="Give more digits of the id.",
            matches=found,
        )
    return found[0] if found else None


def _current_attempt(join: Any, **how: Any) -> Any:
    same_task = attempts.c.task_id == tasks.c.task_id
    return join(attempts, same_task & (attempts.c.attempt == tasks.c.attempt), **how)


def _task_rows(
    connection: sa.Connection, ids: Sequence[str], *more: sa.Column[Any]
) -> sa.CursorResult[Any]:
    whole = (attempts.c.result,) if more else ()
    own = [column for column in tasks.c if column.name != "params"]
    theirs = [attempts.c[name] for name in _ATTEMPT_COLUMNS]
    query = (
        sa.select(*own, *theirs, *whole, *more)
        .select_from(_current_attempt(tasks.outerjoin))
        .where(tasks.c.task_id.in_(ids))
    )
    return connection.execute(query)


def _line_fields(row: Any) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in (*_LINE_COLUMNS, *_ATTEMPT_COLUMNS)},
        "state": State(row.state),
        "tags": tuple(json.loads(row.tags)) if row.tags else (),
        "mark": None
        if row.mark_kind is None
        else StopMark(row.mark_kind, row.mark_by, row.mark_reason, row.mark_at),
    }


def _task_line(row: Any) -> TaskLine:
    return TaskLine(**_line_fields(row))


def task_lines(connection: sa.Connection, ids: Sequence[str]) -> list[TaskLine]:
    """Return the tasks of these ids as a list shows them."""
    return [_task_line(row) for row in _task_rows(connection, ids)]


def task_view(row: Any) -> TaskView:
    """Return a row of a task and its current attempt as people see it."""
    own = {name: getattr(row, name) for name in _VIEW_COLUMNS}
    return TaskView(**_line_fields(row), **own, params_json=row.params, result_json=row.result)


def attempt_view(row: Any) -> AttemptView:
    """Return a row of `attempts` as people see it."""
    fields = dict(row._mapping)
    del fields["start_ticks"]
    fields["result_json"] = fields.pop("result")
    fields["usage"] = json.loads(fields["usage"]) if fields["usage"] else {}
    fields["outcome"] = None if fields["outcome"] is None else State(fields["outcome"])
    fields["effects_unknown"] = bool(fields["effects_unknown"])
    return AttemptView(**fields)


def history_line(row: Any) -> HistoryLine:
    """Return a row of `audit_log` as people see it."""
    return HistoryLine(
        audit_id=row.id,
        task_id=row.task_id,
        attempt=row.attempt,
        at=row.at,
        from_state=None if row.from_state is None else State(row.from_state),
        to_state=None if row.to_state is None else State(row.to_state),
        operator=row.operator,
        reason=row.reason,
        note=row.note,
    )


def _by_state(connection: sa.Connection) -> dict[State, int]:
    query = sa.select(tasks.c.state, sa.func.count()).group_by(tasks.c.state)
    found = {State(state): count for state, count in connection.execute(query)}
    return {state: found.get(state, 0) for state in State}


def _backlog(connection: sa.Connection, name: str, now: datetime) -> list[Backlog]:
    in_queue: Counter[str] = Counter()
    scheduled: Counter[str] = Counter()
    for level in waiting(connection, now):
        in_queue[getattr(level, name)] += level.due
        scheduled[getattr(level, name)] += level.every - level.due
    column = tasks.c[name]
    # Counted here: told to group, a planner reads another index, of all tasks, in its order.
    query = sa.select(column).where(tasks.c.state == State.RUNNING)
    running = Counter(connection.execute(query).scalars())
    return [
        Backlog(known, in_queue[known], scheduled[known], running[known])
        for known in sorted(in_queue.keys() | running.keys())
    ]


def _queue_view(name: str, levels: Sequence[Any], live: Backlog | None) -> QueueView:
    paused = [row for row in levels if row.paused]
    latest = max(paused or levels, key=lambda row: row.at)
    return QueueView(
        queue=name,
        paused=any(row.priority == WHOLE_QUEUE for row in paused),
        paused_priorities=tuple(row.priority for row in paused if row.priority != WHOLE_QUEUE),
        by=latest.by,
        reason=latest.reason,
        at=latest.at,
        in_queue=live.in_queue if live else 0,
        scheduled=live.scheduled if live else 0,
        running=live.running if live else 0,
    )


def _pause_view(row: Any) -> PauseView:
    return PauseView(
        queue=row.queue,
        priority=None if row.priority == WHOLE_QUEUE else row.priority,
        by=row.by or "",
        reason=row.reason or "",
        at=row.at,
    )
