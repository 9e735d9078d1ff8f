"""The audit trail: the rows that say who moved a task from where to where, when and why.

Invariants: a move has `to_state`, a note has neither state; the moves of a task, in order, end at
the state its row reads. Only the ledger's verbs write it, in the transaction of what they describe.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from supervisor.model.outcome import cut
from supervisor.store.schema import audit_log
from supervisor.store.session import Ordered, Session, insert_into, storable

SUPERVISOR = "supervisor"
UNKNOWN_OPERATOR = "unknown"

#: Characters of a note; an error can be 16 KiB and would stand twice.
NOTE_MAX = 1000

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
    NODE_RETURNED = "node_returned"
    CLOCK_SET = "clock_set"
    ARCHIVED = "archived"
    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    SIGN_IN_REFUSED = "sign_in_refused"
    USER_ADDED = "user_added"
    USER_REMOVED = "user_removed"
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - a word about one
    TOKEN_CREATED = "token_created"  # noqa: S105
    TOKEN_REVOKED = "token_revoked"  # noqa: S105
    USER_DISABLED = "user_disabled"
    AUTOPSY_DOWNLOADED = "autopsy_downloaded"
    CAPTURE_ORDERED = "capture_ordered"
    NODE_DRAIN_ORDERED = "node_drain_ordered"
    NODE_UNDRAIN_ORDERED = "node_undrain_ordered"
    NODE_STOP_ORDERED = "node_stop_ordered"
    ORDER_ANSWERED = "order_answered"
    RESUBMITTED_FROM = "resubmitted_from"
    RESUBMITTED_AS = "resubmitted_as"
    REQUEST_REFUSED = "request_refused"
    BULK_BEGUN = "bulk_begun"
    BULK_ENDED = "bulk_ended"
    BULK_STOPPED = "bulk_stopped"
    BUNDLE_OPENED = "bundle_opened"
    BUNDLE_REFUSED = "bundle_refused"


#: Notes of who came in and took what: more than a list of tasks tells.
ACCESS_REASONS = frozenset(
    {
        NoteReason.SIGNED_IN,
        NoteReason.SIGNED_OUT,
        NoteReason.SIGN_IN_REFUSED,
        NoteReason.USER_ADDED,
        NoteReason.USER_REMOVED,
        NoteReason.USER_DISABLED,
        NoteReason.PASSWORD_CHANGED,
        NoteReason.TOKEN_CREATED,
        NoteReason.TOKEN_REVOKED,
        NoteReason.AUTOPSY_DOWNLOADED,
        NoteReason.REQUEST_REFUSED,
        NoteReason.BUNDLE_OPENED,
        NoteReason.BUNDLE_REFUSED,
    }
)


def insert_audit() -> Ordered:
    """Return the statement that writes an `AuditRow`."""
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
    at = session.encode(now)
    note = storable_note(text)
    session.write(insert_audit, task_id, attempt, at, None, None, storable(operator), reason, note)


def write_general_note(
    session: Session,
    now: datetime,
    reason: NoteReason,
    text: str | None,
    operator: str = SUPERVISOR,
) -> None:
    """Write one note that is about no task."""
    write_note(
        session, now, task_id=None, attempt=None, operator=operator, reason=reason, text=text
    )


def storable_note(text: str | None) -> str | None:
    """Return a note as the trail keeps it; the whole error stands in the attempt's row."""
    return None if text is None else storable(cut(text, NOTE_MAX))
