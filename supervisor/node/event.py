"""What a node hears: from the pool of the app, of workers, autopsies and signals; from the scribe.

Values without behaviour; `node.port` offers them together with the two ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from supervisor.model.crash import ExitStatus, OomEvidence
from supervisor.model.order import Order
from supervisor.model.outcome import Settlement
from supervisor.model.record import Claim, Ending, Mark, Owner, Submitted
from supervisor.store.record import Orphan
from supervisor.worker.vitals import Reading
from supervisor.worker.wire import FromWorker, Spent, TypeInfo


@dataclass(frozen=True, slots=True)
class AppBooted:
    """The app of this generation is imported; workers can be born."""

    generation: int
    types: tuple[TypeInfo, ...]
    obstacles: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AppRefused:
    """The app of this generation could not be imported."""

    generation: int
    error: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ZygoteLost:
    """The zygote died; the pool needs a new one before the next birth."""

    how: str


@dataclass(frozen=True, slots=True)
class Born:
    """A worker process exists."""

    worker_id: str
    pid: int


@dataclass(frozen=True, slots=True)
class BirthFailed:
    """A worker process could not be made."""

    worker_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Said:
    """A worker sent a message."""

    worker_id: str
    message: FromWorker


@dataclass(frozen=True, slots=True)
class Exited:
    """A worker was reaped: how it ended, and its last vital signs.

    `garbled` says why the node itself ended it, if it did so for what the worker sent; `oom` is
    what the kernel counted, at a SIGKILL; `dump` what the interpreter wrote at a native crash;
    `spent` what the process had used in all.
    """

    worker_id: str
    status: ExitStatus
    last: Reading
    max_rss_bytes: int
    garbled: str = ""
    oom: OomEvidence | None = None
    dump: str = ""
    spent: Spent | None = None

    @property
    def how(self) -> str:
        """The end in words."""
        return f"{self.status}; {self.garbled}" if self.garbled else str(self.status)

    @property
    def clean(self) -> bool:
        """Whether it left by itself and in order."""
        return self.status.code == 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a suspect beside its process: handed to the autopsy as JSON.

    `values` always holds name, why, verdict and pid; task_id and attempt if one was running.
    `lets_live`: it is examined on suspicion, and no kill waits for that.
    """

    values: dict[str, Any] = field(default_factory=dict)
    lets_live: bool = False


@dataclass(frozen=True, slots=True)
class Captured:
    """An autopsy is over. `facts` were handed in; `sessions` of PostgreSQL were to end.

    `status` is complete, partial, failed, or busy: not examined, since somebody else does it now.
    """

    worker_id: str
    facts: Facts
    path: str
    status: str
    diagnosis: list[dict[str, Any]]
    ms: float
    size_bytes: int
    why: str = ""
    sessions: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal for the node: stop or reload."""

    name: str


PoolEvent = (
    AppBooted | AppRefused | ZygoteLost | Born | BirthFailed | Said | Exited | Captured | Signal
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """The tasks claimed (perhaps none), for how many places, and when the next one is due.

    What is due already and was not claimed, though places were left, may not wait in those.
    `next_due` is known, and `paused` the (queue, priority) pairs that rest, only of a scan
    (`scanned`); priority -1 is the whole queue.
    """

    asked: Sequence[Owner]
    claims: Sequence[Claim]
    next_due: datetime | None = None
    scanned: bool = True
    paused: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class EndingsWritten:
    """What became of each ending; None when the fence refused it."""

    results: Sequence[tuple[Ending, Settlement | None]]


@dataclass(frozen=True, slots=True)
class MarksRead:
    """Stop marks as they stand."""

    marks: Sequence[Mark]


@dataclass(frozen=True, slots=True)
class OrdersRead:
    """What this node was asked and has not answered, oldest first."""

    orders: Sequence[Order]


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    """The answer to SubmitFor."""

    worker_id: str
    request: int
    submitted: Submitted | None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class OrphansRead:
    """RUNNING attempts of former nodes; of a store that nodes share, only for the one that leads.

    `term` is that leader's, None where another leads or nobody has to.
    """

    orphans: Sequence[Orphan]
    term: int | None = None


@dataclass(frozen=True, slots=True)
class OwnRead:
    """The (task, attempt) pairs that the store has as RUNNING on this node."""

    running: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class LeaseRenewed:
    """The node's lease holds, counted from when this was sent (seconds of CLOCK_BOOTTIME).

    `skew_s` is by how much this host's wall clock is ahead of the store's.
    """

    sent_boot: float
    skew_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The lease was over, or somebody has written the node's end: others may take what it runs."""


@dataclass(frozen=True, slots=True)
class CountsRead:
    """The store's numbers: (due, later, running) by queue, and due by type."""

    by_queue: dict[str, tuple[int, int, int]]
    due_by_type: dict[str, int]


@dataclass(frozen=True, slots=True)
class StoreAway:
    """The store does not answer, since when it does not matter: why."""

    why: str


@dataclass(frozen=True, slots=True)
class StoreBack:
    """The store answers again."""


@dataclass(frozen=True, slots=True)
class StoreGone:
    """The store was deleted or replaced; the live data of a file was saved at `rescued`."""

    rescued: str = ""


Reply = (
    Claimed
    | EndingsWritten
    | MarksRead
    | OrdersRead
    | ChildAnswer
    | OrphansRead
    | OwnRead
    | LeaseRenewed
    | LeaseLost
    | CountsRead
    | StoreAway
    | StoreBack
    | StoreGone
)
