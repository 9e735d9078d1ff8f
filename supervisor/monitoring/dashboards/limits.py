"""Where panels change colour: at the numbers that the alerts compare with, and a little before.

Secret kept here: which threshold belongs to which panel. Invariant: no alert's number is written
here; what is written is where it begins to be worth a look.
"""

from __future__ import annotations

from supervisor.monitoring.dashboards.model import Color, Limit
from supervisor.monitoring.threshold import Thresholds

Limits = tuple[Limit, ...]

#: Whoever uses all of a core for long is looked at (WorkerCpuPegged leaves room for its rounding).
ONE_CORE = 1.0


def at(limit: float) -> Limits:
    """Return a limit alone: what is above it is an alert."""
    return (Limit(limit, Color.BAD),)


def from_half(limit: float) -> Limits:
    """Return a limit, and at half of it a first hint."""
    return (Limit(limit / 2, Color.WARN), *at(limit))


def line(limit: float) -> str:
    """Return the query of a line at a number."""
    return f"vector({limit:g})"


def good_from(limit: float) -> Limits:
    """Return a limit from which on all is well; what is below has the panel's low colour."""
    return (Limit(limit, Color.GOOD),)


def any_at_all() -> Limits:
    """Return the limit of what must not be."""
    return at(1)


def used_of_timeout(alert: Thresholds) -> Limits:
    """Return the limits of age over timeout: near it, past it and nobody ended it."""
    return (Limit(0.8, Color.WARN), *at(alert.stuck_timeouts))
