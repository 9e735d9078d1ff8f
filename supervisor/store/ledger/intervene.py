"""What operators do to tasks and queues: cancel, fail, rerun, pause, resume.

Invariants: operator and reason are mandatory; every id gets its own answer; an act on a RUNNING
task only leaves a mark (the attempt's end decides); nothing here is done twice. Called through
`Transaction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select, text, update

from supervisor.clock import stamp
from supervisor.errors import Refused
from supervisor.model.record import Acted, Answer, Seen
from supervisor.model.spec import bad_text
from supervisor.model.states import Reason, State, require_legal
from supervisor.store.ledger.audit import (
    AuditRow,
    NoteReason,
    insert_audit,
    storable_note,
    write_note,
)
from supervisor.store.ledger.claim import delete_events
from supervisor.store.ledger.submit import (
    EVENT_DUE,
    insert_event,
    lock_keys,
    release_expired,
    select_holders,
)
from supervisor.store.schema import WHOLE_QUEUE, queues, tasks
from supervisor.store.session import Ordered, Session, id_names, ids, insert_into, ordered

_REQUESTED = {"cancel": NoteReason.CANCEL_REQUESTED, "fail": NoteReason.FAIL_REQUESTED}


@dataclass(frozen=True, slots=True)
class Act:
    """Who does it, why and when; with `seen`, only if the task is still like that."""

    by: str
    reason: str
    now: datetime
    seen: Seen | None = None

    def __post_init__(self) -> None:
        for name, value in (("operator (by)", self.by), ("reason", self.reason)):
            if not value.strip():
                raise Refused(
                    f"the {name} is missing",
                    remedy="Say who asks and why: both stand in the audit trail.",
                )
            if bad := bad_text(value):
                raise Refused(f"the {name} holds {bad}", remedy="Leave it out.")


@dataclass(slots=True)
class _Row:
    """A task as an act finds it; kept up to date while one act goes through its ids."""

    task_id: str
    state: State
    attempt: int
    mark_kind: str | None
    dedup_key: str | None
    ended_at: datetime | None


class _Batch:
    """What an act on many tasks writes: each statement goes out once for all of them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.audit: list[AuditRow] = []
        self.canceled: list[tuple[Any, ...]] = []
        self.rerun: list[tuple[Any, ...]] = []
        self.events: list[tuple[Any, ...]] = []

    def flush(self) -> None:
        """Write it, and begin anew."""
        self.session.write_many(insert_audit, self.audit)
        self.session.write_many(_update_canceled, self.canceled)
        self.session.rows_of(delete_events, (task_id for _, task_id in self.canceled))
        self.session.write_many(_update_rerun, self.rerun)
        self.session.write_many(insert_event, self.events)
        for rows in (self.audit, self.canceled, self.rerun, self.events):
            rows.clear()


_One = Callable[[_Batch, _Row, Act], Acted]


def cancel(session: Session, task_ids: Sequence[str], act: Act) -> list[Acted]:
    """Cancel PENDING tasks at once and mark RUNNING ones to be stopped."""
    return _each(session, task_ids, act, _cancel_one)


def fail(session: Session, task_ids: Sequence[str], act: Act) -> list[Acted]:
    """Mark RUNNING tasks to be stopped and to end FAILED."""
    return _each(session, task_ids, act, _fail_one)


def rerun(session: Session, task_ids: Sequence[str], act: Act) -> list[Acted]:
    """Put FAILED and TIMEOUT tasks back to PENDING with fresh counts."""
    return _each(session, task_ids, act, _rerun_one)


def _each(session: Session, task_ids: Sequence[str], act: Act, one: _One) -> list[Acted]:
    rows = {
        row[0]: _Row(row[0], State(row[1]), row[2], row[3], row[4], session.decode(row[5]))
        for row in session.rows_of(_select_rows, task_ids)
    }
    batch = _Batch(session)
    answers = [
        _changed(rows[task_id], act.seen) or one(batch, rows[task_id], act)
        if task_id in rows
        else Acted(task_id=task_id, answer=Answer.NOT_FOUND, detail="no task has this id")
        for task_id in task_ids
    ]
    batch.flush()
    return answers


def _changed(row: _Row, seen: Seen | None) -> Acted | None:
    """Refuse an act on what has changed since it was decided on, saying what it is now."""
    if seen is None or (row.state, row.attempt) == (seen.state, seen.attempt):
        return None
    was, now = (f"{one.state} (attempt {one.attempt})" for one in (seen, row))
    detail = f"it was {was} when you looked and is {now} now"
    return Acted(task_id=row.task_id, answer=Answer.CHANGED, state=row.state, detail=detail)


def _cancel_one(batch: _Batch, row: _Row, act: Act) -> Acted:
    if row.state is State.RUNNING:
        return _mark(batch.session, row, act, "cancel")
    if row.state is not State.PENDING:
        return _already_ended(row)
    at = batch.session.encode(act.now)
    _move(batch, row, act, State.CANCELED, Reason.CANCELED)
    batch.canceled.append((at, row.task_id))
    return Acted(task_id=row.task_id, answer=Answer.CANCELED, state=row.state)


def _fail_one(batch: _Batch, row: _Row, act: Act) -> Acted:
    if row.state is State.RUNNING:
        return _mark(batch.session, row, act, "fail")
    if row.state is State.PENDING:
        detail = "it waits; cancel it instead"
        return Acted(task_id=row.task_id, answer=Answer.NOT_RUNNING, state=row.state, detail=detail)
    return _already_ended(row)


def _rerun_one(batch: _Batch, row: _Row, act: Act) -> Acted:
    if row.state not in {State.FAILED, State.TIMEOUT}:
        return Acted(
            task_id=row.task_id,
            answer=Answer.NOT_RERUNNABLE,
            state=row.state,
            detail=f"it is {row.state}; only FAILED and TIMEOUT can run again",
        )
    if row.dedup_key is not None:
        batch.flush()  # a task of this batch may hold the key by now
    holder = _take_key(batch.session, row, act.now)
    if holder is not None:
        return Acted(
            task_id=row.task_id,
            answer=Answer.DEDUP_TAKEN,
            state=row.state,
            detail=f"{holder} holds its dedup key",
        )
    at = batch.session.encode(act.now)
    _move(batch, row, act, State.PENDING, Reason.RERUN)
    batch.rerun.append((at, row.dedup_key is not None, row.task_id))
    batch.events.append((row.task_id, row.attempt, EVENT_DUE, at, at))
    return Acted(task_id=row.task_id, answer=Answer.RERUN, state=row.state)


def _take_key(session: Session, row: _Row, now: datetime) -> str | None:
    """Free the way for the row's dedup key, or return the task that holds it."""
    if row.dedup_key is None:
        return None
    lock_keys(session, [row.dedup_key])
    for _, holder, until in session.rows_of(select_holders, [row.dedup_key]):
        if until is None or until > session.encode(now):
            return str(holder)
        session.write(release_expired, holder)
    return None


def _mark(session: Session, row: _Row, act: Act, kind: str) -> Acted:
    if row.mark_kind is not None:
        return Acted(
            task_id=row.task_id,
            answer=Answer.ALREADY_REQUESTED,
            state=row.state,
            detail=f"{row.mark_kind} was requested before",
        )
    row.mark_kind = kind
    session.write(_update_mark, kind, act.by, act.reason, session.encode(act.now), row.task_id)
    write_note(
        session,
        act.now,
        task_id=row.task_id,
        attempt=row.attempt,
        operator=act.by,
        reason=_REQUESTED[kind],
        text=act.reason,
    )
    return Acted(task_id=row.task_id, answer=Answer.REQUESTED, state=row.state)


def _move(batch: _Batch, row: _Row, act: Act, to_state: State, reason: Reason) -> None:
    """Check and audit a move of a row; the caller writes the row itself."""
    require_legal(row.state, to_state)
    batch.audit.append(
        (
            row.task_id,
            row.attempt,
            batch.session.encode(act.now),
            row.state.value,
            to_state.value,
            act.by,
            reason.value,
            storable_note(act.reason),
        )
    )
    row.state = to_state
    row.ended_at = act.now if to_state is State.CANCELED else None


def _already_ended(row: _Row) -> Acted:
    when = f" at {stamp(row.ended_at)}" if row.ended_at else ""
    return Acted(
        task_id=row.task_id,
        answer=Answer.ALREADY_ENDED,
        state=row.state,
        detail=f"too late: it ended {row.state}{when}",
    )


def pause(session: Session, queue: str, priority: int | None, act: Act) -> bool:
    """Stop claims from a queue or one priority of it; False when it was paused already."""
    return _set_paused(session, queue, priority, act, paused=True)


def resume(
    session: Session, queue: str, priority: int | None, act: Act, seen_at: datetime | None = None
) -> bool:
    """Let claims go on; False when it was not paused. `seen_at` is when the pause began."""
    return _set_paused(session, queue, priority, act, paused=False, seen_at=seen_at)


def _set_paused(
    session: Session,
    queue: str,
    priority: int | None,
    act: Act,
    *,
    paused: bool,
    seen_at: datetime | None = None,
) -> bool:
    if priority is not None and not 0 <= priority <= 9:
        raise Refused(f"there is no priority {priority}", remedy="Priorities go from 0 to 9.")
    level = WHOLE_QUEUE if priority is None else priority
    row: Any = session.row(_select_paused, queue, level)
    if (False if row is None else bool(row[0])) is paused:
        return False
    what = queue if priority is None else f"{queue}, priority {priority}"
    if seen_at is not None and (since := session.decode(row[1])) != seen_at:
        raise Refused(
            f"{what} was paused anew by {row[2]} at {stamp(since)}: {row[3]}",
            remedy="Look whether that pause is to end too.",
        )
    at = session.encode(act.now)
    if row is None:
        session.write(_insert_paused, queue, level, paused, act.by, act.reason, at)
    else:
        session.write(_update_paused, paused, act.by, act.reason, at, queue, level)
    write_note(
        session,
        act.now,
        task_id=None,
        attempt=None,
        operator=act.by,
        reason=NoteReason.QUEUE_PAUSED if paused else NoteReason.QUEUE_RESUMED,
        text=f"{what}: {act.reason}",
    )
    return True


def _select_rows(size: int) -> Ordered:
    column = tasks.c
    return ordered(
        select(
            column.task_id,
            column.state,
            column.attempt,
            column.mark_kind,
            column.dedup_key,
            column.ended_at,
        )
        .where(column.task_id.in_(ids(size)))
        .order_by(column.task_id)
        .with_for_update(),
        *id_names(size),
    )


def _update_canceled() -> Ordered:
    return ordered(
        update(tasks)
        .values(
            state=text("'CANCELED'"),
            reason=text("'canceled'"),
            ended_at=bindparam("now"),
            dedup_held=text("false"),
        )
        .where(tasks.c.task_id == bindparam("the_task"), text("state = 'PENDING'")),
        "now",
        "the_task",
    )


def _update_rerun() -> Ordered:
    return ordered(
        update(tasks)
        .values(
            state=text("'PENDING'"),
            reason=text("'rerun'"),
            run_after=bindparam("now"),
            retry_count=text("0"),
            crash_count=text("0"),
            quarantined=text("false"),
            ended_at=text("NULL"),
            dedup_held=bindparam("held"),
            dedup_until=text("NULL"),
        )
        .where(tasks.c.task_id == bindparam("the_task"), text("state IN ('FAILED', 'TIMEOUT')")),
        "now",
        "held",
        "the_task",
    )


def _update_mark() -> Ordered:
    return ordered(
        update(tasks)
        .values(
            mark_kind=bindparam("kind"),
            mark_by=bindparam("who"),
            mark_reason=bindparam("why"),
            mark_at=bindparam("now"),
        )
        .where(tasks.c.task_id == bindparam("the_task"), text("state = 'RUNNING'")),
        "kind",
        "who",
        "why",
        "now",
        "the_task",
    )


def _select_paused() -> Ordered:
    return ordered(
        select(queues.c.paused, queues.c.at, queues.c.by, queues.c.reason).where(
            queues.c.queue == bindparam("the_queue"), queues.c.priority == bindparam("level")
        ),
        "the_queue",
        "level",
    )


def _insert_paused() -> Ordered:
    return insert_into(queues)


def _update_paused() -> Ordered:
    return ordered(
        update(queues)
        .values(
            paused=bindparam("is_paused"),
            by=bindparam("who"),
            reason=bindparam("why"),
            at=bindparam("now"),
        )
        .where(queues.c.queue == bindparam("the_queue"), queues.c.priority == bindparam("level")),
        "is_paused",
        "who",
        "why",
        "now",
        "the_queue",
        "level",
    )
