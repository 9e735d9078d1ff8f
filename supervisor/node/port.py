"""What the arbiter needs of the outside world: a pool of processes and a scribe.

The real ones are `node.pool` and `node.scribe`; the tests drive the same arbiter through a scripted
pair. Everything heard comes as a value from `events()`; nothing here blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from supervisor.model.health import Host, Signs
from supervisor.model.record import Ending, Owner, Started
from supervisor.node.event import (
    AppBooted,
    AppRefused,
    BirthFailed,
    Born,
    Captured,
    ChildAnswer,
    Claimed,
    CountsRead,
    EndingsWritten,
    Exited,
    Facts,
    LeaseLost,
    LeaseRenewed,
    MarksRead,
    OrdersRead,
    OrphansRead,
    OwnRead,
    PoolEvent,
    Reply,
    Said,
    Signal,
    StoreAway,
    StoreBack,
    StoreGone,
    ZygoteLost,
)
from supervisor.settings import Settings
from supervisor.worker.vitals import Reading
from supervisor.worker.wire import Assign, FromNode

__all__ = [
    "AnswerOrder",
    "AppBooted",
    "AppRefused",
    "AutopsyNote",
    "Begin",
    "BirthFailed",
    "Born",
    "Captured",
    "ChildAnswer",
    "ClaimFor",
    "Claimed",
    "ClockSet",
    "CountsRead",
    "EndingsWritten",
    "Exited",
    "Facts",
    "Finish",
    "LeaseLost",
    "LeaseRenewed",
    "MarksRead",
    "NodeEnded",
    "Note",
    "OrdersRead",
    "OrphansRead",
    "OwnRead",
    "Pool",
    "PoolEvent",
    "Publish",
    "ReadCounts",
    "ReadMarks",
    "ReadOrders",
    "ReadOrphans",
    "ReadOwn",
    "Renew",
    "Reply",
    "Request",
    "Revive",
    "Said",
    "SaveCheckpoint",
    "Scribe",
    "Signal",
    "StoreAway",
    "StoreBack",
    "StoreGone",
    "Strays",
    "SubmitFor",
    "TypesNote",
    "VitalsNote",
    "WorkerNote",
    "ZygoteLost",
]


@dataclass(frozen=True, slots=True)
class Strays:
    """Adopted processes of no worker: found since the last time; still running after their kill.

    `unreaped`: children of any kind that have ended and are not collected.
    """

    found: int = 0
    left: int = 0
    unreaped: int = 0


class Pool(Protocol):
    """The processes of this host."""

    def boot(self, generation: int) -> None:
        """Start importing the app anew, as this generation."""

    def birth(self, worker_id: str, generation: int) -> None:
        """Ask for a worker; Born, then a Ready message, or BirthFailed follow."""

    def events(self) -> list[PoolEvent]:
        """Return everything heard since the last call, in order."""

    def send(self, worker_id: str, message: FromNode) -> bool:
        """Send a control message; False if the worker does not take it now."""

    def assign(self, worker_id: str, assign: Assign) -> bool:
        """Put an assignment in the worker's queue; False if it is full."""

    def stop_after(self, worker_id: str) -> bool:
        """Tell the worker to leave after what it has been assigned."""

    def take_back(self, worker_id: str) -> list[int]:
        """Return the numbers of the assignments that the worker had not read, now withdrawn."""

    def look(self, worker_id: str) -> Reading | None:
        """Read the vital signs (no system call)."""

    def examine(self, worker_id: str, reading: Reading, now: float) -> Signs | None:
        """Read what the kernel says of the worker too; None if it is gone."""

    def host(self) -> Host:
        """Return the pressure on this host; the arbiter adds what it knows of itself."""

    def capture(
        self, worker_id: str, facts: Facts, budget_s: float, *, remains: bool = False
    ) -> None:
        """Start an autopsy; Captured follows within the budget, whatever happens.

        With `remains` the process has died: only what outlives it is kept.
        """

    def knock(self, worker_id: str) -> None:
        """Send the interrupt signal: what the worker was told waits behind its body's GIL."""

    def terminate(self, worker_id: str) -> None:
        """Send SIGTERM."""

    def kill_tree(self, worker_id: str) -> int:
        """End the worker and all below it, the worker last; return how many were below."""

    def output_tail(self, worker_id: str, start: int, end: int | None) -> str:
        """Return the end of what the worker printed from this offset to that (None: till now)."""

    def prune_bundles(self) -> None:
        """Let bundles that are old or too many be removed, beside the loop."""

    def trim(self, worker_id: str) -> None:
        """Give back the memory of output that nobody will read."""

    def forget(self, worker_id: str) -> None:
        """Close what is left of a worker that was reaped, and remove its scratch space."""

    def reclaim_segments(self, task_id: str, attempt: int) -> int:
        """Remove the shared memory that bears the name of a dead attempt; return how many."""

    def reconfigure(self, settings: Settings) -> None:
        """Use new settings from here on."""

    def shift(self, gap_s: float) -> None:
        """Move what births, imports and captures may take by a time in which nobody could look."""

    def sweep_strangers(self) -> Strays:
        """End and reap adopted processes that belong to no worker."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Write these endings."""

    endings: Sequence[Ending]


@dataclass(frozen=True, slots=True)
class Begin:
    """Write that these attempts have started."""

    started: Sequence[Started]


@dataclass(frozen=True, slots=True)
class SaveCheckpoint:
    """Write a checkpoint."""

    task_id: str
    attempt: int
    value_json: str


@dataclass(frozen=True, slots=True)
class SubmitFor:
    """Submit a task on behalf of a running one."""

    worker_id: str
    request: int
    parent_id: str
    spec_json: str


@dataclass(frozen=True, slots=True)
class Note:
    """Write an audit note that changes no state."""

    task_id: str | None
    attempt: int | None
    reason: str
    text: str
    operator: str = "supervisor"


@dataclass(frozen=True, slots=True)
class AnswerOrder:
    """Write what became of an order; the first answer stands."""

    order_id: str
    answer: str


@dataclass(frozen=True, slots=True)
class AutopsyNote:
    """Write that a bundle exists (or that it could not be made, and why)."""

    captured: Captured


@dataclass(frozen=True, slots=True)
class WorkerNote:
    """Write that a worker was born, or (with `exit`) ended."""

    worker_id: str
    pid: int
    start_ticks: int
    started_at: datetime
    exit: str | None = None


@dataclass(frozen=True, slots=True)
class TypesNote:
    """Write that this node knows these types, each with the queue it names (None: none).

    `secrets` are the names of their params that nobody may be shown.
    """

    types: Mapping[str, str | None]
    secrets: Mapping[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Publish:
    """Relay outbox events to the bell. On the embedded store their delivery is the table itself."""

    limit: int


@dataclass(frozen=True, slots=True)
class ClockSet:
    """Write that the wall clock was set; what nobody put off is due again after a step back."""

    step_s: float


@dataclass(frozen=True, slots=True)
class NodeEnded:
    """Write that the node has ended; the last that it asks for."""

    why: str


@dataclass(frozen=True, slots=True)
class ClaimFor:
    """Claim tasks for these free places, of these types, from these queues (None: all).

    `ahead` are places behind an attempt that still runs; only `ahead_types` may wait there, and
    none of them overtakes a task of another type. `tips` are ids that the bell has named; with
    `scan` the table is looked through as well, for what is better or to fill the places left.
    """

    owners: Sequence[Owner]
    types: Collection[str]
    queues: Sequence[str] | None
    ahead: Sequence[Owner] = ()
    ahead_types: Collection[str] = ()
    tips: tuple[str, ...] = ()
    scan: bool = True

    @property
    def places(self) -> tuple[Owner, ...]:
        """All places that were offered."""
        return (*self.owners, *self.ahead)


@dataclass(frozen=True, slots=True)
class ReadMarks:
    """Read the stop marks on tasks this node runs."""


@dataclass(frozen=True, slots=True)
class ReadOrders:
    """Read what this node was asked and has not answered."""


@dataclass(frozen=True, slots=True, eq=False)
class VitalsNote:
    """Write what is to be seen of the node; not kept while the store is away."""

    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """Read the numbers that the metrics show."""


@dataclass(frozen=True, slots=True)
class ReadOrphans:
    """Read the RUNNING attempts of other (former) nodes.

    With `lead_s` only the leader is answered in full: whoever asks first leads for so long.
    """

    lead_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReadOwn:
    """Read which attempts are RUNNING on this node, as the store has it."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew this node's lease; LeaseRenewed or LeaseLost follows if the store answers."""

    lease_s: float


@dataclass(frozen=True, slots=True)
class Revive:
    """Take a new lease, in the transaction of the last endings; kept until it is written."""

    lease_s: float


Request = (
    Finish
    | Begin
    | SaveCheckpoint
    | SubmitFor
    | Note
    | AnswerOrder
    | AutopsyNote
    | WorkerNote
    | TypesNote
    | ClockSet
    | NodeEnded
    | Publish
    | ClaimFor
    | ReadMarks
    | ReadOrders
    | VitalsNote
    | ReadCounts
    | ReadOrphans
    | ReadOwn
    | Renew
    | Revive
)


class Scribe(Protocol):
    """The one that talks to the store, in group commits."""

    def ask(self, *requests: Request) -> None:
        """Hand in requests: written soon and in one commit, or kept until the store is back."""

    def replies(self) -> list[Reply]:
        """Return everything answered since the last call, in order."""

    def waited_s(self) -> float:
        """Return for how long the store has not answered what it was asked last."""

    def unwritten(self) -> int:
        """Return how many durable requests wait to be written."""
