"""Sentences about a task: the limits that hold, how it ended for good, and what comes next.

Invariant: a limit is only named as the store has it; what only the node that runs a type knows (its
retries, until some were used) is not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from supervisor.model.states import CRASH_REASONS, Reason, State
from supervisor.words.retold import retold
from supervisor.words.text import ago, figure, plain, size, span
from supervisor.words.tongue import say

if TYPE_CHECKING:
    from supervisor.store import AutopsyRecord, HistoryLine, TaskLine, TaskView
    from supervisor.store.view import AttemptView, CheckpointView

#: Digits of the end of an id that will do where a command asks for it.
END_DIGITS = 6
#: States that a task only reads when it has ended for good, until a person reruns it.
FINAL = frozenset({State.FAILED, State.TIMEOUT})
_NOT_STORED = frozenset({Reason.RESULT_INVALID, Reason.RESULT_TOO_LARGE})
#: How far an attempt came, as its usage has it.
LAST_PROGRESS = ("progress_done", "progress_total")
#: Characters of a checkpoint that are shown.
CHECKPOINT_SHOWN = 200


def last_heard(task: TaskLine, trail: Sequence[HistoryLine], now: datetime) -> str:
    """Return what was last heard of a task; `trail` is only asked of one that was canceled."""
    if task.state is State.CANCELED:
        return who_canceled(trail) or task.reason
    error = task.error or ""
    if task.state in FINAL and task.reason != Reason.RAISED:  # then they are no words of its own
        error = retold(error)
    if task.error_type:
        error = f"{task.error_type}: {error}" if error else task.error_type
    if task.state is State.PENDING and error and task.run_after > now:
        return say("%(error)s; again %(when)s", error=error, when=ago(task.run_after, now))
    return error or task.reason


def who_canceled(trail: Sequence[HistoryLine]) -> str | None:
    """Say who canceled a task, and why."""
    for line in reversed(trail):
        if line.to_state is State.CANCELED:
            return say(
                "canceled by %(who)s: %(why)s", who=line.operator, why=line.note or line.reason
            )
    return None


def ending_mark(task: TaskLine) -> str:
    """Return what stands behind the state of a task that only a person runs again."""
    if task.state not in FINAL:
        return ""
    return say(" (quarantined)") if task.quarantined else say(" (final)")


def by_command(task: TaskView) -> str:
    """Say how a task that has ended for good runs again, where one can type."""
    return f"it runs again only by `supervisor rerun {task.task_id[-END_DIGITS - 2 :]} --reason …`"


def for_good(task: TaskView, again: str) -> tuple[str, str] | None:
    """Say why a task ended for good, and how it runs again."""
    if task.state not in FINAL:
        return None
    if task.quarantined:
        why = say("it has killed its worker %(times)s times", times=task.crash_count)
        return say("quarantined"), f"{why}; {again}"
    return say("final"), f"{_no_retry(task)}; {again}"


def _no_retry(task: TaskView) -> str:
    """Say why no retry followed."""
    if task.reason == Reason.FORCED:
        return say("a person ended it")
    if task.reason in _NOT_STORED:
        return say("its result cannot be stored, which no retry cures")
    used, most = task.retry_count, task.max_retries
    if most is None and task.reason == Reason.RAISED:  # all are used, or no_retry_for names it
        return say("no retry follows, %(used)s used", used=used)
    most = used if most is None else most
    if used < most:
        return say(
            "%(used)s of %(most)s retries used, and its error is not retried", used=used, most=most
        )
    return say("%(used)s of %(most)s retries used", used=used, most=most)


def limits(task: TaskView, attempts: Sequence[AttemptView]) -> str:
    """Name the limits in force: of the latest attempt that started, else of the spec."""
    hard, soft = task.timeout, task.soft_timeout
    held = next((one for one in reversed(attempts) if one.timeout is not None), None)
    if held is not None:
        hard = held.timeout
        soft = math.inf if held.soft_timeout is None else held.soft_timeout
    told = []
    if hard is not None:
        told.append(say("timeout %(seconds)g s", seconds=hard))
    if soft is not None:
        has_one = math.isfinite(soft)
        told.append(say("soft %(seconds)g s", seconds=soft) if has_one else say("no soft one"))
    if task.max_retries is not None:
        told.append(say("retries %(number)s", number=task.max_retries))
    return ", ".join(told) or say("those of its type and of the node's settings")


def naming_limit(text: str | None, attempt: AttemptView) -> str | None:
    """Put the number to a sentence of ours that speaks of the attempt's time limit."""
    if text is None or attempt.reason == Reason.RAISED:  # then the words are the task's own
        return text
    for words, limit in (
        ("its soft time limit", attempt.soft_timeout),
        ("its time limit", attempt.timeout),
    ):
        if limit is not None:
            text = text.replace(words, f"{words} of {limit:g} s", 1)
    return retold(text)


def note(attempt: AttemptView) -> str | None:
    """Return the remark on an attempt without the proof, which has a line of its own."""
    detail = attempt.detail
    if detail is None or not attempt.proof:
        return naming_limit(detail, attempt)
    return naming_limit(detail.removesuffix(f": {attempt.proof}"), attempt)


def usage(attempt: AttemptView) -> str:
    """Return what an attempt used, each number in the unit people read."""
    used = [item for item in attempt.usage.items() if item[0] not in LAST_PROGRESS]
    return ", ".join(_used(name, value) for name, value in used)


def last_progress(attempt: AttemptView) -> str | None:
    """Say how far an attempt came that ended without a report."""
    done, total = (attempt.usage.get(name) for name in LAST_PROGRESS)
    if done is None:
        return None
    if total is None:
        return say("%(done)s when last seen", done=figure(done))
    return say("%(done)s of %(total)s when last seen", done=figure(done), total=figure(total))


def diagnosis(record: AutopsyRecord) -> str | None:
    """Return what is known of the cause: of a crash no more than how it ended, which is certain."""
    crashed = record.status != "failed" and record.verdict in CRASH_REASONS
    return record.diagnosis or (record.verdict if crashed else None)


def checkpoint_document(saved: CheckpointView | None) -> dict[str, Any] | None:
    """Return a checkpoint with no more of its value than people read."""
    if saved is None:
        return None
    value = plain(saved.value_json, keep="")
    shown = value if len(value) <= CHECKPOINT_SHOWN else f"{value[:CHECKPOINT_SHOWN]}…"
    return {"attempt": saved.attempt, "at": saved.at, "value": shown}


def _used(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return f"{name.removesuffix('_bytes')} {size(int(value))}"
    if name.endswith("_s"):
        return f"{name.removesuffix('_s')} {span(value)}"
    return f"{name} {figure(value)}"
