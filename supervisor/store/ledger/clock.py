"""What becomes of due times when the wall clock of the host is set.

A time that somebody named stays: such a task is due by the new clock. But what was due at once, or
again after a failure, had its time from the clock that was wrong: after a step back it would wait
for as long as the step was, so its time is set back as far. Called through `Transaction`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, bindparam, func, literal_column, or_, select, update

from supervisor.model.states import Reason, State
from supervisor.store.ledger.audit import NoteReason, write_general_note
from supervisor.store.schema import audit_log, tasks
from supervisor.store.session import Ordered, Session, ordered

#: Clocks of one host that were read one after the other differ by less.
STEP_S = 1.0


def clock_set(session: Session, step_s: float, now: datetime) -> int:
    """Write down a step of the wall clock; return how many tasks are due again after one back.

    What was put off by a failure goes on waiting for what is left of that.
    """
    again = 0
    if step_s < 0:
        at = session.encode(now)
        was = session.encode(now - timedelta(seconds=step_s))
        again = session.write(_update_due, at, at, was)
        session.write(_update_waiting, at, was, was)
    text = f"the wall clock was set by {step_s:+.1f} s; {again} tasks are due again at once"
    write_general_note(session, now, NoteReason.CLOCK_SET, text)
    return again


def mind_clock(session: Session, now: datetime) -> int:
    """Do the same if the clock was set back while no node ran: the newest audit row tells."""
    newest = session.row(_select_newest)
    behind_s = (session.decode(newest[0]) - now).total_seconds() if newest else 0.0
    return clock_set(session, -behind_s, now) if behind_s > STEP_S else 0


def _select_newest() -> Ordered:
    newest = select(func.max(audit_log.c.id)).scalar_subquery()
    return ordered(select(audit_log.c.at).where(audit_log.c.id == newest))


def _update_due() -> Ordered:
    # Equal times keep their order: ids are made of the time of submission.
    column = tasks.c.run_after
    return ordered(
        update(tasks)
        .values(run_after=bindparam("its_time"))
        .where(*_not_named(), column > bindparam("now"), column <= bindparam("was")),
        "its_time",
        "now",
        "was",
    )


def _update_waiting() -> Ordered:
    left = tasks.c.run_after - bindparam("was")
    return ordered(
        update(tasks)
        .values(run_after=bindparam("now") + left)
        .where(*_not_named(), tasks.c.run_after > bindparam("since")),
        "now",
        "was",
        "since",
    )


def _not_named() -> tuple[ColumnElement[bool], ...]:
    column = tasks.c
    return (
        column.state == literal_column(f"'{State.PENDING}'"),
        or_(
            column.run_after <= column.created_at,
            column.reason != literal_column(f"'{Reason.SUBMITTED}'"),
        ),
    )
