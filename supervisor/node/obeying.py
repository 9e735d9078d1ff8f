"""Orders that people give this node through the store: carried out once, answered in words.

Secret kept here: what each order does, and which are in hand. An order stays open in the store
until its answer is written, so it is read again every second: what was taken is not taken twice. A
fenced node takes none; what it leaves open is answered by whoever writes down its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from supervisor.model.order import Order, OrderKind
from supervisor.model.termination import Phase
from supervisor.node import finding
from supervisor.node.evidence import asked_facts
from supervisor.node.floor import Attempt, Floor, Slot
from supervisor.node.leaving import Leaving
from supervisor.node.port import AnswerOrder, Captured
from supervisor.telemetry.events import emit

#: Orders of which it is known that they were taken; few are open at any time.
REMEMBERED = 1000


class Obeying:
    """Takes in the open orders; `hungry` is called when tasks may be claimed again."""

    def __init__(self, floor: Floor, leaving: Leaving, hungry: Callable[[], None]) -> None:
        self._floor = floor
        self._leaving = leaving
        self._hungry = hungry
        self._taken: deque[str] = deque(maxlen=REMEMBERED)
        #: The name of a bundle that is being taken → the order it answers.
        self._captures: dict[str, Order] = {}

    def hear(self, orders: Sequence[Order], now: float) -> None:
        """Carry out what is open and not in hand yet."""
        if self._floor.fenced:
            return
        for order in orders:
            if order.order_id not in self._taken:
                self._taken.append(order.order_id)
                emit(
                    "order.received",
                    order=order.kind, by=order.operator, reason=order.reason, task_id=order.task_id,
                )  # fmt: skip
                try:
                    self._obey(order, now)
                except Exception as exc:  # one that stays open would be given again for ever
                    self._forget(order)
                    self._answer(order, f"failed: {exc!r}")

    def captured(self, captured: Captured) -> None:
        """An autopsy is over: answer the order that asked for it, if one did."""
        name = str(captured.facts.values["name"])
        order = self._captures.pop(name, None)
        if order is None:
            return
        if captured.status == "busy":
            self._answer(order, f"not taken: {captured.why}")
        elif captured.status == "failed":
            self._answer(order, f"failed: {captured.why}")
        else:
            self._answer(order, f"{captured.status}: {finding.headline(captured)}; bundle {name}")

    def _obey(self, order: Order, now: float) -> None:
        match order.kind:
            case OrderKind.CAPTURE:
                self._capture(order)
            case OrderKind.DRAIN:
                self._answer(order, self._drain(order))
            case OrderKind.UNDRAIN:
                self._answer(order, self._undrain())
            case OrderKind.STOP:
                self._answer(order, self._stop(order, now))
            case _:
                self._answer(order, "not done: this version of the node knows no such order")

    def _forget(self, order: Order) -> None:
        self._captures = {name: one for name, one in self._captures.items() if one is not order}

    def _answer(self, order: Order, answer: str) -> None:
        emit("order.answered", order=order.kind, task_id=order.task_id, answer=answer)
        self._floor.scribe.ask(AnswerOrder(order.order_id, answer))

    def _capture(self, order: Order) -> None:
        slot, attempt, why = self._patient(order)
        if slot is None or attempt is None:
            self._answer(order, f"not taken: {why}")
            return
        facts = asked_facts(self._floor, slot, attempt, order)
        self._captures[str(facts.values["name"])] = order
        self._floor.pool.capture(slot.worker_id, facts, self._floor.settings.autopsy_budget)

    def _patient(self, order: Order) -> tuple[Slot | None, Attempt | None, str]:
        """Return what is to be examined, or why it cannot be."""
        wanted = (order.task_id, order.attempt)
        for slot, attempt in self._floor.attempts():
            if (attempt.claim.task_id, attempt.claim.attempt) != wanted:
                continue
            if attempt is not slot.current:
                return None, None, "its first line has not run yet"
            farewell = slot.farewell
            if farewell is not None and farewell.phase in (Phase.CAPTURE, Phase.KILL):
                return None, None, "evidence is being taken before its kill"
            return slot, attempt, ""
        return None, None, f"attempt {order.attempt} does not run here any more"

    def _drain(self, order: Order) -> str:
        floor = self._floor
        if floor.stopping is not None:
            return f"not done: it is stopping already: {floor.stopping.why}"
        if floor.draining:
            return f"it takes no more tasks already: {floor.draining}"
        floor.draining = f"asked by {order.operator}: {order.reason}"
        return f"it takes no more tasks; {self._running()} run to their end"

    def _undrain(self) -> str:
        floor = self._floor
        if floor.stopping is not None:
            return f"not done: it is stopping: {floor.stopping.why}"
        if not floor.draining:
            return "it was not told to take no more tasks"
        floor.draining = ""
        self._hungry()
        return "it takes tasks again"

    def _stop(self, order: Order, now: float) -> str:
        floor = self._floor
        if floor.stopping is not None:
            return f"it is stopping already: {floor.stopping.why}"
        self._leaving.stop(f"asked by {order.operator}: {order.reason}", now)
        grace_s = floor.settings.drain_grace
        return f"it stops; {self._running()} running may go on for up to {grace_s:g} s"

    def _running(self) -> int:
        return sum(1 for _ in self._floor.attempts())
