"""For tests, ours and yours: a clock moved by hand, scripted workers, a scribe in memory.

They stand behind the same ports as the real ones (`supervisor.node.port`), so the real arbiter can
live through a day of operation in less than a second. Nothing here touches a process or a file.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from supervisor.model.health import Host, Signs
from supervisor.model.outcome import Settlement, StopMark, TaskFacts, settle
from supervisor.model.record import Claim, Ending, Mark, Owner
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State, require_legal
from supervisor.node import port
from supervisor.settings import Settings
from supervisor.worker import wire
from supervisor.worker.vitals import Reading

START = datetime(2026, 1, 1, tzinfo=UTC)
NS_PER_S = 1_000_000_000
_SIGKILLED, _SIGTERMED = "killed by signal 9 (SIGKILL)", "killed by signal 15 (SIGTERM)"


class ManualClock:
    """A clock that moves only when told to; wall and monotonic time move together by default."""

    def __init__(self, at: datetime = START) -> None:
        self._wall = at
        self._mono = 1000.0

    def now(self) -> datetime:
        return self._wall

    def mono(self) -> float:
        return self._mono

    def boot(self) -> float:
        return self._mono

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._mono += seconds
        self._wall += timedelta(seconds=seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or a time server would."""
        self._wall += timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """How tasks of one type behave on a scripted worker.

    `runs_s` is how long the body takes (inf: it never returns), `progress_every_s` how often it
    reports progress (None: never); `beats` False: its heartbeat stops with the body's start;
    `hears` False: it ignores interrupts; `spins` True: it uses a full core; `dies` True: the
    process dies when the time is over; `raises` True: it raises then.
    """

    runs_s: float = 0.0
    progress_every_s: float | None = None
    beats: bool = True
    hears: bool = True
    spins: bool = False
    dies: bool = False
    raises: bool = False
    rss_bytes: int = 50 * 2**20
    proc_state: str = "S"


@dataclass(slots=True)
class _Puppet:
    """One scripted worker."""

    worker_id: str
    pid: int
    queue: deque[wire.Assign] = field(default_factory=deque)
    current: wire.Assign | None = None
    started: float = 0.0
    last_seq: int = 0
    stop: bool = False
    interrupted: wire.Interrupt | None = None


class ScriptedPool:
    """A pool whose workers follow `Script`s, keyed by task type."""

    def __init__(self, clock: ManualClock, scripts: Mapping[str, Script]) -> None:
        self._clock = clock
        self._scripts = scripts
        self._events: deque[port.PoolEvent] = deque()
        self._puppets: dict[str, _Puppet] = {}
        self._captures: list[tuple[float, port.Captured]] = []
        self._pids = 1000
        self.capture_s = 0.3
        self.host_signs = Host()
        self.calls: list[tuple[str, str]] = []

    def boot(self, generation: int) -> None:
        types = tuple(wire.TypeInfo(name=name) for name in self._scripts)
        self._events.append(port.AppBooted(generation, types, (), ()))

    def birth(self, worker_id: str, generation: int) -> None:
        self._pids += 1
        self._puppets[worker_id] = _Puppet(worker_id, self._pids)
        self._events.append(port.Born(worker_id, self._pids))
        self._events.append(port.Said(worker_id, wire.Ready(self._pids, 1)))

    def events(self) -> list[port.PoolEvent]:
        now = self._clock.mono()
        for puppet in list(self._puppets.values()):
            self._play(puppet, now)
        due = [captured for at, captured in self._captures if at <= now]
        self._captures = [(at, captured) for at, captured in self._captures if at > now]
        self._events.extend(due)
        heard = list(self._events)
        self._events.clear()
        return heard

    def signal(self, name: str) -> None:
        """Let the node hear a signal."""
        self._events.append(port.Signal(name))

    def _play(self, puppet: _Puppet, now: float) -> None:
        while True:
            if puppet.current is None:
                if not puppet.queue:
                    break
                puppet.current = puppet.queue.popleft()
                puppet.started, puppet.last_seq = now, puppet.current.seq
            if not self._advance(puppet, puppet.current, now):
                return
        if puppet.stop and puppet.worker_id in self._puppets:
            self._leave(puppet, "stopped")

    def _advance(self, puppet: _Puppet, assign: wire.Assign, now: float) -> bool:
        """Play the current body on; say whether it is over and the worker still there."""
        script = self._scripts[assign.type]
        wish = puppet.interrupted
        if wish is not None and wish.seq == assign.seq and script.hears:
            self._finish(puppet, assign, now, "interrupted", wish.kind)
            self._leave(puppet, f"interrupted by {wish.kind}")
            return False
        if now - puppet.started < script.runs_s:
            return False
        if script.dies:
            self._exit(puppet, "killed by signal 11 (SIGSEGV)", clean=False)
            return False
        ended_at = puppet.started + script.runs_s
        self._finish(puppet, assign, ended_at, "raised" if script.raises else "returned", None)
        return True

    def _finish(
        self, puppet: _Puppet, assign: wire.Assign, at: float, how: str, by: str | None
    ) -> None:
        puppet.current = puppet.interrupted = None
        message = wire.Finished(
            seq=assign.seq,
            how=how,
            started_ns=int(puppet.started * NS_PER_S),
            finished_ns=int(at * NS_PER_S),
            output_start=0,
            output_end=0,
            result_json="null" if how == "returned" else None,
            error_type="ValueError" if how == "raised" else None,
            error="scripted" if how == "raised" else None,
            interrupted_by=by,
        )
        self._events.append(port.Said(puppet.worker_id, message))

    def _leave(self, puppet: _Puppet, why: str) -> None:
        self._events.append(port.Said(puppet.worker_id, wire.Leaving(why)))
        self._exit(puppet, "exited with code 0", clean=True)

    def _exit(self, puppet: _Puppet, how: str, *, clean: bool) -> None:
        last = self._reading(puppet)
        del self._puppets[puppet.worker_id]
        self._events.append(port.Exited(puppet.worker_id, how, clean, last, 0))

    def send(self, worker_id: str, message: wire.FromNode) -> bool:
        puppet = self._puppets.get(worker_id)
        if puppet is None:
            return False
        if isinstance(message, wire.Interrupt):
            self.calls.append(("interrupt", message.kind))
            puppet.interrupted = message
        return True

    def assign(self, worker_id: str, assign: wire.Assign) -> bool:
        puppet = self._puppets.get(worker_id)
        if puppet is None:
            return False
        puppet.queue.append(assign)
        return True

    def stop_after(self, worker_id: str) -> bool:
        puppet = self._puppets.get(worker_id)
        if puppet is not None:
            puppet.stop = True
        return puppet is not None

    def take_back(self, worker_id: str) -> list[int]:
        puppet = self._puppets.get(worker_id)
        if puppet is None:
            return []
        seqs = [assign.seq for assign in puppet.queue]
        puppet.queue.clear()
        return seqs

    def look(self, worker_id: str) -> Reading | None:
        puppet = self._puppets.get(worker_id)
        return None if puppet is None else self._reading(puppet)

    def _reading(self, puppet: _Puppet) -> Reading:
        now = self._clock.mono()
        current = puppet.current
        script = self._scripts[current.type] if current else Script()
        age = now - puppet.started if current else 0.0
        every = script.progress_every_s
        changes = int(age / every) if every else 0
        return Reading(
            beats=int(now) if script.beats else int(puppet.started),
            ticks=0,
            seq=current.seq if current else 0,
            last_seq=puppet.last_seq,
            started_ns=int(puppet.started * NS_PER_S),
            progress_changes=changes,
            progress_done=float(changes),
            progress_total=0.0,
            progress_changed_ns=0,
            acknowledged_seq=0,
            acknowledged_kind="",
            finished=0,
            output_start=0,
        )

    def examine(self, worker_id: str, reading: Reading, now: float) -> Signs | None:
        puppet = self._puppets.get(worker_id)
        if puppet is None or puppet.current is None:
            return None
        script = self._scripts[puppet.current.type]
        age = now - puppet.started
        return Signs(
            at=now,
            beats=reading.beats,
            progress_changes=reading.progress_changes,
            progress_done=reading.progress_done,
            rss_bytes=script.rss_bytes,
            cpu_s=age if script.spins else age * 0.01,
            proc_state=script.proc_state,
        )

    def host(self) -> Host:
        return self.host_signs

    def capture(self, worker_id: str, facts: port.Facts, budget_s: float) -> None:
        self.calls.append(("capture", str(facts.values["verdict"])))
        captured = port.Captured(
            worker_id, facts, f"{facts.values['name']}.zip", "complete", [], 300.0, 1000
        )
        self._captures.append((self._clock.mono() + self.capture_s, captured))

    def terminate(self, worker_id: str) -> None:
        self.calls.append(("terminate", worker_id))
        if (puppet := self._puppets.get(worker_id)) is not None:
            self._exit(puppet, _SIGTERMED, clean=False)

    def kill_tree(self, worker_id: str) -> int:
        self.calls.append(("kill", worker_id))
        if (puppet := self._puppets.get(worker_id)) is not None:
            self._exit(puppet, _SIGKILLED, clean=False)
        return 0

    def output_tail(self, worker_id: str, start: int, end: int | None) -> str:
        return ""

    def prune_bundles(self) -> None:
        """Scripted captures leave no file."""

    def trim(self, worker_id: str) -> None:
        """Scripted workers print nothing."""

    def forget(self, worker_id: str) -> None:
        self._puppets.pop(worker_id, None)

    def reconfigure(self, settings: Settings) -> None:
        """Scripts stay as they are."""

    def sweep_strangers(self) -> int:
        return 0


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
        self.autopsies: list[port.Captured] = []
        self.endings: list[Ending] = []
        self.asked: Counter[str] = Counter()

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
            self._ask(request)

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
            case port.Note() if request.task_id is not None:
                self.tasks[request.task_id].notes.append(f"{request.reason}: {request.text}")
            case port.AutopsyNote():
                self.autopsies.append(request.captured)

    def replies(self) -> list[port.Reply]:
        heard = list(self._replies)
        self._replies.clear()
        return heard

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
        claims = self._give(request.owners, request.types)
        claims += self._give(request.ahead, request.ahead_types)
        next_due = self._later[0][0] if self._later else None
        self._replies.append(port.Claimed(request.places, claims, next_due))

    def _give(self, owners: Sequence[Owner], types: Collection[str]) -> list[Claim]:
        now = self._clock.now()
        due = [task for task in self._due.values() if task.claim.type in types]
        due.sort(key=lambda task: (-task.claim.priority, task.claim.run_after))
        claims = []
        for task, owner in zip(due, owners, strict=False):
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
