"""Is the supervisor itself well: its loops, its exporter, and nodes among each other."""

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
    RATE,
    growth,
    largest,
    own,
    quantile,
    smallest,
    total,
)
from supervisor.monitoring.dashboards.styles import by_quantile
from supervisor.monitoring.threshold import Thresholds

ONE = (Named("0", "no", Color.CALM), Named("1", "yes", Color.GOOD))


def internals(alert: Thresholds) -> Dashboard:
    """Return the dashboard of the supervisor's own life."""
    return Dashboard(
        "internals",
        "Supervisor internals",
        "Is the supervisor itself well: its loop, its exporter, and nodes among each other.",
        (
            Row("Nodes", (_nodes(), *_life())),
            Row("Many nodes on one store", _many(alert)),
            Row("Loop and writer", _loop()),
            Row("Exporter and traces", _exporter()),
        ),
    )


def _nodes() -> Panel:
    each = "instance"
    return Panel(
        Kind.TABLE,
        "Nodes",
        "What runs where, and since when.",
        Unit.SHORT,
        (
            Query(largest(own("build_info"), each, "version", "python_version")),
            Query(f"{largest(own('start_time_seconds'), each)} * 1000"),
            Query(f"{largest(own('config_last_reload_success_timestamp_seconds'), each)} * 1000"),
            Query(total(own("workers_alive"), each)),
            Query(total(own("workers_desired"), each)),
            Query(largest(own("draining"), each)),
        ),
        width=24,
        height=6,
        columns=(
            Column("Node", label="instance", unit=Unit.TEXT, width=200),
            Column("Version", label="version", unit=Unit.TEXT),
            Column("Python", label="python_version", unit=Unit.TEXT),
            Column(""),
            Column("Started", Unit.INSTANT),
            Column("Settings of", Unit.INSTANT),
            Column("Workers alive", decimals=0),
            Column("Workers wanted", decimals=0),
            Column("Draining", named=ONE),
        ),
        hidden=("Time",),
    )


def _life() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.STATES,
            "Draining",
            "A node that drains takes no more tasks: it was asked to, or it stops.",
            Unit.COUNT,
            (Query(largest(own("draining"), "instance"), "{{instance}}"),),
            named=(Named("0", "takes tasks", Color.GOOD), Named("1", "drains", Color.WARN)),
            height=6,
        ),
        Panel(
            Kind.STATES,
            "Settings",
            "Whether the settings that were read last are in force.",
            Unit.COUNT,
            (Query(smallest(own("config_last_reload_successful"), "instance"), "{{instance}}"),),
            named=(Named("0", "refused", Color.BAD), Named("1", "in force", Color.GOOD)),
            height=6,
        ),
        Panel(
            Kind.LINES,
            "Starts",
            "A node that starts again and again is an alert.",
            Unit.SHORT,
            (
                Query(
                    total(f"changes({own('start_time_seconds')}{RATE})", "instance"),
                    "{{instance}}",
                ),
            ),
            as_bars=True,
            stacked=True,
            height=6,
        ),
    )


def _many(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.STATES,
            "Leases",
            "A fenced node runs nothing: it could not renew its lease in time.",
            Unit.COUNT,
            (Query(largest(own("fenced"), "instance"), "{{instance}}"),),
            width=6,
            named=(Named("0", "held", Color.GOOD), Named("1", "fenced", Color.BAD)),
            height=7,
        ),
        Panel(
            Kind.STATES,
            "Who sweeps",
            "One node at a time ends what lost nodes ran.",
            Unit.COUNT,
            (Query(largest(own("sweeper_leading"), "instance"), "{{instance}}"),),
            width=6,
            named=(Named("0", "follows", Color.CALM), Named("1", "leads", Color.GOOD)),
            height=7,
        ),
        Panel(
            Kind.LINES,
            "Fences and conflicts",
            "Leases that could not be renewed, and transactions tried again.",
            Unit.SHORT,
            (
                Query(growth("fences_total", "instance"), "fenced {{instance}}"),
                Query(growth("store_conflicts_total", "instance"), "conflicts {{instance}}"),
            ),
            width=6,
            as_bars=True,
            stacked=True,
            height=7,
        ),
        _clock(alert),
    )


def _clock(alert: Thresholds) -> Panel:
    return Panel(
        Kind.LINES,
        "Clock skew",
        "By how much the wall clock of each host is ahead of the store's. The store's counts.",
        Unit.SECONDS,
        (
            Query(largest(own("clock_skew_seconds"), "instance"), "{{instance}}"),
            Query(limits.line(alert.clock_skew_s), "alert"),
            Query(limits.line(-alert.clock_skew_s), "alert, behind"),
        ),
        width=6,
        styles=(Style("alert.*", Color.BAD, dashed=True),),
        height=7,
    )


def _loop() -> tuple[Panel, ...]:
    lag = "loop_lag_seconds"
    return (
        Panel(
            Kind.LINES,
            "How late the loop is",
            "Time between when a turn was due and when it came.",
            Unit.SECONDS,
            (Query(quantile(0.5, lag), "p50"), Query(quantile(0.99, lag), "p99")),
            styles=by_quantile("p50", "p99"),
            limits=(Limit(1, Color.BAD),),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Since the last turn",
            "A loop that has not turned for 10 s fails /healthz; SupervisorLoopStalled follows.",
            Unit.SECONDS,
            (
                Query(
                    f"time() - {largest(own('loop_last_tick_timestamp_seconds'), 'instance')}",
                    "{{instance}}",
                ),
            ),
            limits=(Limit(10, Color.BAD),),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Errors",
            "Steps of the loop that raised, moves that the transition table refused: each is a "
            "bug of ours.",
            Unit.SHORT,
            (
                Query(growth("loop_errors_total"), "loop"),
                Query(growth("illegal_transitions_total"), "illegal moves"),
                Query(growth("store_errors_total"), "store"),
            ),
            as_bars=True,
            stacked=True,
        ),
    )


def _exporter() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Time of the collectors",
            "What each collector takes when /metrics is asked for.",
            Unit.SECONDS,
            (
                Query(
                    largest(own("collector_duration_seconds"), "collector"),
                    "{{collector}}",
                ),
            ),
            width=6,
            minimum=0,
            height=7,
        ),
        Panel(
            Kind.STATES,
            "Collectors",
            "What a collector cannot tell is absent from /metrics, not shown as it was.",
            Unit.COUNT,
            (Query(smallest(own("collector_success"), "collector"), "{{collector}}"),),
            width=6,
            named=(Named("0", "failed", Color.BAD), Named("1", "told", Color.GOOD)),
            height=7,
        ),
        _scrape_cost(),
        Panel(
            Kind.LINES,
            "Lost telemetry",
            "Label values folded into `_other` because nobody declared them, and traces that "
            "could not be sent.",
            Unit.SHORT,
            (
                Query(growth("label_values_dropped_total", "label"), "folded {{label}}"),
                Query(growth("otel_export_failures_total", "signal"), "unsent {{signal}}"),
            ),
            width=6,
            as_bars=True,
            stacked=True,
            height=7,
        ),
    )


def _scrape_cost() -> Panel:
    return Panel(
        Kind.LINES,
        "Scrape",
        "Time and size of a scrape, by Prometheus.",
        Unit.SECONDS,
        (
            Query(f"max by (instance) ({_scrape('duration_seconds')})", "time {{instance}}"),
            Query(f"max by (instance) ({_scrape('samples_scraped')})", "samples {{instance}}"),
        ),
        width=6,
        height=7,
        styles=(Style("samples .*", on_right=True, unit=Unit.SHORT),),
        minimum=0,
    )


def _scrape(what: str) -> str:
    return f'scrape_{what}{{job=~"$job", instance=~"$instance"}}'
