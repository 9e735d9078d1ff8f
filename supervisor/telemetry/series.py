"""The series of the tasks of one type in one queue, bound once: the path that every task takes.

Secret kept here: which of them carry an exemplar. One costs as much as the observation itself, so
that fast tasks get a few a second, slow and failed ones all. Made by `Metrics.of_task` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from supervisor.telemetry.catalog import EXECUTED, OUTCOMES

#: A task that took this long, or did not succeed, always leaves its id; others this often.
SLOW_S, EXEMPLAR_EVERY_S = 1.0, 0.2
#: What OpenMetrics allows in one exemplar, names and values together.
EXEMPLAR_MOST = 128

Bind = Callable[[str, Mapping[str, str]], Any]


class TaskSeries:
    """What is counted of the tasks of one (queue, type) pair, `_other` included."""

    def __init__(self, bind: Bind, queue: str, type: str) -> None:
        self.pair = (queue, type)
        both = {"queue": queue, "type": type}
        self.started = bind("tasks_started_total", both)
        self.wait = bind("queue_wait_seconds", {"queue": queue})
        self.dead = bind("tasks_dead_total", both)
        self.retried = bind("tasks_retried_total", {"type": type})
        self._used = bind("timeout_used_ratio", {"type": type})
        self._finished = {
            outcome: bind("tasks_finished_total", {**both, "outcome": outcome})
            for outcome in OUTCOMES
        }
        self._duration = {
            outcome: bind("running_duration_seconds", {"type": type, "outcome": outcome})
            for outcome in EXECUTED
        }
        self._exemplar_at = float("-inf")

    def ended(
        self,
        outcome: str,
        duration_s: float | None,
        timeout_s: float | None,
        exemplar: Mapping[str, str],
        now: float,
    ) -> None:
        """Count an attempt that has ended; it did not start if it has no duration."""
        slow = outcome != "success" or (duration_s or 0.0) >= SLOW_S
        told = None
        if slow or now - self._exemplar_at >= EXEMPLAR_EVERY_S:
            self._exemplar_at = now
            told = _fitting(exemplar)
        self._finished[outcome].inc(1, told)
        if duration_s is None or outcome not in self._duration:
            return
        self._duration[outcome].observe(duration_s, told)
        if timeout_s:
            self._used.observe(duration_s / timeout_s)


def _fitting(exemplar: Mapping[str, str]) -> dict[str, str] | None:
    """Return what fits into an exemplar, the first names first."""
    room, kept = EXEMPLAR_MOST, {}
    for name, value in exemplar.items():
        if value and len(name) + len(value) <= room:
            room -= len(name) + len(value)
            kept[name] = value
    return kept or None
