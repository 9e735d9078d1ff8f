"""The metric catalogue: what there is of queues and attempts, and all metrics together.

A metric that is not here does not exist; docs/metrics.md is made from it. Names follow one rule:
`supervisor_<noun>_<unit>[_total]`. No label ever holds an id, a pid, a user or a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from supervisor.model.states import CRASH_REASONS
from supervisor.telemetry.catalog_node import of_node, of_stops, of_workers
from supervisor.telemetry.catalog_task import of_business, of_resources
from supervisor.telemetry.metric import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    MIXED,
    OPEN,
    OTHER,
    PREFIX,
    PROCESS,
    RATIO_BUCKETS,
    STORE,
    TASK_BUCKETS,
    WAIT_BUCKETS,
    Metric,
    counter,
    gauge,
    histogram,
    labels,
    of_store,
    seen,
)

__all__ = [
    "CATALOG",
    "COUNTER",
    "EXECUTED",
    "GAUGE",
    "HISTOGRAM",
    "MIXED",
    "OPEN",
    "OTHER",
    "OUTCOMES",
    "PREFIX",
    "PROCESS",
    "STORE",
    "Metric",
]

#: How an attempt ends. The endings that say nothing about the task are *requeued*.
OUTCOMES = ("success", "failed", "canceled", "timeout", "requeued")
EXECUTED = OUTCOMES[:-1]


def _all() -> tuple[Metric, ...]:
    return (
        *_of_queues(),
        *_of_attempts(),
        *_of_running(),
        *_of_zombies(),
        *of_workers(),
        *_of_remains(),
        *of_stops(),
        *of_node(),
        *of_resources(),
        *of_business(),
    )


def _of_queues() -> tuple[Metric, ...]:
    return (
        of_store("in_queue", "Tasks PENDING and due now.", queue=OPEN, type=OPEN),
        of_store("scheduled", "Tasks PENDING whose time has not come.", queue=OPEN, type=OPEN),
        of_store("running", "Tasks RUNNING now, assigned ones included.", queue=OPEN, type=OPEN),
        of_store(
            "queue_oldest_age_seconds",
            "Time since the oldest due task of the queue has been due; 0 when none is.",
            unit="seconds",
            queue=OPEN,
        ),
        of_store("queue_paused", "1 while the queue, or a priority of it, is paused.", queue=OPEN),
        of_store("outbox_pending", "Tasks whose bell has not been rung yet."),
        histogram("queue_wait_seconds", "Time from due to claimed.", WAIT_BUCKETS, queue=OPEN),
    )


def _of_attempts() -> tuple[Metric, ...]:
    return (
        counter("tasks_started_total", "Attempts whose first line ran.", queue=OPEN, type=OPEN),
        counter(
            "tasks_finished_total",
            "Attempts that ended; requeued ones say nothing about the task.",
            queue=OPEN,
            type=OPEN,
            outcome=OUTCOMES,
        ),
        counter("tasks_retried_total", "Attempts after which a task tries again.", type=OPEN),
        counter(
            "tasks_dead_total", "Tasks that ended FAILED or TIMEOUT for good.",
            queue=OPEN, type=OPEN,
        ),
        histogram(
            "running_duration_seconds", "Run time of ended attempts; requeued ones are left out.",
            TASK_BUCKETS, type=OPEN, outcome=EXECUTED,
        ),
        histogram(
            "timeout_used_ratio",
            "Run time of ended attempts divided by their own timeout; requeued ones are left out.",
            RATIO_BUCKETS, unit="ratio", type=OPEN,
        ),
        counter("tasks_quarantined_total", "Tasks that killed too many workers.", type=OPEN),
        counter("late_results_total", "Results refused: the attempt had ended.", type=OPEN),
        counter(
            "illegal_transitions_total",
            "Moves outside the transition table that were refused; each is a bug.",
        ),
        of_store(
            "running_duration_p99_seconds",
            "Exact p99 of the run time of attempts that ended in the last 10 minutes.",
            unit="seconds",
            type=OPEN,
        ),
        of_store(
            "failed_rate",
            "(failed + timeout) / (success + failed + timeout), last 10 minutes, exact.",
            type=OPEN,
        ),
        of_store(
            "canceled_rate",
            "canceled / (success + failed + timeout + canceled), last 10 minutes, exact.",
            type=OPEN,
        ),
    )  # fmt: skip


def _of_running() -> tuple[Metric, ...]:
    return (
        gauge(
            "task_timeout_seconds", "Timeout of the type, as its tasks get it without saying so.",
            unit="seconds", type=OPEN,
        ),
        gauge(
            "task_expected_duration_seconds",
            "Mean run time that the type declares; 0 when it declares none.",
            unit="seconds", type=OPEN,
        ),
        gauge(
            "task_memory_limit_bytes",
            "Resident memory above which on_memory acts on tasks of the type; 0 when it has no "
            "limit.",
            unit="bytes", type=OPEN,
        ),
        seen(
            "running_oldest_age_seconds",
            "Age of the attempt of this node that has run longest; 0 when none runs.",
            unit="seconds", type=OPEN,
        ),
        seen(
            "running_timeout_used_ratio",
            "Largest age divided by timeout of what runs on this node; 0 when nothing runs.",
            unit="ratio", type=OPEN,
        ),
        seen(
            "running_since_progress_seconds",
            "Longest time since progress of what runs on this node and has reported any; else 0.",
            unit="seconds", type=OPEN,
        ),
        seen(
            "running_memory_bytes",
            "Resident memory of the largest worker of this node that runs the type; 0 when none "
            "does.",
            unit="bytes", type=OPEN,
        ),
    )  # fmt: skip


def _of_zombies() -> tuple[Metric, ...]:
    kinds = ("lost", "stalled", "heartbeat_lost", "orphan")
    return (
        Metric(
            "zombies",
            GAUGE,
            "",
            "RUNNING attempts whose node is gone (lost, the same from every node); of this node: "
            "those without progress or heartbeat, and stray processes of ended attempts (orphan).",
            labels(kind=kinds),
            scope=MIXED,
            at_scrape=True,
        ),
        counter("zombies_detected_total", "Zombies that this node has found, by kind.", kind=kinds),
    )


def _of_remains() -> tuple[Metric, ...]:
    return (
        counter(
            "left_behind_total",
            "What there was more of after attempts (descriptors, threads, shared memory) or was "
            "cleared after them (child processes, scratch files).",
            kind=("fd", "thread", "segment", "child", "file"),
        ),
        counter(
            "crashes_total",
            "Attempts whose worker died under them, by how.",
            reason=tuple(sorted(CRASH_REASONS)),
        ),
    )


CATALOG: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _all()})
