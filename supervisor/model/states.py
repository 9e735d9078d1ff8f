"""Life-cycle states of a task, the table of legal moves, and the reasons a move may carry.

              submit
                │
                ▼         claim                    body returned
            PENDING ───────────────▶ RUNNING ─────────────────────▶ SUCCESS
             ▲   │                    │ │ │
       retry │   │ cancel             │ │ └── limit reached ──▶ TIMEOUT ─┐
       rerun │   ▼                    │ └──── body raised,                │ retry, rerun
             │ CANCELED ◀── stopped ──┘       process died ──▶ FAILED ────┤
             └────────────────────────────────────────────────────────────┘

Secret kept here: which moves exist. Everyone who writes a state asks `require_legal` first; a
refused move is a bug, not a race (races are settled by the fence before the move is tried).
Source: S1 §1.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from supervisor.errors import IllegalTransition


class State(StrEnum):
    """Where a task is in its life. Business status is not here: it lives in the result."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    TIMEOUT = "TIMEOUT"


TRANSITIONS: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.PENDING: frozenset({State.RUNNING, State.CANCELED}),
        State.RUNNING: frozenset({State.SUCCESS, State.FAILED, State.CANCELED, State.TIMEOUT}),
        State.FAILED: frozenset({State.PENDING, State.CANCELED}),
        State.TIMEOUT: frozenset({State.PENDING, State.CANCELED}),
        State.SUCCESS: frozenset(),
        State.CANCELED: frozenset(),
    }
)

LIVE = frozenset({State.PENDING, State.RUNNING})
ENDED = frozenset(State) - LIVE


class Reason(StrEnum):
    """Why a move happened: the closed set that audit rows, metrics and CLI answers use."""

    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    RETURNED = "returned"
    RAISED = "raised"
    RESULT_INVALID = "result_invalid"
    RESULT_TOO_LARGE = "result_too_large"
    CRASHED = "crashed"
    OOM_KILLED = "oom_killed"
    KILLED_BY_SIGNAL = "killed_by_signal"
    NATIVE_CRASH = "native_crash"
    EXITED = "exited"
    MEMORY = "memory"
    SOFT_TIMEOUT = "soft_timeout"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    HEARTBEAT_LOST = "heartbeat_lost"
    CPU_SPIN = "cpu_spin"
    NODE_LOST = "node_lost"
    CANCELED = "canceled"
    FORCED = "forced"
    NEVER_STARTED = "never_started"
    SHUTDOWN = "shutdown"
    PREEMPTED = "preempted"
    RETRY = "retry"
    REQUEUED = "requeued"
    RERUN = "rerun"


#: Endings that say nothing about the task itself: it goes back to PENDING and no retry is used.
REQUEUE_REASONS = frozenset({Reason.NEVER_STARTED, Reason.SHUTDOWN, Reason.PREEMPTED})

#: How a worker may die under its attempt; the plain one is for a death whose status was lost.
CRASH_REASONS = frozenset(
    {
        Reason.CRASHED,
        Reason.OOM_KILLED,
        Reason.KILLED_BY_SIGNAL,
        Reason.NATIVE_CRASH,
        Reason.EXITED,
    }
)


def is_legal(from_state: State, to_state: State) -> bool:
    """Say whether the table has this move."""
    return to_state in TRANSITIONS[from_state]


def require_legal(from_state: State, to_state: State) -> None:
    """Refuse a move that the table does not have.

    Raises: IllegalTransition, which is always a bug of ours.
    """
    if not is_legal(from_state, to_state):
        raise IllegalTransition(
            f"{from_state} → {to_state} is not in the transition table",
            remedy="Report this as a bug: nothing was written.",
            from_state=from_state,
            to_state=to_state,
        )
