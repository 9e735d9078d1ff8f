"""What was stuck and how it was ended: captures, verdicts, how far stops had to go."""

from __future__ import annotations

from supervisor.monitoring.dashboards import limits
from supervisor.monitoring.dashboards.model import (
    Color,
    Dashboard,
    Kind,
    Limit,
    Link,
    Panel,
    Query,
    Row,
    Style,
    Unit,
)
from supervisor.monitoring.dashboards.promql import (
    growth,
    own,
    quantile,
    record,
    share,
    spread,
    total,
)
from supervisor.monitoring.dashboards.styles import BY_PHASE, by_quantile

OVER_ALL = "[$__range]"
DONE = ('status!="busy"',)
#: A capture is given 10 s; most take well under two.
CAPTURE_S = 10.0
#: Grace, capture and what it takes to see that a tree is gone.
GONE_S = 25.0


def autopsies() -> Dashboard:
    """Return the dashboard of autopsies and ends."""
    return Dashboard(
        "autopsies",
        "Autopsies",
        "What was stuck and how it was ended. The reports themselves are in the web pages.",
        (
            Row("In the chosen time", _numbers()),
            Row("Autopsies", _captures()),
            Row("Why and how attempts were ended", (*_ends(), *_cancels())),
        ),
        links=(Link("Autopsies", "/autopsies", "The reports, newest first"),),
    )


def _numbers() -> tuple[Panel, ...]:
    done = growth("autopsies_total", where=DONE, over=OVER_ALL)
    complete = growth("autopsies_total", where=('status="complete"',), over=OVER_ALL)
    captures = total(f"rate({own('autopsy_duration_seconds_bucket')}{OVER_ALL})", "le")
    return (
        _number("Autopsies", "Captures that were done.", Unit.SHORT, done, decimals=0),
        _number(
            "Complete",
            "Share of them in which every collector answered in time.",
            Unit.RATIO,
            share(complete, f"({done} > 0)"),
            (Limit(0, Color.WARN), Limit(0.9, Color.GOOD)),
            Color.CALM,
        ),
        _number(
            "p95 of a capture",
            "Time from the verdict to the written report; the process is not killed before.",
            Unit.SECONDS,
            f"histogram_quantile(0.95, {captures})",
            (Limit(2, Color.WARN), Limit(CAPTURE_S, Color.BAD)),
        ),
        _number(
            "Killed",
            "Workers that had to be killed with their tree.",
            Unit.SHORT,
            growth("kills_total", over=OVER_ALL),
            decimals=0,
        ),
        _number(
            "Zombies now",
            "Attempts that run by their row and are dead by their work.",
            Unit.SHORT,
            f"sum({record('supervisor:zombie_count')})",
            limits.any_at_all(),
        ),
        _number(
            "Overdue stops now",
            "Attempts that were told to stop longer ago than grace and capture take, and that are "
            "not verified gone.",
            Unit.SHORT,
            total(own("cancel_overdue")),
            limits.any_at_all(),
        ),
    )


def _number(
    title: str,
    description: str,
    unit: Unit,
    expr: str,
    limits: tuple[Limit, ...] = (),
    low: Color = Color.GOOD,
    decimals: int | None = None,
) -> Panel:
    return Panel(
        Kind.NUMBER,
        title,
        description,
        unit,
        (Query(expr),),
        width=4,
        height=4,
        limits=limits,
        low=low,
        decimals=decimals,
        when_empty="none",
    )


def _captures() -> tuple[Panel, ...]:
    took = "autopsy_duration_seconds"
    return (
        Panel(
            Kind.LINES,
            "How complete they are",
            "Partial: a collector did not answer in time, the rest is there. Busy: another "
            "capture ran, so this one was not done.",
            Unit.SHORT,
            (Query(growth("autopsies_total", "status"), "{{status}}"),),
            styles=(
                Style("complete", Color.GOOD),
                Style("partial", Color.WARN),
                Style("failed", Color.BAD),
                Style("busy", Color.LATE),
            ),
            as_bars=True,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "How long they take",
            "Captures end at the line, with what they have.",
            Unit.SECONDS,
            (Query(quantile(0.5, took), "p50"), Query(quantile(0.95, took), "p95")),
            styles=by_quantile("p50", "p95"),
            limits=limits.at(CAPTURE_S),
            with_points=True,
            minimum=0,
        ),
        Panel(
            Kind.HEATMAP,
            "Capture times",
            "Captures by their time.",
            Unit.SECONDS,
            (Query(spread(took), "{{le}}"),),
        ),
    )


def _ends() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Kills by verdict",
            "Workers killed with their tree, and what was wrong.",
            Unit.SHORT,
            (Query(growth("kills_total", "verdict"), "{{verdict}}"),),
            width=12,
            as_bars=True,
            stacked=True,
        ),
        Panel(
            Kind.LINES,
            "Stops by phase",
            "How far a stop had to go: asked is one that ended by itself.",
            Unit.SHORT,
            (Query(growth("stops_total", "phase"), "{{phase}}"),),
            width=12,
            styles=BY_PHASE,
            as_bars=True,
            stacked=True,
        ),
    )


def _cancels() -> tuple[Panel, ...]:
    gone = "cancel_latency_seconds"
    return (
        Panel(
            Kind.LINES,
            "From the request to gone",
            "Time until the attempt was verified gone, with its tree.",
            Unit.SECONDS,
            (Query(quantile(0.5, gone), "p50"), Query(quantile(0.95, gone), "p95")),
            styles=by_quantile("p50", "p95"),
            limits=limits.at(GONE_S),
            with_points=True,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Overdue stops",
            "Stops whose attempt is not verified gone in time. Any at all is an alert.",
            Unit.SHORT,
            (Query(total(own("cancel_overdue"), "instance"), "{{instance}}"),),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Zombies found",
            "By kind, in each interval.",
            Unit.SHORT,
            (Query(growth("zombies_detected_total", "kind"), "{{kind}}"),),
            as_bars=True,
            stacked=True,
        ),
    )
