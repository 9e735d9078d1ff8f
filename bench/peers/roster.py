"""Who is measured: each queue's adapter, server, environment and worker command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
ADAPTERS = "bench.peers.adapters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One queue. `environment` names its requirements file; None is the environment we run in.

    `workers` are the commands that together run tasks in two processes; the first word is a program
    of the environment, `{address}` the address of its server or file.
    """

    name: str
    label: str
    adapter: str
    environment: str | None
    server: Literal["redis", "postgres"] | None
    workers: tuple[tuple[str, ...], ...]
    durable: str
    at_once: int = 2

    @property
    def requirements(self) -> Path | None:
        """The file of pinned packages."""
        return HERE / "requirements" / f"{self.environment}.txt" if self.environment else None


_HUEY = ("huey_consumer", f"{ADAPTERS}.huey_queue.queue", "-w", "2", "-k", "process", "-q")
_SNAPSHOTS = "no: Redis, a crash loses what came after its last snapshot"

OURS = Peer(
    name="ours",
    label="task-supervisor",
    adapter="our_queue",
    environment=None,
    server=None,
    workers=(
        (
            *("supervisor", "run", f"{ADAPTERS}.our_queue:app"),
            *("--store", "{address}", "--workers", "2", "--metrics-listen", "none"),
        ),
    ),
    durable="yes: SQLite, a flush for each commit",
)
PEERS = (
    OURS,
    Peer(
        name="huey",
        label="Huey, Redis",
        adapter="huey_queue",
        environment="huey",
        server="redis",
        workers=(_HUEY,),
        durable=_SNAPSHOTS,
    ),
    Peer(
        name="huey-sqlite",
        label="Huey, SQLite",
        adapter="huey_queue",
        environment="huey",
        server=None,
        workers=(_HUEY,),
        durable="yes: SQLite, a flush for each commit",
    ),
    Peer(
        name="dramatiq",
        label="Dramatiq, 2 × 8 threads",
        adapter="dramatiq_queue",
        environment="dramatiq",
        server="redis",
        workers=(("dramatiq", f"{ADAPTERS}.dramatiq_queue", "-p", "2", "-t", "8"),),
        durable=_SNAPSHOTS,
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
        durable=_SNAPSHOTS,
    ),
    Peer(
        name="procrastinate",
        label="Procrastinate",
        adapter="procrastinate_queue",
        environment="procrastinate",
        server="postgres",
        workers=(("procrastinate", f"--app={ADAPTERS}.procrastinate_queue.app", "worker"),) * 2,
        durable="yes: PostgreSQL, fsync on",
    ),
)
