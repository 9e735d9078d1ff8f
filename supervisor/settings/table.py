"""The one table of settings: each field below is a setting with its type, default, kind and prose.

Flags, environment names, TOML keys, `supervisor check`, `supervisor config` and docs/settings.md
are all made from it, line by line; nothing else knows a default. A `Settings` is a value.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from supervisor.settings import kind
from supervisor.settings.address import NO_QUEUE
from supervisor.settings.kind import Intensity, Kind, Secrets
from supervisor.settings.limits import (
    SCOPED,
    TaskLimits,
    TaskOptions,
    resolve,
    with_task_fields,
)
from supervisor.settings.place import default_store, state_dir, store_file

MEMO_MAX = 4096  # far more types and queues than a node has, unless queues are named by data
_NO_OPTIONS = TaskOptions()


def _default_workers() -> int:
    return os.cpu_count() or 1


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


def _of(accepts: Kind, prose: str, shown: str = "") -> dict[str, Any]:
    return {"kind": accepts, "prose": prose, "shown": shown}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one process. Units: seconds, unless the name says bytes or days."""

    # Where things are
    store: str = field(
        default_factory=default_store,
        repr=False,  # it may hold a password
        metadata=_of(
            kind.store_url(),
            "Address of the task store: a file for one node, or a PostgreSQL database for many. "
            "Every process that submits, runs or looks at tasks must name the same one.",
            "supervisor.db in the user's state directory",
        ),
    )
    queue: str = field(
        default=NO_QUEUE,
        repr=False,  # it may hold a password
        metadata=_of(
            kind.queue_url(),
            "The doorbell. none: a local wake socket or the server's notifications ring; a Redis, "
            "for a store on a server. The table is polled as fallback.",
        ),
    )
    node_name: str = field(
        default_factory=platform.node,
        metadata=_of(kind.hostname(), "Name of this host in rows, metrics and pages.", "host name"),
    )
    metrics_listen: str | None = field(
        default="127.0.0.1:9464",
        metadata=_of(
            kind.listen(optional=True),
            "Where a node serves /metrics, /healthz and /readyz; none serves nothing.",
        ),
    )
    web_listen: str = field(
        default="127.0.0.1:8080",
        metadata=_of(
            kind.listen(),
            "Where `supervisor web` serves its pages; beyond this host only once there are users.",
        ),
    )
    web_proxies: str | None = field(
        default=None,
        metadata=_of(
            kind.networks(),
            "Reverse proxies before `supervisor web` whose X-Forwarded-For, -Host, -Proto and "
            "-Prefix are believed; those of others are ignored.",
            "none",
        ),
    )
    web_rate: int = field(
        default=100,
        metadata=_of(
            kind.whole(1, 100_000),
            "Requests to the API of `supervisor web` that a token or user may make in a second on "
            "average, twice as many at once; of an address, with no or a wrong token, a tenth.",
        ),
    )
    # Workers
    workers: int = field(
        default_factory=_default_workers,
        metadata=_of(kind.whole(1, 1000), "Worker processes of this node.", "number of CPUs"),
    )
    queues: tuple[str, ...] = field(
        default=(), metadata=_of(kind.names(), "Queues that this node takes tasks from.", "all")
    )
    spawn: str = field(
        default="zygote",
        metadata=_of(
            kind.choice("zygote", "exec"),
            "How workers are born. zygote: forked from a process that imported the app once. "
            "exec: each starts afresh, for apps whose import leaves threads or sockets behind.",
        ),
    )
    recycle_after_tasks: int = field(
        default=10_000,
        metadata=_of(kind.whole(1, 10**9), "A worker is replaced after this many tasks."),
    )
    recycle_growth_bytes: int = field(
        default=256 * 2**20,
        metadata=_of(
            kind.size(2**20), "A worker that has grown by this much since its birth is replaced."
        ),
    )
    recycle_growth_fds: int = field(
        default=200,
        metadata=_of(
            kind.whole(1, 10**6),
            "A worker that has this many more descriptors open than at its birth is replaced "
            "after the attempt.",
        ),
    )
    recycle_growth_threads: int = field(
        default=50,
        metadata=_of(
            kind.whole(1, 10**6),
            "A worker with this many more threads than at its birth is replaced after the attempt.",
        ),
    )
    restart_intensity: Intensity = field(
        default=Intensity(5, 60.0),
        metadata=_of(
            kind.intensity(),
            "Workers that may fail to start in a span of time before the pool halts with an "
            "alarm instead of spinning; and workers that the tasks of one type may end before "
            "that type waits.",
        ),
    )
    # Limits of a task
    timeout: float = field(
        default=60.0,
        metadata=_of(
            kind.seconds(0.01),
            "Hard limit of one attempt: evidence is taken, then its process is killed.",
        ),
    )
    soft_timeout: float | None = field(
        default=None,
        metadata=_of(
            kind.soft_limit(),
            "When an attempt is told that its time is nearly up, so that it can clean up; none: "
            "it is not told.",
            "90 % of timeout",
        ),
    )
    max_retries: int = field(
        default=3,
        metadata=_of(kind.whole(0, 100), "How often a failed or timed-out task is run again."),
    )
    retry_base: float = field(
        default=10.0,
        metadata=_of(
            kind.seconds(0.001), "Delay before the first retry; it doubles with each further one."
        ),
    )
    retry_max: float = field(
        default=3600.0, metadata=_of(kind.seconds(0.001), "Longest delay before a retry.")
    )
    max_crashes: int = field(
        default=3,
        metadata=_of(
            kind.whole(1, 100), "A task that has killed its worker this often is quarantined."
        ),
    )
    memory_limit_bytes: int | None = field(
        default=None,
        metadata=_of(
            kind.size(2**20, optional=True),
            "Resident memory of an attempt above which on_memory acts.",
            "none",
        ),
    )
    cancel_grace: float = field(
        default=10.0,
        metadata=_of(
            kind.seconds(0, 3600), "How long a canceled attempt may clean up before it is killed."
        ),
    )
    dedup_ttl: float | None = field(
        default=None,
        metadata=_of(
            kind.seconds(1, 366 * 86400, optional=True),
            "How long after a task's success its dedup key stays taken; a live task always "
            "keeps it. none: for as long as the task's row exists.",
            "none",
        ),
    )
    # Is it alive?
    heartbeat_interval: float = field(
        default=30.0,
        metadata=_of(kind.seconds(0.05, 3600), "How often an attempt must show a sign of life."),
    )
    heartbeat_misses: int = field(
        default=3, metadata=_of(kind.whole(1, 100), "Signs of life missed until it counts as lost.")
    )
    progress_timeout: float = field(
        default=300.0,
        metadata=_of(
            kind.seconds(0.05),
            "Without new progress for this long, an attempt is stalled. It is killed for that "
            "only if its type sets a value of its own (decorator or [type.NAME]) and it has "
            "reported progress at least once.",
        ),
    )
    cpu_spin_after: float = field(
        default=600.0,
        metadata=_of(kind.seconds(0.05), "Full use of a CPU for this long is a spin."),
    )
    on_heartbeat_lost: str = field(
        default="kill",
        metadata=_of(
            kind.choice("alert", "capture", "kill"),
            "What follows when the signs of life stop: only tell, take evidence, or take "
            "evidence and kill.",
        ),
    )
    on_stalled: str = field(
        default="capture",
        metadata=_of(
            kind.choice("alert", "capture"),
            "What follows when an attempt stalls whose type sets no progress_timeout.",
        ),
    )
    on_cpu_spin: str = field(
        default="capture",
        metadata=_of(kind.choice("alert", "capture"), "What follows on a spin; it is not killed."),
    )
    on_memory: str = field(
        default="kill",
        metadata=_of(
            kind.choice("alert", "capture", "kill"), "What follows above memory_limit_bytes."
        ),
    )
    # Ownership between nodes
    lease: float = field(
        default=90.0,
        metadata=_of(
            kind.seconds(1, 3600),
            "A node that has not renewed for this long no longer owns its tasks. On SQLite the "
            "store's lock and proof of death decide instead, and nothing waits for it.",
        ),
    )
    sweep_interval: float = field(
        default=15.0,
        metadata=_of(kind.seconds(0.05, 3600), "How often RUNNING tasks of lost nodes are sought."),
    )
    requeue_safety: float = field(
        default=30.0,
        metadata=_of(
            kind.seconds(0, 3600),
            "Where the death of a node's attempts is inferred and not proven (its lease is over, "
            "or its processes were of another container), their tasks wait this long to run again.",
        ),
    )
    # Stopping a node
    drain_grace: float = field(
        default=60.0,
        metadata=_of(kind.seconds(0, 86400), "How long running tasks may finish at a stop."),
    )
    drain_budget: float = field(
        default=1.0,
        metadata=_of(kind.seconds(0, 3600), "Drain stage of a single worker that is replaced."),
    )
    checkpoint_budget: float = field(
        default=30.0,
        metadata=_of(kind.seconds(0, 3600), "Time for an attempt to save a checkpoint and leave."),
    )
    release_budget: float = field(
        default=15.0,
        metadata=_of(kind.seconds(0, 3600), "Time for the app's on_release functions."),
    )
    exit_budget: float = field(
        default=10.0,
        metadata=_of(kind.seconds(0, 3600), "Time to exit after SIGTERM before SIGKILL."),
    )
    # Evidence
    autopsy_budget: float = field(
        default=10.0,
        metadata=_of(kind.seconds(0.5, 300), "Longest time that taking evidence delays a kill."),
    )
    diagnose_interval: float = field(
        default=120.0,
        metadata=_of(
            kind.seconds(0, 86400),
            "Least time between two examinations of one attempt on suspicion (on_stalled and the "
            "like). `supervisor autopsy capture` is not held back.",
        ),
    )
    autopsy_dir: str = field(
        default="",
        metadata=_of(
            kind.path(),
            "Where autopsy bundles are kept, on the host that took them.",
            "autopsies beside the store's file, or in the user's state directory",
        ),
    )
    autopsy_keep_days: int = field(
        default=14, metadata=_of(kind.whole(1, 3650), "Bundles older than this are removed.")
    )
    autopsy_keep_bytes: int = field(
        default=2 * 2**30,
        metadata=_of(
            kind.size(2**20), "Above this total size the oldest bundles are removed first."
        ),
    )
    autopsy_databases: Secrets = field(
        default=Secrets(),
        metadata=_of(
            kind.database_urls(),
            "Accounts with which an autopsy asks database servers what an attempt waits for there. "
            "Without one it uses those that the attempt's process was given.",
        ),
    )
    end_statements: bool = field(
        default=True,
        metadata=_of(
            kind.switch(),
            "Whether an attempt's sessions in PostgreSQL are ended before its process is killed: "
            "a statement that waits there would be carried out after the attempt's end.",
        ),
    )
    memory_snapshot_bytes: int = field(
        default=64 * 2**20,
        metadata=_of(
            kind.size(0, 2**50),
            "An autopsy counts the objects of a process that uses more memory than this.",
        ),
    )
    log_records: int = field(
        default=100,
        metadata=_of(kind.whole(1, 10_000), "Newest log records of an attempt that are kept."),
    )
    stack_window: float = field(
        default=300,
        metadata=_of(
            kind.seconds(0, 3600),
            "The stacks of a running attempt, taken once a second, are kept for this long; "
            "0 takes none. Busy programs may fill the memory for them sooner.",
        ),
    )
    log_tail_bytes: int = field(
        default=64 * 2**10,
        metadata=_of(
            kind.size(1024, 16 * 2**20),
            "Newest output kept for every attempt that did not succeed.",
        ),
    )
    # What has long ended
    retention_success_days: int = field(
        default=30,
        metadata=_of(
            kind.whole(0, 36_500),
            "`supervisor archive` moves tasks that ended SUCCESS or CANCELED longer ago than this, "
            "with everything that is kept of them, to cold files.",
        ),
    )
    audit_archive_days: int = field(
        default=30,
        metadata=_of(
            kind.whole(0, 36_500),
            "`supervisor archive` moves audit rows older than this, of ended tasks that stay and "
            "of queues and nodes, to cold files.",
        ),
    )
    archive_dir: str = field(
        default="",
        metadata=_of(
            kind.path(),
            "Where cold files are kept, on the host that runs `supervisor archive`.",
            "archive beside the store's file, or in the user's state directory",
        ),
    )
    # What the table does not hold
    queue_tables: Mapping[str, Mapping[str, Any]] = field(default_factory=_empty)
    type_tables: Mapping[str, Mapping[str, Any]] = field(default_factory=_empty)
    sources: Mapping[str, str] = field(default_factory=_empty, compare=False, repr=False)
    _memo: dict[tuple[str, str, TaskOptions], TaskLimits] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        file = store_file(self.store)
        beside = file.parent if file is not None else state_dir()
        for name, place in (("autopsy_dir", "autopsies"), ("archive_dir", "archive")):
            if not getattr(self, name):
                object.__setattr__(self, name, str(beside / place))

    def for_task(
        self,
        type_name: str,
        queue: str,
        options: TaskOptions | None = None,
        *,
        timeout: float | None = None,
        soft_timeout: float | None = None,
        max_retries: int | None = None,
    ) -> TaskLimits:
        """Return the limits of one task: its own fields > type > queue > these settings.

        Of a type's two places, `[type.NAME]` beats the decorator: the operator has the last word.
        Remembers the answer per type and queue, so that a claim costs a dictionary look-up.
        """
        key = (type_name, queue, options or _NO_OPTIONS)
        limits = self._memo.get(key)
        if limits is None:
            limits = resolve(
                {name: getattr(self, name) for name in SCOPED},
                self.queue_tables.get(queue, {}),
                self.type_tables.get(type_name, {}),
                key[2],
            )
            if len(self._memo) >= MEMO_MAX:
                self._memo.clear()
            self._memo[key] = limits
        return with_task_fields(limits, timeout, soft_timeout, max_retries)

    def source_of(self, name: str) -> str:
        """Say where the value of a setting came from."""
        return self.sources.get(name, "default")
