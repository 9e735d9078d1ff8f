"""How much of the error budget is left, how fast it burns, and which types burn it."""

from __future__ import annotations

from supervisor.monitoring.dashboards import limits
from supervisor.monitoring.dashboards.model import (
    Color,
    Dashboard,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
    Style,
    Unit,
)
from supervisor.monitoring.dashboards.promql import growth, largest, rate, record
from supervisor.monitoring.dashboards.styles import BY_OUTCOME
from supervisor.monitoring.threshold import Thresholds

BAD = ('outcome=~"failed|timeout"',)
EXECUTED = ('outcome!~"canceled|requeued"',)
#: How many times faster than allowed the budget may burn: over an hour, six hours, a day.
FAST, SLOW, LINGERING = 14.4, 6.0, 3.0


def slo(alert: Thresholds) -> Dashboard:
    """Return the dashboard of the objective: so many of the executed attempts succeed."""
    budget = alert.slo_error_budget
    return Dashboard(
        "slo",
        "SLO",
        f"The objective: {1 - budget:.4g} of the executed attempts succeed, over 30 days.",
        (
            Row("Budget", _budget(budget)),
            Row("Burn", _burn(budget)),
            Row("Who burns it", _who()),
        ),
    )


def _burning(window: str, budget: float) -> str:
    return f"{largest(record(f'job:supervisor_slo_errors:ratio_rate{window}'))} / {budget:g}"


def _budget(budget: float) -> tuple[Panel, ...]:
    over_all = "[$__range]"
    bad = growth("tasks_finished_total", where=BAD, over=over_all)
    all_ = growth("tasks_finished_total", where=EXECUTED, over=over_all)
    hour = largest(record("job:supervisor_slo_errors:ratio_rate1h"))
    return (
        _number(
            "Errors, 1 hour",
            "Failed and timed out attempts over executed ones.",
            Unit.RATIO,
            hour,
            (Limit(budget, Color.WARN), Limit(FAST * budget, Color.BAD)),
            2,
        ),
        _number(
            "Burn rate, 1 hour",
            f"At 1 the budget lasts just 30 days; at {FAST:g} it pages.",
            Unit.SHORT,
            _burning("1h", budget),
            (Limit(1, Color.WARN), Limit(FAST, Color.BAD)),
            1,
        ),
        _number(
            "Burn rate, 6 hours",
            f"At {SLOW:g} it pages.",
            Unit.SHORT,
            _burning("6h", budget),
            (Limit(1, Color.WARN), Limit(SLOW, Color.BAD)),
            1,
        ),
        Panel(
            Kind.DIAL,
            "Budget left in the chosen time",
            "What is left of the errors that the objective allows for the attempts of the chosen "
            "time. Choose 30 days to see the objective itself.",
            Unit.RATIO,
            (Query(f"1 - ({bad} / {all_}) / {budget:g}"),),
            width=6,
            height=6,
            limits=(Limit(0, Color.WARN), Limit(0.25, Color.GOOD)),
            low=Color.BAD,
            minimum=-1,
            maximum=1,
            decimals=0,
        ),
    )


def _number(
    title: str, description: str, unit: Unit, expr: str, limits: tuple[Limit, ...], decimals: int
) -> Panel:
    return Panel(
        Kind.NUMBER,
        title,
        description,
        unit,
        (Query(expr),),
        width=6,
        height=6,
        limits=limits,
        decimals=decimals,
        when_empty="idle",
    )


def _burn(budget: float) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Burn rates of the page",
            "An alert needs both the long window and the short one above its line, so that it "
            "ends soon after the errors do.",
            Unit.SHORT,
            (
                *(Query(_burning(window, budget), window) for window in ("5m", "30m", "1h", "6h")),
                Query(limits.line(FAST), "1h and 5m: page"),
                Query(limits.line(SLOW), "6h and 30m: page"),
            ),
            width=12,
            height=9,
            styles=(
                Style("1h and 5m: page", Color.BAD, dashed=True),
                Style("6h and 30m: page", Color.WARN, dashed=True),
            ),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Burn rates of the warning",
            "Slow burning that no page sees and that empties the budget all the same.",
            Unit.SHORT,
            (
                *(Query(_burning(window, budget), window) for window in ("2h", "1d")),
                Query(limits.line(LINGERING), "1d and 2h: warning"),
            ),
            width=12,
            height=9,
            styles=(Style("1d and 2h: warning", Color.WARN, dashed=True),),
            minimum=0,
        ),
    )


def _who() -> tuple[Panel, ...]:
    bad = growth("tasks_finished_total", "type", where=BAD, over="[$__range]")
    all_ = growth("tasks_finished_total", where=BAD, over="[$__range]")
    return (
        Panel(
            Kind.BARS,
            "Share of the errors by type",
            "Which types the errors of the chosen time are of; the five largest.",
            Unit.RATIO,
            (Query(f"topk(5, {bad} / scalar({all_}))", "{{type}}"),),
            width=12,
            minimum=0,
            maximum=1,
            decimals=0,
            when_empty="no errors",
        ),
        Panel(
            Kind.LINES,
            "Errors by outcome",
            "Attempts that failed or timed out, a second.",
            Unit.PER_S,
            (Query(rate("tasks_finished_total", "outcome", where=BAD), "{{outcome}}"),),
            width=12,
            styles=BY_OUTCOME,
            stacked=True,
        ),
    )
