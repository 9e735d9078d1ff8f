"""Who carries out acts on many tasks: a thread of each web process, one step of each act in turn.

Invariants: between two steps there is a pause, so that nodes and submits get their turn at the
store; what this process holds it lets go at its end, and what one held that was killed another
takes over once its hold is over. What fails is told in the log and tried again.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, suppress

import uuid_utils

from supervisor.client import Client
from supervisor.clock import SystemClock
from supervisor.errors import StoreUnavailable
from supervisor.model.bulk import BulkAct
from supervisor.store.bulk import BulkDesk
from supervisor.telemetry.events import emit
from supervisor.web.beside import beside

#: Between two steps, between two looks for work, and after a failure.
PAUSE_S, IDLE_S, AGAIN_S = 0.05, 0.5, 5.0
END_S = 10.0


class Carrier:
    """Carries out the acts of one store, as one of perhaps many."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._holder = f"web_{uuid_utils.uuid7().hex}"
        self._over = threading.Event()
        self._clock = SystemClock()
        self._aside: dict[str, float] = {}  # until when those are left that have failed

    def going(self) -> AbstractContextManager[None]:
        """Carry out what there is for the length of the block."""
        return beside(self._run, self._over, name="bulk", leave_s=END_S)

    def _run(self) -> None:
        pause = 0.0
        while not self._over.wait(pause):
            try:
                pause = PAUSE_S if self._turn() else IDLE_S
            except StoreUnavailable:  # the pages say so
                pause = AGAIN_S
            except Exception as exc:
                emit("web.failed", exc_info=True, route="bulk", error=type(exc).__name__)
                pause = AGAIN_S
        with suppress(StoreUnavailable):  # then the hold runs out by itself
            self._client.bulk.release(self._holder)

    def _turn(self) -> bool:
        """Take a step of each open act; say whether there was one to take."""
        desk, moved = self._client.bulk, False
        for act in desk.open():
            if moved and self._over.wait(PAUSE_S):
                break
            moved = self._tried(desk, act) or moved
        return moved

    def _tried(self, desk: BulkDesk, act: BulkAct) -> bool:
        """Take a step of an act; one that fails stops no other, and has its turn later."""
        if self._clock.mono() < self._aside.get(act.bulk_id, 0.0):
            return False
        try:
            return self._step(desk, act)
        except StoreUnavailable:
            raise
        except Exception as exc:
            emit("web.failed", exc_info=True, route="bulk", error=type(exc).__name__)
            self._aside[act.bulk_id] = self._clock.mono() + AGAIN_S
            return False

    def _step(self, desk: BulkDesk, act: BulkAct) -> bool:
        if act.holder != self._holder:
            held = desk.hold(act, self._holder)
            if held is None:
                return False
            act = held
        return desk.step(act, self._holder) is not None
