"""How a worker tells the node what its attempt says and uses: now and then, and with the ending.

Invariants: once a second at most, and never waiting for the node; whoever holds the line goes
first. What was gathered until the last time is with the node, whatever becomes of this process.
"""

from __future__ import annotations

import select
import socket
import threading

from supervisor.clock import mono_ns
from supervisor.worker import wire
from supervisor.worker.spending import Spending
from supervisor.worker.tally import NS_PER_S, Tally
from supervisor.worker.vitals import Calling, Vitals

#: A running attempt is told of this often at most.
TELL_EVERY_NS = NS_PER_S


class Telling:
    """What the present attempt says and uses; `line` is shared, under the lock `saying`."""

    def __init__(self, line: socket.socket, saying: threading.Lock, vitals: Vitals) -> None:
        self._line = line
        self._vitals = vitals
        self._shows_calls = False
        self._saying = saying
        self._room = select.poll()
        self._room.register(line, select.POLLOUT)
        self._tallies: dict[int, Tally] = {}
        self._began_ns = self._due_ns = 0
        self.spending = Spending()

    def begin(self, began_ns: int) -> None:
        """An attempt begins: nothing is known of it."""
        self._began_ns = began_ns
        self._tallies.clear()

    def gather(self, seq: int, tally: Tally) -> Tally:
        """Gather here what the attempt says, or where another of its threads did so first."""
        return self._tallies.setdefault(seq, tally)

    def said(self, seq: int) -> wire.Tally | None:
        """Return what the attempt has said so far, None if nothing."""
        tally = self._tallies.get(seq)
        return None if tally is None else tally.totals()

    def tell(self, seq: int) -> None:
        """Let the node know, if it is time: from the pulse thread, and never waiting."""
        now = mono_ns()
        if now < self._due_ns:
            return
        tally = self.said(seq)
        self._show_calls(seq, tally)
        if not self._room.poll(0):
            return
        spent = self.spending.look((now - self._began_ns) / NS_PER_S)
        data = wire.frame(wire.Tallied(seq, spent, tally))
        if self._saying.acquire(blocking=False):  # who has it may wait for the node
            try:
                self._line.sendall(data)
            finally:
                self._saying.release()
            self._due_ns = now + TELL_EVERY_NS

    def _show_calls(self, seq: int, tally: wire.Tally | None) -> None:
        """Let people of this host see what the attempt waits for, who may not ask the node."""
        flying = tally.in_flight if tally is not None else {}
        if not flying and not self._shows_calls:
            return
        calls = None
        if flying:
            service, oldest = min(flying.items(), key=lambda one: one[1].since_ns)
            number = sum(one.number for one in flying.values())
            calls = Calling(number, service, oldest.since_ns)
        self._vitals.calling(seq, calls)
        self._shows_calls = bool(flying)
