"""Alerts that come before the limit: something is on a straight line towards it.

Each has three parts: where the line leads, that it has already left the ground, and that it rises.
How long before the hard alert each comes, and how often for nothing, is measured: docs/alerts.md.
"""

from __future__ import annotations

from supervisor.monitoring.rule import Alert, Board, Runbook, Severity

_TYPE, _QUEUE, _SLOT = ("type",), ("queue",), ("instance", "slot")

ALERTS = (
    Alert(
        name="TaskFailureRateRising",
        expr="""
            predict_linear(type:supervisor_failed_per_executed:ratio_rate10m[30m], 3600)
              > <failed_rate>
            and
              type:supervisor_failed_per_executed:ratio_rate10m > 0.3 * <failed_rate>
            and
              type:supervisor_failed_per_executed:ratio_rate10m
                > 1.5 * avg_over_time(
                  type:supervisor_failed_per_executed:ratio_rate10m[30m] offset 30m
                )
            and
              type:supervisor_tasks_executed:increase10m >= 10 * <least_attempts>
        """,
        hold="3m",
        severity=Severity.WARNING,
        summary="Failures of {{ $labels.type }} rise and will pass <failed_rate:percent>.",
        description="Going on like this, {{ $value | humanizePercentage }} fail in an hour.",
        board=Board.TYPES,
        by=_TYPE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "Read the first failures now, while they are few: `supervisor list --state "
                    "FAILED --type TYPE`, `supervisor show ID`."
                ),
                "What changed in the last hour: a deploy, a service (DependencyErrorsRising)?",
            ),
            means="A straight line through the last 30 minutes passes the limit within an hour.",
            ignore="When the next half hour turns it round; it then ends by itself.",
        ),
    ),
)
