"""Tests of the alerts about waiting."""

from __future__ import annotations

from rules.case import Case, Series, fires, series, silent

Q = {"queue": "q"}


def in_queue(values: str, **more: str) -> Series:
    """Return a gauge of due tasks of queue q."""
    return series("in_queue", values, type="export", **Q, **more)


def started(values: str, **more: str) -> Series:
    """Return a counter of starts of queue q."""
    return series("tasks_started_total", values, type="export", **Q, **more)


#: Every five minutes 600 tasks fall due, of which 150 are left over.
SAWTOOTH = "0x30 " + " ".join(
    str(150 * turn + depth) for turn in range(12) for depth in (600, 510, 420, 330, 240)
)
#: The same, and nothing is left over.
LEVEL = "0x30 " + " ".join(str(depth) for _ in range(12) for depth in (600, 450, 300, 150, 0))

CASES = (
    Case(
        "60 more each minute while 300 are started: fires after ten minutes",
        [in_queue("0x30 0+60x60"), started("0+300x90")],
        [silent("TaskQueueGrowing", "38m"), fires("TaskQueueGrowing", "45m", "60m", queue="q")],
    ),
    Case(
        "twenty times more for a sale, and level: silent",
        [in_queue("50x30 5000x60"), started("0+60x30 1800+1200x60")],
        [silent("TaskQueueGrowing", "35m", "40m", "45m", "60m")],
    ),
    Case(
        "a burst that is worked off slowly: silent",
        [in_queue("0x30 2000-20x60"), started("0+300x90")],
        [silent("TaskQueueGrowing", "35m", "40m", "41m", "42m", "45m", "60m")],
    ),
    Case(
        "it grows by 1 % of what is started: the noise of a busy queue",
        [in_queue("100+4x90"), started("0+150x90"), started("0+150x90", instance="b")],
        [silent("TaskQueueGrowing", "40m", "80m")],
    ),
    Case(
        "it grows by 3.5 % of what is started, on two nodes that see the same queue",
        [
            in_queue("100+10.5x90"),
            in_queue("100+10.5x90", instance="b"),
            series("in_queue", "7x90", queue="other", type="export"),
            started("0+150x90"),
            started("0+150x90", instance="b"),
        ],
        [fires("TaskQueueGrowing", "40m", queue="q")],
        values=[("supervisor:in_queue", "20m", 317)],
    ),
    Case(
        "15 tasks more than nothing: silent",
        [in_queue("0x20 0+1x15 15x30"), started("0+10x90")],
        [silent("TaskQueueGrowing", "31m", "34m", "36m", "39m", "40m", "42m")],
    ),
    Case(
        "from nothing to 40 over half an hour: fires",
        [
            in_queue("0x20 0+0.7x40"),
            series("in_queue", "0x20 0+0.7x40", type="resize", **Q),
            started("0+10x90"),
        ],
        [fires("TaskQueueGrowing", "48m", queue="q")],
        values=[("supervisor:in_queue", "50m", 40.6)],
    ),
    Case(
        "cron: each peak is worked off only in part",
        [in_queue(SAWTOOTH), started("0+90x90")],
        [fires("TaskQueueGrowing", "60m", "63m", "66m", queue="q")],
    ),
    Case(
        "cron: each peak is worked off",
        [in_queue(LEVEL), started("0+120x90")],
        [silent("TaskQueueGrowing", "50m", "60m", "63m", "66m")],
    ),
    Case(
        "nobody works any more: it grows, and then it does not drain",
        [in_queue("0x30 0+30x60"), started("0+30x30 900x60")],
        [
            fires("TaskQueueGrowing", "45m", queue="q"),
            silent("TaskQueueNotDraining", "40m"),
            fires("TaskQueueNotDraining", "48m", "60m", queue="q"),
        ],
    ),
    Case(
        "three tasks that nobody takes",
        [in_queue("0x5 3x40"), started("7x50"), series("queue_paused", "0x50", **Q)],
        [
            silent("TaskQueueNotDraining", "13m"),
            fires("TaskQueueNotDraining", "18m", "30m", queue="q"),
        ],
    ),
    Case(
        "another node takes them: silent",
        [
            in_queue("3x50"),
            in_queue("3x50", instance="b"),
            started("7x50"),
            started("7+1x50", instance="b"),
        ],
        [silent("TaskQueueNotDraining", "30m")],
    ),
    Case(
        "now and then the queue is empty: silent",
        [in_queue("3 3 3 0 3 3 3 3 0 3 3 3 0 3 3 3 3 0 3 3 3 3 0 3 3 3 0"), started("7x50")],
        [silent("TaskQueueNotDraining", "12m", "20m")],
    ),
    Case(
        "one task every eight minutes is started: it drains",
        [in_queue("3x60"), started("0x8 1x8 2x8 3x8 4x8 5x8 6x8")],
        [silent("TaskQueueNotDraining", "30m", "40m", "50m")],
    ),
    Case(
        "a paused queue may wait",
        [
            series("queue_oldest_age_seconds", "0+60x60", **Q),
            series("queue_paused", "0x5 1x60", **Q),
            series("queue_paused", "0x5 1x60", instance="b", **Q),
            in_queue("5x60"),
            started("7x60"),
        ],
        [
            silent("TaskQueueWaitLong", "40m"),
            silent("TaskQueueNotDraining", "40m"),
            silent("QueuePaused", "5m"),
            fires("QueuePaused", "7m", "40m", queue="q"),
        ],
    ),
    Case(
        "a task has waited for more than ten minutes: fires after five more",
        [
            series("queue_oldest_age_seconds", "0+60x60", **Q),
            series("queue_paused", "0x60", **Q),
        ],
        [silent("TaskQueueWaitLong", "14m"), fires("TaskQueueWaitLong", "17m", "30m", queue="q")],
    ),
    Case(
        "both nodes see the same task wait for eight minutes: silent",
        [
            series("queue_oldest_age_seconds", "480x60", **Q),
            series("queue_oldest_age_seconds", "480x60", instance="b", **Q),
        ],
        [silent("TaskQueueWaitLong", "30m")],
    ),
    Case(
        "another queue is paused: this one may not wait",
        [
            series("queue_oldest_age_seconds", "700x60", **Q),
            series("queue_paused", "1x60", queue="other"),
        ],
        [fires("TaskQueueWaitLong", "10m", queue="q"), fires("QueuePaused", "10m", queue="other")],
    ),
    Case(
        "the outbox is not worked off",
        [
            series("outbox_pending", "0x5 150x30"),
            series("outbox_pending", "0x5 150x30", instance="b"),
        ],
        [silent("OutboxBacklog", "13m"), fires("OutboxBacklog", "18m", "30m")],
    ),
    Case(
        "80 in the outbox, seen by two nodes: silent",
        [series("outbox_pending", "80x40"), series("outbox_pending", "80x40", instance="b")],
        [silent("OutboxBacklog", "20m")],
    ),
    Case(
        "a mass submit fills the outbox and it empties: silent",
        [series("outbox_pending", "0x5 9000 5000 900 0x30")],
        [silent("OutboxBacklog", "7m", "12m", "15m")],
    ),
    Case(
        "an outbox that falls to nothing now and then: silent",
        [series("outbox_pending", "500 500 500 0 500 500 500 0 500 500 500 0 500 500 500 0 500")],
        [silent("OutboxBacklog", "10m", "14m")],
    ),
)
