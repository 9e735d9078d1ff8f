"""Values of the store's seam that only people, the sweeper and the pathologist need."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from supervisor.model.outcome import StopMark
from supervisor.model.record import NodeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """One worker process; `exit` says how it ended (exit code or signal) once it has."""

    worker_id: str
    node_id: str
    pid: int
    start_ticks: int
    started_at: datetime
    ended_at: datetime | None = None
    exit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutopsyRecord:
    """One bundle: where it lies and what it says. `status` is captured, partial or failed."""

    autopsy_id: str
    task_id: str | None
    attempt: int | None
    node_id: str
    pid: int
    path: str
    status: str
    verdict: str | None
    diagnosis: str | None
    diagnosis_json: str | None
    created_at: datetime
    bytes: int
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A RUNNING attempt of another node; `node` is None when it was never registered.

    Holds what a sweeper needs to prove the death and to end the attempt. `lease_over_s` is how long
    ago its node's lease ended, by the store's clock: negative while it holds, None without leases.
    `traceparent` is the task's, `span` that of the attempt; both may be None.
    """

    task_id: str
    attempt: int
    type: str
    queue: str
    max_retries: int | None
    mark: StopMark | None
    node_id: str
    node: NodeRecord | None
    worker_id: str
    pid: int
    start_ticks: int
    claimed_at: datetime
    started_at: datetime | None
    timeout: float | None
    lease_over_s: float | None = None
    traceparent: str | None = None
    span: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """An ended task as it was copied to a cold file; what came later does not count as copied."""

    task_id: str
    state: str
    attempt: int
    ended_at: datetime | None
    audit_ids: tuple[int, ...]
    autopsy_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRecord:
    """Somebody who may sign in; `password` is its hash, `changed_at` when it was set."""

    name: str
    password: str = field(repr=False)
    role: str
    sees_autopsies: bool
    created_at: datetime
    created_by: str
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """An API token, of which only the hash is kept; it has no end when `ends_at` is None."""

    name: str
    token_hash: str = field(repr=False)
    role: str
    sees_autopsies: bool
    created_at: datetime
    created_by: str
    ends_at: datetime | None
