"""The node's gauges, set once a second from what the floor knows, and the board for collectors.

Secret kept here: what counts as alive, overdue, a zombie. The board is a value without links to
anything that changes: the threads of a scrape read it, the loop puts up a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from supervisor.model.health import Code, symptoms
from supervisor.node.floor import Attempt, Floor, Slot
from supervisor.telemetry.catalog_node import WORKER_STATES

#: The codes of verdicts that make an attempt a zombie, by the kind it is shown as.
ZOMBIES: Mapping[str, frozenset[Code]] = {
    "stalled": frozenset({Code.STALLED}),
    "heartbeat_lost": frozenset({Code.HEARTBEAT_LOST, Code.STOPPED}),
}


_PLAIN = (
    "loop_last_tick_timestamp_seconds", "bell_up", "draining", "stopping",
    "cancel_overdue", "workers_desired", "workers_alive",
)  # fmt: skip


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A worker at its place in the pool; `heartbeat_age_s` as of the board's moment."""

    number: int
    worker_id: str
    pid: int
    start_ticks: int
    heartbeat_age_s: float


@dataclass(slots=True)
class Running:
    """The extremes of what runs of one type: age, age by timeout, no progress, memory."""

    age_s: float = 0.0
    used: float = 0.0
    still_s: float = 0.0
    rss_bytes: int = 0


class Board(msgspec.Struct, frozen=True):
    """What collectors may know of this node: as of `at` (monotonic)."""

    at: float = float("-inf")
    zombies: Mapping[str, int] = {}
    places: tuple[Place, ...] = ()
    running: Mapping[str, Running] = {}
    alive: int = 0


class Gauges:
    """Sets the gauges of one node; `board` is the latest."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self.board = Board()
        setter = floor.metrics.setter
        self._set = {name: setter(name) for name in _PLAIN}
        self._set_workers = {state: setter("workers", state=state) for state in WORKER_STATES}

    def show(self, now: float) -> None:
        """Set them all."""
        floor, is_set = self._floor, self._set
        is_set["loop_last_tick_timestamp_seconds"](floor.clock.now().timestamp())
        floor.metrics.set("store_up", not floor.store_away)  # also set where the loss is noticed
        is_set["bell_up"](floor.listener is not None and not floor.listener.away)
        stops = floor.stopping is not None
        is_set["draining"](stops or bool(floor.draining))
        is_set["stopping"](stops)
        is_set["cancel_overdue"](self._overdue(now))
        alive = self._show_workers(now)
        zombies = {kind: self._zombies(codes, now) for kind, codes in ZOMBIES.items()}
        zombies["orphan"] = floor.strays
        self.board = Board(now, zombies, self._places(now), self._running(now), alive)

    def _feel(self, slot: Slot, now: float) -> None:
        """Note whether its heart has beaten since the last time (no system call)."""
        reading = slot.reading = self._floor.pool.look(slot.worker_id)
        if reading is not None and (reading.beats != slot.beats or slot.beat_at is None):
            slot.beats, slot.beat_at = reading.beats, now

    def _show_workers(self, now: float) -> int:
        """Set what is told of workers; return how many are alive."""
        floor, alive = self._floor, 0
        found = dict.fromkeys(WORKER_STATES, 0)
        for slot in floor.slots.values():
            self._feel(slot, now)
            found[state_of(slot)] += 1
            alive += self._is_alive(slot, now)
        for state, number in found.items():
            self._set_workers[state](number)
        self._set["workers_desired"](floor.workers_wanted)
        self._set["workers_alive"](alive)
        return alive

    def _is_alive(self, slot: Slot, now: float) -> bool:
        settings = self._floor.settings
        fresh_s = settings.heartbeat_interval * settings.heartbeat_misses
        return slot.can_take_work and slot.beat_at is not None and now - slot.beat_at < fresh_s

    def _places(self, now: float) -> tuple[Place, ...]:
        """Return who is at each place: whoever came last, when one is still on its way out."""
        by_number = {slot.number: slot for slot in self._floor.slots.values() if slot.pid}
        return tuple(
            Place(
                number=number,
                worker_id=slot.worker_id,
                pid=slot.pid,
                start_ticks=slot.start_ticks,
                heartbeat_age_s=now - slot.beat_at if slot.beat_at is not None else 0.0,
            )
            for number, slot in sorted(by_number.items())
        )

    def _running(self, now: float) -> dict[str, Running]:
        found: dict[str, Running] = {}
        for _, attempt in self._floor.attempts():
            if attempt.started_at is None:
                continue
            worst = found.setdefault(attempt.claim.type, Running())
            age_s, pulse = now - attempt.started_at, attempt.pulse
            worst.age_s = max(worst.age_s, age_s)
            worst.used = max(worst.used, (age_s - attempt.moved_s) / attempt.limits.timeout)
            if pulse is None:
                continue
            worst.rss_bytes = max(worst.rss_bytes, pulse.last.rss_bytes)
            if pulse.last.progress_changes:
                worst.still_s = max(worst.still_s, now - pulse.progress_at)
        return found

    def _zombies(self, codes: frozenset[Code], now: float) -> int:
        return sum(
            not codes.isdisjoint(standing(self._floor, attempt, now))
            for _, attempt in self._floor.attempts()
        )

    def _overdue(self, now: float) -> int:
        budget = self._floor.settings.autopsy_budget
        return sum(
            now - a.mark_heard_at > a.limits.cancel_grace + budget
            for _, a in self._floor.attempts()
            if a.mark is not None
        )


def standing(floor: Floor, attempt: Attempt, now: float) -> set[str]:
    """Return what was said of an attempt and is true still: one that recovers is no zombie."""
    if attempt.pulse is None or not attempt.acted_on:
        return set()
    rules = floor.rules_of(attempt)
    return attempt.acted_on & {v.code for v in symptoms(attempt.pulse, rules, now)}


def state_of(slot: Slot) -> str:
    """Return one word for what a worker is at."""
    if slot.ready_at is None:
        return "starting"
    if slot.farewell is not None or slot.leaving:
        return "stopping"
    return "busy" if slot.attempts else "idle"
