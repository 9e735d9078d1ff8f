"""Who is measured: each queue's adapter, server, environment and worker command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.peers.server import Kind

HERE = Path(__file__).parent
ADAPTERS = "bench.peers.adapters"
Store = Literal["file", "redis", "postgres"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One queue. `environment` names its requirements file; None is the environment we run in.

    `workers` are the commands that together run tasks in two processes; the first word is a program
    of the environment, `{address}` and `{bell}` are the addresses of its servers or file. `durable`
    says whether a power cut leaves every task, `survives` what it leaves, `record` what can be read
    of a task afterwards.
    """

    name: str
    label: str
    adapter: str
    environment: str | None
    server: Kind | None
    workers: tuple[tuple[str, ...], ...]
    durable: bool
    survives: str
    record: str
    at_once: int = 2

    @property
    def requirements(self) -> Path | None:
        """The file of pinned packages."""
        return HERE / "requirements" / f"{self.environment}.txt" if self.environment else None

    @property
    def store(self) -> Store:
        """Return what keeps the tasks."""
        if self.server is None:
            return "file"
        return "redis" if self.server == "redis" else "postgres"


_HUEY = ("huey_consumer", f"{ADAPTERS}.huey_queue.queue", "-w", "2", "-k", "process", "-q")
_SNAPSHOTS = "the last snapshot; with Redis's defaults that can be a minute old, or an hour"
_EVERY_FILE = "every task and ending that was committed: a flush for each commit"
_EVERY_SERVER = "every task and ending that was committed: `fsync` and `synchronous_commit` are on"
_RESULT = "the result; nothing of a task that waits or runs"
_OURS = "each move with its time, by whom and why; each attempt with its process, result, logs"


def _ours(name: str, label: str, server: Kind | None, survives: str) -> Peer:
    command = (
        *("supervisor", "run", f"{ADAPTERS}.our_queue:app", "--workers", "2"),
        *("--store", "{address}", "--queue", "{bell}", "--metrics-listen", "none"),
    )
    return Peer(
        name=name,
        label=f"task-supervisor, {label}",
        adapter="our_queue",
        environment=None,
        server=server,
        workers=(command,),
        durable=True,
        survives=survives,
        record=_OURS,
    )


OURS = _ours("ours", "SQLite", None, _EVERY_FILE)
PEERS = (
    OURS,
    _ours("ours-postgresql", "PostgreSQL", "postgres", _EVERY_SERVER),
    _ours(
        "ours-postgresql-redis",
        "PostgreSQL and Redis",
        "postgres+redis",
        f"{_EVERY_SERVER}; Redis keeps nothing and need not",
    ),
    Peer(
        name="huey",
        label="Huey, Redis",
        adapter="huey_queue",
        environment="huey",
        server="redis",
        workers=(_HUEY,),
        durable=False,
        survives=_SNAPSHOTS,
        record=_RESULT,
    ),
    Peer(
        name="huey-sqlite",
        label="Huey, SQLite",
        adapter="huey_queue",
        environment="huey",
        server=None,
        workers=(_HUEY,),
        durable=True,
        survives="every task that was not begun: a flush for each commit",
        record=_RESULT,
    ),
    Peer(
        name="dramatiq",
        label="Dramatiq, 2 × 8 threads",
        adapter="dramatiq_queue",
        environment="dramatiq",
        server="redis",
        workers=(("dramatiq", f"{ADAPTERS}.dramatiq_queue", "-p", "2", "-t", "8"),),
        durable=False,
        survives=_SNAPSHOTS,
        record=_RESULT,
        at_once=16,
    ),
    Peer(
        name="celery",
        label="Celery, prefork",
        adapter="celery_queue",
        environment="celery",
        server="redis",
        workers=(
            ("celery", "-A", f"{ADAPTERS}.celery_queue", "worker", "-c", "2", "-l", "WARNING"),
        ),
        durable=False,
        survives=_SNAPSHOTS,
        record="one row of state and result, overwritten",
    ),
    Peer(
        name="procrastinate",
        label="Procrastinate, PostgreSQL",
        adapter="procrastinate_queue",
        environment="procrastinate",
        server="postgres",
        workers=(("procrastinate", f"--app={ADAPTERS}.procrastinate_queue.app", "worker"),) * 2,
        durable=True,
        survives="every task: `fsync` and `synchronous_commit` are on",
        record="the row, and an event with its time for each change of state; not by whom",
    ),
)
