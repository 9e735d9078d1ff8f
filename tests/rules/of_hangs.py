"""Tests of the alerts about what does not end."""

from __future__ import annotations

from rules.case import Case, Series, fires, series, silent

EXPORT = {"type": "export"}


def zombies(kind: str, values: str, **more: str) -> Series:
    """Return a gauge of zombies."""
    return series("zombies", values, kind=kind, **more)


def running(values: str, **more: str) -> Series:
    """Return a gauge of running tasks."""
    return series("running", values, queue="default", type="export", **more)


def took(values_sum: str, values_count: str, fast: str) -> list[Series]:
    """Return the histogram of successful run times: `fast` are those below 2.5 s."""
    name, labels = "running_duration_seconds", {"outcome": "success", **EXPORT}
    return [
        series(f"{name}_sum", values_sum, **labels),
        series(f"{name}_count", values_count, **labels),
        series(f"{name}_bucket", fast, le="2.5", **labels),
        series(f"{name}_bucket", values_count, le="30.0", **labels),
        series(f"{name}_bucket", values_count, le="+Inf", **labels),
    ]


HANGS = (
    Case(
        "a task runs past its timeout: fires a minute after 120 %",
        [series("running_timeout_used_ratio", "0+0.1x30", **EXPORT)],
        [
            silent("TaskStuckPastTimeout", "12m", "13m"),
            fires("TaskStuckPastTimeout", "15m", "20m", type="export"),
            silent("TaskCloseToTimeout", "8m", "9m", "15m"),
            fires("TaskCloseToTimeout", "10m", "11m", type="export"),
        ],
    ),
    Case(
        "the age is that of one node of two, and is not added up",
        [
            series("running_timeout_used_ratio", "0.7x20", **EXPORT),
            series("running_timeout_used_ratio", "0.7x20", instance="b", **EXPORT),
        ],
        [silent("TaskStuckPastTimeout", "15m"), silent("TaskCloseToTimeout", "15m")],
    ),
    Case(
        "evidence is being taken at 105 %: silent",
        [series("running_timeout_used_ratio", "1.05x20", **EXPORT)],
        [silent("TaskStuckPastTimeout", "15m"), fires("TaskCloseToTimeout", "15m", type="export")],
    ),
    Case(
        "a task of a type that takes 2 s runs for minutes: it hangs",
        [
            *took("0+20x70", "0+10x70", "0+10x70"),
            # Failures that took long are no measure.
            series("running_duration_seconds_sum", "0+900x70", outcome="failed", **EXPORT),
            series("running_duration_seconds_count", "0+10x70", outcome="failed", **EXPORT),
            *(
                series(
                    "running_duration_seconds_bucket",
                    values,
                    outcome="failed",
                    le=le,
                    **EXPORT,
                )
                for le, values in (("30.0", "0x70"), ("600.0", "0+90x70"), ("+Inf", "0+90x70"))
            ),
            series(
                "running_duration_seconds_bucket",
                "0+10x70",
                outcome="success",
                le="600.0",
                **EXPORT,
            ),
            series("running_oldest_age_seconds", "0x60 0+60x12", **EXPORT),
        ],
        [
            silent("TaskRunsUnusuallyLong", "60m", "62m", "63m"),
            fires("TaskRunsUnusuallyLong", "64m", "70m", type="export"),
        ],
    ),
    Case(
        "a task of 50 s where 2 s are usual: still below a minute",
        [
            *took("0+20x70", "0+10x70", "0+10x70"),
            series("running_oldest_age_seconds", "50x70", **EXPORT),
            series("running_oldest_age_seconds", "50x70", instance="b", **EXPORT),
        ],
        [silent("TaskRunsUnusuallyLong", "65m")],
    ),
    Case(
        "a type with a slow tail (p99 of 30 s): 55 times its mean is not unusual",
        [
            *took("0+10x70", "0+10x70", "0+9.5x70"),
            series("running_oldest_age_seconds", "55x70", **EXPORT),
        ],
        [silent("TaskRunsUnusuallyLong", "65m")],
    ),
    Case(
        "a type of 15 s runs for 100 s: three times the p99, not ten times the mean",
        [
            *took("0+150x70", "0+10x70", "0x70"),
            series("running_oldest_age_seconds", "100x70", **EXPORT),
        ],
        [silent("TaskRunsUnusuallyLong", "65m")],
    ),
    Case(
        "mean 5 s and a slow tail of 100 s: for 150 s that is not unusual",
        [
            series("running_duration_seconds_sum", "0+50x70", outcome="success", **EXPORT),
            series("running_duration_seconds_count", "0+10x70", outcome="success", **EXPORT),
            *(
                series(
                    "running_duration_seconds_bucket", values, outcome="success", le=le, **EXPORT
                )
                for le, values in (("30.0", "0+9.5x70"), ("120.0", "0+10x70"), ("+Inf", "0+10x70"))
            ),
            series("running_oldest_age_seconds", "150x70", **EXPORT),
            series("running_oldest_age_seconds", "150x70", instance="b", **EXPORT),
        ],
        [silent("TaskRunsUnusuallyLong", "65m")],
    ),
    Case(
        "a type of 8 s, for 120 s: ten times the mean",
        [
            *took("0+80x70", "0+10x70", "0x70"),
            series("running_oldest_age_seconds", "120x70", **EXPORT),
        ],
        [fires("TaskRunsUnusuallyLong", "65m", type="export")],
    ),
    Case(
        "mean 1 s, p99 29 s, for 50 s and for 70 s on two nodes: neither is twice its p99 and more",
        [
            *took("0+10x70", "0+10x70", "0+9.85x70"),
            series("running_oldest_age_seconds", "40x70", **EXPORT),
            series("running_oldest_age_seconds", "30x70", instance="b", **EXPORT),
        ],
        [silent("TaskRunsUnusuallyLong", "65m")],
    ),
    Case(
        "no progress for more than five minutes: fires after one more",
        [
            series("running_since_progress_seconds", "0+60x20", **EXPORT),
            series("running_since_progress_seconds", "200x20", type="resize"),
        ],
        [
            silent("TaskNoProgress", "5m", "6m"),
            fires("TaskNoProgress", "8m", "15m", type="export"),
        ],
    ),
    Case(
        "four minutes without progress on each of two nodes: silent",
        [
            series("running_since_progress_seconds", "240x20", **EXPORT),
            series("running_since_progress_seconds", "240x20", instance="b", **EXPORT),
        ],
        [silent("TaskNoProgress", "15m")],
    ),
)

ZOMBIES = (
    Case(
        "a zombie fires at once and is over when it is gone",
        [zombies("lost", "0x5 1x10 0x10"), zombies("stalled", "0x30")],
        [
            silent("ZombieTasks", "5m"),
            fires("ZombieTasks", "6m", "16m", kind="lost"),
            silent("ZombieTasks", "17m"),
        ],
    ),
    Case(
        "a zombie found and swept between two scrapes: still told, for ten minutes",
        [
            zombies("heartbeat_lost", "0x60"),
            series("zombies_detected_total", "0x10 1x50", kind="heartbeat_lost"),
        ],
        [
            silent("ZombieTasks", "9m"),
            fires("ZombieTasks", "12m", "18m", kind="heartbeat_lost"),
            silent("ZombieTasks", "25m"),
        ],
    ),
    Case(
        "lost ones are the same from every node; stalled ones are each node's own",
        [
            zombies("lost", "2x20"),
            zombies("lost", "2x20", instance="b"),
            zombies("stalled", "3x20"),
            zombies("stalled", "4x20", instance="b"),
            running("60x20"),
            running("60x20", instance="b"),
            series("running", "40x20", queue="default", type="resize"),
        ],
        [fires("ZombieShareHigh", "10m")],
        values=[
            ("supervisor:zombie_count", "10m", 9),
            ("job:supervisor_zombies_per_running:ratio", "10m", 0.09),
        ],
    ),
    Case(
        "6 of 100 in two queues: fires after a minute",
        [
            zombies("stalled", "0x5 6x25"),
            running("60x30"),
            series("running", "40x30", queue="slow", type="export"),
        ],
        [
            silent("ZombieShareHigh", "5m", "6m"),
            fires("ZombieShareHigh", "8m", "20m"),
        ],
    ),
    Case(
        "4 of 100 in two queues: no wave, but zombies",
        [
            zombies("stalled", "4x30"),
            running("60x30"),
            series("running", "40x30", queue="slow", type="export"),
        ],
        [silent("ZombieShareHigh", "5m"), fires("ZombieTasks", "5m", kind="stalled")],
    ),
    Case(
        "one of ten hangs: a zombie, and no wave; with a second one it is",
        [
            zombies("stalled", "1x15 2x10"),
            zombies("stalled", "0x30", instance="b"),
            running("10x30"),
        ],
        [
            silent("ZombieShareHigh", "5m", "14m"),
            fires("ZombieShareHigh", "18m", "24m"),
            fires("ZombieTasks", "5m", kind="stalled"),
        ],
    ),
    Case(
        "nothing runs and nothing is a zombie: silent",
        [zombies("stalled", "0x30"), running("0x30")],
        [silent("ZombieShareHigh", "5m"), silent("ZombieTasks", "5m")],
    ),
    Case(
        "two zombies while nothing is counted as running",
        [zombies("lost", "2x30"), running("0x30")],
        [fires("ZombieShareHigh", "5m")],
        values=[("job:supervisor_zombies_per_running:ratio", "5m", 2)],
    ),
    Case(
        "lost tasks that are swept within minutes, stalled ones that stay: silent",
        [zombies("lost", "0x5 3x6 0x20"), zombies("stalled", "3x40")],
        [silent("LostTasksNotSwept", "8m", "11m", "15m", "30m")],
    ),
    Case(
        "lost tasks that nobody sweeps: fires after ten minutes",
        [
            zombies("lost", "0x5 3x30"),
            zombies("lost", "0x5 3x30", instance="b"),
            zombies("stalled", "0x5 3x30"),
        ],
        [silent("LostTasksNotSwept", "12m"), fires("LostTasksNotSwept", "18m", "30m")],
    ),
    Case(
        "defunct children that stay",
        [series("unreaped", "0x3 2x20"), series("unreaped", "0 1 0 1 0 1 0 1 0 1 0", instance="b")],
        [
            silent("UnreapedChildren", "4m", "5m", "6m"),
            fires("UnreapedChildren", "8m", "15m", instance="a"),
        ],
    ),
)

STOPS = (
    Case(
        "a canceled task still runs",
        [series("cancel_overdue", "0x3 1x20"), series("cancel_overdue", "0x23", instance="b")],
        [silent("CancelOverdue", "4m", "5m", "6m"), fires("CancelOverdue", "8m", "15m")],
    ),
    Case(
        "a cancel that is overdue for a moment: silent",
        [series("cancel_overdue", "0x3 1 1 0x20")],
        [silent("CancelOverdue", "4m", "5m", "6m", "7m")],
    ),
    Case(
        "autopsies fail, a third of them",
        [
            series("autopsies_total", "0+0.2x90", status="complete"),
            series("autopsies_total", "0+0.05x90", status="failed"),
            series("autopsies_total", "0+0.05x90", status="busy"),
        ],
        [fires("AutopsiesFailing", "80m"), silent("AutopsiesFailing", "5m")],
    ),
    Case(
        "one in ten fails: silent",
        [
            series("autopsies_total", "0+0.9x90", status="complete"),
            series("autopsies_total", "0+0.1x90", status="failed"),
        ],
        [silent("AutopsiesFailing", "80m")],
    ),
    Case(
        "a single one fails, partial ones do not count",
        [
            series("autopsies_total", "0+1x90", status="partial"),
            series("autopsies_total", "0x90", status="complete"),
            series("autopsies_total", "0x30 1x60", status="failed"),
        ],
        [silent("AutopsiesFailing", "40m", "80m")],
    ),
    Case(
        "the only autopsy of the hour fails: one is not yet a pattern",
        [
            series("autopsies_total", "0x90", status="complete"),
            series("autopsies_total", "0x30 1x60", status="failed"),
        ],
        [silent("AutopsiesFailing", "40m")],
    ),
    Case(
        "two fail within minutes on two nodes: told for an hour",
        [
            series("autopsies_total", "0x10 1x90", status="failed"),
            series("autopsies_total", "0x10 1x90", instance="b", status="busy"),
        ],
        [fires("AutopsiesFailing", "15m", "60m"), silent("AutopsiesFailing", "75m")],
    ),
    Case(
        "captures take 9 s",
        [
            series("autopsy_duration_seconds_bucket", "0+0.2x90", le="5.0"),
            series("autopsy_duration_seconds_bucket", "0+1x90", le="10.0"),
            series("autopsy_duration_seconds_bucket", "0+1x90", le="+Inf"),
            series("autopsy_duration_seconds_count", "0+1x90"),
        ],
        [fires("AutopsiesSlow", "70m")],
    ),
    Case(
        "captures take 2 s, some of them 9 s: silent",
        [
            series("autopsy_duration_seconds_bucket", "0+0.97x90", le="5.0"),
            series("autopsy_duration_seconds_bucket", "0+1x90", le="10.0"),
            series("autopsy_duration_seconds_bucket", "0+1x90", le="+Inf"),
            series("autopsy_duration_seconds_count", "0+1x90"),
        ],
        [silent("AutopsiesSlow", "70m")],
    ),
    Case(
        "two slow captures in an hour: too few",
        [
            series("autopsy_duration_seconds_bucket", "0x90", le="5.0"),
            series("autopsy_duration_seconds_bucket", "0x10 2x90", le="10.0"),
            series("autopsy_duration_seconds_bucket", "0x10 2x90", le="+Inf"),
            series("autopsy_duration_seconds_count", "0x10 2x90"),
        ],
        [silent("AutopsiesSlow", "20m", "60m")],
    ),
    Case(
        "three slow captures on two nodes: enough, for an hour",
        [
            series("autopsy_duration_seconds_bucket", "0x200", le="5.0"),
            series("autopsy_duration_seconds_bucket", "0x10 2x190", le="10.0"),
            series("autopsy_duration_seconds_bucket", "0x10 2x190", le="+Inf"),
            series("autopsy_duration_seconds_count", "0x10 2x190"),
            series("autopsy_duration_seconds_count", "0x10 2x190", instance="b"),
        ],
        [fires("AutopsiesSlow", "20m", "60m"), silent("AutopsiesSlow", "80m")],
    ),
)

#: These look back for hours, so that they are run by themselves.
KILLS = (
    Case(
        "kills of one verdict, more than before",
        [
            series("kills_total", "0x390 0+1x40", verdict="timeout"),
            series("kills_total", "0x390 0+1x40", verdict="shutdown"),
        ],
        [
            silent("KillsRising", "380m", "393m"),
            fires("KillsRising", "405m", "415m", verdict="timeout"),
        ],
    ),
    Case(
        "as many kills as always: silent",
        [series("kills_total", "0+1x430", verdict="timeout")],
        [silent("KillsRising", "405m", "425m")],
    ),
    Case(
        "twice as many kills as before: silent",
        [series("kills_total", "0+0.5x390 196+1x40", verdict="timeout")],
        [silent("KillsRising", "415m")],
    ),
    Case(
        "four times as many kills as before, on two nodes: fires",
        [
            series("kills_total", "0+0.5x390 197+2x40", verdict="timeout"),
            series("kills_total", "0+0.5x390 197+2x40", instance="b", verdict="timeout"),
        ],
        [fires("KillsRising", "420m", verdict="timeout")],
    ),
    Case(
        "three kills on each of two nodes in half an hour, where there were none: fires",
        [
            series("kills_total", "0x400 3x30", verdict="stalled"),
            series("kills_total", "0x400 3x30", instance="b", verdict="stalled"),
        ],
        [fires("KillsRising", "410m", verdict="stalled")],
    ),
)

CASES = (*HANGS, *ZOMBIES, *STOPS)
