"""Tests of the alerts about the node itself, its store and doorbell, and telemetry."""

from __future__ import annotations

from rules.case import Case, fires, series, silent

SCRAPE = (
    Case(
        "a node is dead",
        [
            series("up", "1x5 0x20"),
            series("up", "1x25", instance="b"),
            series("start_time_seconds", "1x25", instance="b"),
        ],
        [
            silent("SupervisorDown", "5m", "6m"),
            fires("SupervisorDown", "8m", "20m", instance="a"),
            silent("SupervisorAbsent", "20m"),
            silent("SupervisorMetricsMissing", "20m"),
        ],
    ),
    Case(
        "no target at all",
        [series("up", "_x5 1x20")],
        [
            silent("SupervisorAbsent", "1m"),
            fires("SupervisorAbsent", "3m"),
            silent("SupervisorAbsent", "7m"),
            fires("Watchdog", "0m", "15m"),
        ],
    ),
    Case(
        "up, and not one of our metrics",
        [series("up", "_x5 1x20")],
        [
            silent("SupervisorMetricsMissing", "6m"),
            fires("SupervisorMetricsMissing", "8m", "15m", instance="a"),
        ],
    ),
    Case(
        "it has started three times anew",
        [
            series("start_time_seconds", "1x5 2 3 4x30"),
            series("start_time_seconds", "1x5 2 3x30", instance="b"),
        ],
        [
            silent("SupervisorRestarted", "7m"),
            fires("SupervisorRestarted", "9m", "18m", instance="a"),
            silent("SupervisorRestarted", "25m"),
        ],
    ),
    Case(
        "it has been stopping for more than five minutes",
        [
            series("stopping", "0x5 1x30"),
            series("stopping", "0x5 1 1 1 0x30", instance="b"),
            series("stopping", "0x40", instance="c"),
            series("draining", "1x40", instance="c"),
        ],
        [
            silent("SupervisorDrainStuck", "8m", "10m", "11m"),
            fires("SupervisorDrainStuck", "13m", "30m", instance="a"),
        ],
    ),
)

LOOP = (
    Case(
        "the loop stands still",
        [
            series("loop_last_tick_timestamp_seconds", "0+15x20 300x20"),
            series("loop_last_tick_timestamp_seconds", "0+15x40", instance="b"),
        ],
        [
            silent("SupervisorLoopStalled", "5m15s", "5m45s", "6m"),
            fires("SupervisorLoopStalled", "6m45s", "8m", instance="a"),
        ],
        "15s",
    ),
    Case(
        "its last turn was 20 s ago: silent",
        [series("loop_last_tick_timestamp_seconds", "0x1 0+15x40")],
        [silent("SupervisorLoopStalled", "5m", "8m")],
        "15s",
    ),
    Case(
        "the loop is late by a second",
        [
            series("loop_lag_seconds_bucket", "0+90x60", le="0.25"),
            series("loop_lag_seconds_bucket", "0+90x60", le="0.5"),
            series("loop_lag_seconds_bucket", "0+100x60", le="1.0"),
            series("loop_lag_seconds_bucket", "0+100x60", le="+Inf"),
        ],
        [silent("SupervisorLoopLate", "10m"), fires("SupervisorLoopLate", "17m", instance="a")],
    ),
    Case(
        "usually 5 ms, one turn of a thousand takes a second",
        [
            series("loop_lag_seconds_bucket", "0+999x60", le="0.25"),
            series("loop_lag_seconds_bucket", "0+999x60", le="0.5"),
            series("loop_lag_seconds_bucket", "0+1000x60", le="1.0"),
            series("loop_lag_seconds_bucket", "0+1000x60", le="+Inf"),
        ],
        [silent("SupervisorLoopLate", "30m")],
    ),
    Case(
        "late for five minutes, during a backup",
        [
            series("loop_lag_seconds_bucket", "0x5 0x5 0+100x30", le="0.5"),
            series("loop_lag_seconds_bucket", "0x5 0+100x35", le="1.0"),
            series("loop_lag_seconds_bucket", "0x5 0+100x35", le="+Inf"),
        ],
        [silent("SupervisorLoopLate", "10m", "15m", "17m")],
    ),
    Case(
        "a step of the loop raises",
        [
            series("loop_errors_total", "0x5 1x30"),
            series("loop_errors_total", "7x35", instance="b"),
        ],
        [
            silent("SupervisorLoopErrors", "5m"),
            fires("SupervisorLoopErrors", "7m", "14m", instance="a"),
            silent("SupervisorLoopErrors", "18m"),
        ],
    ),
    Case(
        "a node is fenced",
        [series("fenced", "0x20 1x40"), series("fenced", "0x60", instance="b")],
        [
            silent("SupervisorFenced", "5m", "5m15s"),
            fires("SupervisorFenced", "6m", "9m", instance="a"),
        ],
        "15s",
    ),
    Case(
        "fenced for the blink of an eye, and fenced on and off",
        [
            series("fenced", "0x20 1 0x40"),
            series("fenced", "1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1", instance="b"),
        ],
        [
            fires("SupervisorFenced", "4m", "5m", instance="b"),
            silent("SupervisorFenced", "8m"),
        ],
        "15s",
    ),
    Case(
        "it loses its lease four times in an hour",
        [
            series("fences_total", "0x5 1x5 2x5 3x5 4x90"),
            series("fences_total", "0x5 1x5 2x100", instance="b"),
        ],
        [
            silent("SupervisorFencedAgain", "14m"),
            fires("SupervisorFencedAgain", "25m", "60m", instance="a"),
            silent("SupervisorFencedAgain", "75m", "100m"),
        ],
    ),
    Case(
        "clocks that are ahead, behind, and right enough",
        [
            series("clock_skew_seconds", "8x20"),
            series("clock_skew_seconds", "-8x20", instance="b"),
            series("clock_skew_seconds", "3x20", instance="c"),
            series("clock_skew_seconds", "0x5 9 9 0x20", instance="d"),
        ],
        [
            silent("ClockSkew", "4m"),
            fires("ClockSkew", "7m", "15m", instance="a"),
            fires("ClockSkew", "7m", "15m", instance="b"),
        ],
    ),
    Case(
        "new settings are refused",
        [
            series("config_last_reload_successful", "1x5 0x20"),
            series("config_last_reload_successful", "1x5 0 0 1x20", instance="b"),
        ],
        [
            silent("ConfigReloadFailed", "6m", "9m"),
            fires("ConfigReloadFailed", "11m", "20m", instance="a"),
        ],
    ),
)

STORE = (
    Case(
        "the store is away",
        [series("store_up", "1x20 0x40"), series("store_up", "1 0 0 1x60", instance="b")],
        [
            silent("TaskStoreDown", "45s", "5m30s", "6m15s", "6m30s"),
            fires("TaskStoreDown", "7m15s", "9m", instance="a"),
        ],
        "15s",
    ),
    Case(
        "operations fail, 15 a minute",
        [
            series("store_errors_total", "0+15x30"),
            series("store_errors_total", "0+4x30", instance="b"),
        ],
        [silent("TaskStoreErrors", "5m"), fires("TaskStoreErrors", "8m", "20m", instance="a")],
    ),
    Case(
        "a burst of errors while the database restarts",
        [series("store_errors_total", "0x5 60x40")],
        [silent("TaskStoreErrors", "8m", "10m", "12m")],
    ),
    Case(
        "commits take 0.7 s",
        [
            series("store_commit_duration_seconds_bucket", "0+95x60", le="0.5"),
            series("store_commit_duration_seconds_bucket", "0+100x60", le="1.0"),
            series("store_commit_duration_seconds_bucket", "0+100x60", le="+Inf"),
        ],
        [silent("TaskStoreSlow", "10m"), fires("TaskStoreSlow", "17m", instance="a")],
    ),
    Case(
        "one commit of a thousand is slow, and all are for five minutes during a backup",
        [
            series("store_commit_duration_seconds_bucket", "0+999x60", le="0.5"),
            series("store_commit_duration_seconds_bucket", "0+1000x60", le="1.0"),
            series("store_commit_duration_seconds_bucket", "0+1000x60", le="+Inf"),
            series("store_commit_duration_seconds_bucket", "0x10 0+100x30", "b", le="0.5"),
            series("store_commit_duration_seconds_bucket", "0x5 0+100x35", "b", le="1.0"),
            series("store_commit_duration_seconds_bucket", "0x5 0+100x35", "b", le="+Inf"),
        ],
        [silent("TaskStoreSlow", "10m", "15m", "17m", "30m")],
    ),
    Case(
        "transactions stand in each other's way",
        [
            series("store_conflicts_total", "0+90x40"),
            series("store_conflicts_total", "0+40x40", instance="b"),
            series("store_conflicts_total", "0x10 900x40", instance="c"),
        ],
        [
            silent("TaskStoreContended", "12m"),
            fires("TaskStoreContended", "17m", "30m", instance="a"),
        ],
    ),
    Case(
        "a third of the claims come too late; a tenth; a third of very few",
        [
            series("claims_tried_total", "0+90x40"),
            series("claims_missed_total", "0+30x40"),
            series("claims_tried_total", "0+90x40", instance="b"),
            series("claims_missed_total", "0+10x40", instance="b"),
            series("claims_tried_total", "0+30x40", instance="c"),
            series("claims_missed_total", "0+20x40", instance="c"),
        ],
        [silent("ClaimsMissed", "9m"), fires("ClaimsMissed", "19m", "30m", instance="a")],
    ),
    Case(
        "claims come too late while a node starts",
        [
            series("claims_tried_total", "0+900x40"),
            series("claims_missed_total", "0x5 2000x40"),
        ],
        [silent("ClaimsMissed", "8m", "16m", "20m")],
    ),
    Case(
        "the doorbell is away; one that is restarted",
        [series("bell_up", "1x5 0x20"), series("bell_up", "1x5 0 1x20", instance="b")],
        [silent("BellDown", "6m", "7m", "8m"), fires("BellDown", "10m", "20m", instance="a")],
    ),
)

TELEMETRY = (
    Case(
        "a collector cannot tell; another missed once",
        [
            series("collector_success", "1x5 0x20", collector="backlog"),
            series("collector_success", "1x5 0 1x20", collector="recent"),
        ],
        [
            silent("CollectorFailing", "6m", "9m"),
            fires("CollectorFailing", "12m", "20m", instance="a", collector="backlog"),
        ],
    ),
    Case(
        "collectors take 1.2 s together; 0.6 s; once",
        [
            series("collector_duration_seconds", "0.6x20", collector="backlog"),
            series("collector_duration_seconds", "0.6x20", collector="recent"),
            series("collector_duration_seconds", "0.6x20", instance="b", collector="backlog"),
            series("collector_duration_seconds", "0x5 3 0x20", instance="c", collector="recent"),
        ],
        [
            silent("CollectorSlow", "4m"),
            fires("CollectorSlow", "7m", "15m", instance="a"),
        ],
    ),
    Case(
        "label values are folded",
        [
            series("label_values_dropped_total", "0x5 3x40", label="type"),
            series("label_values_dropped_total", "9x45", label="queue"),
        ],
        [
            silent("TelemetryDropped", "5m"),
            fires("TelemetryDropped", "7m", "18m", label="type"),
            silent("TelemetryDropped", "25m"),
        ],
    ),
    Case(
        "spans are lost",
        [series("otel_export_failures_total", "0x5 1x40", signal="traces")],
        [
            silent("TraceExportFailing", "5m"),
            fires("TraceExportFailing", "7m", "18m", signal="traces"),
            silent("TraceExportFailing", "25m"),
        ],
    ),
)

CASES = (*SCRAPE, *LOOP, *STORE, *TELEMETRY)
