"""A doorbell in memory that carries ids, as a Redis does, for tests of who hears them.

Secret kept here: nothing waits and nothing runs beside the test: an id has come in when `ring`
returns. The order and the limits are those of the real listener.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Self

from supervisor.clock import Clock
from supervisor.model.record import Due, Level
from supervisor.queue.bell import Heard, Kind
from supervisor.queue.choice import Choice
from supervisor.queue.inbox import Inbox, InboxListener
from supervisor.testing.clock import ManualClock


class MemoryDoor:
    """Where the bells and listeners of one store meet."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.broken = ""
        self._waiting: dict[Level, dict[str, Due]] = defaultdict(dict)
        self._listeners: list[MemoryListener] = []

    def bell(self) -> MemoryBell:
        """Make a ringing end."""
        return MemoryBell(self)

    def listener(self) -> MemoryListener:
        """Make a hearing end."""
        made = MemoryListener(self)
        self._listeners.append(made)
        return made

    def waiting(self) -> set[str]:
        """Return the ids that nobody has popped."""
        return {task_id for some in self._waiting.values() for task_id in some}

    def break_down(self, why: str) -> None:
        """Pass on nothing from now on, and lose the ids that wait."""
        self.broken = why
        self._waiting.clear()
        for listener in self._listeners:
            listener.inbox.lost("line", why)

    def mend(self) -> None:
        """Work again."""
        self.broken = ""
        for listener in self._listeners:
            listener.inbox.found("line")

    def take(self, kind: Kind, dues: Sequence[Due]) -> None:
        """Pass a ring on to whoever listens."""
        if self.broken:
            return
        for due in dues:
            self._waiting[due.level].setdefault(due.task_id, due)
        if kind != "due" or not dues:
            for listener in self._listeners:
                listener.inbox.put(kind)
        self.serve()

    def serve(self) -> None:
        """Let listeners pop what they want."""
        for listener in self._listeners:
            listener.choice.learn(self._waiting)
            while self._pop_for(listener):
                listener.inbox.put()

    def _pop_for(self, listener: MemoryListener) -> bool:
        levels, places = listener.choice.next(0)
        level = next((one for one in levels if self._waiting[one]), None)
        if level is None or not places:
            return False
        some = sorted(self._waiting[level].values(), key=lambda due: (due.at, due.task_id))
        popped = some[:places]
        for due in popped:
            del self._waiting[level][due.task_id]
        listener.choice.take(level, popped)
        return True

    def leave(self, listener: MemoryListener) -> None:
        """Take back what a listener has not handed over."""
        self._listeners.remove(listener)
        self.take("due", listener.choice.hand_over())


class MemoryBell:
    """Rings at the listeners of its door."""

    def __init__(self, door: MemoryDoor) -> None:
        self._door: MemoryDoor | None = door

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ring(self, kind: Kind, dues: Sequence[Due] = ()) -> None:
        """Pass it on at once."""
        if self._door is not None:
            self._door.take(kind, dues)

    def close(self) -> None:
        """Ring no more."""
        self._door = None


class MemoryListener(InboxListener):
    """Hears the rings of its door."""

    carries_ids = True

    def __init__(self, door: MemoryDoor) -> None:
        self._door: MemoryDoor | None = door
        self.choice = Choice()
        self.inbox = Inbox(door.clock, ())

    def heard(self) -> Heard:
        """Take all that has come in."""
        return self.inbox.take(lambda: tuple(due.task_id for due in self.choice.hand_over()))

    def want(self, places: int) -> None:
        """Let at most so many more ids come in."""
        self.choice.want(places)
        self._serve()

    def serve(self, queues: tuple[str, ...] | None, types: frozenset[str]) -> None:
        """Hear only of these."""
        self.choice.serve(queues, types)
        self._serve()

    def avoid(self, paused: frozenset[tuple[str, int]]) -> None:
        """Leave these alone."""
        self.choice.avoid(paused)
        self._serve()

    def close(self) -> None:
        """Give back what nobody took."""
        if self._door is not None:
            door, self._door = self._door, None
            door.leave(self)
            self.inbox.close()

    def _serve(self) -> None:
        if self._door is not None:
            self._door.serve()
