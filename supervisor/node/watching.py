"""Probing and judging: what every running attempt shows, and what is wrong with it, if anything.

The probes only read; `model.health.judge` decides; what follows is left to `closing`. A stop wish
or soft limit is brought to the attempt here too, since it is the same look that says it is time.
"""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.health import GAP_S, Action, Code, Pulse, Verdict, judge
from supervisor.model.record import Mark, Started
from supervisor.node.accounting import in_calls
from supervisor.node.closing import Closing
from supervisor.node.diagnosing import Diagnosing
from supervisor.node.floor import Attempt, Floor, Slot
from supervisor.node.gauges import ZOMBIES
from supervisor.node.listening import Listening
from supervisor.node.port import Begin, ClockSet
from supervisor.telemetry.events import emit
from supervisor.worker.vitals import Reading
from supervisor.worker.wire import Interrupt

#: Vital signs are read this often at most (they cost no system call).
LOOK_EVERY_S = 0.02
#: The kernel's files are read this often per attempt at most.
EXAMINE_EVERY_S = 1.0
#: A body that has not seen what its worker was told is signalled this often.
KNOCK_EVERY_S = 1.0
#: An attempt that runs longer than this is written as started; shorter ones with their ending.
BEGIN_AFTER_S = 0.1
#: Both clocks drift apart by less between two turns; more is a wall clock that was set.
STEP_S = 1.0


class Watching:
    """The three probes and the judge."""

    def __init__(self, floor: Floor, listening: Listening, closing: Closing) -> None:
        self._floor = floor
        self._listening = listening
        self._closing = closing
        self._diagnosing = Diagnosing(floor)
        self._looked_at = float("-inf")
        self._due = False

    def forgive(self, gap_s: float, now: float) -> None:
        """Move every deadline by a gap in which the node itself could not look, and say so."""
        if gap_s <= GAP_S:
            return
        floor = self._floor
        floor.last_gap_at = now
        floor.pool.shift(gap_s)
        if floor.stopping is not None:
            floor.stopping.since += gap_s
        for slot in floor.slots.values():
            if slot.farewell is not None:
                slot.farewell = slot.farewell.shifted(gap_s)
        for _, attempt in floor.attempts():
            attempt.shift(gap_s)
        note = f"the node's own loop stood still for {gap_s:.1f} s: all deadlines moved by it"
        for _, attempt in floor.attempts():
            if attempt.started_at is not None:
                floor.note(attempt, "deadlines_moved", note)
        emit("loop.lagged", gap_s=round(gap_s, 2))

    def restamp(self, stepped_s: float) -> None:
        """Tell the times of what runs by a wall clock that was set, so that all shown agree."""
        if abs(stepped_s) <= STEP_S:
            return
        for _, attempt in self._floor.attempts():
            attempt.begin_noted = False
            attempt.wall_forward_s += max(0.0, stepped_s)
        self._floor.scribe.ask(ClockSet(stepped_s))
        emit("clock.stepped", step_s=round(stepped_s, 1))

    def probe(self, now: float) -> None:
        """Look at every worker that holds an attempt, if it is time."""
        self._due = now - self._looked_at >= LOOK_EVERY_S
        if not self._due:
            return
        self._looked_at = now
        floor = self._floor
        floor.host = replace(floor.pool.host(), last_gap_at=floor.last_gap_at)
        begun: list[Started] = []
        for slot in floor.slots.values():
            reading = floor.pool.look(slot.worker_id) if slot.attempts else None
            if reading is not None and reading.last_seq != slot.last_seq:
                slot.last_seq, slot.read_at = reading.last_seq, now
            attempt = slot.attempts.get(reading.seq) if reading is not None else None
            if reading is not None and attempt is not None:
                self._look(slot, attempt, reading, now)
                begun += self._begin(attempt, now)
        if begun:
            floor.scribe.ask(Begin(tuple(begun)))

    def _look(self, slot: Slot, attempt: Attempt, reading: Reading, now: float) -> None:
        if attempt.started_at is None:
            self._floor.begin(attempt, reading.started_ns, reading.output_start)
        if reading.acknowledged_seq == attempt.seq:
            self._listening.acknowledged(attempt, reading.acknowledged_kind)
        self._floor.pool.trim(slot.worker_id)
        every = min(EXAMINE_EVERY_S, attempt.limits.heartbeat_interval / 2)
        if now - attempt.examined_at < every:
            return
        attempt.examined_at = now
        signs = self._floor.pool.examine(slot.worker_id, reading, now)
        if signs is None:
            return
        attempt.looks.append(signs)
        attempt.pulse = attempt.pulse.observe(signs) if attempt.pulse else Pulse.begin(signs)

    def _begin(self, attempt: Attempt, now: float) -> list[Started]:
        started = attempt.started_at
        if attempt.begin_noted or started is None or now - started < BEGIN_AFTER_S:
            return []
        attempt.begin_noted = True
        return [
            Started(
                task_id=attempt.claim.task_id,
                attempt=attempt.claim.attempt,
                started_at=self._floor.wall(started),
                timeout=attempt.limits.timeout,
                soft_timeout=attempt.limits.told_soft,
            )
        ]

    def judge(self, now: float) -> None:
        """Give every looked-at attempt its verdict, and hand those that call for it on."""
        floor = self._floor
        for slot, attempt in list(floor.running()):
            if slot.doomed is not None:
                continue
            self._tell(slot, attempt, now)
            self._knock(slot, attempt, now)
            if not self._due or attempt.pulse is None:
                continue
            rules, limits = floor.rules_of(attempt), attempt.limits_at()
            verdict = judge(attempt.pulse, rules, limits, floor.host, now, attempt.acted_on)
            if verdict is not None:
                self._act_on(slot, attempt, verdict, now)

    def _act_on(self, slot: Slot, attempt: Attempt, verdict: Verdict, now: float) -> None:
        first = verdict.code not in attempt.acted_on
        if verdict.action is Action.KILL:
            self._closing.doom(slot, attempt, verdict, now)
        elif first and verdict.action is Action.CAPTURE:
            self._diagnosing.examine(slot, attempt, verdict, now)
        if first:
            attempt.acted_on.add(verdict.code)
            self._note_verdict(attempt, verdict)
            for kind in (kind for kind, codes in ZOMBIES.items() if verdict.code in codes):
                self._floor.metrics.inc("zombies_detected_total", kind=kind)

    def _note_verdict(self, attempt: Attempt, verdict: Verdict) -> None:
        text = f"{verdict.code} → {verdict.action}: {verdict.why}"
        if waits := in_calls(attempt, self._floor.clock.mono()):
            text += f"; {waits}"
        self._floor.note(attempt, "verdict", text)
        if verdict.code is Code.STARVED_HOST:
            emit("verdict.held", **attempt.named, verdict=verdict.code, why=verdict.why)
        else:
            emit(
                "verdict.reached",
                **attempt.named, verdict=verdict.code, action=verdict.action, detail=verdict.why,
            )  # fmt: skip

    def mark(self, marks: tuple[Mark, ...], now: float) -> None:
        """Take in the stop wishes as the store has them."""
        if not marks:
            return
        wanted = {(mark.task_id, mark.attempt): mark.mark for mark in marks}
        for _, attempt in self._floor.attempts():
            mark = wanted.get((attempt.claim.task_id, attempt.claim.attempt))
            if mark is None or attempt.mark is not None:
                continue
            attempt.mark, attempt.mark_heard_at = mark, now
            attempt.acknowledged = False  # what it has seen so far was something else
            self._floor.metrics.inc("cancel_requests_total", type=attempt.claim.type)
            emit("cancel.requested", **attempt.named, by=mark.by)

    def _tell(self, slot: Slot, attempt: Attempt, now: float) -> None:
        if attempt.mark is not None:
            if not attempt.delivered:
                self._deliver(slot, attempt, now)
        elif not attempt.soft_told and now >= attempt.soft_at():
            text = f"soft time limit of {attempt.limits.soft_timeout:g} s"
            sent = self._floor.pool.send(
                slot.worker_id, Interrupt(attempt.seq, "soft_timeout", text)
            )
            if sent:
                attempt.soft_told = True
                attempt.told(now)

    def _deliver(self, slot: Slot, attempt: Attempt, now: float) -> None:
        mark = attempt.mark
        if mark is None:
            return
        text = f"{mark.kind} by {mark.by}: {mark.reason}"
        if self._floor.pool.send(slot.worker_id, Interrupt(attempt.seq, "cancel", text)):
            attempt.delivered = True
            attempt.told(now)
            self._floor.note(attempt, "cancel_delivered", "told to the worker")
            emit("cancel.delivered", **attempt.named)

    def _knock(self, slot: Slot, attempt: Attempt, now: float) -> None:
        """Signal a body that sees nothing: its worker hears only if it gives the GIL away."""
        if now >= attempt.knock_at and not attempt.acknowledged:
            attempt.knock_at = now + KNOCK_EVERY_S
            self._floor.pool.knock(slot.worker_id)

    def next_deadline(self) -> float:
        """Return the moment at which some attempt may change its standing by time alone."""
        moments = [float("inf")]
        for slot, attempt in self._floor.running():
            if slot.doomed is not None:
                continue
            limits = attempt.limits_at()
            moments.append(limits.timeout_at)
            if not attempt.acknowledged:
                moments.append(attempt.knock_at)
            if not attempt.soft_told and attempt.mark is None:
                moments.append(attempt.soft_at())
            if limits.cancel_at is not None:
                moments.append(limits.cancel_at)
        return min(moments)
