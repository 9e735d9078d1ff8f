"""The values that cross the seam between the node or a client and the store's ledger.

Pure data: the ledger returns and takes these, the arbiter and the tests need nothing else of it.
What is made for every task is a msgspec.Struct: a frozen dataclass costs ten times as much to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from supervisor.model.outcome import Outcome, StopMark
from supervisor.model.retry import RetryPolicy
from supervisor.model.states import State

#: A (queue, priority, type): what a claim and the doorbell sort waiting tasks by.
Level = tuple[str, int, str]


class Due(msgspec.Struct, frozen=True):
    """A task that may be claimed from `at` on, as the doorbell is told. Units: `at` in seconds
    since 1970."""

    level: Level
    task_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Submitted:
    """The answer to a submit: `created` is False when the dedup key named an existing task.

    `due` is what the doorbell may be told of a new one.
    """

    task_id: str
    created: bool
    due: Due | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process that cannot be confused with a later one of the same pid.

    `start_ticks` is field 22 of /proc/PID/stat; `pid_ns` the inode of /proc/PID/ns/pid.
    """

    pid: int
    start_ticks: int
    boot_id: str
    pid_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One incarnation of a supervisor process. `node_id` carries a start nonce."""

    node_id: str
    node_name: str
    process: ProcessIdentity
    version: str
    listen: str = ""
    started_at: datetime
    ended_at: datetime | None = None


class Owner(msgspec.Struct, frozen=True):
    """A free place on a worker, offered to a claim."""

    worker_id: str
    pid: int
    start_ticks: int


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is now RUNNING under this attempt and ours to run.

    Limits are as the spec gave them; None means the node resolves type > queue > settings.
    `traceparent` is where the task was submitted, `span` the attempt itself where it is traced.
    """

    task_id: str
    attempt: int
    type: str
    queue: str
    params_json: str
    priority: int
    timeout: float | None
    soft_timeout: float | None
    max_retries: int | None
    retry_count: int
    crash_count: int
    run_after: datetime
    claimed_at: datetime
    worker_id: str
    checkpoint_json: str | None = None
    submitted_by: str | None = None
    dedup_key: str | None = None
    tags: tuple[str, ...] = ()
    traceparent: str | None = None
    span: str | None = None


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt's first line has run, under these effective limits; no soft one is None."""

    task_id: str
    attempt: int
    started_at: datetime
    timeout: float
    soft_timeout: float | None


class ChildSpec(msgspec.Struct, frozen=True):
    """A task submitted by a task: the raw spec, already parsed once on the worker's side."""

    raw_json: str


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """What the span of an attempt shows beside its ending; `span` and `parent` are traceparents."""

    span: str
    parent: str | None
    claimed_at: datetime
    worker_id: str
    pid: int
    autopsy_id: str | None = None


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt's end as the node saw it; `policy` is the task's effective retry policy.

    `usage` holds numbers for people (max_rss_bytes, cpu_s, leaked_fds …). `log_tail` is kept for
    attempts that did not succeed. `children` are specs submitted with on_success. `queue` and
    `timeout` are for the metrics, which count it once it is written, `traced` for its span.
    `params_json` and what of it is `marked` as secret tell what its words must not hold. Units:
    seconds.
    """

    task_id: str
    attempt: int
    outcome: Outcome
    policy: RetryPolicy
    started_at: datetime | None = None
    ended_at: datetime
    usage: dict[str, float] = {}  # each gets its own
    log_tail: str | None = None
    type: str = ""
    queue: str = ""
    timeout: float | None = None
    children: tuple[ChildSpec, ...] = ()
    traced: Traced | None = None
    params_json: str = "{}"
    marked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A stop mark on a RUNNING task of this node, to be delivered to its attempt."""

    task_id: str
    attempt: int
    mark: StopMark


class Answer:
    """Per-id answers to operator acts (closed set, shown to people as they are)."""

    CANCELED = "canceled"
    REQUESTED = "requested"
    ALREADY_REQUESTED = "already requested"
    ALREADY_ENDED = "already ended"
    FAILED = "failed"
    RERUN = "rerun"
    NOT_FOUND = "not found"
    NOT_RERUNNABLE = "not rerunnable"
    DEDUP_TAKEN = "dedup key taken"
    NOT_RUNNING = "not running"
    CHANGED = "changed meanwhile"


@dataclass(frozen=True, slots=True)
class Seen:
    """How a task was when somebody decided to act on it: the act is refused if it changed."""

    state: State
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """What an operator act did to one task: the state after it and, if refused, why."""

    task_id: str
    answer: str
    state: State | None = None
    detail: str = ""

    @property
    def done(self) -> bool:
        """Whether the act was accepted."""
        return self.answer in {Answer.CANCELED, Answer.REQUESTED, Answer.FAILED, Answer.RERUN}
