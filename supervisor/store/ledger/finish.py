"""Ending attempts: exactly what `settle` says, once, fenced by the attempt number.

Invariants: result, state and audit are one transaction; a late result changes nothing and leaves a
note; a retry is written as the ending and the return to PENDING together. Called through
`Transaction.finish`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, select, text, update

from supervisor.errors import InvalidSpec, Refused
from supervisor.model.outcome import Outcome, Settlement, StopMark, TaskFacts, settle
from supervisor.model.record import ChildSpec, Ending
from supervisor.model.spec import parse_spec
from supervisor.model.states import Reason, State, require_legal
from supervisor.store.ledger.audit import (
    SUPERVISOR,
    NoteReason,
    insert_audit,
    storable_note,
    write_note,
)
from supervisor.store.ledger.submit import EVENT_DUE, insert_event, submit
from supervisor.store.ledger.succeed import encode_usage, succeed
from supervisor.store.schema import Moment, attempt_logs, attempts, tasks
from supervisor.store.session import Ordered, Session, id_names, ids, insert_into, ordered, storable

Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class _Row:
    """What the ending of a task needs to know of its row."""

    state: str
    attempt: int
    facts: TaskFacts
    dedup_key: str | None
    dedup_ttl: float | None


@dataclass(slots=True)
class _Writes:
    """The rows of one batch of endings, by table."""

    attempts: Rows = field(default_factory=list)
    ended: Rows = field(default_factory=list)
    back: Rows = field(default_factory=list)
    audit: Rows = field(default_factory=list)
    logs: Rows = field(default_factory=list)
    events: Rows = field(default_factory=list)


def finish(
    session: Session,
    endings: Sequence[Ending],
    *,
    operator: str,
    chance: Callable[[], float],
    now: datetime | None,
) -> list[Settlement | None]:
    """End these attempts and say what became of each task; None where the fence refused.

    `operator` stands in the audit where `settle` names nobody else. The audit tells when the state
    changed (`now`), which is a little after the attempt ended.
    """
    done = succeed(session, endings, operator=operator, now=now)
    rows = _read(session, [ending for ending in endings if ending.task_id not in done])
    writes = _Writes()
    settlements: list[Settlement | None] = []
    late: dict[int, Ending] = {}
    for ending in endings:
        if (succeeded := done.pop(ending.task_id, None)) is not None:
            settlements.append(succeeded)
            continue
        row = rows.get(ending.task_id)
        if row is None or row.state != "RUNNING" or row.attempt != ending.attempt:
            late[len(settlements)] = ending
            settlements.append(None)
            continue
        settlement = settle(row.facts, ending.outcome, ending.policy, ending.ended_at, chance())
        row.state = settlement.state  # a second ending of the same attempt in this batch is late
        _collect(session, writes, ending, row, settlement)
        at = session.encode(now or ending.ended_at)
        _collect_audit(writes, ending, settlement, at, operator)
        settlements.append(settlement)
    _write(session, writes)
    _submit_children(session, endings, settlements, operator)
    for place, ending in late.items():
        settlements[place] = _written_before(session, ending)
        if settlements[place] is None:
            _refuse(session, ending, operator)
    return settlements


def _read(session: Session, endings: Sequence[Ending]) -> dict[str, _Row]:
    found = session.rows_of(_select_facts, (ending.task_id for ending in endings))
    return {
        row[0]: _Row(
            state=row[1],
            attempt=row[2],
            facts=TaskFacts(
                retry_count=row[3], crash_count=row[4], mark=mark_of(session, *row[7:11])
            ),
            dedup_key=row[5],
            dedup_ttl=row[6],
        )
        for row in found
    }


def mark_of(
    session: Session, kind: str | None, by: str | None, reason: str | None, at: Any
) -> StopMark | None:
    """Return the stop mark of a row, or None."""
    if kind is None:
        return None
    return StopMark(kind=kind, by=by or "", reason=reason or "", at=session.decode(at))


def _collect(
    session: Session,
    writes: _Writes,
    ending: Ending,
    row: _Row,
    settlement: Settlement,
) -> None:
    outcome = ending.outcome
    at = session.encode(ending.ended_at)
    writes.attempts.append(
        (
            session.encode(ending.started_at),
            at,
            settlement.path[1].value,
            _attempt_reason(outcome, settlement).value,
            storable(outcome.error_type),
            storable(outcome.error),
            storable(outcome.traceback),
            storable(outcome.result_json),
            encode_usage(ending),
            outcome.proof,
            outcome.effects_unknown,
            outcome.verdict,
            storable(outcome.detail),
            ending.task_id,
            ending.attempt,
        )
    )
    if settlement.final:
        writes.ended.append(_ended_row(session, ending, row, settlement))
    else:
        run_after = session.encode(settlement.run_after)
        reason = (settlement.next_reason or settlement.reason).value
        writes.back.append(
            (reason, run_after, settlement.retry_count, settlement.crash_count, ending.task_id)
        )
        writes.events.append((ending.task_id, ending.attempt, EVENT_DUE, run_after, at))
    if ending.log_tail is not None and settlement.path[1] is not State.SUCCESS:
        writes.logs.append((ending.task_id, ending.attempt, storable(ending.log_tail)))


def _attempt_reason(outcome: Outcome, settlement: Settlement) -> Reason:
    """Return why the attempt ended: as it was seen, but one that obeyed a force-fail was forced."""
    if outcome.reason is Reason.CANCELED and settlement.reason is Reason.FORCED:
        return Reason.FORCED
    return outcome.reason


def _ended_row(
    session: Session, ending: Ending, row: _Row, settlement: Settlement
) -> tuple[Any, ...]:
    held = row.dedup_key is not None and not settlement.releases_dedup
    until = None
    if held and row.dedup_ttl is not None:
        until = ending.ended_at + timedelta(seconds=row.dedup_ttl)
    return (
        settlement.state.value,
        settlement.reason.value,
        settlement.retry_count,
        settlement.crash_count,
        settlement.quarantined,
        session.encode(ending.ended_at),
        held,
        session.encode(until),
        ending.task_id,
    )


def _collect_audit(
    writes: _Writes, ending: Ending, settlement: Settlement, at: Any, operator: str
) -> None:
    named = settlement.operator
    who = operator if named == SUPERVISOR else named
    note = storable_note(settlement.note)
    for step, (before, after) in enumerate(pairwise(settlement.path)):
        require_legal(before, after)
        reason = settlement.reason if step == 0 else settlement.next_reason or settlement.reason
        writes.audit.append(
            (
                ending.task_id,
                ending.attempt,
                at,
                before.value,
                after.value,
                who,
                reason.value,
                note if step == 0 else None,
            )
        )


def _write(session: Session, writes: _Writes) -> None:
    session.write_many(_update_attempt, writes.attempts)
    session.write_many(_update_ended, writes.ended)
    session.write_many(_update_back, writes.back)
    session.write_many(insert_audit, writes.audit)
    session.write_many(_insert_log, writes.logs)
    session.write_many(insert_event, writes.events)


def _written_before(session: Session, ending: Ending) -> Settlement | None:
    """Return what became of this very ending, if it was written when a link was lost at a commit.

    Its children were written with it; where it was due again is not told a second time.
    """
    known = session.row(_select_outcome, ending.task_id, ending.attempt)
    outcome = ending.outcome
    told = (ending.ended_at, storable(outcome.result_json), storable(outcome.error))
    if known is None or (session.decode(known[1]), known[2], known[3]) != told:
        return None
    state = State(known[0])
    (row,) = session.rows_of(_select_facts, [ending.task_id])
    path = (State.RUNNING, state) if row[1] == state else (State.RUNNING, state, State.PENDING)
    return Settlement(path=path, reason=outcome.reason, retry_count=row[3], crash_count=row[4])


def _refuse(session: Session, ending: Ending, operator: str) -> None:
    known = session.row(_select_outcome, ending.task_id, ending.attempt)
    before = "an unknown attempt" if known is None else known[0] or "an attempt that did not end"
    outcome = ending.outcome
    text_ = f"late result discarded after {before}: it was {outcome.state} ({outcome.reason})"
    if outcome.error:
        text_ += f", {outcome.error}"
    write_note(
        session,
        ending.ended_at,
        task_id=ending.task_id,
        attempt=ending.attempt,
        operator=operator,
        reason=NoteReason.LATE_RESULT,
        text=text_,
    )


def _submit_children(
    session: Session,
    endings: Sequence[Ending],
    settlements: Sequence[Settlement | None],
    operator: str,
) -> None:
    for ending, settlement in zip(endings, settlements, strict=True):
        if settlement is not None and settlement.state is State.SUCCESS:
            for child in ending.children:
                _submit_child(session, ending, child, operator)


def _submit_child(session: Session, ending: Ending, child: ChildSpec, operator: str) -> None:
    try:
        asked = parse_spec(json.loads(child.raw_json))
        by = asked.submitted_by or ending.task_id
        spec = replace(asked, parent_id=ending.task_id, submitted_by=by)
        submit(session, [spec], ending.ended_at)
    except (InvalidSpec, Refused, ValueError) as error:
        # The ending itself must stand: the refusal is told where people look for the child.
        write_note(
            session,
            ending.ended_at,
            task_id=ending.task_id,
            attempt=ending.attempt,
            operator=operator,
            reason=NoteReason.CHILD_REFUSED,
            text=f"a task submitted on success was refused: {error}",
        )


def _select_facts(size: int) -> Ordered:
    column = tasks.c
    return ordered(
        select(
            column.task_id,
            column.state,
            column.attempt,
            column.retry_count,
            column.crash_count,
            column.dedup_key,
            column.dedup_ttl,
            column.mark_kind,
            column.mark_by,
            column.mark_reason,
            column.mark_at,
        )
        .where(column.task_id.in_(ids(size)))
        .order_by(column.task_id)
        .with_for_update(),
        *id_names(size),
    )


def _select_outcome() -> Ordered:
    return ordered(
        select(attempts.c.outcome, attempts.c.ended_at, attempts.c.result, attempts.c.error).where(
            attempts.c.task_id == bindparam("the_task"),
            attempts.c.attempt == bindparam("the_attempt"),
        ),
        "the_task",
        "the_attempt",
    )


def _update_attempt() -> Ordered:
    names = (
        "ended_at",
        "outcome",
        "reason",
        "error_type",
        "error",
        "traceback",
        "result",
        "usage",
        "proof",
        "effects_unknown",
        "verdict",
        "detail",
    )
    started_at: ColumnElement[Any] = func.coalesce(
        bindparam("started", type_=Moment), attempts.c.started_at
    )
    return ordered(
        update(attempts)
        .values(started_at=started_at, **{name: bindparam(f"its_{name}") for name in names})
        .where(
            attempts.c.task_id == bindparam("the_task"),
            attempts.c.attempt == bindparam("the_attempt"),
        ),
        "started",
        *(f"its_{name}" for name in names),
        "the_task",
        "the_attempt",
    )


_NO_MARK = ("mark_kind", "mark_by", "mark_reason", "mark_at")


def _update_ended() -> Ordered:
    names = (
        "state",
        "reason",
        "retry_count",
        "crash_count",
        "quarantined",
        "ended_at",
        "dedup_held",
        "dedup_until",
    )
    return ordered(
        update(tasks)
        .values(
            **{name: bindparam(f"its_{name}") for name in names},
            **dict.fromkeys(_NO_MARK, text("NULL")),
        )
        .where(tasks.c.task_id == bindparam("the_task"), text("state = 'RUNNING'")),
        *(f"its_{name}" for name in names),
        "the_task",
    )


def _update_back() -> Ordered:
    names = ("reason", "run_after", "retry_count", "crash_count")
    return ordered(
        update(tasks)
        .values(
            state=text("'PENDING'"),
            **{name: bindparam(f"its_{name}") for name in names},
            **dict.fromkeys(_NO_MARK, text("NULL")),
        )
        .where(tasks.c.task_id == bindparam("the_task"), text("state = 'RUNNING'")),
        *(f"its_{name}" for name in names),
        "the_task",
    )


def _insert_log() -> Ordered:
    return insert_into(attempt_logs)
