"""What many viewers look at, read once for all of them.

Invariants: one thread reads a thing at a time, the others get what was read before it; a value goes
with its age, and nobody gets one that was begun to be read before an act of this process was done.
A thing that could not be read is not kept. Safe to share between threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from supervisor.clock import Clock

T = TypeVar("T")


@dataclass(slots=True)
class _Place:
    """Where one thing stands."""

    source: object
    turn: threading.Lock = field(default_factory=threading.Lock)
    value: Any = None
    read_at: float | None = None


class Board:
    """The things of one web process, by names that the pages give them: a few, fixed ones."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places: dict[str, _Place] = {}
        self._changing = threading.Lock()

    def see(
        self, name: str, source: object, fresh_s: float, read: Callable[[], T]
    ) -> tuple[T, float]:
        """Return a thing and its age in seconds; it is read when it is older than `fresh_s`.

        What was read of another source, as the store before, is not shown. Raises: what `read`
        raises.
        """
        with self._changing:
            place = self._places.get(name)
            if place is None or place.source is not source:
                place = self._places[name] = _Place(source)
        found = self._kept(place, fresh_s)
        if found is not None:
            return found
        is_new = place.read_at is None
        if not place.turn.acquire(blocking=is_new):
            return self._kept(place) or self._read(place, read)
        try:
            # Whoever waited here takes what the one before has read, however long that took.
            newest = self._kept(place) if is_new else self._kept(place, fresh_s)
            return newest or self._read(place, read)
        finally:
            place.turn.release()

    def clear(self) -> None:
        """Forget everything: something was done, and whoever did it wants to see it."""
        with self._changing:
            self._places = {}  # what is being read now goes to a place that nobody looks at

    def _kept(self, place: _Place, fresh_s: float = float("inf")) -> tuple[Any, float] | None:
        if place.read_at is None:
            return None
        age_s = self._clock.mono() - place.read_at
        return (place.value, age_s) if age_s <= fresh_s else None

    def _read(self, place: _Place, read: Callable[[], T]) -> tuple[T, float]:
        begun = self._clock.mono()
        value = read()
        place.value, place.read_at = value, begun
        return value, self._clock.mono() - begun
