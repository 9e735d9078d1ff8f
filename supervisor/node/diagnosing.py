"""Evidence of an attempt that lives on: taken on suspicion, and not too often.

Secret kept here: how often. A probe that suspects something may suspect it of every attempt at once
(a database that is away), and an examination costs the host CPU and the suspect a pause. What is
not examined is told in the attempt's history, with the reason.
"""

from __future__ import annotations

from collections import deque

from supervisor.model.health import Verdict
from supervisor.node.evidence import suspect_facts
from supervisor.node.finding import unexamined
from supervisor.node.floor import Attempt, Floor, Slot

#: Examinations on suspicion of a whole node within MINUTE_S.
MOST_PER_MINUTE = 20
MINUTE_S = 60.0


class Diagnosing:
    """Examines suspects that nobody is going to kill."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._lately: deque[float] = deque(maxlen=MOST_PER_MINUTE)

    def examine(self, slot: Slot, attempt: Attempt, verdict: Verdict, now: float) -> None:
        """Take evidence of an attempt and let it live, unless that was done a moment ago."""
        if why := self._too_often(attempt, now):
            claim = attempt.claim
            unexamined(self._floor, claim.task_id, claim.attempt, why)
            return
        attempt.diagnosed_at = now
        self._lately.append(now)
        facts = suspect_facts(self._floor, slot, attempt, verdict, lets_live=True)
        self._floor.pool.capture(slot.worker_id, facts, self._floor.settings.autopsy_budget)

    def _too_often(self, attempt: Attempt, now: float) -> str:
        every, past = self._floor.settings.diagnose_interval, now - attempt.diagnosed_at
        if past < every:
            return f"examined {past:.0f} s ago (diagnose_interval {every:g} s)"
        if len(self._lately) == MOST_PER_MINUTE and now - self._lately[0] < MINUTE_S:
            return f"this node examined {MOST_PER_MINUTE} attempts in the last minute"
        return ""
