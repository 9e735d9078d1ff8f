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
BY_PHASE = (
    Style("asked", Color.GOOD),
    Style("interrupted", Color.WARN),
    Style("killed", Color.BAD),
)


def by_quantile(*names: str) -> tuple[Style, ...]:
    """Return the colours of p50, p95, p99, of those that a panel shows."""
    colors = {"p50": Color.GOOD, "p95": Color.WARN, "p99": Color.LATE}
    return tuple(Style(name, colors[name]) for name in names)
