"""Colours that mean the same thing on every dashboard."""

from __future__ import annotations

from supervisor.monitoring.dashboards.model import Color, Style

BY_OUTCOME = (
    Style("success", Color.GOOD),
    Style("failed", Color.BAD),
    Style("timeout", Color.LATE),
    Style("canceled", Color.WARN),
    Style("requeued", Color.CALM),
)
BY_STATE = (
    Style("busy", Color.GOOD),
    Style("idle", Color.CALM),
    Style("starting", Color.WARN),
    Style("stopping", Color.LATE),
)
WANTED = Style("wanted", Color.PLAIN, dashed=True)
BY_QUANTILE = (
    Style("p50", Color.GOOD),
    Style("p95", Color.WARN),
    Style("p99", Color.LATE),
)
BY_PHASE = (
    Style("asked", Color.GOOD),
    Style("interrupted", Color.WARN),
    Style("killed", Color.BAD),
)
