"""Submitting: task, first audit row and outbox row, or the existing task of the same dedup key.

Invariants: a dedup key is held by at most one task; a deduplicated submit writes nothing; a batch
is refused as a whole before anything is written. Called through `Transaction.submit`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice, repeat
from typing import Any

import uuid_utils
from sqlalchemy import bindparam, select, text, update
from sqlalchemy.dialects.postgresql import insert

from supervisor.errors import Refused
from supervisor.model.record import Due, Submitted
from supervisor.model.spec import DEFAULT_QUEUE, TaskSpec
from supervisor.store.ledger.audit import UNKNOWN_OPERATOR
from supervisor.store.schema import WHOLE_QUEUE, audit_log, outbox, queues, task_types, tasks
from supervisor.store.session import Ordered, Session, id_names, ids, insert_into, ordered

EVENT_DUE = "task.due"
#: Of a larger batch so many are written at a time.
AT_ONCE = 128

Row = tuple[Any, ...]


def new_task_id() -> str:
    """Return a new id; later ids sort after earlier ones of this process."""
    return f"task_{uuid_utils.uuid7().hex}"


def submit(
    session: Session,
    specs: Sequence[TaskSpec],
    now: datetime,
    new_ids: Sequence[str] = (),
) -> list[Submitted]:
    """Write these tasks and answer for each in order.

    `new_ids` were just made by the caller, one for each spec; who names an id does not use his.
    Raises: Refused when a task_id exists with other content; nothing of the batch is written.
    """
    known = _Known(session, specs, now)
    given = iter(new_ids) if new_ids else repeat(None)
    pairs = zip(specs, given, strict=False)
    if not known.may_refuse:  # what is written can stay: a server works on it meanwhile
        answers: list[Submitted] = []
        while some := list(islice(pairs, AT_ONCE)):
            answers += _write(session, known, some, now)
        return answers
    return _write(session, known, list(pairs), now)


def _write(
    session: Session, known: _Known, pairs: Sequence[tuple[TaskSpec, str | None]], now: datetime
) -> list[Submitted]:
    """Answer for each, and write those that are new."""
    answers = [known.answer(spec, new_id) for spec, new_id in pairs]
    new, known.new = known.new, {}
    if not new:
        return answers
    session.write_many(release_expired, [(task_id,) for task_id in known.expired])
    known.expired = []
    queues_of = {task_id: known.queue_of(spec) for task_id, spec in new.items()}
    _insert(session, new, queues_of, now)
    return [
        Submitted(answer.task_id, True, _due(answer.task_id, new, queues_of, now))
        if answer.created
        else answer
        for answer in answers
    ]


def _due(
    task_id: str, new: Mapping[str, TaskSpec], queues_of: Mapping[str, str], now: datetime
) -> Due:
    spec = new[task_id]
    level = (queues_of[task_id], spec.priority, spec.type)
    return Due(level, task_id, (spec.run_after or now).timestamp())


def lock_keys(session: Session, keys: Sequence[str]) -> None:
    """Let nobody else give these keys away until this transaction ends.

    SQLite has one writer at a time. Elsewhere two submits could both find a key free.
    """
    if keys:
        session.lock(sorted(set(keys)))


class _Known:
    """What is already there for a batch, stored or earlier in the batch itself."""

    def __init__(self, session: Session, specs: Sequence[TaskSpec], now: datetime) -> None:
        self.new: dict[str, TaskSpec] = {}
        self.expired: list[str] = []
        self._holders: dict[str, str] = {}
        open_types = {spec.type for spec in specs if spec.queue is None}
        self._queue_of_type = dict(session.rows_of(_select_type_queues, open_types))
        wanted = list({spec.task_id for spec in specs if spec.task_id is not None})
        keys = [spec.dedup_key for spec in specs if spec.dedup_key is not None]
        lock_keys(session, [*keys, *wanted])
        #: Whether an answer may be to refuse the batch: then nothing is to be written before.
        self.may_refuse = bool(wanted)
        self._stored = {row[0]: row for row in session.rows_of(_select_same, wanted)}
        at = session.encode(now)
        for key, task_id, until in session.rows_of(select_holders, keys):
            if until is not None and until <= at:
                self.expired.append(task_id)
            else:
                self._holders[key] = task_id

    def queue_of(self, spec: TaskSpec) -> str:
        """Return the queue of a task: its own, else the one a node has announced for its type."""
        return spec.queue or self._queue_of_type.get(spec.type) or DEFAULT_QUEUE

    def answer(self, spec: TaskSpec, new_id: str | None) -> Submitted:
        """Say what becomes of one spec, and remember it if it is new."""
        task_id = spec.task_id
        if task_id is not None and self._exists(task_id, spec):
            return Submitted(task_id, created=False)
        if spec.dedup_key is not None:
            holder = self._holders.get(spec.dedup_key)
            if holder is not None:
                return Submitted(holder, created=False)
        if task_id is None:
            task_id = new_id or new_task_id()
        if spec.dedup_key is not None:
            self._holders[spec.dedup_key] = task_id
        self.new[task_id] = spec
        return Submitted(task_id, created=True)

    def _exists(self, task_id: str, spec: TaskSpec) -> bool:
        earlier = self.new.get(task_id)
        row = self._stored.get(task_id)
        if earlier is not None:
            same = earlier == spec
        elif row is not None:
            same = _content_of(row) == _content(spec, stored_queue=row[2])
        else:
            return False
        if not same:
            raise Refused(
                f"{task_id} exists with other content",
                remedy="Leave task_id out, or repeat the first submit unchanged.",
                task_id=task_id,
            )
        return True


def _content(spec: TaskSpec, stored_queue: str) -> tuple[Any, ...]:
    return (
        spec.type,
        spec.queue or stored_queue,  # what its type's queue was when it was first submitted
        spec.priority,
        spec.timeout,
        spec.soft_timeout,
        spec.max_retries,
        spec.dedup_key,
        spec.dedup_ttl,
        encode_tags(spec.tags),
        spec.parent_id,
        json.loads(spec.params_json),
    )


def _content_of(row: Any) -> tuple[Any, ...]:
    return (*row[1:-1], json.loads(row[-1]))


def encode_tags(tags: tuple[str, ...]) -> str | None:
    """Return the tags as the row keeps them: a JSON list, or None for none."""
    return json.dumps(tags, ensure_ascii=False) if tags else None


def _insert(
    session: Session, new: Mapping[str, TaskSpec], queues_of: Mapping[str, str], now: datetime
) -> None:
    at = session.encode(now)
    # Nobody looks first whether a queue is known: on a server an answer is a round trip more.
    queue_rows = [(name, WHOLE_QUEUE, False, at) for name in sorted(set(queues_of.values()))]
    session.write_together(
        (_insert_queue, queue_rows),
        (_insert_task, [_task_row(session, *one, queues_of[one[0]], at) for one in new.items()]),
        (_insert_audit, [_audit_row(*one, at) for one in new.items()]),
        (insert_event, [_event_row(session, *one, at) for one in new.items()]),
    )


def _task_row(session: Session, task_id: str, spec: TaskSpec, queue: str, at: Any) -> Row:
    key = spec.dedup_key
    return (
        task_id,
        spec.type,
        queue,
        spec.priority,
        at if spec.run_after is None else session.encode(spec.run_after),
        at,
        spec.timeout,
        spec.soft_timeout,
        spec.max_retries,
        key,
        key is not None,
        spec.dedup_ttl,
        spec.submitted_by,
        encode_tags(spec.tags) if spec.tags else None,
        spec.parent_id,
        spec.params_json,
        spec.traceparent,
    )


def _audit_row(task_id: str, spec: TaskSpec, at: Any) -> Row:
    return (task_id, at, spec.submitted_by or UNKNOWN_OPERATOR)


def _event_row(session: Session, task_id: str, spec: TaskSpec, at: Any) -> Row:
    run_after = at if spec.run_after is None else session.encode(spec.run_after)
    return (task_id, 0, EVENT_DUE, run_after, at)


def _select_same(size: int) -> Ordered:
    column = tasks.c
    return ordered(
        select(
            column.task_id,
            column.type,
            column.queue,
            column.priority,
            column.timeout,
            column.soft_timeout,
            column.max_retries,
            column.dedup_key,
            column.dedup_ttl,
            column.tags,
            column.parent_id,
            column.params,
        ).where(column.task_id.in_(ids(size))),
        *id_names(size),
    )


def select_holders(size: int) -> Ordered:
    """Return the query for key, holder and end of hold of dedup keys."""
    return ordered(
        select(tasks.c.dedup_key, tasks.c.task_id, tasks.c.dedup_until).where(
            text("dedup_held"), tasks.c.dedup_key.in_(ids(size))
        ),
        *id_names(size),
    )


def release_expired() -> Ordered:
    """Return the statement that takes its dedup key from a task."""
    return ordered(
        update(tasks)
        .values(dedup_held=text("false"))
        .where(tasks.c.task_id == bindparam("the_task")),
        "the_task",
    )


def _insert_task() -> Ordered:
    return insert_into(
        tasks,
        "task_id",
        "type",
        "queue",
        "priority",
        "run_after",
        "created_at",
        "timeout",
        "soft_timeout",
        "max_retries",
        "dedup_key",
        "dedup_held",
        "dedup_ttl",
        "submitted_by",
        "tags",
        "parent_id",
        "params",
        "traceparent",
        state="'PENDING'",
        reason="'submitted'",
        attempt="0",
        retry_count="0",
        crash_count="0",
        quarantined="false",
    )


def _insert_audit() -> Ordered:
    moved = {"attempt": "0", "to_state": "'PENDING'", "reason": "'submitted'"}
    return insert_into(audit_log, "task_id", "at", "operator", **moved)


def insert_event() -> Ordered:
    """Return the statement that announces a PENDING task."""
    return insert_into(outbox)


def _select_type_queues(size: int) -> Ordered:
    return ordered(
        select(task_types.c.type, task_types.c.queue).where(task_types.c.type.in_(ids(size))),
        *id_names(size),
    )


def _insert_queue() -> Ordered:
    columns = ("queue", "priority", "paused", "at")
    new = {name: bindparam(name, type_=queues.c[name].type) for name in columns}
    return ordered(insert(queues).values(new).on_conflict_do_nothing(), *columns)
