"""Tests of the alerts about how tasks end and how long they take."""

from __future__ import annotations

from rules.case import Case, Series, fires, series, silent

EXPORT = {"type": "export"}


def finished(outcome: str, values: str, type: str = "export", **more: str) -> Series:
    """Return a counter of endings."""
    return series(
        "tasks_finished_total", values, queue="default", type=type, outcome=outcome, **more
    )


def used(le: str, values: str) -> Series:
    """Return a bucket of the share of the timeout."""
    return series("timeout_used_ratio_bucket", values, le=le, **EXPORT)


def used_count(values: str) -> Series:
    """Return the count of the shares of the timeout."""
    return series("timeout_used_ratio_count", values, **EXPORT)


def took(part: str, values: str, outcome: str = "success", **more: str) -> Series:
    """Return the sum or count of the run times."""
    return series(f"running_duration_seconds_{part}", values, outcome=outcome, **EXPORT, **more)


FAILURES = (
    Case(
        "8 % failed or timed out: fires after five minutes",
        [
            finished("success", "0+92x40"),
            finished("failed", "0+4x40"),
            finished("timeout", "0+4x40"),
        ],
        [
            silent("TaskFailureRateHigh", "4m"),
            fires("TaskFailureRateHigh", "7m", "30m", type="export"),
        ],
        values=[("supervisor:failed_rate", "30m", 0.08)],
    ),
    Case(
        "4 % failed: silent",
        [
            finished("success", "0+90x40"),
            finished("failed", "0+2x40"),
            finished("timeout", "0+2x40"),
            finished("success", "0+6x40", type="resize"),
        ],
        [silent("TaskFailureRateHigh", "15m", "30m")],
    ),
    Case(
        "one failure of two in ten minutes: silent",
        [finished("success", "0x9 1x40"), finished("failed", "0x10 1x40")],
        [silent("TaskFailureRateHigh", "15m", "18m"), silent("TaskTypeAlwaysFails", "18m")],
    ),
    Case(
        "18 attempts in ten minutes, half of them failed, and cancels: too few to mean something",
        [
            finished("success", "0+0.9x40"),
            finished("failed", "0+0.9x40"),
            finished("canceled", "0+3x40"),
        ],
        [silent("TaskFailureRateHigh", "20m", "30m")],
    ),
    Case(
        "25 attempts in ten minutes, half of them failed: fires",
        [finished("success", "0+1.25x40"), finished("failed", "0+1.25x40")],
        [fires("TaskFailureRateHigh", "20m", type="export")],
    ),
    Case(
        "canceled attempts do not hide failures",
        [
            finished("success", "0+5x40"),
            finished("failed", "0+5x40"),
            finished("canceled", "0+90x40"),
            finished("success", "0+100x40", type="resize"),
        ],
        [
            fires("TaskFailureRateHigh", "30m", type="export"),
            fires("TaskCancelRateHigh", "30m", type="export"),
        ],
        values=[
            ("supervisor:failed_rate", "30m", 0.0455),
            ("supervisor:canceled_rate", "30m", 0.45),
        ],
    ),
    Case(
        "requeued endings count in no rate",
        [
            finished("success", "0+90x40"),
            finished("failed", "0+8x40"),
            finished("canceled", "0+50x40"),
            finished("requeued", "0+900x40"),
        ],
        [
            fires("TaskFailureRateHigh", "30m", type="export"),
            fires("TaskCancelRateHigh", "30m", type="export"),
        ],
    ),
    Case(
        "a node that drains requeues: no failures, no cancels",
        [finished("success", "0+10x40"), finished("requeued", "0+100x40")],
        [silent("TaskFailureRateHigh", "30m"), silent("TaskCancelRateHigh", "30m")],
    ),
    Case(
        "two nodes share the work: their endings are added up",
        [
            finished("success", "0+1x40"),
            finished("failed", "0+0.2x40"),
            finished("success", "0+1x40", instance="b"),
            finished("failed", "0+0.2x40", instance="b"),
        ],
        [fires("TaskFailureRateHigh", "30m", type="export")],
        values=[("type:supervisor_tasks_executed:increase10m", "30m", 24)],
    ),
    Case(
        "failures that stopped 15 minutes ago: over",
        [finished("success", "0+100x60"), finished("failed", "0+20x20 400x40")],
        [
            fires("TaskFailureRateHigh", "20m", type="export"),
            silent("TaskFailureRateHigh", "36m"),
        ],
    ),
    Case(
        "low traffic, always fails",
        [finished("success", "0x90"), finished("failed", "0x10 1x10 2x10 3x10 4x60")],
        [
            silent("TaskTypeAlwaysFails", "25m"),
            fires("TaskTypeAlwaysFails", "45m", type="export"),
            silent("TaskFailureRateHigh", "45m"),
        ],
    ),
    Case(
        "low traffic, always times out, on two nodes",
        [
            finished("success", "0x90"),
            finished("timeout", "0x10 1x10 2x70"),
            finished("failed", "0x15 1x75", instance="b"),
        ],
        [fires("TaskTypeAlwaysFails", "35m", type="export")],
    ),
    Case(
        "two failures and many cancels in an hour: not yet",
        [
            finished("success", "0x90"),
            finished("canceled", "0+1x90"),
            finished("failed", "0x10 1x10 2x60"),
        ],
        [silent("TaskTypeAlwaysFails", "35m")],
    ),
    Case(
        "a success within the hour: not always",
        [finished("success", "0x20 1x60"), finished("failed", "0x10 1x5 2x5 3x60")],
        [silent("TaskTypeAlwaysFails", "40m")],
    ),
    Case(
        "three failures over two hours: not an hour's",
        [finished("success", "0x150"), finished("failed", "0x10 1x40 2x40 3x60")],
        [silent("TaskTypeAlwaysFails", "100m", "120m")],
    ),
    Case(
        "a task ends for good",
        [
            series("tasks_dead_total", "0x10 1x40", queue="default", type="export"),
            series("tasks_dead_total", "0x50", queue="default", type="resize"),
        ],
        [
            silent("TaskDead", "9m"),
            fires("TaskDead", "12m", "20m", queue="default", type="export"),
            silent("TaskDead", "30m"),
        ],
    ),
    Case(
        "a task is quarantined",
        [series("tasks_quarantined_total", "0x10 1x90", **EXPORT)],
        [
            silent("TaskQuarantined", "9m"),
            fires("TaskQuarantined", "12m", "60m", type="export"),
            silent("TaskQuarantined", "80m"),
        ],
    ),
    Case(
        "a late result",
        [series("late_results_total", "0x10 1x90", **EXPORT)],
        [
            silent("LateResults", "9m"),
            fires("LateResults", "12m", "60m", type="export"),
            silent("LateResults", "80m"),
        ],
    ),
    Case(
        "an illegal move",
        [series("illegal_transitions_total", "0x10 1x40")],
        [
            silent("IllegalTransition", "9m"),
            fires("IllegalTransition", "12m", "22m"),
            silent("IllegalTransition", "30m"),
        ],
    ),
)

CANCELS = (
    Case(
        "35 % canceled: fires after ten minutes",
        [finished("success", "0+65x40"), finished("canceled", "0+35x40")],
        [
            silent("TaskCancelRateHigh", "8m"),
            fires("TaskCancelRateHigh", "13m", "30m", type="export"),
        ],
    ),
    Case(
        "25 % canceled: silent",
        [finished("success", "0+75x40"), finished("canceled", "0+25x40")],
        [silent("TaskCancelRateHigh", "30m")],
    ),
    Case(
        "low traffic, half of it canceled: too few",
        [finished("success", "0+0.9x60"), finished("canceled", "0+0.9x60")],
        [silent("TaskCancelRateHigh", "20m", "30m", "40m", "50m")],
    ),
    Case(
        "25 endings in ten minutes, half of them canceled: fires",
        [finished("success", "0+1.25x60"), finished("canceled", "0+1.25x60")],
        [fires("TaskCancelRateHigh", "30m", type="export")],
    ),
    Case(
        "7 of 10 stops end with a kill",
        [
            series("stops_total", "0+0.1x90", phase="asked"),
            series("stops_total", "0+0.05x90", phase="interrupted"),
            series("stops_total", "0+0.35x90", phase="killed"),
        ],
        [fires("TasksIgnoreStop", "80m"), silent("TasksIgnoreStop", "5m")],
    ),
    Case(
        "a node whose stops are killed, beside one whose stops are heard: silent",
        [
            series("stops_total", "0+0.4x90", phase="killed"),
            series("stops_total", "0+0.7x90", instance="b", phase="asked"),
        ],
        [silent("TasksIgnoreStop", "80m")],
    ),
    Case(
        "three kills in an hour among as many interrupts: too few",
        [
            series("stops_total", "0x10 2x90", phase="interrupted"),
            series("stops_total", "0x10 1x10 2x10 3x90", phase="killed"),
        ],
        [silent("TasksIgnoreStop", "40m")],
    ),
    Case(
        "3 of 10 stops end with a kill: silent",
        [
            series("stops_total", "0+0.7x90", phase="asked"),
            series("stops_total", "0+0.3x90", phase="killed"),
        ],
        [silent("TasksIgnoreStop", "80m")],
    ),
    Case(
        "three stops in all, each a kill: too few",
        [
            series("stops_total", "0x90", phase="asked"),
            series("stops_total", "0x10 1x10 2x10 3x90", phase="killed"),
        ],
        [silent("TasksIgnoreStop", "40m")],
    ),
    Case(
        "six kills on two nodes within minutes, an hour ago: over",
        [
            series("stops_total", "0x10 3x90", phase="killed"),
            series("stops_total", "0x10 3x90", instance="b", phase="killed"),
        ],
        [fires("TasksIgnoreStop", "12m", "60m"), silent("TasksIgnoreStop", "75m")],
    ),
)

DURATIONS = (
    Case(
        "2 % of the attempts use more than 80 % of their timeout: fires after five minutes",
        [
            used("0.8", "0+98x40"),
            used("1", "0+100x40"),
            used("+Inf", "0+100x40"),
            used_count("0+100x40"),
            finished("success", "0+100x40"),
        ],
        [
            silent("TaskRunningNearTimeout", "4m"),
            fires("TaskRunningNearTimeout", "7m", "30m", type="export"),
        ],
    ),
    Case(
        "0.5 % use more: silent",
        [
            used("0.8", "0+199x40"),
            used("+Inf", "0+200x40"),
            used_count("0+200x40"),
            finished("success", "0+200x40"),
        ],
        [silent("TaskRunningNearTimeout", "30m")],
    ),
    Case(
        "one slow attempt in ten minutes of low traffic: silent",
        [
            used("0.8", "0 0x40"),
            used("+Inf", "0 1x40"),
            used_count("0 1x40"),
            finished("success", "0 1x40"),
        ],
        [silent("TaskRunningNearTimeout", "2m", "5m", "8m", "12m")],
    ),
    Case(
        "15 attempts in ten minutes, all of them slow: too few",
        [used("0.8", "0x40"), used_count("0+1.5x40"), finished("success", "0+1.5x40")],
        [silent("TaskRunningNearTimeout", "20m", "30m")],
    ),
    Case(
        "25 attempts in ten minutes, all of them slow: fires",
        [used("0.8", "0x40"), used_count("0+2.5x40"), finished("success", "0+2.5x40")],
        [fires("TaskRunningNearTimeout", "20m", type="export")],
    ),
    Case(
        "slow ones on one node of two",
        [
            used("0.8", "0+5x40"),
            used_count("0+5x40"),
            series("timeout_used_ratio_bucket", "0+4x40", instance="b", le="0.8", type="export"),
            series("timeout_used_ratio_count", "0+5x40", instance="b", type="export"),
            finished("success", "0+10x40"),
        ],
        [fires("TaskRunningNearTimeout", "20m", type="export")],
        values=[("type:supervisor_over_80_percent_of_timeout:ratio_rate10m", "20m", 0.1)],
    ),
    Case(
        "a mean of 5 s where 2 s are expected: fires after five minutes",
        [
            took("sum", "0+50x40"),
            took("count", "0+10x40"),
            series("task_expected_duration_seconds", "2x40", **EXPORT),
            finished("success", "0+10x40"),
        ],
        [
            silent("TaskMeanDurationHigh", "4m"),
            fires("TaskMeanDurationHigh", "8m", "30m", type="export"),
        ],
    ),
    Case(
        "a mean of 3.8 s where 2 s are expected: silent",
        [
            took("sum", "0+38x40"),
            took("count", "0+10x40"),
            series("task_expected_duration_seconds", "2x40", **EXPORT),
            finished("success", "0+10x40"),
        ],
        [silent("TaskMeanDurationHigh", "30m")],
    ),
    Case(
        "nothing is expected: silent",
        [
            took("sum", "0+50x40"),
            took("count", "0+10x40"),
            series("task_expected_duration_seconds", "0x40", **EXPORT),
            finished("success", "0+10x40"),
        ],
        [silent("TaskMeanDurationHigh", "30m")],
    ),
    Case(
        "three slow attempts in ten minutes: too few",
        [
            took("sum", "0+3x40"),
            took("count", "0+0.3x40"),
            series("task_expected_duration_seconds", "2x40", **EXPORT),
            finished("success", "0+0.3x40"),
        ],
        [silent("TaskMeanDurationHigh", "20m", "30m")],
    ),
    Case(
        "two nodes expect the same and run eight between them",
        [
            took("sum", "0+4x40"),
            took("count", "0+0.4x40"),
            took("sum", "0+4x40", instance="b"),
            took("count", "0+0.4x40", instance="b"),
            series("task_expected_duration_seconds", "3x40", **EXPORT),
            series("task_expected_duration_seconds", "3x40", instance="b", **EXPORT),
            finished("success", "0+0.4x40"),
            finished("success", "0+0.4x40", instance="b"),
        ],
        [fires("TaskMeanDurationHigh", "30m", type="export")],
        values=[("type:supervisor_running_duration_seconds:mean10m", "30m", 10)],
    ),
    Case(
        "canceled attempts that ran long are no run time",
        [
            took("sum", "0+10x40"),
            took("count", "0+10x40"),
            took("sum", "0+900x40", outcome="canceled"),
            took("count", "0+10x40", outcome="canceled"),
            series("task_expected_duration_seconds", "2x40", **EXPORT),
            finished("success", "0+10x40"),
        ],
        [silent("TaskMeanDurationHigh", "30m")],
    ),
)

CASES = (*FAILURES, *CANCELS, *DURATIONS)
