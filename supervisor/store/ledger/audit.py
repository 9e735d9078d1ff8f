"""The audit trail: the rows that say who moved a task from where to where, when and why.

Invariants: a move has `to_state`, a note has neither state; the moves of a task, in order, end at
the state its row reads. Only the ledger's verbs write it, in the transaction of what they describe.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from supervisor.store.schema import audit_log
from supervisor.store.session import Ordered, Session, insert_into

SUPERVISOR = "supervisor"
UNKNOWN_OPERATOR = "unknown"

#: task_id, attempt, at (encoded), from_state, to_state, operator, reason, note
AuditRow = tuple[Any, ...]


class NoteReason(StrEnum):
    """Why a note was written: what the audit tells besides the moves."""

    CANCEL_REQUESTED = "cancel_requested"
    FAIL_REQUESTED = "fail_requested"
    LATE_RESULT = "late_result"
    CHILD_REFUSED = "child_refused"
    QUEUE_PAUSED = "queue_paused"
    QUEUE_RESUMED = "queue_resumed"
    NODE_STARTED = "node_started"
    NODE_ENDED = "node_ended"


def insert_audit() -> Ordered:
    return insert_into(
        audit_log,
        "task_id",
        "attempt",
        "at",
        "from_state",
        "to_state",
        "operator",
        "reason",
        "note",
    )


def write_note(
    session: Session,
    now: datetime,
    *,
    task_id: str | None,
    attempt: int | None,
    operator: str,
    reason: str,
    text: str | None,
) -> None:
    """Write one note."""
    session.write(
        insert_audit, task_id, attempt, session.encode(now), None, None, operator, reason, text
    )
