"""The node's own stop: claims end, running attempts may finish, then every worker is led out.

A second signal ends the grace at once, a third goes straight to evidence and kill. Cancels are
still heard, since the loop goes on turning.
"""

from __future__ import annotations

from supervisor.node.closing import Closing
from supervisor.node.floor import Floor, Stopping
from supervisor.telemetry.events import emit


class Leaving:
    """The way out of the whole node."""

    def __init__(self, floor: Floor, closing: Closing) -> None:
        self._floor = floor
        self._closing = closing

    @property
    def done(self) -> bool:
        """Whether nothing is left to wait for."""
        floor = self._floor
        return floor.stopping is not None and not floor.slots and not floor.endings

    def stop(self, why: str, now: float) -> None:
        """Begin to stop, or hurry if it has begun."""
        floor = self._floor
        if floor.stopping is None:
            floor.stopping = Stopping(since=now, why=why)
            attempts = (one for slot in floor.slots.values() for one in slot.attempts.values())
            running = sum(one.started_at is not None for one in attempts)
            emit(
                "node.stopping",
                reason=why, running=running, grace_s=floor.settings.drain_grace,
            )  # fmt: skip
            return
        floor.stopping.hurry += 1

    def lead_out(self, now: float) -> None:
        """Move the stop on as far as it may go now."""
        floor = self._floor
        if floor.fatal and floor.stopping is None:
            self.stop(floor.fatal, now)
        stopping = floor.stopping
        if stopping is None:
            return
        grace_over = stopping.hurry > 0 or now - stopping.since >= floor.settings.drain_grace
        for slot in list(floor.slots.values()):
            if slot.farewell is None:  # afterwards its queue holds the Stop, which must stay there
                self._closing.give_back_unread(slot, "the node is stopping")
            if grace_over or not slot.attempts:
                self._closing.hasten(slot, now, kill=stopping.hurry > 1)
