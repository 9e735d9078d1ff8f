"""Taking workers out of service: for a verdict, at a stop, or because they leave by themselves.

Secret kept here: the order of things on the way out (model.termination has the phases), and that a
bundle exists before any kill. Nothing waits: each turn moves every worker on as far as it may go.
"""

from __future__ import annotations

from supervisor.model import outcome as ended
from supervisor.model.health import Code, Verdict
from supervisor.model.termination import Budgets, Farewell, Phase
from supervisor.node.evidence import suspect_facts
from supervisor.node.floor import Attempt, Floor, Slot
from supervisor.telemetry.events import emit
from supervisor.worker.wire import Interrupt

#: A tree that does not die at once (forks, uninterruptible waits) is signalled again this often.
KILL_AGAIN_S = 1.0


class Closing:
    """Moves workers through their farewell."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._killed_at: dict[str, float] = {}

    def _budgets(self) -> Budgets:
        settings = self._floor.settings
        return Budgets(
            drain=settings.drain_budget,
            checkpoint=settings.checkpoint_budget,
            release=settings.release_budget,
            exit=settings.exit_budget,
            capture=settings.autopsy_budget,
        )

    def doom(self, slot: Slot, attempt: Attempt, verdict: Verdict, now: float) -> None:
        """Decide that this attempt's process ends: evidence first, then the kill."""
        self.give_back_unread(slot, f"its worker is killed: {verdict.code}")
        slot.doomed = (attempt, verdict)
        slot.farewell = Farewell(phase=Phase.CAPTURE, since=now)
        if verdict.code is Code.CANCELED:
            emit("cancel.forced", **attempt.named)
            grace = f"the grace of {attempt.limits.cancel_grace:g} s is used up"
            text = f"{grace}: evidence, then SIGKILL of the whole tree"
            self._floor.note(attempt, "cancel_forced", text)
        self._capture(slot, attempt, verdict)

    def dismiss(self, slot: Slot, now: float) -> None:
        """Let a worker go in order: no new work, then the phases."""
        if slot.farewell is None:
            self.give_back_unread(slot, "its worker is taken out of service")
            self._floor.pool.stop_after(slot.worker_id)
            slot.farewell = Farewell(phase=Phase.DRAIN, since=now)

    def hasten(self, slot: Slot, now: float, *, kill: bool) -> None:
        """Cut the present phase short; with `kill` go straight to the evidence and the kill."""
        self.dismiss(slot, now)
        farewell = slot.farewell
        if kill and farewell is not None and farewell.phase not in (Phase.CAPTURE, Phase.KILL):
            self._enter(slot, farewell, Phase.CAPTURE, now)

    def kill_now(self, slot: Slot, now: float) -> None:
        """End the worker at once, whatever it is at, without evidence."""
        farewell = slot.farewell or Farewell(phase=Phase.DRAIN, since=now)
        if farewell.phase is Phase.KILL:
            self._kill(slot, now)
        else:
            self._enter(slot, farewell, Phase.KILL, now)

    def give_back_unread(self, slot: Slot, why: str) -> None:
        """Withdraw what the worker has not read; those attempts go back to the queue."""
        for seq in self._floor.pool.take_back(slot.worker_id):
            attempt = slot.attempts.get(seq)
            if attempt is not None:
                self._floor.end(slot, attempt, ended.never_started(why))

    def act(self, now: float) -> None:
        """Move every worker on its way out as far as it may go now."""
        for slot in list(self._floor.slots.values()):
            if slot.leaving and slot.farewell is None:
                self.give_back_unread(slot, f"its worker left: {slot.leaving}")
                slot.farewell = Farewell(phase=Phase.RELEASE, since=now)
            if slot.farewell is not None:
                self._move(slot, slot.farewell, now)

    def _move(self, slot: Slot, farewell: Farewell, now: float) -> None:
        current = slot.current
        if farewell.phase is Phase.KILL:
            self._kill(slot, now)
            return
        if farewell.phase is Phase.CAPTURE and slot.bundle_ready:
            self._enter(slot, farewell, Phase.KILL, now)
            return
        phase = farewell.next(self._budgets(), now, unread=False, in_body=current is not None)
        if phase is Phase.EXIT and current is not None:
            phase = Phase.CAPTURE  # SIGTERM would end a stuck body before there is any evidence
        if phase is not None:
            self._enter(slot, farewell, phase, now)

    def _enter(self, slot: Slot, farewell: Farewell, phase: Phase, now: float) -> None:
        slot.farewell = farewell.enter(phase, now)
        pool, current = self._floor.pool, slot.current
        match phase:
            case Phase.CHECKPOINT if current is not None:
                text = "the node is stopping: save a checkpoint and leave"
                if pool.send(slot.worker_id, Interrupt(current.seq, "shutdown", text)):
                    current.told(now)
            case Phase.EXIT:
                pool.terminate(slot.worker_id)
            case Phase.CAPTURE:
                self._capture(slot, current, None)
            case Phase.KILL:
                self._kill(slot, now)

    def _kill(self, slot: Slot, now: float) -> None:
        last = self._killed_at.get(slot.worker_id)
        if last is not None and now - last < KILL_AGAIN_S:
            return
        self._killed_at[slot.worker_id] = now
        below = self._floor.pool.kill_tree(slot.worker_id)
        if last is not None:
            return
        verdict = slot.doomed[1].code if slot.doomed else self._plain_reason()
        self._floor.metrics.inc("kills_total", verdict=verdict)
        emit(
            "worker.killed",
            worker_id=slot.worker_id, pid=slot.pid, verdict=verdict, processes=below + 1,
        )  # fmt: skip

    def _plain_reason(self) -> str:
        return "fenced" if self._floor.fenced else "shutdown"

    def gone(self, worker_id: str) -> None:
        """A worker was reaped: forget what was kept of its end."""
        self._killed_at.pop(worker_id, None)

    def _capture(self, slot: Slot, attempt: Attempt | None, verdict: Verdict | None) -> None:
        slot.bundle_ready = False
        self._floor.pool.capture(
            slot.worker_id,
            suspect_facts(self._floor, slot, attempt, verdict),
            self._floor.settings.autopsy_budget,
        )
