"""What a node writes about itself, its workers and their evidence, and what it asks in between.

Invariants: a checkpoint is fenced by its attempt; a published event is deleted in the transaction
that publishes it. Called through `Transaction` (and, the questions, through `Look`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, literal_column, select, text, update
from sqlalchemy.dialects.postgresql import insert

from supervisor.model.record import Due, Mark, NodeRecord, ProcessIdentity
from supervisor.store.ledger.audit import NoteReason, write_general_note
from supervisor.store.ledger.finish import mark_of
from supervisor.store.ledger.lease import own_time
from supervisor.store.ledger.orders import answer_for_the_gone
from supervisor.store.record import AutopsyRecord, Orphan, WorkerRecord
from supervisor.store.schema import (
    attempts,
    autopsies,
    checkpoints,
    node_types,
    nodes,
    outbox,
    task_types,
    tasks,
    workers,
)
from supervisor.store.session import (
    Ordered,
    Session,
    id_names,
    ids,
    insert_into,
    ordered,
    storable,
)


def checkpoint(
    session: Session, task_id: str, attempt: int, value_json: str, now: datetime
) -> bool:
    """Keep an attempt's latest checkpoint; False when the attempt is no longer the running one."""
    if session.row(_select_running, task_id, attempt) is None:
        return False
    session.write(_delete_checkpoint, task_id, attempt)
    session.write(_insert_checkpoint, task_id, attempt, storable(value_json), session.encode(now))
    return True


def register_node(session: Session, node: NodeRecord, lease_s: float | None) -> None:
    """Write down that this node runs, and for how long that holds without a word from it."""
    process = node.process
    session.write(
        _insert_node,
        node.node_id,
        node.node_name,
        process.pid,
        process.start_ticks,
        process.boot_id,
        process.pid_ns,
        node.version,
        node.listen,
        session.encode(node.started_at),
        *_lease(session, node.started_at, lease_s),
    )
    note = f"{node.node_name} ({node.node_id}), pid {process.pid}"
    write_general_note(session, node.started_at, NoteReason.NODE_STARTED, note)


def _lease(session: Session, now: datetime, lease_s: float | None) -> tuple[Any, Any]:
    """Return the end of a lease and when it was given."""
    if lease_s is None:
        return None, None
    return session.encode(now + timedelta(seconds=lease_s)), session.encode(now)


def end_node(session: Session, node_id: str, now: datetime, note: str) -> None:
    """Write down that a node has ended; its first end stands."""
    session.write(_delete_node_types, node_id)
    if session.write(_update_node_ended, session.encode(now), note, node_id):
        write_general_note(session, now, NoteReason.NODE_ENDED, f"{node_id}: {note}")
        answer_for_the_gone(session, node_id, now)  # after: nothing more is asked of it from here


def record_types(
    session: Session,
    types: Mapping[str, str | None],
    node_id: str,
    now: datetime,
    secrets: Mapping[str, Sequence[str]],
) -> None:
    """Write down which types a node knows, with the queue each names; what it knew before goes.

    `secrets` are the names of their params that nobody may be shown.
    """
    session.write(_update_types_left, node_id)
    session.write(_delete_node_types, node_id)
    names = sorted(types)  # in one order, so that two nodes never wait for each other
    at = session.encode(now)
    marked = {name: json.dumps(sorted(params)) for name, params in secrets.items() if params}
    rows = [(name, types[name], node_id, at, marked.get(name)) for name in names]
    session.write_many(_upsert_type, rows)
    session.write_many(_insert_node_type, [(node_id, name) for name in names])


def record_workers(session: Session, records: Sequence[WorkerRecord]) -> None:
    """Write down workers as they are now, the latest record of each standing."""
    latest = {record.worker_id: record for record in records}
    session.write_many(_delete_worker, [(worker_id,) for worker_id in latest])
    session.write_many(_insert_worker, [_encoded(session, record) for record in latest.values()])


def record_autopsy(session: Session, record: AutopsyRecord) -> None:
    """Write down a bundle; a later record of the same id replaces it."""
    session.write(_delete_autopsy, record.autopsy_id)
    session.write(_insert_autopsy, *_encoded(session, record))


def _encoded(session: Session, record: WorkerRecord | AutopsyRecord) -> tuple[Any, ...]:
    return tuple(
        session.encode(value) if isinstance(value, datetime) else value for value in astuple(record)
    )


def publish(session: Session, limit: int, before: datetime) -> list[Due]:
    """Take up to `limit` events of before that off the outbox; return whose task waits still.

    Whoever rings does so before the commit: rung twice is harmless, never rung costs a poll. The
    newest come first: the oldest are those that nodes have in hand now.
    """
    events = session.rows(_select_events, session.encode(before), limit)
    session.write_many(_delete_event, [event[:2] for event in events])
    waiting = session.rows_of(_select_waiting, (event[0] for event in events))
    return [
        Due((queue, priority, type_), task_id, session.decode(run_after).timestamp())
        for task_id, queue, priority, type_, run_after in waiting
    ]


def marks(session: Session, node_id: str) -> list[Mark]:
    """Return the stop marks on attempts of this node."""
    found = []
    for task_id, attempt, kind, by, reason, at in session.rows(_select_marks, node_id):
        mark = mark_of(session, kind, by, reason, at)
        if mark is not None:
            found.append(Mark(task_id=task_id, attempt=attempt, mark=mark))
    return found


def orphans(session: Session, node_id: str, now: datetime) -> list[Orphan]:
    """Return the RUNNING attempts of every other node, oldest claim first."""
    if session.has_leases:
        # Asked, not carried on from when it was last measured: it may have been set back since.
        now = own_time(session)
    return [_orphan(session, row, now) for row in session.rows(_select_orphans, node_id)]


def owned(session: Session, node_id: str, now: datetime) -> list[Orphan]:
    """Return the RUNNING attempts of this node as the store has them, oldest claim first."""
    return [_orphan(session, row, now) for row in session.rows(_select_owned, node_id)]


def _orphan(session: Session, row: Any, now: datetime) -> Orphan:
    return Orphan(
        task_id=row[0],
        attempt=row[1],
        type=row[2],
        queue=row[3],
        max_retries=row[4],
        mark=mark_of(session, *row[5:9]),
        node_id=row[9],
        node=node_of(session, row[16:26]) if row[16] is not None else None,
        worker_id=row[10],
        pid=row[11],
        start_ticks=row[12],
        claimed_at=session.decode(row[13]),
        started_at=session.decode(row[14]),
        timeout=row[15],
        lease_over_s=_over(session, row[26], now),
        traceparent=row[27],
        span=row[28],
    )


def _over(session: Session, lease_until: Any, now: datetime) -> float | None:
    """Return how long ago a lease ended; None where there is none."""
    if lease_until is None:
        return None
    until: datetime = session.decode(lease_until)
    return (now - until).total_seconds()


def unended_nodes(session: Session) -> list[NodeRecord]:
    """Return the nodes whose end nobody has written down, oldest first."""
    return [node_of(session, row) for row in session.rows(_select_unended)]


def node_of(session: Session, row: Any) -> NodeRecord:
    """Return the node of a row of `nodes`."""
    return NodeRecord(
        node_id=row[0],
        node_name=row[1],
        process=ProcessIdentity(pid=row[2], start_ticks=row[3], boot_id=row[4], pid_ns=row[5]),
        version=row[6],
        listen=row[7],
        started_at=session.decode(row[8]),
        ended_at=session.decode(row[9]),
    )


def _select_running() -> Ordered:
    return ordered(
        select(tasks.c.task_id).where(
            tasks.c.task_id == bindparam("the_task"),
            tasks.c.attempt == bindparam("the_attempt"),
            text("state = 'RUNNING'"),
        ),
        "the_task",
        "the_attempt",
    )


def _delete_checkpoint() -> Ordered:
    return ordered(
        delete(checkpoints).where(
            checkpoints.c.task_id == bindparam("the_task"),
            checkpoints.c.attempt == bindparam("the_attempt"),
        ),
        "the_task",
        "the_attempt",
    )


def _insert_checkpoint() -> Ordered:
    return insert_into(checkpoints)


def _insert_node() -> Ordered:
    return insert_into(
        nodes,
        "node_id",
        "node_name",
        "pid",
        "start_ticks",
        "boot_id",
        "pid_ns",
        "version",
        "listen",
        "started_at",
        "lease_until",
        "renewed_at",
    )


def _update_node_ended() -> Ordered:
    return ordered(
        update(nodes)
        .values(ended_at=bindparam("now"), note=bindparam("its_note"))
        .where(nodes.c.node_id == bindparam("the_node"), nodes.c.ended_at.is_(None)),
        "now",
        "its_note",
        "the_node",
    )


def _update_types_left() -> Ordered:
    return ordered(
        update(task_types)
        .values(node_id=text("NULL"))
        .where(task_types.c.node_id == bindparam("the_node")),
        "the_node",
    )


def _upsert_type() -> Ordered:
    columns = [column.name for column in task_types.c]
    new = {name: bindparam(name, type_=task_types.c[name].type) for name in columns}
    made = insert(task_types).values(new)
    said: dict[str, Any] = {name: made.excluded[name] for name in columns if name != "type"}
    # A node of an app from before the marks shows nothing that the others hide.
    said["secret_params"] = func.coalesce(made.excluded.secret_params, task_types.c.secret_params)
    return ordered(made.on_conflict_do_update(index_elements=["type"], set_=said), *columns)


def _insert_node_type() -> Ordered:
    return insert_into(node_types)


def _delete_node_types() -> Ordered:
    return ordered(
        delete(node_types).where(node_types.c.node_id == bindparam("the_node")), "the_node"
    )


def _delete_worker() -> Ordered:
    return ordered(
        delete(workers).where(workers.c.worker_id == bindparam("the_worker")), "the_worker"
    )


def _insert_worker() -> Ordered:
    return insert_into(workers)


def _delete_autopsy() -> Ordered:
    return ordered(
        delete(autopsies).where(autopsies.c.autopsy_id == bindparam("the_autopsy")), "the_autopsy"
    )


def _insert_autopsy() -> Ordered:
    return insert_into(autopsies)


def _select_events() -> Ordered:
    return ordered(
        select(outbox.c.task_id, outbox.c.event_id)
        .where(outbox.c.created_at <= bindparam("before"))
        .order_by(outbox.c.task_id.desc(), outbox.c.event_id.desc())
        .limit(bindparam("limit"))
        .offset(literal_column("0"))
        .with_for_update(skip_locked=True),  # another node is about to ring for those
        "before",
        "limit",
    )


def _select_waiting(size: int) -> Ordered:
    column = tasks.c
    return ordered(
        select(column.task_id, column.queue, column.priority, column.type, column.run_after).where(
            column.task_id.in_(ids(size)), text("/* + */state = 'PENDING'")
        ),
        *id_names(size),
    )


def _delete_event() -> Ordered:
    return ordered(
        delete(outbox).where(
            outbox.c.task_id == bindparam("the_task"), outbox.c.event_id == bindparam("the_event")
        ),
        "the_task",
        "the_event",
    )


def _select_marks() -> Ordered:
    return ordered(
        text(
            "SELECT tasks.task_id, tasks.attempt, mark_kind, mark_by, mark_reason, mark_at"
            " FROM tasks /* INDEXED BY tasks_marked */ JOIN attempts"
            " ON attempts.task_id = tasks.task_id AND attempts.attempt = tasks.attempt"
            " WHERE mark_kind IS NOT NULL AND state = 'RUNNING' AND attempts.node_id = :the_node"
        ),
        "the_node",
    )


def _select_unended() -> Ordered:
    return ordered(
        select(*_NODE_COLUMNS).where(nodes.c.ended_at.is_(None)).order_by(nodes.c.started_at)
    )


#: What `node_of` reads.
_NODE_COLUMNS = tuple(
    nodes.c[name]
    for name in (
        "node_id", "node_name", "pid", "start_ticks", "boot_id", "pid_ns", "version", "listen",
        "started_at", "ended_at",
    )
)  # fmt: skip


def _select_orphans() -> Ordered:
    its_node = attempts.c.node_id != bindparam("the_node")
    return ordered(_select_running_attempts().where(its_node), "the_node")


def _select_owned() -> Ordered:
    its_node = attempts.c.node_id == bindparam("the_node")
    return ordered(_select_running_attempts().where(its_node), "the_node")


def _select_running_attempts() -> Select[Any]:
    task, attempt, node = tasks.c, attempts.c, nodes.c
    its_attempt = (attempt.task_id == task.task_id) & (attempt.attempt == task.attempt)
    return (
        select(
            task.task_id,
            task.attempt,
            task.type,
            task.queue,
            task.max_retries,
            task.mark_kind,
            task.mark_by,
            task.mark_reason,
            task.mark_at,
            attempt.node_id,
            attempt.worker_id,
            attempt.pid,
            attempt.start_ticks,
            attempt.claimed_at,
            attempt.started_at,
            func.coalesce(attempt.timeout, task.timeout),
            *_NODE_COLUMNS,
            node.lease_until,
            task.traceparent,
            attempt.traceparent,
        )
        .select_from(
            tasks.join(attempts, its_attempt).outerjoin(nodes, node.node_id == attempt.node_id)
        )
        .where(text("state = 'RUNNING'"))
        .order_by(attempt.claimed_at, task.task_id)
    )
