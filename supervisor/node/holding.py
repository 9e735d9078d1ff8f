"""Types whose attempts end their workers one after the other: they wait, the others get their turn.

Secret kept here: the breaker of each type. A task that kills its worker costs a birth, and a queue
full of such tasks would cost nothing but births; so that type is not claimed for a while, each time
longer. Its tasks keep their tries. Only `Staffing` calls it, from the main thread.
"""

from __future__ import annotations

from supervisor.model.spawning import Intensity
from supervisor.node.floor import Floor
from supervisor.telemetry.events import emit


class Holding:
    """One breaker a type, made when the first of its workers dies."""

    def __init__(self, floor: Floor, allowed: Intensity) -> None:
        self._floor = floor
        self._allowed = allowed
        self._breakers: dict[str, Intensity] = {}

    def died(self, kind: str, now: float) -> None:
        """A worker died in the body of a task of this type."""
        before = self._breakers.get(kind, self._allowed)
        after = self._breakers[kind] = before.died(0.0, now)
        if after.halted_until is None or after.halted_until == before.halted_until:
            return
        self._floor.held[kind] = after.halted_until
        emit(
            "type.held",
            type=kind, crashes=self._allowed.deaths + 1, wait_s=round(after.halted_until - now, 1),
        )  # fmt: skip

    def release(self, now: float) -> None:
        """Let the types whose wait is over be claimed again."""
        held = self._floor.held
        for kind in [kind for kind, until in held.items() if now >= until]:
            del held[kind]
            emit("type.released", type=kind)
        self._floor.metrics.set("types_held", len(held))
