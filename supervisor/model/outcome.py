"""How an attempt ended, and what follows for its task.

An `Outcome` says what was seen (one named constructor for each kind of ending); `settle` turns it
into the moves of the task: retry, requeue, quarantine, cancel or a final state. Pure: time and
chance are handed in. The ledger writes exactly what `settle` says, in one transaction.

Invariants: a task that was asked to stop is never retried; SUCCESS is only what the body returned;
an ending with a retry left passes through FAILED or TIMEOUT and lands on PENDING in one go, so a
row that *reads* FAILED or TIMEOUT is final.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from supervisor.model.retry import RetryPolicy, backoff_s
from supervisor.model.states import REQUEUE_REASONS, Reason, State

ERROR_TEXT_MAX = 16 * 1024
TRACEBACK_MAX = 64 * 1024
LATE_RESULT_MAX = 1000


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of an attempt's end. Text only: no object of the task crosses over.

    `result_json` is set for what a body returned. `proof` names how its end is known:
    reported, exited, gone (pid and start time no longer exist) or lease.
    """

    state: State
    reason: Reason
    result_json: str | None = None
    error_type: str | None = None
    error: str | None = None
    traceback: str | None = None
    proof: str = "reported"
    retryable: bool = True
    crashed: bool = False
    effects_unknown: bool = False
    verdict: str | None = None
    detail: str | None = None


def returned(result_json: str, *, detail: str | None = None) -> Outcome:
    """The body returned."""
    return Outcome(
        state=State.SUCCESS, reason=Reason.RETURNED, result_json=result_json, detail=detail
    )


def raised(error_type: str, error: str, traceback: str, *, retryable: bool = True) -> Outcome:
    """The body raised."""
    return Outcome(
        state=State.FAILED,
        reason=Reason.RAISED,
        error_type=error_type,
        error=cut(error, ERROR_TEXT_MAX),
        traceback=cut(traceback, TRACEBACK_MAX),
        retryable=retryable,
    )


def result_refused(reason: Reason, why: str) -> Outcome:
    """The body returned something that cannot be stored: running it again would not help."""
    return Outcome(state=State.FAILED, reason=reason, error=why, retryable=False)


def soft_timed_out(*, where: str | None = None, traceback: str | None = None) -> Outcome:
    """The body was told of its soft limit and left; `where` is the line that it was in."""
    return Outcome(
        state=State.TIMEOUT,
        reason=Reason.SOFT_TIMEOUT,
        error="stopped by its soft time limit" + (f" at {where}" if where else ""),
        traceback=traceback,
    )


def killed(state: State, reason: Reason, why: str, *, verdict: str | None = None) -> Outcome:
    """We ended the process: what it had done outside is unknown."""
    return Outcome(
        state=state,
        reason=reason,
        error=why,
        proof="exited",
        effects_unknown=True,
        verdict=verdict,
    )


def remarked(outcome: Outcome, text: str) -> Outcome:
    """Add a remark to what is told of an ending."""
    detail = f"{outcome.detail}; {text}" if outcome.detail else text
    return msgspec.structs.replace(outcome, detail=detail)


def too_late(by_s: float, result_json: str) -> Outcome:
    """The body returned after its hard limit, before it was killed: the result does not count."""
    return Outcome(
        state=State.TIMEOUT,
        reason=Reason.TIMEOUT,
        error=f"returned {by_s:.2f} s after its time limit: the late result was discarded",
        detail=f"late result: {cut(result_json, LATE_RESULT_MAX)}",
    )


def canceled(*, forced: bool = False, detail: str | None = None) -> Outcome:
    """The body stopped because it was asked to (or its process was killed for it)."""
    return Outcome(
        state=State.CANCELED,
        reason=Reason.CANCELED,
        proof="exited" if forced else "reported",
        effects_unknown=forced,
        detail=detail,
    )


def crashed(how: str, reason: Reason = Reason.CRASHED, *, traceback: str | None = None) -> Outcome:
    """The process died without a report: `how` tells the cause (see model.crash).

    `traceback` is what the interpreter itself wrote at a native crash.
    """
    return Outcome(
        state=State.FAILED,
        reason=reason,
        error_type="WorkerCrashed",
        error=how,
        traceback=None if traceback is None else cut(traceback, TRACEBACK_MAX),
        proof="exited",
        crashed=True,
        effects_unknown=True,
    )


def never_started(why: str) -> Outcome:
    """The attempt was assigned and taken back before its first line."""
    return Outcome(state=State.FAILED, reason=Reason.NEVER_STARTED, error=why, proof="taken_back")


def shut_down(*, forced: bool = False) -> Outcome:
    """The node stopped and the attempt left (or was killed) to run again elsewhere."""
    return Outcome(
        state=State.FAILED,
        reason=Reason.SHUTDOWN,
        error="the node was stopped",
        proof="exited" if forced else "reported",
        effects_unknown=forced,
    )


def preempted(why: str, *, forced: bool = False) -> Outcome:
    """The node was about to lose its lease and ended the attempt, to run again elsewhere."""
    return Outcome(
        state=State.FAILED,
        reason=Reason.PREEMPTED,
        error="the node could not renew its lease",
        proof="exited" if forced else "reported",
        effects_unknown=forced,
        detail=why,
    )


def node_lost(proof: str, detail: str, why: str = "the node that ran it died") -> Outcome:
    """The node that ran it is gone; `proof` says how that is known."""
    return Outcome(
        state=State.TIMEOUT,
        reason=Reason.NODE_LOST,
        error=why,
        proof=proof,
        effects_unknown=True,
        detail=detail,
    )


@dataclass(frozen=True, slots=True)
class StopMark:
    """A wish on the task that its attempt should end: cancel, or force-fail (`fail`)."""

    kind: str
    by: str
    reason: str
    at: datetime


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What `settle` must know of the task's row at the moment of the ending."""

    retry_count: int
    crash_count: int
    mark: StopMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The moves that follow, in order, with the columns they leave behind.

    `path` starts at RUNNING and never repeats; its last state is what the row reads afterwards.
    """

    path: tuple[State, ...]
    reason: Reason
    next_reason: Reason | None = None
    operator: str = "supervisor"
    note: str | None = None
    run_after: datetime | None = None
    retry_count: int = 0
    crash_count: int = 0
    quarantined: bool = False

    @property
    def state(self) -> State:
        """The state the row reads afterwards."""
        return self.path[-1]

    @property
    def final(self) -> bool:
        """Whether the task has ended for good (until a person reruns it)."""
        return self.state is not State.PENDING

    @property
    def releases_dedup(self) -> bool:
        """Whether the dedup key is free again: yes unless it lives on or succeeded."""
        return self.final and self.state is not State.SUCCESS


def settle(
    facts: TaskFacts, outcome: Outcome, policy: RetryPolicy, now: datetime, chance: float
) -> Settlement:
    """Say what becomes of a RUNNING task whose attempt ended this way.

    `chance` is uniform in [0, 1) and only spreads the back-off.
    """
    if outcome.state is State.SUCCESS:
        return _succeed(facts, outcome)
    if facts.mark is not None:
        return _obey(facts, facts.mark, outcome)
    crash_count = facts.crash_count + outcome.crashed
    kept = Settlement(
        path=(State.RUNNING, outcome.state),
        reason=outcome.reason,
        retry_count=facts.retry_count,
        crash_count=crash_count,
        note=outcome.error,
    )
    if outcome.reason in REQUEUE_REASONS and _may_run_again(outcome, policy):
        return replace(
            kept,
            path=(*kept.path, State.PENDING),
            next_reason=Reason.REQUEUED,
            run_after=now,
        )
    if outcome.crashed and crash_count >= policy.max_crashes:
        return replace(kept, quarantined=True, note=f"quarantined after {crash_count} crashes")
    if outcome.state is State.CANCELED or not outcome.retryable:
        return kept
    if facts.retry_count >= policy.max_retries:
        return kept
    delay = backoff_s(policy, facts.retry_count, chance)
    return replace(
        kept,
        path=(*kept.path, State.PENDING),
        next_reason=Reason.RETRY,
        run_after=now + timedelta(seconds=delay),
        retry_count=facts.retry_count + 1,
    )


def _may_run_again(outcome: Outcome, policy: RetryPolicy) -> bool:
    """Whether what gave way may run once more: without retries only if it never began."""
    return outcome.reason is Reason.NEVER_STARTED or policy.max_retries > 0


def _succeed(facts: TaskFacts, outcome: Outcome) -> Settlement:
    note = outcome.detail
    if facts.mark is not None:
        note = f"{facts.mark.kind} by {facts.mark.by} came too late: the body had returned"
    return replace(succeeded(facts.retry_count, facts.crash_count), note=note)


@lru_cache(maxsize=128)
def succeeded(retry_count: int, crash_count: int) -> Settlement:
    """Return what becomes of a task whose body returned, when there is nothing to remark on it."""
    return Settlement(
        path=(State.RUNNING, State.SUCCESS),
        reason=Reason.RETURNED,
        retry_count=retry_count,
        crash_count=crash_count,
    )


def _obey(facts: TaskFacts, mark: StopMark, outcome: Outcome) -> Settlement:
    fail = mark.kind == "fail"
    return Settlement(
        path=(State.RUNNING, State.FAILED if fail else State.CANCELED),
        reason=Reason.FORCED if fail else Reason.CANCELED,
        operator=mark.by,
        note=mark.reason,
        retry_count=facts.retry_count,
        crash_count=facts.crash_count + outcome.crashed,
    )


def cut(text: str, limit: int) -> str:
    """Keep head and tail of a text that is too long, with a mark of what was left out."""
    if len(text) <= limit:
        return text
    half = max(0, limit - 40) // 2
    tail = text[len(text) - half :]  # not [-half:], which is all of it when half is 0
    return f"{text[:half]}\n… {len(text) - 2 * half} characters cut …\n{tail}"


def printable(text: str) -> str:
    """Return a text that can be sent and stored: lone surrogates and NUL as their escapes.

    A lone surrogate stands for a byte that is not UTF-8, as in the name of a file.
    """
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
