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


#: What each reason says to a person: the source of docs/reasons.md.
REASON_MEANINGS: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.SUBMITTED: "Somebody submitted it.",
        Reason.CLAIMED: "A node has taken it for one of its workers.",
        Reason.RETURNED: "The body returned; its value is the result.",
        Reason.RAISED: "The body raised, or its params did not fit it.",
        Reason.RESULT_INVALID: "The body returned what is not JSON. It is not run again.",
        Reason.RESULT_TOO_LARGE: "The body returned over 256 KiB of JSON. It is not run again.",
        Reason.CRASHED: "Its process died, and nothing more is known of how.",
        Reason.OOM_KILLED: "The kernel's OOM killer took its process.",
        Reason.KILLED_BY_SIGNAL: "Its process died of a signal that the node did not send.",
        Reason.NATIVE_CRASH: "Its process died of a fault in native code, such as SIGSEGV.",
        Reason.EXITED: "Its process left with an exit code, as by `os._exit`.",
        Reason.MEMORY: "It was killed above `memory_limit_bytes`.",
        Reason.SOFT_TIMEOUT: "It was told of its soft limit and left.",
        Reason.TIMEOUT: "It was killed at its hard limit, or returned after it.",
        Reason.STALLED: "It was killed without new progress for the type's `progress_timeout`.",
        Reason.HEARTBEAT_LOST: "It was killed without a sign of life, or since it was stopped.",
        Reason.CPU_SPIN: "It used a full CPU for `cpu_spin_after`; this version only reports that.",
        Reason.NODE_LOST: "Its node died, or its lease was over; another node ended the attempt.",
        Reason.CANCELED: "Somebody canceled it.",
        Reason.FORCED: "Somebody ended it with `supervisor fail`.",
        Reason.NEVER_STARTED: "It was taken back before its first line ran. No retry is used.",
        Reason.SHUTDOWN: "Its node was stopped. No retry is used; without any it is final.",
        Reason.PREEMPTED: "Its node could not renew its lease. No retry is used; without any it is "
        "final.",
        Reason.RETRY: "It waits to be run again after a failure, a crash or a time limit.",
        Reason.REQUEUED: "It waits to be run again after an end that was not its own.",
        Reason.RERUN: "Somebody ran it again with `supervisor rerun`.",
    }
)

#: Endings that say nothing about the task itself: it goes back to PENDING and no retry is used
#: (but a task that has begun and may not be retried at all stays where it is).
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
