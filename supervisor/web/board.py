"""What many viewers look at, read once for all of them.

Invariants: one thread reads a thing at a time; a value goes with the age of the moment at which its
reading began. What is quick to read is not shown from before an act of this process. What is dear
is read beside the pages, and shown from before while that lasts, up to `OLD_MOST_S`. A reading that
fails leaves nothing behind: whoever looks next reads, and is told. Safe to share between threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from supervisor.clock import Clock

T = TypeVar("T")

#: What is dear is read again only after so many times as long as that took, within these seconds.
REST_TIMES, REST_MOST_S = 150, 60.0
#: Where that took less than this it is waited for: so on a small store there is nothing old.
PATIENCE_S = 0.05
#: A value that is older than this is shown to nobody: nobody has looked meanwhile.
OLD_MOST_S = 120.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A value, when its reading began, and how long that took."""

    value: Any
    at: float
    took_s: float


@dataclass(slots=True)
class _Place:
    """Where one thing stands: its value since the last act, the one before, who reads it now."""

    source: object
    seen: _Seen | None = None
    before: _Seen | None = None
    reading: Future[_Seen] | None = None


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

        Who comes while it is read gets the older value, if there is one. What was read of another
        source, as the store before, is not shown. Raises: what `read` raises.
        """
        with self._changing:
            place = self._place(name, source)
            older = self._young(place.seen, OLD_MOST_S)
            if older and (self._young(older, fresh_s) or place.reading):
                return self._aged(older)
            reading, is_mine = self._reading(place)
        if is_mine:
            self._read(place, reading, read)
        return self._aged(reading.result())

    def see_dear(
        self, name: str, source: object, fresh_s: float, read: Callable[[], T]
    ) -> tuple[T, float]:
        """Do the same for what takes long: nobody waits for it who can be shown an older value.

        It is read in a thread of its own, and the less often the longer it takes.
        """
        with self._changing:
            place = self._place(name, source)
            older = self._young(place.seen, OLD_MOST_S)
            if older and self._young(older, max(fresh_s, _rest_s(older))):
                return self._aged(older)
            older = older or self._young(place.before, OLD_MOST_S)
            reading, is_mine = self._reading(place)
        if is_mine:
            self._read_beside(name, place, reading, read)
        if older is None or wait([reading], _patience_s(older)).done:
            return self._aged(reading.result())
        return self._aged(older)

    def clear(self) -> None:
        """Have everything read anew: something was done, and whoever did it wants to see it."""
        with self._changing:
            # What is being read now goes to a place that nobody looks at.
            self._places = {
                name: _Place(one.source, before=one.seen or one.before)
                for name, one in self._places.items()
            }

    def _place(self, name: str, source: object) -> _Place:
        place = self._places.get(name)
        if place is None or place.source is not source:
            place = self._places[name] = _Place(source)
        return place

    def _young(self, seen: _Seen | None, most_s: float) -> _Seen | None:
        return seen if seen and self._clock.mono() - seen.at <= most_s else None

    def _aged(self, seen: _Seen) -> tuple[Any, float]:
        return seen.value, self._clock.mono() - seen.at

    def _reading(self, place: _Place) -> tuple[Future[_Seen], bool]:
        """Return the reading that is under way, or a new one, which is then the caller's to do."""
        if place.reading is not None:
            return place.reading, False
        place.reading = Future()
        return place.reading, True

    def _read_beside(
        self, name: str, place: _Place, reading: Future[_Seen], read: Callable[[], Any]
    ) -> None:
        work = (place, reading, read)
        try:
            threading.Thread(target=self._read, args=work, name=name, daemon=True).start()
        except RuntimeError:  # the host lets us have no more threads
            self._read(*work)

    def _read(self, place: _Place, reading: Future[_Seen], read: Callable[[], Any]) -> None:
        at = self._clock.mono()
        try:
            seen = _Seen(read(), at, self._clock.mono() - at)
        except BaseException as exc:
            with self._changing:
                place.seen = place.before = place.reading = None
            reading.set_exception(exc)
        else:
            with self._changing:
                place.seen, place.reading = seen, None
            reading.set_result(seen)


def _rest_s(seen: _Seen) -> float:
    return min(REST_MOST_S, REST_TIMES * seen.took_s)


def _patience_s(older: _Seen) -> float:
    return PATIENCE_S if older.took_s < PATIENCE_S else 0.0
