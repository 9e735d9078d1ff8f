"""The part of the metric catalogue that is about the node itself: workers, stops, loop, store.

`catalog` puts it together with the rest.
"""

from __future__ import annotations

from supervisor.model.health import Code
from supervisor.telemetry.metric import (
    BIRTH_BUCKETS,
    COUNTER,
    OPEN,
    STOP_BUCKETS,
    TURN_BUCKETS,
    Metric,
    counter,
    gauge,
    histogram,
    seen,
)

#: How far down the ladder a stop had to go.
PHASES = ("asked", "interrupted", "killed")
#: The collectors that make samples at scrape time.
COLLECTORS = ("backlog", "recent", "zombies", "workers")
WORKER_STATES = ("starting", "idle", "busy", "stopping")


def of_workers() -> tuple[Metric, ...]:
    """Return what there is of the worker processes of a node."""
    return (
        gauge("workers", "Worker processes by state.", state=WORKER_STATES),
        gauge("workers_desired", "Workers that the node wants."),
        gauge("workers_alive", "Workers that may be assigned to and whose heart beats."),
        counter(
            "worker_spawns_total",
            "Workers born, by why.",
            reason=("initial", "replace", "recycle", "reload"),
        ),
        counter("worker_spawn_failures_total", "Workers that died before they were ready."),
        histogram(
            "worker_spawn_duration_seconds",
            "Time from asking for a worker to its being ready.",
            BIRTH_BUCKETS,
        ),
        counter(
            "worker_exits_total",
            "Workers reaped, by why they ended.",
            reason=("recycled", "interrupted", "stopped", "boot_failed", "crashed", "killed"),
        ),
        *_of_slots(),
        gauge("unreaped", "Children of the node that have ended and are not reaped."),
        counter(
            "kills_total",
            "Workers killed with their tree, by verdict.",
            verdict=(*(str(code) for code in Code), "shutdown", "fenced"),
        ),
        gauge("types_held", "Types that wait since they ended too many workers."),
        gauge(
            "restart_halted",
            "1 while no worker is born since too many died; tried again after 2 s to a minute.",
        ),
    )


def _of_slots() -> tuple[Metric, ...]:
    """A slot is a place for a worker, 0 to `workers` - 1; its next worker takes it over."""
    return (
        seen(
            "worker_heartbeat_age_seconds",
            "Time since the heart of the slot's worker beat last.",
            unit="seconds",
            slot=OPEN,
        ),
        seen(
            "worker_cpu_seconds_total",
            "CPU time of the slot's workers and of those children they have waited for.",
            kind=COUNTER,
            unit="seconds",
            slot=OPEN,
        ),
        seen(
            "worker_resident_memory_bytes",
            "Resident memory of the slot's worker.",
            unit="bytes",
            slot=OPEN,
        ),
        seen("worker_open_fds", "Open descriptors of the slot's worker.", slot=OPEN),
    )


def of_stops() -> tuple[Metric, ...]:
    """Return what there is of attempts that were told to stop, and of autopsies."""
    return (
        counter(
            "autopsies_total",
            "Autopsies by how complete they are; busy was not done.",
            status=("complete", "partial", "failed", "busy"),
        ),
        histogram("autopsy_duration_seconds", "Time a capture took.", STOP_BUCKETS),
        counter(
            "cancel_requests_total",
            "Stop marks on running tasks that reached this node.",
            type=OPEN,
        ),
        counter(
            "stops_total",
            "Attempts that a cancel or their soft time limit told to stop and that have ended, by "
            "how far that had to go: asked is one that ended without an interrupt.",
            phase=PHASES,
        ),
        histogram(
            "cancel_latency_seconds",
            "Time from a stop request to the attempt verified gone.",
            STOP_BUCKETS,
        ),
        gauge(
            "cancel_overdue",
            "Stop requests older than grace and capture whose attempt is not verified gone.",
        ),
    )


def of_node() -> tuple[Metric, ...]:
    """Return what there is of the node's own life, loop, store, bell and lease."""
    return (
        *_of_life(),
        *_of_loop(),
        *_of_many(),
        seen(
            "collector_duration_seconds",
            "Time the collector took when it last ran, or has taken so far.",
            unit="seconds",
            collector=COLLECTORS,
        ),
        seen(
            "collector_success",
            "1 if the collector could tell; its samples are absent where it could not.",
            collector=COLLECTORS,
        ),
        counter("otel_export_failures_total", "OTLP exports that failed.", signal=("traces",)),
        counter(
            "label_values_dropped_total",
            "Label values outside their closed set, folded into _other.",
            label=("queue", "type", "outcome", "state", "reason", "kind", "verdict", "status",
                   "phase", "signal", "name", "code", "step", "service"),
        ),
    )  # fmt: skip


def _of_life() -> tuple[Metric, ...]:
    return (
        gauge("build_info", "The version that runs; always 1.", version=OPEN, python_version=OPEN),
        gauge("start_time_seconds", "Unix time at which the node began.", unit="seconds"),
        gauge("draining", "1 while the node takes no more tasks: it was asked to, or it stops."),
        gauge("stopping", "1 while the node stops."),
        gauge("config_last_reload_successful", "1 if the settings read last are in force."),
        gauge(
            "config_last_reload_success_timestamp_seconds",
            "Unix time at which settings came into force.",
            unit="seconds",
        ),
    )


def _of_loop() -> tuple[Metric, ...]:
    return (
        histogram("loop_lag_seconds", "How late a turn of the loop was.", TURN_BUCKETS),
        counter("loop_errors_total", "Steps of the loop that raised."),
        gauge(
            "loop_last_tick_timestamp_seconds",
            "Unix time at which the loop last finished a turn.",
            unit="seconds",
        ),
        gauge("store_up", "1 while the store answers."),
        histogram("store_commit_duration_seconds", "Time of one group commit.", TURN_BUCKETS),
        counter("store_errors_total", "Store operations that failed."),
        counter(
            "store_conflicts_total",
            "Transactions that another one stood in the way of, and that were tried again.",
        ),
        gauge("bell_up", "1 while the doorbell answers."),
    )


def _of_many() -> tuple[Metric, ...]:
    return (
        gauge("fenced", "1 while the node may run nothing, for want of a lease."),
        counter("fences_total", "Times the node could not renew its lease."),
        gauge("sweeper_leading", "1 while this node ends what lost nodes ran."),
        gauge(
            "clock_skew_seconds",
            "By how much the host's wall clock is ahead of the store's.",
            unit="seconds",
        ),
        counter("claims_tried_total", "Tasks that the node tried to claim."),
        counter(
            "claims_missed_total",
            "Of those, the ones that another node had, or that waited no longer.",
        ),
    )
