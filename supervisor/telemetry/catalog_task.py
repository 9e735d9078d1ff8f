"""The part of the catalogue that tasks fill themselves: what they use, and what they say they do.

Data only. A worker reads the edges of its buckets here, so this stays as light as `metric`.
"""

from __future__ import annotations

from supervisor.telemetry.metric import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    OPEN,
    TASK_BUCKETS,
    Metric,
    labels,
    seen,
)

#: Steps of a task last as long as tasks do.
STEP_BUCKETS = TASK_BUCKETS
# 14 edges from a good answer in a data centre to the longest time-out that people set.
CALL_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
# A worker that has imported little takes 30 MiB; machines have up to some dozen GiB.
MEMORY_BUCKETS = tuple(2.0**power for power in range(25, 36))

CPU_MODES = ("user", "system")
IO_DIRECTIONS = ("read", "written")
NETWORK_DIRECTIONS = ("received", "sent")
CALL_OUTCOMES = ("ok", "error")


def of_resources() -> tuple[Metric, ...]:
    """Return what attempts use, by type: CPU, memory, storage, network, descriptors."""
    return (
        seen(
            "task_cpu_seconds_total",
            "CPU time that workers and the children they waited for used with attempts.",
            kind=COUNTER,
            unit="seconds",
            type=OPEN,
            mode=CPU_MODES,
        ),
        seen(
            "task_io_bytes_total",
            "Bytes that attempts had read from and written to storage; what memory answers "
            "is not among them.",
            kind=COUNTER,
            unit="bytes",
            type=OPEN,
            direction=IO_DIRECTIONS,
        ),
        seen(
            "task_network_bytes_total",
            "Bytes over TCP connections of attempts, as far as one was seen open: a lower bound.",
            kind=COUNTER,
            unit="bytes",
            type=OPEN,
            direction=NETWORK_DIRECTIONS,
        ),
        _durations(
            "task_max_rss_bytes",
            "Most memory a worker ever had resident, at the end of each attempt.",
            MEMORY_BUCKETS,
            "bytes",
            type=OPEN,
        ),
        seen(
            "task_open_fds",
            "Open descriptors of the worker that has most, of those that run the type; 0 if none "
            "does.",
            kind=GAUGE,
            type=OPEN,
        ),
    )


def of_business() -> tuple[Metric, ...]:
    """Return what task bodies say of themselves, through their context."""
    return (
        seen(
            "task_counts_total",
            "What bodies counted: ctx.count(name, n).",
            kind=COUNTER,
            type=OPEN,
            name=OPEN,
        ),
        seen(
            "task_error_codes_total",
            "Errors that bodies told by their code: ctx.error_code(code).",
            kind=COUNTER,
            type=OPEN,
            code=OPEN,
        ),
        _durations(
            "task_step_duration_seconds",
            "Time that steps of bodies took: with ctx.step(name).",
            STEP_BUCKETS,
            type=OPEN,
            step=OPEN,
        ),
        _durations(
            "call_duration_seconds",
            "Time that calls of other services took: with ctx.call(service).",
            CALL_BUCKETS,
            service=OPEN,
        ),
        seen(
            "calls_total",
            "Calls of other services that are over; error is one that an exception left, or that "
            "had not come back when its attempt was ended.",
            kind=COUNTER,
            service=OPEN,
            outcome=CALL_OUTCOMES,
        ),
        seen(
            "call_in_flight",
            "Calls of other services that have not come back yet.",
            kind=GAUGE,
            service=OPEN,
        ),
    )


def _durations(
    name: str,
    text: str,
    buckets: tuple[float, ...],
    /,
    unit: str = "seconds",
    **sets: tuple[str, ...],
) -> Metric:
    return Metric(name, HISTOGRAM, unit, text, labels(**sets), buckets, at_scrape=True)
