"""Claiming: PENDING → RUNNING for the best due tasks, with attempt row and audit.

Invariant: who claims holds its lease; each owner gets at most one task, each task one owner.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, literal_column, select, text, update
from sqlalchemy.sql.dml import ReturningUpdate

from supervisor.model.record import Claim, Owner, Started
from supervisor.model.states import State, require_legal
from supervisor.model.trace import Trace
from supervisor.store.ledger.audit import SUPERVISOR
from supervisor.store.ledger.due import OF_LEVEL, View, best_due, oldest_due
from supervisor.store.schema import (
    attempts,
    audit_log,
    checkpoints,
    nodes,
    outbox,
    tasks,
)
from supervisor.store.session import Ordered, Session, id_names, ids, insert_into, ordered


def claim(
    session: Session,
    owners: Sequence[Owner],
    *,
    node_id: str,
    queues: Sequence[str] | None,
    types: Collection[str],
    only: Collection[str] | None = None,
    free: int = 0,
    tips: Sequence[str] = (),
    scan: bool = True,
    trace: Trace | None = None,
    now: datetime,
) -> list[Claim]:
    """Give each owner at most one due task: highest priority first, then longest due.

    With `only`, owners after the first `free` take no other types, and none of these may overtake a
    task of another: the first such ends the list. `tips` are ids that the bell named; without
    `scan` the table is not searched for others. `trace` gives the attempts their spans.
    """
    if not owners:
        return []
    lapsed = session.ask(_select_lapsed, node_id) if session.has_leases else None
    view = View(session, queues, types, tips, scan)
    if lapsed is not None and lapsed():
        return []  # it was sent before a link was cut: others may own by now what this node runs
    rows = _taken(session, view, len(owners), types if only is None else only, free, now)
    claims = [
        _claim_of(session, row, owner, now, trace) for row, owner in zip(rows, owners, strict=False)
    ]
    if claims:
        _write(session, claims, owners, node_id, now)
    return claims


def _taken(
    session: Session, view: View, limit: int, allowed: Collection[str], free: int, now: datetime
) -> list[Any]:
    """Move the best of what is due to RUNNING and return the rows, best first.

    All but the first `free` must be of an allowed type.
    """
    require_legal(State.PENDING, State.RUNNING)
    at = session.encode(now)
    named, due = view.named(at), view.due(at)
    if len(due) == 1 and not named:  # no other can be better: they are found and moved in one
        (level,) = due
        most = limit if level[2] in allowed else free
        return sorted(session.rows(_claim_level, *level, at, most), key=_when_due) if most else []
    found = best_due(session, named, due, limit, free, at, allowed)
    chosen: list[str] = []
    for _, _, task_id, type_ in found[:limit]:
        if len(chosen) >= free and type_ not in allowed:
            break
        chosen.append(task_id)
    rows = {row[0]: row for row in session.rows_of(_claim_rows, chosen)}
    return [rows[task_id] for task_id in chosen]


def _when_due(row: Any) -> tuple[Any, str]:
    return row[4], row[0]


def _claim_of(
    session: Session, row: Any, owner: Owner, now: datetime, trace: Trace | None
) -> Claim:
    attempt = row[10]
    return Claim(
        task_id=row[0],
        attempt=attempt,
        type=row[1],
        queue=row[2],
        params_json=row[13],
        priority=row[3],
        timeout=row[5],
        soft_timeout=row[6],
        max_retries=row[7],
        retry_count=row[8],
        crash_count=row[9],
        run_after=session.decode(row[4]),
        claimed_at=now,
        worker_id=owner.worker_id,
        checkpoint_json=_last_checkpoint(session, row[0]) if attempt > 1 else None,
        submitted_by=row[11],
        dedup_key=row[12],
        tags=decode_tags(row[14]),
        traceparent=row[15],
        span=None if trace is None else trace(row[0], attempt, row[1], row[15]),
    )


def decode_tags(stored: str | None) -> tuple[str, ...]:
    """Return the tags of a row."""
    return tuple(json.loads(stored)) if stored else ()


def _last_checkpoint(session: Session, task_id: str) -> str | None:
    row = session.row(_select_checkpoint, task_id)
    return None if row is None else row[0]


def _write(
    session: Session, claims: list[Claim], owners: Sequence[Owner], node_id: str, now: datetime
) -> None:
    at = session.encode(now)
    session.write_many(
        _insert_attempt,
        [
            (
                claim.task_id,
                claim.attempt,
                node_id,
                owner.worker_id,
                owner.pid,
                owner.start_ticks,
                at,
                claim.span,
            )
            for claim, owner in zip(claims, owners, strict=False)
        ],
    )
    session.write_many(
        _insert_audit, [(claim.task_id, claim.attempt, at, node_id) for claim in claims]
    )
    session.rows_of(delete_events, (claim.task_id for claim in claims))


def started(session: Session, starts: Sequence[Started]) -> None:
    """Note that these attempts run their first line, under these limits."""
    session.write_many(
        _update_started,
        [
            (
                session.encode(start.started_at),
                start.timeout,
                start.soft_timeout,
                start.task_id,
                start.attempt,
            )
            for start in starts
        ],
    )


def _select_lapsed() -> Ordered:
    lapsed = nodes.c.lease_until <= func.clock_timestamp()
    return ordered(
        select(nodes.c.node_id).where(nodes.c.node_id == bindparam("the_node"), lapsed), "the_node"
    )


def _claim_rows(size: int) -> Ordered:
    these = tasks.c.task_id.in_(ids(size)), text("/* + */state = 'PENDING'")
    return ordered(_moved().where(*these), *id_names(size))


def _claim_level() -> Ordered:
    these = oldest_due().cte("these")
    return ordered(_moved().where(tasks.c.task_id == these.c.task_id), *OF_LEVEL)


def _moved() -> ReturningUpdate[Any]:
    column = tasks.c
    return (
        update(tasks)
        .values(state=text("'RUNNING'"), reason=text("'claimed'"), attempt=text("attempt + 1"))
        .returning(
            column.task_id,
            column.type,
            column.queue,
            column.priority,
            column.run_after,
            column.timeout,
            column.soft_timeout,
            column.max_retries,
            column.retry_count,
            column.crash_count,
            column.attempt,
            column.submitted_by,
            column.dedup_key,
            column.params,
            column.tags,
            column.traceparent,
        )
    )


def _select_checkpoint() -> Ordered:
    return ordered(
        select(checkpoints.c.value)
        .where(checkpoints.c.task_id == bindparam("the_task"))
        .order_by(checkpoints.c.attempt.desc())
        .limit(literal_column("1"))
        .offset(literal_column("0")),
        "the_task",
    )


def _insert_attempt() -> Ordered:
    return insert_into(
        attempts,
        "task_id",
        "attempt",
        "node_id",
        "worker_id",
        "pid",
        "start_ticks",
        "claimed_at",
        "traceparent",
    )


def _insert_audit() -> Ordered:
    moved = {"from_state": "'PENDING'", "to_state": "'RUNNING'"}
    why = {"operator": f"'{SUPERVISOR}'", "reason": "'claimed'"}
    return insert_into(audit_log, "task_id", "attempt", "at", "note", **moved, **why)


def delete_events(size: int) -> Ordered:
    """Return the statement that takes back what announces these tasks."""
    return ordered(delete(outbox).where(outbox.c.task_id.in_(ids(size))), *id_names(size))


def _update_started() -> Ordered:
    return ordered(
        update(attempts)
        .values(
            started_at=bindparam("at"),
            timeout=bindparam("hard"),
            soft_timeout=bindparam("soft"),
        )
        .where(
            attempts.c.task_id == bindparam("the_task"),
            attempts.c.attempt == bindparam("the_attempt"),
            attempts.c.ended_at.is_(None),
        ),
        "at",
        "hard",
        "soft",
        "the_task",
        "the_attempt",
    )
