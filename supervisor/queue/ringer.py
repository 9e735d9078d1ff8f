"""Rings at a server without ever making the caller wait for it.

Secret kept here: a thread that owns the connection, made at the first ring. Rings gather while it
is busy and for a moment after each that went out, and go out together; a server that fails is left
alone for a growing pause. Nothing of it is used after a fork, and what was rung just before a
program ends still goes out. Private to queue.
"""

from __future__ import annotations

import os
import random
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from supervisor.clock import Clock, SystemClock
from supervisor.model.record import Due
from supervisor.queue.bell import Kind
from supervisor.telemetry.events import emit

#: How long the end of a program, or of a bell, waits for the last rings.
LAST_RINGS_S = 0.5
#: The pause after a failure doubles up to the most; a server that is back is rung that soon.
PAUSE_FIRST_S, PAUSE_MOST_S = 0.1, 1.0
#: After a ring the next waits so long, so that a program that submits one task after the other does
#: not ring for each: the first begins at once, and who listens looks at all that waits.
GAP_S = 0.003
#: More ids than this are not worth keeping: the nodes are told to look at the table instead.
MOST_IDS = 20_000


class Line(Protocol):
    """A connection to what carries the rings. Any exception means: it is of no more use."""

    def send(self, kinds: frozenset[Kind], dues: Sequence[Due]) -> None:
        """Ring for these kinds, and for these ids."""

    def close(self) -> None:
        """Hang up; never raises."""


Connect = Callable[[], Line]


class Ringer:
    """A bell at a server."""

    def __init__(self, connect: Connect, clock: Clock | None = None) -> None:
        self._connect = connect
        self._clock = clock or SystemClock()
        self._closed = False
        # By process, and made without a lock: a fork may leave a lock held for ever.
        self._messengers: dict[int, _Messenger] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ring(self, kind: Kind, dues: Sequence[Due] = ()) -> None:
        """Hand a ring to the thread; lost without harm while the server is left alone."""
        if not self._closed:
            self._messenger().take(kind, dues)

    @property
    def trouble(self) -> str:
        """Say why rings are dropped now; empty when they are not."""
        messenger = self._messengers.get(os.getpid())
        return messenger.trouble() if messenger else ""

    def close(self) -> None:
        """Let the last rings go out, for LAST_RINGS_S at most, and hang up."""
        self._closed = True
        if messenger := self._messengers.get(os.getpid()):
            messenger.finish()

    def _messenger(self) -> _Messenger:
        pid = os.getpid()
        if (known := self._messengers.get(pid)) is not None:
            return known
        made = self._messengers.setdefault(pid, _Messenger(pid, self._connect, self._clock))
        weakref.finalize(self, made.finish)  # also runs when the program ends
        return made


@dataclass(slots=True)
class _Batch:
    """What was rung and not sent yet."""

    kinds: set[Kind] = field(default_factory=set)
    dues: list[Due] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.kinds or self.dues)


class _Messenger:
    """The thread of one process and what it is given to carry."""

    def __init__(self, pid: int, connect: Connect, clock: Clock) -> None:
        self._pid, self._connect, self._clock = pid, connect, clock
        self._changed = threading.Condition()
        self._batch = _Batch()
        self._thread: threading.Thread | None = None
        self._finishing = False
        self._failures, self._skip_until, self._why = 0, float("-inf"), ""

    def take(self, kind: Kind, dues: Sequence[Due]) -> None:
        """Take a ring to be sent soon."""
        with self._changed:
            if self._finishing or self._clock.mono() < self._skip_until:
                return
            if kind != "due" or not dues:
                self._batch.kinds.add(kind)
            self._batch.dues += dues
            if len(self._batch.dues) > MOST_IDS:
                self._batch = _Batch(self._batch.kinds | {"due"})
            if self._thread is None:
                self._thread = threading.Thread(target=self._carry, name="bell", daemon=True)
                self._thread.start()
            self._changed.notify()

    def trouble(self) -> str:
        """Say why rings are dropped now."""
        with self._changed:
            return self._why if self._clock.mono() < self._skip_until else ""

    def finish(self) -> None:
        """Send what is left and end the thread; a thread that hangs is left to itself."""
        if os.getpid() != self._pid:
            return  # in a fork of its process: the thread is not here
        with self._changed:
            self._finishing = True
            thread = self._thread
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(LAST_RINGS_S)

    def _carry(self) -> None:
        line: Line | None = None
        while (batch := self._next()) is not None:
            line = self._send(line, batch)
            self._clock.sleep(GAP_S)
        if line is not None:
            line.close()

    def _next(self) -> _Batch | None:
        """Wait for rings and return them; None when all is said."""
        with self._changed:
            self._changed.wait_for(lambda: self._batch or self._finishing)
            batch, self._batch = self._batch, _Batch()
            return batch or None

    def _send(self, line: Line | None, batch: _Batch) -> Line | None:
        """Send over the line, or over a new one when the server has closed it meanwhile."""
        if line is not None:
            try:
                line.send(frozenset(batch.kinds), batch.dues)
            except Exception as exc:
                line.close()
                emit("ring.dropped", error=str(exc), pause_s=0.0)
            else:
                return line
        fresh: Line | None = None
        try:
            fresh = self._connect()
            fresh.send(frozenset(batch.kinds), batch.dues)
        except Exception as exc:
            if fresh is not None:
                fresh.close()
            self._leave_alone(str(exc))
            return None
        self._failures = 0
        return fresh

    def _leave_alone(self, why: str) -> None:
        pause_s = min(PAUSE_MOST_S, PAUSE_FIRST_S * 2**self._failures) * random.uniform(0.8, 1.2)
        with self._changed:
            self._failures = min(self._failures + 1, 10)
            self._skip_until, self._why = self._clock.mono() + pause_s, why
            self._batch = _Batch()
        emit("ring.dropped", error=why, pause_s=round(pause_s, 2))
