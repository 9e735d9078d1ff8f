"""What people see of the store: values without behaviour, made by the reader only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from supervisor.model.outcome import StopMark
from supervisor.model.query import Term
from supervisor.model.record import ProcessIdentity
from supervisor.model.states import REQUEUE_REASONS, State
from supervisor.store.record import AutopsyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLine:
    """A task as a list shows it; what belongs to an attempt is of the latest one."""

    task_id: str
    type: str
    queue: str
    priority: int
    state: State
    reason: str
    run_after: datetime
    created_at: datetime
    ended_at: datetime | None
    attempt: int
    retry_count: int
    crash_count: int
    quarantined: bool
    dedup_key: str | None
    submitted_by: str | None
    tags: tuple[str, ...]
    mark: StopMark | None
    node_id: str | None
    worker_id: str | None
    claimed_at: datetime | None
    started_at: datetime | None
    error_type: str | None
    error: str | None
    verdict: str | None

    @property
    def assigned(self) -> bool:
        """Whether it is claimed and its first line has not run yet."""
        return self.state is State.RUNNING and self.started_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView(TaskLine):
    """A task as its own page shows it. `result_json` is what its last attempt returned.

    `traceparent` says where in a trace it was submitted.
    """

    params_json: str
    timeout: float | None
    soft_timeout: float | None
    max_retries: int | None
    dedup_held: bool
    dedup_ttl: float | None
    dedup_until: datetime | None
    parent_id: str | None
    result_json: str | None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks to list: all that is said must hold, empty means any.

    `terms` are what `supervisor.model.query` reads; ages in them count from `as_of` (None: now).
    `text` is found in the id (its beginning or end), type, dedup key and submitter. `before_id`
    leaves only what has a lower id, `after_id` what has a higher one: at most one of them is given.
    """

    terms: tuple[Term, ...] = ()
    states: tuple[State, ...] = ()
    types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    text: str = ""
    tag: str = ""
    as_of: datetime | None = None
    oldest_first: bool = False
    before_id: str | None = None
    after_id: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Tasks, newest first (or oldest). `next_id` is the `before_id` of the next page, `prev_id` the
    `after_id` of the former one (with `oldest_first` the other way round); None: there is none.

    A page may hold fewer than the limit and still have a next one: a search tests a bounded number
    of rows at a time. `looked` is that number where it was the limit, else 0.
    """

    tasks: tuple[TaskLine, ...]
    next_id: str | None
    prev_id: str | None = None
    looked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AutopsyFilter:
    """Which bundles to list. Empty means any; `before_id` continues after a page."""

    type: str = ""
    verdict: str = ""
    diagnosis: str = ""
    node_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    before_id: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class AutopsyPage:
    """Bundles, newest first, each with the type of its task (None when that is gone).

    `next_id` is the `before_id` of the next page, or None at the end.
    """

    autopsies: tuple[tuple[AutopsyRecord, str | None], ...]
    next_id: str | None


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """What an attempt saved last for the next one, as JSON text."""

    attempt: int
    at: datetime
    value_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One run of a task; `outcome` is None while it runs.

    `traceparent` is its own span, where its node writes traces.
    """

    task_id: str
    attempt: int
    node_id: str
    worker_id: str
    pid: int
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    timeout: float | None
    soft_timeout: float | None
    outcome: State | None
    reason: str | None
    error_type: str | None
    error: str | None
    traceback: str | None
    result_json: str | None
    usage: Mapping[str, float] = field(default_factory=dict)
    proof: str | None
    effects_unknown: bool
    verdict: str | None
    detail: str | None
    traceparent: str | None = None

    @property
    def requeued(self) -> bool:
        """Whether its end says nothing about the task (shutdown, never started, preempted)."""
        return self.reason in REQUEUE_REASONS


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One audit row: a move when `to_state` is set, otherwise a note."""

    audit_id: int
    task_id: str | None
    attempt: int | None
    at: datetime
    from_state: State | None
    to_state: State | None
    operator: str
    reason: str
    note: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many tasks read each state (all six are there); `in_queue` = PENDING and due now."""

    by_state: Mapping[State, int]
    in_queue: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """The live tasks of one queue or type: due now, due later, running."""

    name: str
    in_queue: int
    scheduled: int
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """A queue and its pauses: `paused` is the whole of it, `paused_priorities` are single ones."""

    queue: str
    paused: bool
    paused_priorities: tuple[int, ...]
    by: str | None
    reason: str | None
    at: datetime
    in_queue: int
    scheduled: int
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseView:
    """A pause in force; `priority` is None for the whole queue."""

    queue: str
    priority: int | None
    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class TypeView:
    """A task type as a node announced it last; `node_id` is None when that node dropped it."""

    type: str
    queue: str | None
    node_id: str | None
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One incarnation of a node; `running` counts the RUNNING attempts it owns.

    `lease_left_s` is below 0 when its lease is over, None where there are no leases; `skew_s` is
    how far its clock is ahead of the store's. `types` are those it knows now.
    """

    node_id: str
    node_name: str
    pid: int
    start_ticks: int
    boot_id: str
    pid_ns: int
    version: str
    listen: str
    started_at: datetime
    ended_at: datetime | None
    note: str | None
    running: int
    lease_left_s: float | None = None
    skew_s: float = 0.0
    types: tuple[str, ...] = ()

    @property
    def process(self) -> ProcessIdentity:
        """Its process, as a value that can be looked for."""
        return ProcessIdentity(
            pid=self.pid, start_ticks=self.start_ticks, boot_id=self.boot_id, pid_ns=self.pid_ns
        )
