"""Claiming: PENDING → RUNNING for the best due tasks, with attempt row and audit.

Secret kept here: how due work is found. The levels (queue, priority, type) that have PENDING rows
are found by skipping through one partial index, then each is sought for its oldest due rows: the
cost grows with levels and claims, never with future rows, unknown types or rows that ended.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, delete, func, literal_column, select, text, update

from supervisor.model.record import Claim, Level, Owner, Started
from supervisor.model.states import State, require_legal
from supervisor.store.ledger.audit import SUPERVISOR, insert_audit
from supervisor.store.schema import (
    WHOLE_QUEUE,
    attempts,
    checkpoints,
    nodes,
    outbox,
    queues,
    tasks,
)
from supervisor.store.session import Ordered, Session, id_names, ids, insert_into, ordered

#: What the table shows to be due longer than what the bell named, but by less than this, is likely
#: to have been named to another node a moment ago: it is left to that one.
UNDERWAY = timedelta(seconds=2)

#: Minus priority, run_after as the backend has it, task id, type: they sort as they are claimed.
_Place = tuple[int, Any, str, str]


def claim(
    session: Session,
    owners: Sequence[Owner],
    *,
    node_id: str,
    queues: Sequence[str] | None,
    types: Collection[str],
    only: Collection[str] | None = None,
    tips: Sequence[str] = (),
    scan: bool = True,
    now: datetime,
) -> list[Claim]:
    """Give each owner at most one due task: highest priority first, then longest due.

    With `only`, none of these types may overtake a task of another: the first such ends the list.
    `tips` are ids that the bell named; without `scan` the table is not searched for others.
    """
    if not owners:
        return []
    if session.has_leases and session.row(_select_lapsed, node_id) is not None:
        return []  # it was sent before a link was cut: others may own by now what this node runs
    allowed = types if only is None else only
    limit = len(owners)
    named = _tipped(session, tips, queues, types, now) if tips else []
    found = _found(session, named, queues, types, limit, now, allowed) if scan else named
    chosen: list[str] = []
    for _, _, task_id, type_ in found[:limit]:
        if type_ not in allowed:
            break
        chosen.append(task_id)
    if not chosen:
        return []
    require_legal(State.PENDING, State.RUNNING)
    rows = {row[0]: row for row in session.rows_of(_claim_rows, chosen)}
    claims = [
        _claim_of(session, rows[task_id], owner, now)
        for task_id, owner in zip(chosen, owners, strict=False)
    ]
    _write(session, claims, owners, node_id, now)
    return claims


def paused(session: Session) -> frozenset[tuple[str, int]]:
    """Return what is paused: (queue, priority), or (queue, -1) for the queue as a whole."""
    return frozenset((queue, priority) for queue, priority in session.rows(_select_paused))


def _may_run(
    level: Level,
    wanted: Sequence[str] | None,
    types: Collection[str],
    held: frozenset[tuple[str, int]],
) -> bool:
    queue, priority, type_ = level
    return (
        type_ in types
        and (wanted is None or queue in wanted)
        and (queue, priority) not in held
        and (queue, WHOLE_QUEUE) not in held
    )


def claimable_levels(
    session: Session, wanted: Sequence[str] | None, types: Collection[str]
) -> dict[Level, Any]:
    """Return the levels with PENDING rows that this node may run, with the first time due."""
    held = paused(session)
    found = ((tuple(row[:3]), row[3]) for row in session.rows(_select_levels))
    return {level: first for level, first in found if _may_run(level, wanted, types, held)}


def next_due(
    session: Session, wanted: Sequence[str] | None, types: Collection[str]
) -> datetime | None:
    """Return when the first claimable task is (or was) due, or None when there is none."""
    due = claimable_levels(session, wanted, types).values()
    found: datetime | None = session.decode(min(due)) if due else None
    return found


def _found(
    session: Session,
    named: Sequence[_Place],
    wanted: Sequence[str] | None,
    types: Collection[str],
    limit: int,
    now: datetime,
    only: Collection[str],
) -> list[_Place]:
    """Merge what was named with what else is due: a bell that always names enough hides nothing."""
    at = session.encode(now)
    levels = {
        level: first
        for level, first in claimable_levels(session, wanted, types).items()
        if first <= at
    }
    if not named:
        return _due(session, list(levels), limit, at, only)
    favoured = sorted(
        (minus, session.decode(run_after) - UNDERWAY, task_id, type_)
        for minus, run_after, task_id, type_ in named
    )
    if len(favoured) >= limit:  # then only levels that have something better are of interest
        last = favoured[limit - 1]
        levels = {
            level: first
            for level, first in levels.items()
            if (-level[1], session.decode(first)) < last[:2]
        }
    names = {place[2] for place in named}
    others = [
        (minus, session.decode(run_after), task_id, type_)
        for minus, run_after, task_id, type_ in _due(
            session, list(levels), limit + len(named), at, only
        )
        if task_id not in names
    ]
    return sorted([*favoured, *others])


def _due(
    session: Session, levels: Sequence[Level], limit: int, at: Any, only: Collection[str]
) -> list[_Place]:
    """Return the best of these levels; with less than the limit where one may not be claimed."""
    found: list[_Place] = []
    for priority in sorted({level[1] for level in levels}, reverse=True):
        same = [
            (-priority, run_after, task_id, level[2])
            for level in levels
            if level[1] == priority
            for run_after, task_id in session.rows(_select_due, *level, at, limit - len(found))
        ]
        same.sort()  # longest due first over all queues and types; the id decides a tie
        found += same[: limit - len(found)]
        if len(found) == limit or any(type_ not in only for *_, type_ in found):
            break
    return found


def _tipped(
    session: Session,
    tips: Sequence[str],
    wanted: Sequence[str] | None,
    types: Collection[str],
    now: datetime,
) -> list[_Place]:
    """Return those of the tasks that the bell named that wait still and may run here."""
    at = session.encode(now)
    held = paused(session)
    return sorted(
        (-priority, run_after, task_id, type_)
        for task_id, queue, priority, type_, run_after in session.rows_of(_select_tipped, tips)
        if run_after <= at and _may_run((queue, priority, type_), wanted, types, held)
    )


def _claim_of(session: Session, row: Any, owner: Owner, now: datetime) -> Claim:
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
            )
            for claim, owner in zip(claims, owners, strict=False)
        ],
    )
    session.write_many(
        insert_audit,
        [
            (claim.task_id, claim.attempt, at, "PENDING", "RUNNING", SUPERVISOR, "claimed", node_id)
            for claim in claims
        ],
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


def _select_levels() -> Ordered:
    # Three loose index scans, one in the other: each step is one seek in tasks_due to the next
    # queue, then to the next priority of that queue, then to the next type of both; and one more
    # to the first time due of each.
    of_queue = "queue = {0}.queue"
    of_both = f"{of_queue} AND tasks.priority = {{0}}.priority"
    of_level = f"{of_both} AND tasks.type = {{0}}.type"
    return ordered(
        text(
            f"WITH RECURSIVE q(queue) AS (SELECT {_first('queue')}"
            f" UNION ALL SELECT {_first('queue', 'queue > q.queue')}"
            " FROM q WHERE q.queue IS NOT NULL"
            "), p(queue, priority) AS ("
            f" SELECT queue, {_first('priority', of_queue.format('q'))}"
            " FROM q WHERE q.queue IS NOT NULL"
            " UNION ALL SELECT queue,"
            f" {_first('priority', of_queue.format('p') + ' AND tasks.priority > p.priority')}"
            " FROM p WHERE p.priority IS NOT NULL"
            "), t(queue, priority, type) AS ("
            f" SELECT queue, priority, {_first('type', of_both.format('p'))}"
            " FROM p WHERE p.priority IS NOT NULL"
            " UNION ALL SELECT queue, priority,"
            f" {_first('type', of_both.format('t') + ' AND tasks.type > t.type')}"
            " FROM t WHERE t.type IS NOT NULL"
            f") SELECT queue, priority, type, {_first('run_after', of_level.format('t'))}"
            " FROM t WHERE type IS NOT NULL"
        )
    )


def _first(column: str, where: str = "queue IS NOT NULL") -> str:
    """Return the query for the lowest value of a column among PENDING rows like these.

    Not `min`: it is only one seek where the planner knows that there are many rows.
    """
    return (
        f"(SELECT tasks.{column} FROM tasks /* INDEXED BY tasks_due */"
        f" WHERE state = 'PENDING' AND tasks.{where} ORDER BY tasks.{column} LIMIT 1)"
    )


def _select_paused() -> Ordered:
    return ordered(select(queues.c.queue, queues.c.priority).where(queues.c.paused == text("true")))


def _level() -> tuple[Any, ...]:
    return (
        text("state = 'PENDING'"),  # literal: the partial index is only used for the same words
        tasks.c.queue == bindparam("the_queue"),
        tasks.c.priority == bindparam("the_priority"),
        tasks.c.type == bindparam("the_type"),
    )


def _select_due() -> Ordered:
    return ordered(
        select(tasks.c.run_after, tasks.c.task_id)
        .where(*_level(), tasks.c.run_after <= bindparam("now"))
        .order_by(tasks.c.run_after, tasks.c.task_id)
        .limit(bindparam("limit"))
        .offset(literal_column("0"))
        .with_for_update(skip_locked=True),  # what another node is about to claim is not waited for
        "the_queue",
        "the_priority",
        "the_type",
        "now",
        "limit",
    )


def _select_tipped(size: int) -> Ordered:
    column = tasks.c
    return ordered(
        select(column.task_id, column.queue, column.priority, column.type, column.run_after)
        .where(column.task_id.in_(ids(size)), text("/* + */state = 'PENDING'"))
        .with_for_update(skip_locked=True),
        *id_names(size),
    )


def _claim_rows(size: int) -> Ordered:
    column = tasks.c
    return ordered(
        update(tasks)
        .values(state=text("'RUNNING'"), reason=text("'claimed'"), attempt=text("attempt + 1"))
        .where(column.task_id.in_(ids(size)), text("/* + */state = 'PENDING'"))
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
        ),
        *id_names(size),
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
    )


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
