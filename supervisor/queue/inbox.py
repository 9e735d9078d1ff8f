"""What the threads of a listener have heard, until the loop of the node takes it.

Secret kept here: how a thread wakes the loop, and when a doorbell counts as lost: as long as one of
its parts is. When it is found again, whatever may have been rung meanwhile is said to have been.
Of queue, and of the bell in memory.
"""

from __future__ import annotations

import os
import select
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Self

from supervisor.clock import Clock
from supervisor.queue.bell import Heard
from supervisor.telemetry.events import emit

KINDS = frozenset({"due", "cancel"})
NOT_YET = "not connected yet"
SILENT = "the server does not pass on our own ring"


class Nudge:
    """A descriptor that is readable once somebody has nudged who waits for it."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._closed = False

    def fileno(self) -> int:
        """Return the descriptor, for those who wait with a selector of their own."""
        return self._fd

    def wait(self, fd: int, wait_s: float) -> None:
        """Wait until nudged, or this descriptor is readable, or the time is over."""
        poll = select.poll()  # select() refuses descriptors from 1024 on
        for one in (fd, self._fd):
            poll.register(one, select.POLLIN)
        poll.poll(max(0.0, wait_s) * 1000)

    def give(self) -> None:
        """Nudge; after the end nobody is there to feel it."""
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._fd, 1)

    def feel(self) -> bool:
        """Forget the nudges and say whether there was one; never waits."""
        try:
            return os.eventfd_read(self._fd) > 0
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Give the descriptor back."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._fd)


class Inbox:
    """Kinds of rings that came in, and what does not work; safe between threads."""

    def __init__(self, clock: Clock, parts: Iterable[str]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: set[str] = set()
        self._troubles = dict.fromkeys(parts, NOT_YET)
        self._lost_at: float | None = None
        self._proof_by = float("inf")
        self._wake = Nudge()

    def fileno(self) -> int:
        """Return the descriptor that is readable while there is something to take."""
        return self._wake.fileno()

    def put(self, *kinds: str) -> None:
        """Note rings of these kinds (no kind: only that there is something), and wake the loop."""
        with self._lock:
            self._kinds.update(KINDS.intersection(kinds))
        self._wake.give()

    def take(self, tips: Callable[[], tuple[str, ...]] = tuple) -> Heard:
        """Return what has come in and forget it; `tips` gives the ids, once no wake can be lost."""
        self._wake.feel()
        with self._lock:
            kinds, self._kinds = frozenset(self._kinds), set()
        return Heard(kinds, tips())

    @property
    def away(self) -> str:
        """Say why nothing can be heard; empty when all is well."""
        if self.overdue:
            self._note("line", SILENT)  # by the loop: the thread may hang in a call
        with self._lock:
            return next(iter(self._troubles.values()), "")

    def expect_proof(self, within_s: float) -> None:
        """Count the line as lost unless `proved` is called in time."""
        self._proof_by = min(self._proof_by, self._clock.mono() + within_s)

    def proved(self) -> None:
        """Our own ring has come back: the line is good."""
        self._proof_by = float("inf")
        self.found("line")

    @property
    def overdue(self) -> bool:
        """Whether our own ring has not come back in time."""
        return self._clock.mono() > self._proof_by

    def lost(self, part: str, why: str) -> None:
        """Note that a part does not work; said once, until everything does again."""
        self._proof_by = float("inf")
        self._note(part, why)

    def _note(self, part: str, why: str) -> None:
        with self._lock:
            changed = self._troubles.get(part) != why
            self._troubles[part] = why
            is_new = self._lost_at is None
            if is_new:
                self._lost_at = self._clock.mono()
        if is_new:
            emit("bell.lost", error=why)
        if changed:
            self.put()

    def found(self, part: str) -> None:
        """Note that a part works; when all do, everything may have been rung meanwhile."""
        with self._lock:
            if self._troubles.pop(part, None) is None or self._troubles:
                return
            lost_at, self._lost_at = self._lost_at, None
        if lost_at is not None:
            emit("bell.recovered", away_s=round(self._clock.mono() - lost_at, 1))
        self.put(*KINDS)

    def close(self) -> None:
        """Give the descriptor back; threads that end later do no harm."""
        self._wake.close()


class InboxListener(ABC):
    """What every listener that has an inbox shares: its `with`, its descriptor, its trouble."""

    inbox: Inbox

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Stop listening."""

    @property
    def away(self) -> str:
        """Say why nothing can be heard now; empty when all is well."""
        return self.inbox.away

    def fileno(self) -> int:
        """Return the descriptor that is readable when something was heard or `away` changed."""
        return self.inbox.fileno()
