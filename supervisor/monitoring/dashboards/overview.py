"""The first page: is it well now, what does it do, what is wrong."""

from __future__ import annotations

from supervisor.monitoring.dashboards import limits
from supervisor.monitoring.dashboards.model import (
    Color,
    Column,
    Dashboard,
    Kind,
    Limit,
    Named,
    Panel,
    Query,
    Row,
    Style,
    Unit,
)
from supervisor.monitoring.dashboards.promql import (
    firing,
    largest,
    own,
    rate,
    record,
    smallest,
    store,
    total,
)
from supervisor.monitoring.dashboards.styles import BY_OUTCOME, BY_STATE, WANTED
from supervisor.monitoring.threshold import Thresholds

BY = "severity, alertname, type, queue, service, instance"
#: The gravest first: the table has room for the first few.
GRAVITY = {"critical": 3, "warning": 2, "info": 1}
FIRING = (
    "sort_desc("
    + " or ".join(f"max by ({BY}) ({firing(one)}) * {rank}" for one, rank in GRAVITY.items())
    + ")"
)
OVER_TIME = f"max by (alertname) ({firing('critical', 'warning')})"


SEVERITIES = (
    Named("critical", "critical", Color.BAD),
    Named("warning", "warning", Color.WARN),
    Named("info", "info", Color.CALM),
)


def overview(alert: Thresholds) -> Dashboard:
    """Return the dashboard that people open first."""
    return Dashboard(
        "overview",
        "Overview",
        "Is it well now, what does it do, what is wrong.",
        (
            Row("Now", (*_of_tasks(alert), *_of_processes(alert))),
            Row("Traffic, errors, time, room", (*_traffic(alert), *_room(alert))),
            Row("Alerts", _alerts()),
        ),
    )


def _number(
    title: str,
    description: str,
    unit: Unit,
    expr: str,
    leads_to: str,
    limits: tuple[Limit, ...] = (),
    low: Color = Color.GOOD,
    decimals: int | None = None,
    when_empty: str = "",
) -> Panel:
    return Panel(
        Kind.NUMBER,
        title,
        description,
        unit,
        (Query(expr),),
        width=3,
        height=4,
        limits=limits,
        low=low,
        decimals=decimals,
        when_empty=when_empty,
        leads_to=leads_to,
    )


def _of_tasks(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        _number(
            "In queue",
            "Tasks that are PENDING and due.",
            Unit.SHORT,
            f"sum({record('supervisor:in_queue')})",
            "queues",
        ),
        _number(
            "Running",
            "Tasks that are RUNNING, assigned ones included.",
            Unit.SHORT,
            f"sum({record('queue:supervisor_running:sum')})",
            "types",
        ),
        _number(
            "p99 run time",
            "Of attempts that ended in the last 10 minutes, all types together. What counts is "
            "each type against its own timeout: Task types shows that.",
            Unit.SECONDS,
            f"max({record('supervisor:running_duration_p99')})",
            "types",
            decimals=1,
            when_empty="idle",
        ),
        _number(
            "Failed",
            "Failed and timed out attempts over executed ones, 10 minutes.",
            Unit.RATIO,
            f"max({record('supervisor:failed_rate')})",
            "types",
            limits=limits.from_half(alert.failed_rate),
            decimals=1,
            when_empty="idle",
        ),
        _number(
            "Canceled",
            "Canceled attempts over all that ended, 10 minutes.",
            Unit.RATIO,
            f"max({record('supervisor:canceled_rate')})",
            "types",
            limits=limits.from_half(alert.canceled_rate),
            decimals=1,
            when_empty="idle",
        ),
    )


def _of_processes(alert: Thresholds) -> tuple[Panel, ...]:
    alive = record("instance:supervisor_workers_alive_per_desired:ratio")
    return (
        _number(
            "Zombies",
            "Attempts that run by their row and are dead by their work. Any at all is an alert.",
            Unit.SHORT,
            f"sum({record('supervisor:zombie_count')})",
            "workers",
            limits=limits.any_at_all(),
        ),
        _number(
            "Workers alive",
            "Workers with a fresh heartbeat over those wanted, mean of 5 minutes.",
            Unit.RATIO,
            f"min(avg_over_time({alive}[5m]))",
            "workers",
            limits=limits.good_from(alert.survival),
            low=Color.BAD,
            decimals=1,
        ),
        _number(
            "Nodes",
            "Nodes that answer the scrape.",
            Unit.SHORT,
            'sum(up{job=~"$job", instance=~"$instance"})',
            "internals",
            limits=(Limit(1, Color.GOOD),),
            low=Color.BAD,
        ),
    )


def _traffic(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Ended attempts",
            "By how they ended. Requeued ones were interrupted by a stop and count in no rate.",
            Unit.PER_S,
            (Query(rate("tasks_finished_total", "outcome"), "{{outcome}}"),),
            width=12,
            styles=BY_OUTCOME,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "Waiting",
            "Tasks that are PENDING and due, by queue.",
            Unit.SHORT,
            (Query(total(record("queue:supervisor_in_queue:sum"), "queue"), "{{queue}}"),),
            width=12,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Failed and canceled",
            "Shares of 10 minutes over all types; the dashed lines are what the alerts compare a "
            "single type with.",
            Unit.RATIO,
            (
                Query(largest(record("supervisor:failed_rate")), "failed"),
                Query(largest(record("supervisor:canceled_rate")), "canceled"),
                Query(limits.line(alert.failed_rate), "failed: alert"),
                Query(limits.line(alert.canceled_rate), "canceled: alert"),
            ),
            styles=(
                Style("failed", Color.BAD),
                Style("canceled", Color.WARN),
                Style("failed: alert", Color.BAD, dashed=True),
                Style("canceled: alert", Color.WARN, dashed=True),
            ),
            minimum=0,
        ),
    )


def _room(alert: Thresholds) -> tuple[Panel, ...]:
    p99 = record("type:supervisor_running_duration_seconds:p99_rate10m")
    return (
        Panel(
            Kind.LINES,
            "p99 run time by type",
            "Of attempts that ended in the last 10 minutes; no line where none ended.",
            Unit.SECONDS,
            (Query(largest(p99, "type"), "{{type}}"),),
            in_powers=True,
        ),
        Panel(
            Kind.LINES,
            "Workers",
            "Worker processes by state, against the number wanted.",
            Unit.SHORT,
            (
                Query(total(own("workers"), "state"), "{{state}}"),
                Query(total(own("workers_desired")), "wanted"),
            ),
            styles=(*BY_STATE, WANTED),
            stacked=True,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Share of the timeout used by what runs",
            "The attempt that has used most of its timeout, by type: above 100 % it should have "
            "been ended.",
            Unit.RATIO,
            (Query(largest(own("running_timeout_used_ratio"), "type"), "{{type}}"),),
            width=12,
            limits=(Limit(1, Color.BAD),),
            minimum=0,
        ),
        Panel(
            Kind.BARS,
            "Oldest due task",
            "How long the task that is due longest has waited, by queue.",
            Unit.SECONDS,
            (Query(largest(store("queue_oldest_age_seconds"), "queue"), "{{queue}}"),),
            width=6,
            limits=limits.from_half(alert.queue_wait_s),
            minimum=0,
        ),
        _dependencies(),
    )


def _dependencies() -> Panel:
    return Panel(
        Kind.NUMBER,
        "Dependencies",
        "Whether they answer all the nodes: the store and the doorbell.",
        Unit.SHORT,
        (
            Query(smallest(own("store_up")), "store"),
            Query(smallest(own("bell_up")), "doorbell"),
        ),
        width=6,
        limits=(Limit(1, Color.GOOD),),
        low=Color.BAD,
        named=(Named("0", "away", Color.BAD), Named("1", "up", Color.GOOD)),
        leads_to="dependencies",
    )


def _alerts() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.TABLE,
            "Firing alerts",
            "What fires now, the gravest first. The runbook of each alert says what to do.",
            Unit.SHORT,
            (Query(FIRING),),
            width=12,
            height=10,
            columns=(
                Column("Severity", label="severity", width=90, named=SEVERITIES),
                Column("Alert", label="alertname", width=220),
                Column("Type", label="type"),
                Column("Queue", label="queue"),
                Column("Service", label="service"),
                Column("Node", label="instance"),
            ),
            hidden=("Time", "Value"),
        ),
        Panel(
            Kind.STATES,
            "Alerts over time",
            "Critical ones and warnings, while they fired.",
            Unit.COUNT,
            (Query(OVER_TIME, "{{alertname}}"),),
            width=12,
            height=10,
            named=(Named("1", "firing", Color.BAD),),
            when_empty="none",
        ),
    )
