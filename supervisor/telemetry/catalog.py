"""The metric catalogue as data: name, kind, labels with their closed sets, unit, help, buckets.

A metric that is not here does not exist; docs/metrics.md is made from it. Names follow one rule:
`supervisor_<noun>_<unit>[_total]`. No label ever holds an id, a pid, a user or a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from supervisor.model.health import Code
from supervisor.model.states import CRASH_REASONS

PREFIX = "supervisor_"
OTHER = "_other"
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

# 15 edges from a fast body to the longest usual one: 50 ms to 1 h.
TASK_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
# Submit → claim is a few milliseconds when a worker is free.
WAIT_BUCKETS = (0.002, 0.005, 0.015, 0.05, 0.1, 0.25, 1, 2.5, 10, 30, 60, 300, 600, 1800, 3600)
# One loop turn and one commit: the floor is 20 ms at p99, anything past 1 s moves deadlines.
TURN_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
# A capture may take 10 s, a cancel the grace of 10 s and a capture.
STOP_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 12.5, 15, 20, 30, 60)

OUTCOMES = ("success", "failed", "canceled", "timeout", "requeued")
#: Sets that are known only when the app is: filled by `Metrics.allow`.
OPEN: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `labels` maps each label to its closed set (empty: registered at run time)."""

    name: str
    kind: str
    unit: str
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """The name as it is exposed."""
        return PREFIX + self.name


def _labels(**sets: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType(sets)


def _all() -> tuple[Metric, ...]:
    verdicts = tuple(str(code) for code in Code)
    return (
        *_of_queues(),
        *_of_attempts(),
        *_of_workers(verdicts),
        *_of_remains(),
        *_of_stops(),
        *_of_node(),
        *_of_many(),
    )


def _of_queues() -> tuple[Metric, ...]:
    queue = _labels(queue=OPEN)
    return (
        Metric("in_queue", GAUGE, "", "Tasks PENDING and due now.", queue),
        Metric("scheduled", GAUGE, "", "Tasks PENDING whose time has not come.", queue),
        Metric("running", GAUGE, "", "Tasks RUNNING now, assigned ones included.", queue),
        Metric(
            "queue_wait_seconds",
            HISTOGRAM,
            "seconds",
            "Time from due to claimed.",
            queue,
            WAIT_BUCKETS,
        ),
    )


def _of_attempts() -> tuple[Metric, ...]:
    kind = _labels(type=OPEN)
    ended = _labels(type=OPEN, outcome=OUTCOMES)
    return (
        Metric(
            "running_oldest_age_seconds",
            GAUGE,
            "seconds",
            "Age of the attempt of this node that has run longest; 0 when none runs.",
            kind,
        ),
        Metric("tasks_started_total", COUNTER, "", "Attempts whose first line ran.", kind),
        Metric(
            "tasks_finished_total",
            COUNTER,
            "",
            "Attempts that ended; requeued ones say nothing about the task.",
            ended,
        ),
        Metric(
            "running_duration_seconds",
            HISTOGRAM,
            "seconds",
            "Run time of ended attempts.",
            ended,
            TASK_BUCKETS,
        ),
        Metric("tasks_quarantined_total", COUNTER, "", "Tasks that killed too many workers.", kind),
        Metric("late_results_total", COUNTER, "", "Results refused: the attempt had ended.", kind),
        Metric(
            "illegal_transitions_total",
            COUNTER,
            "",
            "Moves outside the transition table that were refused; each is a bug.",
        ),
    )


def _of_workers(verdicts: tuple[str, ...]) -> tuple[Metric, ...]:
    return (
        Metric(
            "workers",
            GAUGE,
            "",
            "Worker processes by state.",
            _labels(state=("starting", "idle", "busy", "stopping")),
        ),
        Metric(
            "worker_spawns_total",
            COUNTER,
            "",
            "Workers born, by why.",
            _labels(reason=("initial", "replace", "recycle", "reload")),
        ),
        Metric(
            "worker_exits_total",
            COUNTER,
            "",
            "Workers reaped, by why they ended.",
            _labels(
                reason=("recycled", "interrupted", "stopped", "boot_failed", "crashed", "killed")
            ),
        ),
        Metric(
            "zombies",
            GAUGE,
            "",
            "RUNNING attempts that are alive by row and dead by work.",
            _labels(kind=("lost", "stalled", "heartbeat_lost", "orphan")),
        ),
        Metric("unreaped", GAUGE, "", "Defunct children not yet reaped."),
        Metric(
            "kills_total",
            COUNTER,
            "",
            "Workers killed with their tree, by verdict.",
            _labels(verdict=(*verdicts, "shutdown", "fenced")),
        ),
        Metric("types_held", GAUGE, "", "Types that wait since they ended too many workers."),
        Metric("restart_halted", GAUGE, "", "1 while the pool waits for a person."),
    )


def _of_remains() -> tuple[Metric, ...]:
    return (
        Metric(
            "left_behind_total",
            COUNTER,
            "",
            "What there was more of after attempts (descriptors, threads, shared memory) or was "
            "cleared after them (child processes, scratch files).",
            _labels(kind=("fd", "thread", "segment", "child", "file")),
        ),
        Metric(
            "crashes_total",
            COUNTER,
            "",
            "Attempts whose worker died under them, by how.",
            _labels(reason=tuple(sorted(CRASH_REASONS))),
        ),
    )


def _of_stops() -> tuple[Metric, ...]:
    return (
        Metric(
            "autopsies_total",
            COUNTER,
            "",
            "Autopsies by how complete they are; busy was not done.",
            _labels(status=("complete", "partial", "failed", "busy")),
        ),
        Metric(
            "autopsy_duration_seconds",
            HISTOGRAM,
            "seconds",
            "Time a capture took.",
            buckets=STOP_BUCKETS,
        ),
        Metric(
            "cancel_requests_total",
            COUNTER,
            "",
            "Stop marks on running tasks that reached this node.",
            _labels(type=OPEN),
        ),
        Metric(
            "cancel_latency_seconds",
            HISTOGRAM,
            "seconds",
            "Time from a stop request to the attempt verified gone.",
            buckets=STOP_BUCKETS,
        ),
        Metric(
            "cancel_overdue",
            GAUGE,
            "",
            "Stop requests older than grace and capture whose attempt is not verified gone.",
        ),
    )


def _of_many() -> tuple[Metric, ...]:
    return (
        Metric("fenced", GAUGE, "", "1 while the node may run nothing, for want of a lease."),
        Metric("fences_total", COUNTER, "", "Times the node could not renew its lease."),
        Metric("sweeper_leading", GAUGE, "", "1 while this node ends what lost nodes ran."),
        Metric(
            "clock_skew_seconds",
            GAUGE,
            "seconds",
            "By how much the host's wall clock is ahead of the store's.",
        ),
        Metric(
            "store_conflicts_total",
            COUNTER,
            "",
            "Transactions that another one stood in the way of, and that were tried again.",
        ),
        Metric("claims_tried_total", COUNTER, "", "Tasks that the node tried to claim."),
        Metric(
            "claims_missed_total",
            COUNTER,
            "",
            "Of those, the ones that another node had, or that waited no longer.",
        ),
    )


def _of_node() -> tuple[Metric, ...]:
    return (
        Metric(
            "loop_lag_seconds",
            HISTOGRAM,
            "seconds",
            "How late a turn of the loop was.",
            buckets=TURN_BUCKETS,
        ),
        Metric("loop_errors_total", COUNTER, "", "Steps of the loop that raised."),
        Metric(
            "loop_last_tick_timestamp_seconds",
            GAUGE,
            "seconds",
            "Unix time at which the loop last finished a turn.",
        ),
        Metric("store_up", GAUGE, "", "1 while the store answers."),
        Metric(
            "store_commit_duration_seconds",
            HISTOGRAM,
            "seconds",
            "Time of one group commit.",
            buckets=TURN_BUCKETS,
        ),
        Metric("store_errors_total", COUNTER, "", "Store operations that failed."),
        Metric(
            "label_values_dropped_total",
            COUNTER,
            "",
            "Label values outside their closed set, folded into _other.",
            _labels(
                label=("queue", "type", "outcome", "state", "reason", "kind", "verdict", "status")
            ),
        ),
        Metric(
            "build_info",
            GAUGE,
            "",
            "The version that runs; always 1.",
            _labels(version=OPEN, python_version=OPEN),
        ),
    )


CATALOG: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _all()})
