"""What a node pops: which levels, in which order, and how many ids.

Secret kept here: the order. The highest priority of all queues comes first; levels of one priority
take turns, so that a full one starves no other; within a level the one that is due longest comes
first. Set by the loop, asked by the thread that pops. Of queue, and of the bell in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from supervisor.model.record import Due, Level
from supervisor.queue.bell import ANY_PRIORITY


class Choice:
    """Levels, free places, and the ids that nobody has taken yet; safe between threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._known: set[Level] = set()
        self._queues: tuple[str, ...] | None = None
        self._types: frozenset[str] = frozenset()
        self._paused: frozenset[tuple[str, int]] = frozenset()
        self._places = 0
        self._order: list[Level] = []
        self._popped: list[Due] = []

    def want(self, places: int) -> None:
        """Let at most so many more ids come in; those that nobody has taken yet count."""
        with self._changed:
            self._places = max(0, places - len(self._popped))
            self._changed.notify()

    def serve(self, queues: tuple[str, ...] | None, types: frozenset[str]) -> bool:
        """Take only of these queues (None: all) and types; say whether that is new."""
        with self._changed:
            is_new = (queues, types) != (self._queues, self._types)
            self._queues, self._types = queues, types
            self._arrange()
            return is_new

    def avoid(self, paused: frozenset[tuple[str, int]]) -> bool:
        """Leave these (queue, priority) alone; say whether that is new."""
        with self._changed:
            is_new = paused != self._paused
            self._paused = paused
            self._arrange()
            return is_new

    def learn(self, levels: Iterable[Level], *, forget_others: bool = False) -> bool:
        """Get to know levels; say whether a new one is among those to pop from."""
        with self._changed:
            told = set(levels)
            new = told - self._known
            self._known = told if forget_others else self._known | told
            self._arrange()
            return any(self._is_served(level) for level in new)

    def next(self, wait_s: float) -> tuple[list[Level], int]:
        """Return the levels to pop from, first things first, and how many ids at most.

        Without levels or free places it waits so long for them.
        """
        with self._changed:
            if not (self._places and self._order):
                self._changed.wait(wait_s)
            return list(self._order), self._places

    def take(self, level: Level, popped: Sequence[Due]) -> list[Due]:
        """Take in what was popped from a level; return what nobody wants any more."""
        with self._changed:
            if not self._is_served(level):
                return list(popped)
            self._pass_the_turn(level)
            kept = list(popped[: self._places])
            self._popped += kept
            self._places -= len(kept)
            return list(popped[len(kept) :])

    def hand_over(self) -> list[Due]:
        """Return what was taken in, and forget it."""
        with self._changed:
            popped, self._popped = self._popped, []
            return popped

    def _pass_the_turn(self, level: Level) -> None:
        """Put it behind the others of its priority, with those before it, which were empty."""
        if level not in self._order:
            return
        same = [other[1] == level[1] for other in self._order]
        begin, end = same.index(True), len(same) - same[::-1].index(True)
        after = self._order.index(level) + 1
        self._order[begin:end] = self._order[after:end] + self._order[begin:after]

    def _arrange(self) -> None:
        """Order what there is to pop from; what waited for its turn keeps it."""
        turn = {level: place for place, level in enumerate(self._order)}
        served = [level for level in self._known if self._is_served(level)]
        self._order = sorted(served, key=lambda level: (-level[1], turn.get(level, -1), level))
        self._changed.notify()

    def _is_served(self, level: Level) -> bool:
        queue, priority, kind = level
        return (
            kind in self._types
            and (self._queues is None or queue in self._queues)
            and (queue, priority) not in self._paused
            and (queue, ANY_PRIORITY) not in self._paused
        )
