"""The loop of a node, one turn at a time: it wires the parts together and decides nothing itself.

Invariants: a turn never blocks and never raises; time is handed in; one step that fails is one
event and one counter, and the others still run. Everything a turn needs of the outside world comes
through the pool and the scribe (`node.port`), so a test can live through a day in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from supervisor.model.record import ProcessIdentity
from supervisor.node import port
from supervisor.node.closing import Closing
from supervisor.node.dispatching import HOLD_S, Dispatching
from supervisor.node.fencing import Fencing
from supervisor.node.floor import Floor
from supervisor.node.gauges import Board
from supervisor.node.leaving import Leaving
from supervisor.node.listening import Listening
from supervisor.node.mending import Mending
from supervisor.node.obeying import Obeying
from supervisor.node.reporting import Health, Reporting
from supervisor.node.staffing import Staffing
from supervisor.node.watching import Watching
from supervisor.queue import Heard
from supervisor.store.record import Orphan
from supervisor.telemetry.events import emit
from supervisor.worker.wire import ChildSubmitted

#: A stop waits this long at most for a claim that is being written.
CLAIM_PATIENCE_S = 6.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a turn is wanted, seconds: always at least every `idle_s`, while workers serve
    every `poll_s` (covers a bell that was not heard), while something changes every `busy_s`."""

    idle_s: float = 0.5
    poll_s: float = 0.05
    busy_s: float = 0.02


class Arbiter:
    """One node's judgement, turn by turn."""

    def __init__(
        self,
        floor: Floor,
        own: ProcessIdentity,
        app: str,
        reload: Callable[[], None],
        pace: Pace | None = None,
    ) -> None:
        self.floor = floor
        self._reload = reload
        self._pace = pace or Pace()
        self._closing = Closing(floor)
        self._listening = Listening(floor)
        self._watching = Watching(floor, self._listening, self._closing)
        self._dispatching = Dispatching(floor, self._listening, self._closing, self._pace.poll_s)
        self.staffing = Staffing(floor, self._closing, app)
        self._fencing = Fencing(floor, self._closing)
        self._mending = Mending(floor, own)
        self._leaving = Leaving(floor, self._closing)
        self._obeying = Obeying(floor, self._leaving, self._dispatching.ring)
        self._reporting = Reporting(floor, self.staffing, self._mending, self._listening.accounting)
        self._planned_s = self._pace.idle_s
        self._last_turn: float | None = None

    @property
    def done(self) -> bool:
        """Whether the node may exit: told to stop, no worker left, nothing claimed for one."""
        waits = self._dispatching.claiming and self.floor.scribe.waited_s() < CLAIM_PATIENCE_S
        return self._leaving.done and not waits

    @property
    def health(self) -> Health:
        """What /healthz and /readyz answer now."""
        return self._reporting.health

    def board(self) -> Board:
        """Return what collectors may know now; any thread may ask."""
        return self._reporting.gauges.board

    def hear_out(self) -> None:
        """Take in what was still written after the last turn, so that it is counted."""
        for reply in self.floor.scribe.replies():
            if isinstance(reply, port.EndingsWritten):
                self._step(self._reporting.endings, reply)

    def ring(self, heard: Heard) -> None:
        """The bell was rung: for due work, perhaps by its ids, or for a stop wish."""
        if heard.tips:
            self._dispatching.ring(heard.tips)
        if "due" in heard.kinds:
            self._dispatching.ring()  # also for what no id was heard of
        if "cancel" in heard.kinds:
            self._mending.hurry_marks()

    def inherit(self, orphans: Sequence[Orphan]) -> None:
        """Take on what dead nodes of this host ran."""
        self._mending.inherit(orphans)

    def turn(self, now: float) -> float:
        """Do one turn and return the seconds until the next is wanted at the latest."""
        self._step(self._fencing.fence, now)
        self._step(self._mind_the_clock, now)
        self._step(self._mind_the_gap, now)
        self._step(self._listen, now)
        self._step(self._watching.probe, now)
        self._step(self._watching.judge, now)
        self._step(self._closing.act, now)
        self._step(self._mending.mend, now)
        self._step(self._leaving.lead_out, now)
        self._step(self.staffing.spawn, now)
        self._step(self._dispatching.take_back_waiting, now)
        self._step(self._dispatching.dispatch, now)
        self._step(self._reporting.report, now)
        self._last_turn = now
        self._planned_s = self._pause(now)
        return self._planned_s

    def _step(self, step: Callable[..., None], *what: Any) -> None:
        """Do it; whatever goes wrong there, the rest of the turn is done."""
        try:
            step(*what)
        except Exception as exc:
            self.floor.metrics.inc("loop_errors_total")
            emit("loop.failed", step=step.__qualname__, error=repr(exc), exc_info=True)

    def _mind_the_clock(self, _now: float) -> None:
        stepped_s = self.floor.anchor()
        if self.floor.lease is None:  # times of a shared store are the server's
            self._watching.restamp(stepped_s)

    def _mind_the_gap(self, now: float) -> None:
        if self._last_turn is None:
            return
        late = now - self._last_turn - self._planned_s
        self._reporting.lag(max(0.0, late))
        self._watching.forgive(late, now)

    def _listen(self, now: float) -> None:
        for event in self.floor.pool.events():
            self._step(self._hear, event, now)
        for reply in self.floor.scribe.replies():
            self._step(self._read, reply, now)

    def _hear(self, event: port.PoolEvent, now: float) -> None:
        floor, staffing = self.floor, self.staffing
        match event:
            case port.Signal():
                self._obey(event.name, now)
            case port.AppBooted():
                staffing.booted(event)
            case port.AppRefused():
                staffing.refused(event)
            case port.ZygoteLost():
                staffing.zygote_lost(event, now)
            case port.Captured():
                self._listening.captured(floor.slots.get(event.worker_id), event)
                self._obeying.captured(event)
            case port.Born() if (slot := floor.slots.get(event.worker_id)) is not None:
                staffing.born(slot, event.pid)
            case port.BirthFailed() if (slot := floor.slots.get(event.worker_id)) is not None:
                staffing.birth_failed(slot, event.why, now)
            case port.Said() if (slot := floor.slots.get(event.worker_id)) is not None:
                self._listening.said(slot, event.message, now)
            case port.Exited() if (slot := floor.slots.get(event.worker_id)) is not None:
                staffing.died(slot, event, now)
                self._closing.gone(slot.worker_id)
                self._listening.exited(slot, event)

    def _read(self, reply: port.Reply, now: float) -> None:
        match reply:
            case port.Claimed():
                self._dispatching.accept(reply, now)
            case port.EndingsWritten():
                self._reporting.endings(reply)
            case port.MarksRead():
                self._watching.mark(tuple(reply.marks), now)
            case port.OrdersRead():
                self._obeying.hear(reply.orders, now)
            case port.OrphansRead() | port.OwnRead() | port.CountsRead():
                self._mending.hear(reply, now)
            case port.LeaseRenewed() | port.LeaseLost():
                self._fencing.hear(reply)
            case port.ChildAnswer():
                self._pass_on(reply)
            case port.StoreAway() | port.StoreBack() | port.StoreGone():
                self._reporting.store(reply, now)
                self._mending.hurry_own()

    def _pass_on(self, reply: port.ChildAnswer) -> None:
        """Tell a worker what became of the task that it submitted."""
        done = reply.submitted
        task_id, created = (done.task_id, done.created) if done else ("", False)
        answer = ChildSubmitted(reply.request, task_id, created, reply.refused)
        self.floor.pool.send(reply.worker_id, answer)
        self._dispatching.ring()

    def _obey(self, name: str, now: float) -> None:
        emit("signal.received", signal=name)
        if name == "SIGHUP":
            self._reload()
        elif name in ("SIGTERM", "SIGINT"):
            self._leaving.stop(f"received {name}", now)

    def _pause(self, now: float) -> float:
        """Return how long nothing needs us by time alone."""
        floor, pace = self.floor, self._pace
        wait = min(pace.idle_s, self._watching.next_deadline() - now)
        if floor.types and floor.stopping is None:
            wait = min(wait, pace.poll_s)
        changing = any(
            slot.farewell is not None or slot.ready_at is None for slot in floor.slots.values()
        )
        if floor.endings and not self._dispatching.claiming:
            wait = min(wait, HOLD_S)
        if floor.lease is not None:
            wait = min(wait, floor.lease.renew_every_s)
        hurries = self._fencing.urgent or self._is_wished()
        if changing or hurries or self._dispatching.holds_look_ahead():
            wait = min(wait, pace.busy_s)
        return max(0.0, wait)

    def _is_wished(self) -> bool:
        return any(attempt.mark is not None for _, attempt in self.floor.attempts())
