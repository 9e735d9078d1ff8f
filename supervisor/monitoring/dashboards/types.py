"""Each task type: how it ends, how long it runs, what it counts and what it costs."""

from __future__ import annotations

from supervisor.monitoring.dashboards import limits
from supervisor.monitoring.dashboards.model import (
    Color,
    Column,
    Dashboard,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
    Style,
    Unit,
    Variable,
)
from supervisor.monitoring.dashboards.promql import (
    BY_TYPE,
    JOB,
    growth,
    largest,
    mean,
    own,
    quantile,
    rate,
    record,
    spread,
    total,
)
from supervisor.monitoring.dashboards.styles import BY_OUTCOME, by_quantile
from supervisor.monitoring.threshold import Thresholds

TYPE = (BY_TYPE,)
MEAN = "type:supervisor_running_duration_seconds:mean10m"
P99 = "type:supervisor_running_duration_seconds:p99_rate10m"
NEAR = "type:supervisor_over_80_percent_of_timeout:ratio_rate10m"
FAILED = "type:supervisor_failed_per_executed:ratio_rate10m"
CANCELED = "type:supervisor_canceled_per_finished:ratio_rate10m"


def types(alert: Thresholds) -> Dashboard:
    """Return the dashboard of task types."""
    return Dashboard(
        "types",
        "Task types",
        "Each task type: how it ends, how long it runs, what it counts and what it costs.",
        (
            Row("All types", (_table(alert),)),
            Row("How attempts end", (*_shares(alert), *_endings())),
            Row("How long they run", (*_durations(alert), *_running(alert))),
            Row("Business", _business()),
            Row("What they use", (*_machine(), *_traffic())),
        ),
        (Variable("type", "Type", f"supervisor_task_timeout_seconds{{{JOB}}}"),),
    )


def _of(name: str) -> str:
    return largest(record(name, BY_TYPE), "type")


def _table(alert: Thresholds) -> Panel:
    near = limits.from_half(alert.near_timeout_share)
    finished = record("type_outcome:supervisor_tasks_finished:rate10m", BY_TYPE)
    return Panel(
        Kind.TABLE,
        "Types",
        "The last 10 minutes of each type. Orange and red are where its alerts come near or fire; "
        "a cell is empty where nothing ended, or nothing runs.",
        Unit.SHORT,
        (
            Query(f"{total(finished, 'type')} * 60"),
            Query(_of(FAILED)),
            Query(_of(CANCELED)),
            Query(_of(MEAN)),
            Query(_of(P99)),
            Query(largest(own("task_timeout_seconds", BY_TYPE), "type")),
            Query(_of(NEAR)),
            Query(largest(own("running_oldest_age_seconds", BY_TYPE), "type")),
            Query(largest(own("running_timeout_used_ratio", BY_TYPE), "type")),
        ),
        width=24,
        height=13,
        columns=(
            Column("Type", label="type", unit=Unit.TEXT, width=220),
            Column("Ended a minute", decimals=1),
            Column("Failed", Unit.RATIO, limits.from_half(alert.failed_rate), decimals=1),
            Column("Canceled", Unit.RATIO, limits.from_half(alert.canceled_rate), decimals=1),
            Column("Mean", Unit.SECONDS, decimals=1),
            Column("p99", Unit.SECONDS, decimals=1),
            Column("Timeout", Unit.SECONDS),
            Column(
                "Over 80 % of it",
                Unit.RATIO,
                near,
                decimals=1,
            ),
            Column("Oldest running", Unit.SECONDS, decimals=1),
            Column("Of its timeout", Unit.RATIO, limits.used_of_timeout(alert), decimals=0),
        ),
        hidden=("Time",),
    )


def _shares(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Ended by outcome",
            "Attempts of the chosen types that ended, a second.",
            Unit.PER_S,
            (Query(rate("tasks_finished_total", "outcome", where=TYPE), "{{outcome}}"),),
            styles=BY_OUTCOME,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "Failed",
            "Failed and timed out over executed attempts, 10 minutes. Above the line for 5 minutes "
            "is TaskFailureRateHigh, given enough attempts.",
            Unit.RATIO,
            (Query(_of(FAILED), "{{type}}"),),
            limits=limits.at(alert.failed_rate),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Canceled",
            "Canceled over all ended attempts, 10 minutes. Above the line is TaskCancelRateHigh: "
            "a question for the product, not a fault of the supervisor.",
            Unit.RATIO,
            (Query(_of(CANCELED), "{{type}}"),),
            limits=limits.at(alert.canceled_rate),
            minimum=0,
        ),
    )


def _endings() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Retried and ended for good",
            "Attempts that got another try, and tasks that failed or timed out for good.",
            Unit.PER_S,
            (
                Query(rate("tasks_retried_total", "type", where=TYPE), "retried {{type}}"),
                Query(rate("tasks_dead_total", "type", where=TYPE), "for good {{type}}"),
            ),
        ),
        Panel(
            Kind.LINES,
            "Stop requests",
            "Cancels and forced ends of running tasks that reached the nodes.",
            Unit.SHORT,
            (Query(growth("cancel_requests_total", "type", where=TYPE), "{{type}}"),),
            as_bars=True,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "Refused and quarantined",
            "Results that came after the attempt had been ended, and tasks that killed so many "
            "workers that they run no more.",
            Unit.SHORT,
            (
                Query(growth("late_results_total", "type", where=TYPE), "late {{type}}"),
                Query(
                    growth("tasks_quarantined_total", "type", where=TYPE), "quarantined {{type}}"
                ),
            ),
            as_bars=True,
            stacked=True,
        ),
    )


def _durations(alert: Thresholds) -> tuple[Panel, ...]:
    quantiles = "type:supervisor_running_duration_seconds:{}_rate10m"
    return (
        Panel(
            Kind.LINES,
            "p50, p95, p99 and the timeout",
            "Of attempts that ended in the last 10 minutes; the largest of the chosen types, so "
            "choose one. As exact as the buckets are wide: between 10 and 30 s, p99 may lie above "
            "a timeout that no attempt went past.",
            Unit.SECONDS,
            (
                *(
                    Query(largest(record(quantiles.format(q), BY_TYPE)), q)
                    for q in ("p50", "p95", "p99")
                ),
                Query(largest(own("task_timeout_seconds", BY_TYPE)), "timeout"),
            ),
            styles=(*by_quantile("p50", "p95", "p99"), Style("timeout", Color.BAD, dashed=True)),
            minimum=0,
        ),
        Panel(
            Kind.HEATMAP,
            "Run times",
            "Ended attempts by their run time.",
            Unit.SECONDS,
            (Query(spread("running_duration_seconds", where=TYPE), "{{le}}"),),
        ),
        Panel(
            Kind.LINES,
            "Mean over expected",
            "Mean run time of 10 minutes over what the type declares as `expected_duration`; no "
            "line for types that declare none. Above the line is TaskMeanDurationHigh.",
            Unit.RATIO,
            (
                Query(
                    f"{_of(MEAN)} / "
                    f"({largest(own('task_expected_duration_seconds', BY_TYPE), 'type')} > 0)",
                    "{{type}}",
                ),
            ),
            limits=limits.at(alert.mean_times_expected),
            minimum=0,
        ),
    )


def _running(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Over 80 % of the timeout",
            "Share of ended attempts that used more than 80 % of their timeout, 10 minutes. Above "
            "the line is TaskRunningNearTimeout.",
            Unit.RATIO,
            (Query(_of(NEAR), "{{type}}"),),
            limits=limits.at(alert.near_timeout_share),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Timeout used by what runs",
            "The running attempt that has used most of its timeout.",
            Unit.RATIO,
            (Query(largest(own("running_timeout_used_ratio", BY_TYPE), "type"), "{{type}}"),),
            limits=limits.used_of_timeout(alert),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Since progress",
            "The longest time since a running attempt reported progress; types that report none "
            "stay at 0.",
            Unit.SECONDS,
            (Query(largest(own("running_since_progress_seconds", BY_TYPE), "type"), "{{type}}"),),
            limits=limits.at(alert.stall_s),
            minimum=0,
        ),
    )


def _business() -> tuple[Panel, ...]:
    step = "task_step_duration_seconds"
    return (
        Panel(
            Kind.LINES,
            "Counts",
            "What tasks count with `ctx.count`, a second.",
            Unit.PER_S,
            (Query(rate("task_counts_total", "type", "name", where=TYPE), "{{type}} {{name}}"),),
            width=6,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Error codes",
            "What tasks report with `ctx.error_code`, in each interval.",
            Unit.SHORT,
            (Query(growth("task_error_codes_total", "code", where=TYPE), "{{code}}"),),
            width=6,
            as_bars=True,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "p95 of steps",
            "Time within `ctx.step`.",
            Unit.SECONDS,
            (Query(quantile(0.95, step, "type", "step", where=TYPE), "{{type}} {{step}}"),),
            width=6,
            with_points=True,
            in_powers=True,
        ),
        Panel(
            Kind.LINES,
            "Mean of steps",
            "Time within `ctx.step`.",
            Unit.SECONDS,
            (Query(mean(step, "type", "step", where=TYPE), "{{type}} {{step}}"),),
            width=6,
            with_points=True,
            in_powers=True,
        ),
    )


def _machine() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Processor",
            "Cores used by ended attempts, user and system together.",
            Unit.SHORT,
            (Query(rate("task_cpu_seconds_total", "type", where=TYPE), "{{type}}"),),
            stacked=True,
            decimals=2,
        ),
        Panel(
            Kind.LINES,
            "p95 of peak memory",
            "Resident memory of the worker at its highest during an attempt.",
            Unit.BYTES,
            (Query(quantile(0.95, "task_max_rss_bytes", "type", where=TYPE), "{{type}}"),),
            with_points=True,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Open files",
            "Descriptors of the worker that holds most, of those that run the type.",
            Unit.SHORT,
            (Query(largest(own("task_open_fds", BY_TYPE), "type"), "{{type}}"),),
            limits=(Limit(1024, Color.WARN),),
            minimum=0,
        ),
    )


def _traffic() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Disk",
            "Bytes that ended attempts read from and wrote to storage.",
            Unit.BYTES_PER_S,
            (
                Query(
                    rate("task_io_bytes_total", "type", "direction", where=TYPE),
                    "{{type}} {{direction}}",
                ),
            ),
            width=12,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Network",
            "Bytes over TCP connections, as far as they were seen open: a lower bound.",
            Unit.BYTES_PER_S,
            (
                Query(
                    rate("task_network_bytes_total", "type", "direction", where=TYPE),
                    "{{type}} {{direction}}",
                ),
            ),
            width=12,
            minimum=0,
        ),
    )
