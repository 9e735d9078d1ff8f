"""A store in memory behind the scribe's port: endings are settled by the ledger's own rules."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from supervisor.model.order import Order
from supervisor.model.outcome import Settlement, StopMark, TaskFacts, settle
from supervisor.model.record import Claim, Ending, Mark, Owner
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State, require_legal
from supervisor.node import port
from supervisor.testing.clock import ManualClock

_QUESTIONS = (
    port.ReadMarks,
    port.ReadOrders,
    port.VitalsNote,
    port.ReadCounts,
    port.ReadOrphans,
    port.ReadOwn,
    port.Renew,
)


@dataclass(slots=True)
class MemoryTask:
    """A task of the scribe in memory: its state and the moves it made, as (from, to, reason)."""

    claim: Claim
    state: State = State.PENDING
    mark: StopMark | None = None
    moves: list[tuple[State, State, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class MemoryScribe:
    """A store in memory that settles endings by the same rules as the ledger."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._replies: deque[port.Reply] = deque()
        self.tasks: dict[str, MemoryTask] = {}
        self._due: dict[str, MemoryTask] = {}
        self._running: dict[str, MemoryTask] = {}
        self._later: list[tuple[datetime, str]] = []  # a heap
        self.refused = 0
        self.waited = 0.0
        self.autopsies: list[port.Captured] = []
        self.endings: list[Ending] = []
        self.notes: list[str] = []
        self.scans = 0
        #: Ids of tasks whose rows another transaction holds.
        self.locked: set[str] = set()
        self.paused: frozenset[tuple[str, int]] = frozenset()
        #: What the node was asked and has not answered, and what it answered, by order id.
        self.orders: dict[str, Order] = {}
        self.answers: dict[str, str] = {}
        self.vitals: list[Mapping[str, Any]] = []
        self.asked: Counter[str] = Counter()
        self.away = False
        self._kept: list[port.Request] = []
        self._lease_until: float | None = None

    def submit(self, specs: Iterable[TaskSpec]) -> list[str]:
        """Put tasks in, due at their run_after or now."""
        ids = []
        for spec in specs:
            task_id = f"task_{len(self.tasks):032x}"
            now = self._clock.now()
            claim = Claim(
                task_id=task_id, attempt=0, type=spec.type, queue=spec.queue or "default",
                params_json=spec.params_json, priority=spec.priority, timeout=spec.timeout,
                soft_timeout=spec.soft_timeout, max_retries=spec.max_retries, retry_count=0,
                crash_count=0, run_after=spec.run_after or now, claimed_at=now, worker_id="",
            )  # fmt: skip
            self.tasks[task_id] = MemoryTask(claim)
            heapq.heappush(self._later, (claim.run_after, task_id))
            ids.append(task_id)
        return ids

    def cancel(self, task_id: str, *, by: str, reason: str) -> None:
        """Cancel a PENDING task, or mark a RUNNING one."""
        task = self.tasks[task_id]
        if task.state is State.RUNNING:
            task.mark = StopMark("cancel", by, reason, self._clock.now())
        else:
            self._move(task, State.CANCELED, "canceled")

    def ask(self, *requests: port.Request) -> None:
        for request in requests:
            if not self.away:
                self._ask(request)
            elif isinstance(request, port.ClaimFor):
                self._replies.append(port.Claimed(request.places, ()))
            elif not isinstance(request, _QUESTIONS):
                self._kept.append(request)

    def go_away(self, why: str = "cut off") -> None:
        """Answer nothing any more; what must not be lost is kept."""
        self.away = True
        self._replies.append(port.StoreAway(why))

    def come_back(self) -> None:
        """Write what was kept, in order, and answer again."""
        self.away = False
        kept, self._kept = self._kept, []
        self.ask(*kept)
        self._replies.append(port.StoreBack())

    def _ask(self, request: port.Request) -> None:
        self.asked[type(request).__name__] += 1
        match request:
            case port.ClaimFor():
                self._claim(request)
            case port.Finish():
                self.endings += request.endings
                results = [(ending, self._finish(ending)) for ending in request.endings]
                self._replies.append(port.EndingsWritten(results))
            case port.ReadMarks():
                self._replies.append(port.MarksRead(self._marks()))
            case port.ReadOrders() | port.AnswerOrder() | port.VitalsNote():
                self._of_node(request)
            case port.Note():
                task = None if request.task_id is None else self.tasks[request.task_id]
                notes = self.notes if task is None else task.notes
                notes.append(f"{request.reason}: {request.text}")
            case port.Renew():
                over = self._lease_until is not None and self._clock.boot() > self._lease_until
                self._replies.append(port.LeaseLost() if over else self._leased(request.lease_s))
            case port.Revive():
                self._replies.append(self._leased(request.lease_s))
            case port.ReadOwn():
                self._replies.append(port.OwnRead(self._own()))
            case port.AutopsyNote():
                self.autopsies.append(request.captured)

    def _of_node(self, request: port.ReadOrders | port.AnswerOrder | port.VitalsNote) -> None:
        match request:
            case port.ReadOrders():
                self._replies.append(port.OrdersRead(tuple(self.orders.values())))
            case port.AnswerOrder() if self.orders.pop(request.order_id, None) is not None:
                self.answers[request.order_id] = request.answer
            case port.VitalsNote():
                self.vitals.append(request.document)

    def _leased(self, lease_s: float) -> port.LeaseRenewed:
        sent = self._clock.boot()
        self._lease_until = sent + lease_s
        return port.LeaseRenewed(sent)

    def _own(self) -> frozenset[tuple[str, int]]:
        return frozenset((one.claim.task_id, one.claim.attempt) for one in self._running.values())

    def sweep(self, task_id: str) -> None:
        """Let another node end a RUNNING task for us: its lease, it says, is over."""
        self._move(self.tasks[task_id], State.TIMEOUT, "node_lost")

    def replies(self) -> list[port.Reply]:
        heard = list(self._replies)
        self._replies.clear()
        return heard

    def waited_s(self) -> float:
        return self.waited

    def unwritten(self) -> int:
        return 0

    def states(self) -> Counter[State]:
        """Return how many tasks are in each state."""
        return Counter(task.state for task in self.tasks.values())

    def _claim(self, request: port.ClaimFor) -> None:
        while self._later and self._later[0][0] <= self._clock.now():
            task = self.tasks[heapq.heappop(self._later)[1]]
            if task.state is State.PENDING:
                self._due[task.claim.task_id] = task
        claims: list[Claim] = []
        for owners, only in (
            (request.owners, request.types),
            (request.ahead, request.ahead_types),
        ):
            among = tuple(self._due) if request.scan else request.tips
            claims += self._give(owners, request.types, only, among)
        if not request.scan:
            self._replies.append(port.Claimed(request.places, claims, scanned=False))
            return
        self.scans += 1
        waiting = [
            task.claim.run_after for task in self._due.values() if task.claim.type in request.types
        ]
        next_due = min([*waiting, *(self._later[0][:1] if self._later else ())], default=None)
        self._replies.append(port.Claimed(request.places, claims, next_due, paused=self.paused))

    def _give(
        self,
        owners: Sequence[Owner],
        types: Collection[str],
        only: Collection[str],
        among: Collection[str],
    ) -> list[Claim]:
        now = self._clock.now()
        found = (self._due[task_id] for task_id in among if task_id in self._due)
        free = (task for task in found if task.claim.task_id not in self.locked)
        due = [task for task in free if task.claim.type in types]
        due.sort(key=lambda task: (-task.claim.priority, task.claim.run_after))
        claims = []
        for task, owner in zip(due, owners, strict=False):
            if task.claim.type not in only:
                break
            self._move(task, State.RUNNING, "claimed")
            task.claim = replace(
                task.claim,
                attempt=task.claim.attempt + 1,
                claimed_at=now,
                worker_id=owner.worker_id,
            )
            claims.append(task.claim)
        return claims

    def _finish(self, ending: Ending) -> Settlement | None:
        task = self.tasks[ending.task_id]
        if task.state is not State.RUNNING or task.claim.attempt != ending.attempt:
            self.refused += 1
            return None
        claim = task.claim
        facts = TaskFacts(
            retry_count=claim.retry_count, crash_count=claim.crash_count, mark=task.mark
        )
        settled = settle(facts, ending.outcome, ending.policy, self._clock.now(), 0.0)
        for state, reason in zip(settled.path[1:], _reasons(settled), strict=False):
            self._move(task, state, reason)
        task.mark = None
        task.claim = replace(
            claim,
            retry_count=settled.retry_count,
            crash_count=settled.crash_count,
            run_after=settled.run_after or claim.run_after,
        )
        if settled.state is State.PENDING:
            heapq.heappush(self._later, (task.claim.run_after, ending.task_id))
        return settled

    def _marks(self) -> list[Mark]:
        return [
            Mark(task_id=task.claim.task_id, attempt=task.claim.attempt, mark=task.mark)
            for task in self._running.values()
            if task.mark is not None
        ]

    def _move(self, task: MemoryTask, to: State, reason: str) -> None:
        require_legal(task.state, to)
        task.moves.append((task.state, to, reason))
        task.state = to
        self._due.pop(task.claim.task_id, None)
        self._running.pop(task.claim.task_id, None)
        if to is State.RUNNING:
            self._running[task.claim.task_id] = task


def _reasons(settled: Settlement) -> tuple[str, str]:
    return str(settled.reason), str(settled.next_reason)
