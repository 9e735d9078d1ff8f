"""What tasks and nodes depend on: services that tasks call, the store, the doorbell."""

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
    Variable,
)
from supervisor.monitoring.dashboards.promql import (
    BY_SERVICE,
    JOB,
    growth,
    largest,
    own,
    quantile,
    rate,
    record,
    share,
    smallest,
    spread,
    store,
)
from supervisor.monitoring.dashboards.styles import by_quantile
from supervisor.monitoring.threshold import Thresholds

SERVICE = (BY_SERVICE,)
FAILED = "service:supervisor_calls_failed:ratio_rate5m"
MEAN = "service:supervisor_call_duration_seconds:mean5m"
#: That of the records above.
LAST = "[5m]"
IN_FLIGHT = "service:supervisor_call_in_flight:sum"
ANSWERS = (Named("0", "away", Color.BAD), Named("1", "answers", Color.GOOD))


def dependencies(alert: Thresholds) -> Dashboard:
    """Return the dashboard of the system layer."""
    return Dashboard(
        "dependencies",
        "Dependencies",
        "What tasks and nodes depend on: services that tasks call, the store, the doorbell.",
        (
            Row("Services", (_table(alert), *_calls(alert), *_times())),
            Row("Store", _store()),
            Row("Doorbell", _bell(alert)),
        ),
        (Variable("service", "Service", f"supervisor_calls_total{{{JOB}}}"),),
    )


def _of(name: str) -> str:
    return largest(record(name, BY_SERVICE), "service")


def _table(alert: Thresholds) -> Panel:
    failed = limits.from_half(alert.dependency_error_share)
    slow = limits.from_half(alert.dependency_mean_s)
    return Panel(
        Kind.TABLE,
        "Services",
        "Calls that tasks make within `ctx.call`, the last 5 minutes.",
        Unit.SHORT,
        (
            Query(f"{rate('calls_total', 'service', where=SERVICE, over=LAST)} * 60"),
            Query(_of(FAILED)),
            Query(_of(MEAN)),
            Query(quantile(0.95, "call_duration_seconds", "service", where=SERVICE, over=LAST)),
            Query(_of(IN_FLIGHT)),
        ),
        width=24,
        height=8,
        columns=(
            Column("Service", label="service", unit=Unit.TEXT, width=220),
            Column("Calls a minute", decimals=1),
            Column("Failed", Unit.RATIO, failed, decimals=1),
            Column("Mean", Unit.SECONDS, slow, decimals=2),
            Column("p95", Unit.SECONDS, decimals=2),
            Column("In flight", decimals=0),
        ),
        hidden=("Time",),
    )


def _calls(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Calls",
            "Calls that ended, a second.",
            Unit.PER_S,
            (Query(rate("calls_total", "service", where=SERVICE), "{{service}}"),),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Failed",
            "Share of calls that ended in an exception, 5 minutes. At the line it is an alert.",
            Unit.RATIO,
            (Query(_of(FAILED), "{{service}}"),),
            limits=limits.at(alert.dependency_error_share),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Mean time",
            "Mean of the calls of 5 minutes. At the line it is an alert.",
            Unit.SECONDS,
            (Query(_of(MEAN), "{{service}}"),),
            limits=limits.at(alert.dependency_mean_s),
            minimum=0,
        ),
    )


def _times() -> tuple[Panel, ...]:
    call = "call_duration_seconds"
    return (
        Panel(
            Kind.LINES,
            "p95 time",
            "Of calls that ended.",
            Unit.SECONDS,
            (Query(quantile(0.95, call, "service", where=SERVICE), "{{service}}"),),
            with_points=True,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "In flight",
            "Calls that have begun and not ended. A level that only rises is a service that does "
            "not answer.",
            Unit.SHORT,
            (Query(_of(IN_FLIGHT), "{{service}}"),),
            minimum=0,
        ),
        Panel(
            Kind.HEATMAP,
            "How long calls took",
            "Calls of the chosen services by their time.",
            Unit.SECONDS,
            (Query(spread(call, where=SERVICE), "{{le}}"),),
        ),
    )


def _store() -> tuple[Panel, ...]:
    commit = "store_commit_duration_seconds"
    return (
        Panel(
            Kind.STATES,
            "Store",
            "Whether the store answers each node.",
            Unit.COUNT,
            (Query(smallest(own("store_up"), "instance"), "{{instance}}"),),
            width=6,
            named=ANSWERS,
        ),
        _commit_time(commit),
        Panel(
            Kind.LINES,
            "Commits",
            "Group commits a second; one carries all that was waiting.",
            Unit.PER_S,
            (Query(rate(f"{commit}_count", "instance"), "{{instance}}"),),
            width=6,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Errors and conflicts",
            "Operations that failed, and transactions that were tried again because another one "
            "stood in the way. Conflicts are normal where many nodes share a store.",
            Unit.SHORT,
            (
                Query(growth("store_errors_total"), "errors"),
                Query(growth("store_conflicts_total"), "conflicts"),
            ),
            width=6,
            styles=(Style("errors", Color.BAD), Style("conflicts", Color.CALM)),
            as_bars=True,
            stacked=True,
        ),
    )


def _commit_time(commit: str) -> Panel:
    return Panel(
        Kind.LINES,
        "Time of a commit",
        "One group commit of a node's writer.",
        Unit.SECONDS,
        (
            Query(quantile(0.5, commit), "p50"),
            Query(quantile(0.95, commit), "p95"),
            Query(quantile(0.99, commit), "p99"),
        ),
        width=6,
        styles=by_quantile("p50", "p95", "p99"),
        with_points=True,
        minimum=0,
    )


def _bell(alert: Thresholds) -> tuple[Panel, ...]:
    tried, missed = rate("claims_tried_total"), rate("claims_missed_total")
    return (
        Panel(
            Kind.STATES,
            "Doorbell",
            "Whether the doorbell answers each node. Without it tasks start a moment later, "
            "nothing is lost.",
            Unit.COUNT,
            (Query(smallest(own("bell_up"), "instance"), "{{instance}}"),),
            named=ANSWERS,
            height=6,
        ),
        Panel(
            Kind.LINES,
            "Outbox",
            "Due tasks that no node has been told of yet.",
            Unit.SHORT,
            (Query(largest(store("outbox_pending")), "not yet rung"),),
            styles=(Style("not yet rung", Color.CALM),),
            limits=limits.at(alert.outbox),
            minimum=0,
            height=6,
        ),
        Panel(
            Kind.LINES,
            "Claims that missed",
            "Share of claimed tasks that another node had, or that waited no longer.",
            Unit.RATIO,
            (Query(share(missed, f"({tried} > 0)"), "missed"),),
            styles=(Style("missed", Color.WARN),),
            limits=(Limit(0.01, Color.WARN),),
            minimum=0,
            decimals=2,
            height=6,
        ),
    )
