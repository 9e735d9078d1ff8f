"""What the node says of itself: metrics, readiness, and the lines of its log.

Readiness says why claims stop; liveness fails only when the loop itself has stood still, so that an
orchestrator never kills healthy tasks because a dependency is away.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from supervisor.model.outcome import Settlement
from supervisor.model.record import Ending
from supervisor.model.states import REQUEUE_REASONS, Reason, State
from supervisor.model.trace import is_sampled, log_ids, trace_id_of
from supervisor.node import port
from supervisor.node.accounting import Accounting
from supervisor.node.floor import Floor
from supervisor.node.gauges import Gauges
from supervisor.node.mending import Mending
from supervisor.node.showing import Showing
from supervisor.node.staffing import Staffing
from supervisor.telemetry.events import emit

#: The gauges are set this often.
REPORT_EVERY_S = 1.0
#: The store is away when it has not answered for this long: longer than a writer waits for a lock.
SILENT_AFTER_S = 7.0
#: The loop is dead when it has not turned for this long.
DEAD_AFTER_S = 10.0


#: How the metrics call the state that an attempt ended in.
_OUTCOMES = MappingProxyType({state: str(state).lower() for state in State})


@dataclass(frozen=True, slots=True)
class Health:
    """What /healthz and /readyz answer: a list of reasons, empty for all well."""

    ticked_at: float
    not_ready: tuple[str, ...]
    notes: tuple[str, ...] = ()


class Reporting:
    """The node's own signs."""

    def __init__(
        self, floor: Floor, staffing: Staffing, mending: Mending, accounting: Accounting
    ) -> None:
        self._floor = floor
        self._staffing = staffing
        self._mending = mending
        self.gauges = Gauges(floor)
        self._accounting = accounting
        self._showing = Showing(floor)
        self._reported_at = float("-inf")
        self._away_since = 0.0
        self._silent = False
        self.health = Health(floor.clock.mono(), ("starting",))

    def lag(self, late_s: float) -> None:
        """Note how late a turn came."""
        self._floor.worst_lag_s = max(self._floor.worst_lag_s, late_s)
        self._floor.metrics.observe("loop_lag_seconds", late_s)

    def endings(self, written: port.EndingsWritten) -> None:
        """Count and log what became of the attempts, as it is written."""
        now = self._floor.clock.mono()
        for ending, settlement in written.results:
            is_lost = ending.outcome.reason is Reason.NODE_LOST
            if settlement is None and is_lost:
                continue  # another sweep was first, of this node or of another: that one tells
            if settlement is None:
                self._floor.metrics.inc("late_results_total", type=ending.type)
                emit(
                    "result.discarded",
                    task_id=ending.task_id, attempt=ending.attempt, why=ending.outcome.reason,
                    **_ids(ending),
                )  # fmt: skip
                continue
            self._count(ending, settlement, now)
            if is_lost:
                self._floor.metrics.inc("zombies_detected_total", kind="lost")
                emit("task.swept", **_named(ending), proof=ending.outcome.proof)
            if self._floor.traces is not None:
                self._floor.traces.ended(ending, settlement)
            if settlement.state is not State.SUCCESS:
                self._log(ending, settlement)

    def _count(self, ending: Ending, settlement: Settlement, now: float) -> None:
        """Count an attempt under the outcome that its row bears."""
        series = self._floor.metrics.of_task(ending.queue, ending.type)
        outcome = _OUTCOMES[settlement.path[1]]
        if ending.outcome.reason in REQUEUE_REASONS:
            outcome = "requeued"
        elif settlement.state is State.PENDING:
            series.retried.inc()
        elif settlement.state in (State.FAILED, State.TIMEOUT):
            series.dead.inc()
        began, duration_s = ending.started_at, None
        if began is not None:
            duration_s = max(0.0, (ending.ended_at - began).total_seconds())
        series.ended(outcome, duration_s, ending.timeout, _exemplar(ending), now)

    def _log(self, ending: Ending, settlement: Settlement) -> None:
        task = _named(ending)
        if settlement.quarantined:
            self._floor.metrics.inc("tasks_quarantined_total", type=ending.type)
            emit("task.quarantined", **task, crashes=settlement.crash_count)
        elif settlement.state in (State.FAILED, State.TIMEOUT):
            emit("task.died", **task, reason=settlement.reason)
        elif settlement.run_after is not None:
            delay = (settlement.run_after - self._floor.clock.now()).total_seconds()
            emit("task.retried", **task, delay_s=round(max(0.0, delay), 3))

    def store(self, reply: port.StoreAway | port.StoreBack | port.StoreGone, now: float) -> None:
        """The store's standing has changed."""
        floor = self._floor
        self._silent = False
        match reply:
            case port.StoreAway():
                if not floor.store_away:
                    self._away_since = now
                floor.store_away = reply.why
                emit("store.lost", error=reply.why)
            case port.StoreBack():
                floor.store_away, floor.returned_at = "", now
                emit("store.recovered", away_s=round(now - self._away_since, 3))
            case port.StoreGone(rescued=""):
                floor.fatal = "the store does not know this node: its database was replaced"
                floor.remedy = "Check that it is the right one; start the node again."
            case port.StoreGone():
                emit("store.rescued", path=reply.rescued)
                floor.rescued = reply.rescued
                floor.fatal = "the store's file was deleted or replaced"
                floor.remedy = (
                    f"Its data was saved at {reply.rescued}: put it back and start again."
                )
        floor.metrics.set("store_up", float(not floor.store_away))

    def _mind_silence(self, now: float) -> None:
        """See that a store that neither answers nor fails is away: a disk may hang."""
        silent = self._floor.scribe.waited_s() >= SILENT_AFTER_S
        if silent and not self._floor.store_away:
            self.store(
                port.StoreAway(f"no answer for {SILENT_AFTER_S:g} s: does its disk hang?"), now
            )
            self._silent = True
        elif self._silent and not silent:
            self.store(port.StoreBack(), now)

    def report(self, now: float) -> None:
        """Tick, and set the gauges if it is time."""
        self._mind_silence(now)
        self.health = Health(now, self._not_ready(), self._notes())
        if now - self._reported_at < REPORT_EVERY_S:
            return
        self._reported_at = now
        self.gauges.show(now)
        self._accounting.show()
        self._showing.show(now, self.gauges.board)

    def _not_ready(self) -> tuple[str, ...]:
        floor = self._floor
        reasons = []
        if floor.stopping is not None:
            reasons.append(f"stopping: {floor.stopping.why}")
        if floor.draining:
            reasons.append(f"takes no tasks: {floor.draining}")
        if floor.store_away:
            reasons.append(f"store away: {floor.store_away}")
        if floor.fenced:
            reasons.append(f"fenced: {floor.fenced}")
        if floor.fatal:
            reasons.append(floor.fatal)
        if self._staffing.halted:
            reasons.append("workers die at their start: births are halted")
        if not any(slot.can_take_work for slot in floor.slots.values()):
            reasons.append("no worker is ready")
        return tuple(reasons)

    def _notes(self) -> tuple[str, ...]:
        unknown = [
            f"tasks of type {name} wait: no such type in this app"
            for name in sorted(self._mending.unrouted)
        ]
        held = [
            f"tasks of type {name} wait: they ended too many workers one after the other"
            for name in sorted(self._floor.held)
        ]
        return (*unknown, *held)


def _exemplar(ending: Ending) -> dict[str, str]:
    """Return what leads from a number to one task that is part of it."""
    traced = ending.traced
    if traced is None or not is_sampled(traced.span):
        return {"task_id": ending.task_id}
    return {"trace_id": trace_id_of(traced.span), "task_id": ending.task_id}


def _named(ending: Ending) -> dict[str, Any]:
    task = {"task_id": ending.task_id, "attempt": ending.attempt, "type": ending.type}
    return {**task, **_ids(ending)}


def _ids(ending: Ending) -> dict[str, Any]:
    return log_ids(None if ending.traced is None else ending.traced.span)
