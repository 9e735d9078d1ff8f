"""Does each queue drain as fast as it fills, and how long do tasks wait."""

from __future__ import annotations

from supervisor.monitoring.dashboards import limits
from supervisor.monitoring.dashboards.model import (
    Color,
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
    BY_QUEUE,
    JOB,
    largest,
    quantile,
    rate,
    record,
    spread,
    store,
    total,
)
from supervisor.monitoring.dashboards.styles import BY_OUTCOME, by_quantile
from supervisor.monitoring.threshold import Thresholds

QUEUE = (BY_QUEUE,)
#: A backlog that takes longer than this to work off is worth a look; no alert compares with it.
DRAIN_S = 1800


def queues(alert: Thresholds) -> Dashboard:
    """Return the dashboard of queues."""
    return Dashboard(
        "queues",
        "Queues",
        "Does each queue drain as fast as it fills, and how long do tasks wait.",
        (
            Row("Depth and growth", (*_depth(), *_drain(alert))),
            Row("Waiting", _waiting()),
            Row("What is in it, what comes out", (*_inside(), *_out(alert))),
        ),
        (Variable("queue", "Queue", f"supervisor_queue_paused{{{JOB}}}"),),
    )


def _depth() -> tuple[Panel, ...]:
    growing = record("queue:supervisor_in_queue:deriv10m", BY_QUEUE)
    return (
        Panel(
            Kind.LINES,
            "Waiting",
            "Tasks that are PENDING and due.",
            Unit.SHORT,
            (
                Query(
                    total(record("queue:supervisor_in_queue:sum", BY_QUEUE), "queue"), "{{queue}}"
                ),
            ),
            width=12,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Growth",
            "By how many tasks a second the depth grows, over 10 minutes. TaskQueueGrowing fires "
            "when this stays above a small part of what is started.",
            Unit.PER_S,
            (Query(f"round({total(growing, 'queue')}, 0.001)", "{{queue}}"),),
            width=12,
            limits=(Limit(0, Color.PLAIN),),
        ),
    )


def _drain(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Started",
            "Attempts started a second, by queue.",
            Unit.PER_S,
            (Query(rate("tasks_started_total", "queue", where=QUEUE), "{{queue}}"),),
            width=12,
            minimum=0,
        ),
        Panel(
            Kind.BARS,
            "Time to drain",
            "Depth over what was started in the last 10 minutes, if nothing more came.",
            Unit.SECONDS,
            (
                Query(
                    largest(record("queue:supervisor_drain_eta_seconds", BY_QUEUE), "queue"),
                    "{{queue}}",
                ),
            ),
            width=6,
            limits=limits.from_half(DRAIN_S),
            minimum=0,
            when_empty="nothing started",
        ),
        Panel(
            Kind.BARS,
            "Oldest due task",
            "How long the task that is due longest has waited.",
            Unit.SECONDS,
            (Query(largest(store("queue_oldest_age_seconds", BY_QUEUE), "queue"), "{{queue}}"),),
            width=6,
            limits=limits.from_half(alert.queue_wait_s),
            minimum=0,
        ),
    )


def _waiting() -> tuple[Panel, ...]:
    wait = "queue_wait_seconds"
    return (
        Panel(
            Kind.LINES,
            "Time from due to claimed",
            "Over the chosen queues.",
            Unit.SECONDS,
            (
                Query(quantile(0.5, wait, where=QUEUE), "p50"),
                Query(quantile(0.95, wait, where=QUEUE), "p95"),
                Query(quantile(0.99, wait, where=QUEUE), "p99"),
            ),
            styles=by_quantile("p50", "p95", "p99"),
            with_points=True,
            in_powers=True,
        ),
        Panel(
            Kind.LINES,
            "p95 by queue",
            "Time from due to claimed.",
            Unit.SECONDS,
            (Query(quantile(0.95, wait, "queue", where=QUEUE), "{{queue}}"),),
            with_points=True,
            in_powers=True,
        ),
        Panel(
            Kind.HEATMAP,
            "How long they waited",
            "Claimed tasks by their time from due to claimed.",
            Unit.SECONDS,
            (Query(spread(wait, where=QUEUE), "{{le}}"),),
        ),
    )


def _inside() -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Waiting by type",
            "Tasks that are PENDING and due, of the chosen queues.",
            Unit.SHORT,
            (
                Query(
                    total(record("queue_type:supervisor_in_queue:max", BY_QUEUE), "type"),
                    "{{type}}",
                ),
            ),
            stacked=True,
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "For later",
            "PENDING tasks whose time has not come: delayed, or waiting for a retry.",
            Unit.SHORT,
            (Query(total(store("scheduled", BY_QUEUE), "queue"), "{{queue}}"),),
            minimum=0,
        ),
        Panel(
            Kind.LINES,
            "Running",
            "RUNNING tasks by queue, assigned ones included.",
            Unit.SHORT,
            (Query(total(record("queue:supervisor_running:sum", BY_QUEUE), "queue"), "{{queue}}"),),
            stacked=True,
            minimum=0,
        ),
    )


def _out(alert: Thresholds) -> tuple[Panel, ...]:
    return (
        Panel(
            Kind.LINES,
            "Ended by outcome",
            "Attempts of the chosen queues that ended, a second.",
            Unit.PER_S,
            (Query(rate("tasks_finished_total", "outcome", where=QUEUE), "{{outcome}}"),),
            styles=BY_OUTCOME,
            stacked=True,
        ),
        Panel(
            Kind.STATES,
            "Paused queues",
            "A queue is paused when it, or one of its priorities, starts nothing.",
            Unit.COUNT,
            (Query(largest(store("queue_paused", BY_QUEUE), "queue"), "{{queue}}"),),
            named=(Named("0", "open", Color.GOOD), Named("1", "paused", Color.WARN)),
        ),
        Panel(
            Kind.LINES,
            "Outbox",
            "Due tasks that no node has been told of yet; the store holds them all the same.",
            Unit.SHORT,
            (Query(largest(store("outbox_pending")), "not yet rung"),),
            styles=(Style("not yet rung", Color.CALM),),
            limits=limits.at(alert.outbox),
            minimum=0,
        ),
    )
