"""The lease of a node: renewed in time, or all that it covers is ended before others may take it.

Secret kept here: when a node that cannot renew stops claiming, tells its attempts to leave, takes
evidence and kills (`model.lease` has the times). Counted on CLOCK_BOOTTIME from before the last
good renewal was sent, so a node that was frozen knows at its first turn that its time is over.
Called by the arbiter, before anything else of a turn. Without a lease (one node) nothing is done.
"""

from __future__ import annotations

from supervisor.model.lease import LeasePlan
from supervisor.node import port
from supervisor.node.closing import Closing
from supervisor.node.floor import Attempt, Floor, Slot
from supervisor.telemetry.events import emit
from supervisor.worker.wire import Interrupt

#: A renewal that was not answered is asked for again this often.
ASK_AGAIN_S = 1.0
#: The host's wall clock and the store's may differ by so much without a word.
SKEW_S = 1.0


class Fencing:
    """Renews, and fences the node off when that fails."""

    def __init__(self, floor: Floor, closing: Closing) -> None:
        self._floor = floor
        self._closing = closing
        self._asked_at = float("-inf")
        self._since = 0.0
        self._lost = False
        self._reviving = False
        self._skewed = False

    def fence(self, now: float) -> None:
        """Do what the age of the lease calls for."""
        floor = self._floor
        if (plan := floor.lease) is None:
            return
        boot = floor.clock.boot()
        age_s = boot - floor.renewed_at
        if age_s >= plan.fence_after_s:
            self._begin(f"the lease was not renewed for {age_s:.1f} of its {plan.lease_s:g} s")
        if floor.fenced:
            if self._lost or age_s >= plan.kill_after_s:
                self._end_all(now)
            else:
                self._lead_out(boot, now)
        self._ask(plan, boot)

    def _ask(self, plan: LeasePlan, boot: float) -> None:
        """Ask for the lease: anew once nothing of the old one runs, else for its renewal."""
        floor = self._floor
        if self._reviving:
            return  # kept by the scribe until it is written
        if floor.fenced and not any(floor.attempts()):
            self._reviving = True
            floor.vouch(float("inf"))  # nothing runs, and nothing will until the lease holds
            floor.tell_types()  # they went if somebody has written our end
            floor.scribe.ask(*floor.take_endings(), port.Revive(plan.lease_s))
            return
        if self._lost:
            return  # nothing is left to be renewed
        answered = floor.renewed_at >= self._asked_at
        every_s = plan.renew_every_s if answered else min(ASK_AGAIN_S, plan.renew_every_s)
        if boot - max(self._asked_at, floor.renewed_at) >= every_s:
            self._asked_at = boot
            floor.scribe.ask(port.Renew(plan.lease_s))

    def hear(self, reply: port.LeaseRenewed | port.LeaseLost) -> None:
        """The store has spoken of the lease."""
        match reply:
            case port.LeaseRenewed():
                self._renewed(reply)
            case port.LeaseLost():  # another node may be at work on what runs here
                self._lost = True
                self._begin("the lease was over before it could be renewed")

    def _renewed(self, reply: port.LeaseRenewed) -> None:
        floor = self._floor
        self._reviving = self._lost = False
        floor.renewed_at = max(floor.renewed_at, reply.sent_boot)
        if floor.lease is not None:
            floor.vouch(floor.renewed_at + floor.lease.kill_after_s)
        self._mind_skew(reply.skew_s)
        age_s = floor.clock.boot() - floor.renewed_at
        if floor.fenced and floor.lease is not None and age_s < floor.lease.fence_after_s:
            floor.fenced, floor.returned_at = "", floor.clock.mono()
            floor.metrics.set("fenced", 0.0)
            emit("node.unfenced", fenced_s=round(floor.clock.boot() - self._since, 1))
            text = "the lease holds again: tasks are claimed"
            floor.scribe.ask(port.Note(None, None, "node_unfenced", f"{floor.node_id}: {text}"))

    def _begin(self, why: str) -> None:
        floor = self._floor
        if floor.fenced:
            return
        floor.fenced = why
        self._since = floor.clock.boot()
        floor.metrics.set("fenced", 1.0)
        floor.metrics.inc("fences_total")
        running = sum(1 for _ in floor.attempts())
        emit("node.fenced", why=why, running=running)
        text = f"{floor.node_id}: {why}; {running} attempts are ended"
        floor.scribe.ask(port.Note(None, None, "node_fenced", text))

    def _lead_out(self, boot: float, now: float) -> None:
        """Tell bodies to leave; those that do not are killed when the grace is used up."""
        for slot in list(self._floor.slots.values()):
            if not slot.attempts:
                continue
            if slot.farewell is None:
                self._closing.give_back_unread(slot, f"the node is fenced: {self._floor.fenced}")
            for attempt in list(slot.attempts.values()):
                self._tell(slot, attempt, now)
            if slot.attempts and boot - self._since >= self._floor.settings.cancel_grace:
                self._closing.hasten(slot, now, kill=True)

    def _tell(self, slot: Slot, attempt: Attempt, now: float) -> None:
        if attempt.fenced:
            return
        if slot.farewell is not None or slot.leaving:
            attempt.fenced = self._floor.fenced  # it is on its way out already
            return
        if attempt is not slot.current:
            return  # read by its worker and about to begin
        text = "the node cannot renew its lease: save a checkpoint and leave"
        if self._floor.pool.send(slot.worker_id, Interrupt(attempt.seq, "shutdown", text)):
            attempt.fenced = self._floor.fenced
            attempt.acknowledged = False
            attempt.told(now)
            self._floor.note(attempt, "fenced", f"told to leave: {attempt.fenced}")

    def _end_all(self, now: float) -> None:
        """Kill whatever may run a body, at once and without evidence: the lease is over."""
        for slot in list(self._floor.slots.values()):
            for attempt in slot.attempts.values():
                attempt.fenced = attempt.fenced or self._floor.fenced
            if slot.attempts or slot.farewell is not None:
                self._closing.kill_now(slot, now)

    @property
    def urgent(self) -> bool:
        """Whether attempts are being ended: turns are wanted often."""
        return bool(self._floor.fenced) and any(self._floor.attempts())

    def _mind_skew(self, skew_s: float) -> None:
        self._floor.skew_s = skew_s
        self._floor.metrics.set("clock_skew_seconds", skew_s)
        skewed = abs(skew_s) > SKEW_S
        if skewed and not self._skewed:
            emit("clock.skewed", skew_s=round(skew_s, 3))
        self._skewed = skewed
