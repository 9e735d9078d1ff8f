"""What the pool has heard: of the app, of workers, of autopsies, and signals for the node.

Values without behaviour; `node.port` offers them together with the two ports.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from supervisor.model.crash import ExitStatus, OomEvidence
from supervisor.worker.vitals import Reading
from supervisor.worker.wire import FromWorker, TypeInfo


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
    what the kernel counted, at a SIGKILL; `dump` what the interpreter wrote at a native crash.
    """

    worker_id: str
    status: ExitStatus
    last: Reading
    max_rss_bytes: int
    garbled: str = ""
    oom: OomEvidence | None = None
    dump: str = ""

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
