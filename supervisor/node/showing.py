"""What a node shows of itself and its workers to people: every few seconds, its stage at once.

Secret kept here: how it is made of what probes and gauges have seen, with another look only where
there was none a moment ago. Nothing depends on it. `Reporting` calls it, after the gauges.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

from supervisor.model.health import Signs
from supervisor.node.floor import Attempt, Floor, Slot
from supervisor.node.gauges import Board, standing, state_of
from supervisor.node.port import VitalsNote
from supervisor.worker.vitals import Reading

SHOW_EVERY_S = 5.0
#: A look of the probes that is younger is not repeated.
FRESH_S = 2.0
#: What is shown of a worker that has no attempt in its body.
_NO_ATTEMPT = MappingProxyType(
    dict.fromkeys(("task_id", "attempt", "since_progress_s", "progress", "verdict"))
)


class Showing:
    """Hands in a document when it is time."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._shown_at = float("-inf")
        self._stage = ""

    def show(self, now: float, board: Board) -> None:
        """Hand in what is to be seen now, if it is time; zombies and the living as in metrics."""
        floor = self._floor
        is_due = now - self._shown_at >= SHOW_EVERY_S or stage(floor) != self._stage
        if floor.store_away or not is_due:
            return
        self._shown_at, self._stage = now, stage(floor)
        worst_lag_s, floor.worst_lag_s = floor.worst_lag_s, 0.0
        node = {
            "stage": self._stage,
            "workers_desired": floor.workers_wanted,
            "workers_alive": board.alive,
            "zombies": dict(board.zombies),
            "loop_lag_s": round(worst_lag_s, 4),
        }
        slots = sorted(floor.slots.values(), key=lambda slot: slot.number)
        workers = [self._worker(slot, now) for slot in slots if slot.pid]
        floor.scribe.ask(VitalsNote({"node": node, "workers": workers}))

    def _worker(self, slot: Slot, now: float) -> dict[str, Any]:
        attempt = slot.current
        signs = self._signs(slot, attempt, now)
        shown = {
            "slot": slot.number,
            "worker_id": slot.worker_id,
            "pid": slot.pid,
            "state": state_of(slot),
            "rss": None,
            "cpu_s": None,
            "fds": None,
            "heartbeat_age_s": _since(slot.beat_at, now),
            **_NO_ATTEMPT,
        }
        if signs is not None:
            shown["rss"], shown["fds"] = signs.rss_bytes, signs.open_fds
            shown["cpu_s"] = round(signs.cpu_s, 2)
        if attempt is not None:
            self._add(shown, slot, attempt, now)
        return shown

    def _signs(self, slot: Slot, attempt: Attempt | None, now: float) -> Signs | None:
        if attempt is not None and attempt.looks and now - attempt.looks[-1].at < FRESH_S:
            return attempt.looks[-1]
        if slot.reading is None:
            return None
        return self._floor.pool.examine(slot.worker_id, slot.reading, now)

    def _add(self, shown: dict[str, Any], slot: Slot, attempt: Attempt, now: float) -> None:
        """Add what is to be seen of the attempt."""
        claim, pulse = attempt.claim, attempt.pulse
        shown["task_id"], shown["attempt"] = claim.task_id, claim.attempt
        shown["since_progress_s"] = _since(None if pulse is None else pulse.progress_at, now)
        shown["progress"] = _progress(attempt, slot.reading)
        shown["verdict"] = ", ".join(sorted(standing(self._floor, attempt, now))) or None


def stage(floor: Floor) -> str:
    """Return one word for what the node does: starting, running, draining, drained, …"""
    if floor.stopping is not None:
        return "stopping"
    if floor.fenced:
        return "fenced"
    if floor.draining:
        return "draining" if any(floor.attempts()) else "drained"
    return "running" if floor.types else "starting"


def _since(moment: float | None, now: float) -> float | None:
    return None if moment is None else round(max(0.0, now - moment), 2)


def _progress(attempt: Attempt, reading: Reading | None) -> list[float | None] | None:
    """Return how far it is and of how much (None: it did not say), None if it never said."""
    if reading is None or reading.seq != attempt.seq or not reading.progress_changes:
        return None
    done, total = reading.progress_done, reading.progress_total
    if not math.isfinite(done):
        return None
    return [done, total if math.isfinite(total) and total else None]
