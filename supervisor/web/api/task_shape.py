"""What the API says of a task: shapes, and how they are filled from what the store shows.

Invariant: params, results and checkpoints are given as their JSON, never interpreted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from supervisor.model.spec import NO_SOFT_TIMEOUT
from supervisor.model.states import State
from supervisor.store import TaskView
from supervisor.store.view import AttemptView, TaskLine
from supervisor.web.api.endpoint import Moment

Limit = float | Literal["none"] | None


class StopRequest(msgspec.Struct):
    """A wish that a task should end, not yet answered by an ending."""

    kind: str
    by: str
    reason: str
    at: Moment


class TaskInList(msgspec.Struct, kw_only=True):
    """A task as a list shows it; what belongs to an attempt is of the latest one."""

    task_id: str
    type: str
    queue: str
    priority: int
    state: State
    reason: str
    run_after: Moment
    created_at: Moment
    ended_at: Moment | None
    attempt: int
    retry_count: int
    crash_count: int
    quarantined: bool
    dedup_key: str | None
    submitted_by: str | None
    tags: list[str]
    mark: StopRequest | None
    node_id: str | None
    worker_id: str | None
    claimed_at: Moment | None
    started_at: Moment | None
    error_type: str | None
    error: str | None
    verdict: str | None


class Attempt(msgspec.Struct, kw_only=True):
    """One run of a task; `outcome` is null while it runs. Limits are in seconds."""

    attempt: int
    node_id: str
    worker_id: str
    pid: int
    claimed_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    timeout: float | None
    soft_timeout: Limit
    outcome: State | None
    reason: str | None
    error_type: str | None
    error: str | None
    traceback: str | None
    result: Any
    usage: dict[str, float]
    proof: str | None
    effects_unknown: bool
    verdict: str | None
    detail: str | None
    traceparent: str | None


class LadderStep(msgspec.Struct):
    """One step of a stop request: requested, delivered, acknowledged, verified gone."""

    step: str
    attempt: int | None
    at: Moment
    by: str
    note: str | None


class Checkpoint(msgspec.Struct):
    """What an attempt saved last for the next one."""

    attempt: int
    at: Moment
    value: Any


class AutopsyOfTask(msgspec.Struct):
    """A bundle of this task, for who may see autopsies."""

    autopsy_id: str
    attempt: int | None
    status: str
    verdict: str | None
    diagnosis: str | None
    created_at: Moment
    bytes: int


class Task(TaskInList, kw_only=True):
    """One task in full. Limits are in seconds, null means: that of the type, queue or setting.

    `waits` says why it does not start, `node_gone` that RUNNING is the last word of a node that is
    gone. Of `result` it is null both when there is none and when it is null: see `state`. Of
    `attempts` there are the latest 100, of `stop` what the latest 1,000 rows of the trail tell.
    """

    params: Any
    result: Any
    timeout: float | None
    soft_timeout: Limit
    max_retries: int | None
    dedup_held: bool
    dedup_ttl: float | None
    dedup_until: Moment | None
    parent_id: str | None
    traceparent: str | None
    node_gone: bool
    waits: list[str]
    attempts: list[Attempt]
    stop: list[LadderStep]
    checkpoint: Checkpoint | None
    autopsies: list[AutopsyOfTask]


class HistoryEntry(msgspec.Struct):
    """One line of the audit trail: a move when `to_state` is set, otherwise a note."""

    audit_id: int
    task_id: str | None
    attempt: int | None
    at: Moment
    from_state: State | None
    to_state: State | None
    operator: str
    reason: str
    note: str | None


def line_of(task: TaskLine) -> TaskInList:
    """Return a task of a list."""
    return msgspec.convert(task, TaskInList, from_attributes=True)


def attempt_of(attempt: AttemptView) -> Attempt:
    """Return one run of a task."""
    return msgspec.convert(
        {
            **_own(attempt, Attempt),
            "soft_timeout": limit_of(attempt.soft_timeout),
            "result": raw(attempt.result_json),
        },
        Attempt,
        from_attributes=True,
    )


def task_of(task: TaskView, **more: Any) -> Task:
    """Return a task in full; `more` is what its view does not hold."""
    own = {
        **_own(task, Task),
        "params": raw(task.params_json),
        "result": raw(task.result_json),
        "soft_timeout": limit_of(task.soft_timeout),
    }
    return msgspec.convert({**own, **more}, Task, from_attributes=True)


def limit_of(seconds: float | None) -> Limit:
    """Write a limit that never comes as the word that it was given by."""
    return "none" if seconds == NO_SOFT_TIMEOUT else seconds


def raw(text: str | None) -> Any:
    """Return JSON that the store keeps as text, to be sent as it is."""
    return None if text is None else json.loads(text)


def _own(view: object, shape: type[msgspec.Struct]) -> Mapping[str, Any]:
    names = (field.name for field in msgspec.structs.fields(shape))
    return {name: getattr(view, name) for name in names if hasattr(view, name)}
