"""What the parts of the arbiter share: workers, attempts, settings, and the two ports.

Only the main thread touches it. `Slot` is a worker as the arbiter sees it, `Attempt` one run on it;
both are forgotten when they end, so nothing here grows with the number of tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from supervisor.clock import Clock
from supervisor.model.health import Action, Host, Limits, Pulse, Rules, Signs, Verdict
from supervisor.model.lease import LeasePlan
from supervisor.model.outcome import Outcome, StopMark
from supervisor.model.record import ChildSpec, Claim, Ending, Traced
from supervisor.model.states import Reason, State
from supervisor.model.termination import Farewell
from supervisor.model.trace import log_ids
from supervisor.node.port import Finish, Note, Pool, Scribe, TypesNote
from supervisor.queue import Listener
from supervisor.settings import Settings, TaskLimits, TaskOptions
from supervisor.telemetry.events import emit
from supervisor.telemetry.metrics import Metrics
from supervisor.worker.vitals import Reading
from supervisor.worker.wire import Tally, TypeInfo

if TYPE_CHECKING:
    from supervisor.telemetry.trace_sdk import NodeTraces

NS_PER_S = 1_000_000_000
#: Looks kept for the autopsy: what the probes saw lately.
LOOKS_KEPT = 60
#: A body that has not seen by then what its worker was told is signalled from outside.
KNOCK_AFTER_S = 0.1
#: Queues with series of their own; more than that are shown together as _other.
QUEUES_SHOWN = 200


@dataclass(slots=True)
class Attempt:
    """One run of a task, from its assignment to its ending. Times are monotonic seconds."""

    seq: int
    claim: Claim
    limits: TaskLimits
    worker_id: str
    sent_at: float
    started_at: float | None = None
    output_start: int = 0
    begin_noted: bool = False
    moved_s: float = 0.0
    wall_forward_s: float = 0.0
    pulse: Pulse | None = None
    looks: deque[Signs] = field(default_factory=lambda: deque(maxlen=LOOKS_KEPT))
    examined_at: float = float("-inf")
    soft_told: bool = False
    mark: StopMark | None = None
    mark_heard_at: float = 0.0
    delivered: bool = False
    acknowledged: bool = False
    knock_at: float = float("inf")
    acted_on: set[str] = field(default_factory=set)
    fenced: str = ""
    diagnosed_at: float = float("-inf")
    autopsy_id: str | None = None
    said: Tally | None = None
    rules: Rules | None = None
    ruled_by: Settings | None = None

    @property
    def name(self) -> str:
        """The attempt as file names and log lines show it."""
        return f"{self.claim.task_id}-{self.claim.attempt}"

    @property
    def named(self) -> dict[str, Any]:
        """The fields that name it in an event."""
        claim = self.claim
        ids = log_ids(self.traceparent)
        return {"task_id": claim.task_id, "attempt": claim.attempt, "type": claim.type, **ids}

    @property
    def traceparent(self) -> str | None:
        """Where it is in a trace: its own span, or what its task came with."""
        return self.claim.span or self.claim.traceparent

    def limits_at(self) -> Limits:
        """Return when this attempt has used up what it was given."""
        started = self.started_at if self.started_at is not None else float("inf")
        cancel_at = None
        if self.mark is not None:
            cancel_at = self.mark_heard_at + self.limits.cancel_grace
        return Limits(timeout_at=started + self.limits.timeout + self.moved_s, cancel_at=cancel_at)

    def soft_at(self) -> float:
        """Return when it is told that its time is nearly up."""
        started = self.started_at if self.started_at is not None else float("inf")
        return started + self.limits.soft_timeout + self.moved_s

    def told(self, now: float) -> None:
        """Note that the worker was told something, which its body has to see."""
        self.knock_at = now + KNOCK_AFTER_S

    def shift(self, gap_s: float) -> None:
        """Move its deadlines by a time in which nobody could look."""
        self.moved_s += gap_s
        self.sent_at += gap_s
        self.mark_heard_at += gap_s
        if self.pulse is not None:
            self.pulse = self.pulse.shifted(gap_s)


@dataclass(slots=True)
class Slot:
    """A worker as the arbiter sees it."""

    worker_id: str
    generation: int
    reason: str
    asked_at: float
    number: int = 0
    pid: int = 0
    start_ticks: int = 0
    ready_at: float | None = None
    promised: int = 0
    assigned: int = 0
    last_seq: int = 0
    read_at: float = 0.0
    attempts: dict[int, Attempt] = field(default_factory=dict)
    retiring: bool = False
    leaving: str = ""
    farewell: Farewell | None = None
    doomed: tuple[Attempt, Verdict] | None = None
    bundle_ready: bool = False
    beats: int = 0
    beat_at: float | None = None
    reading: Reading | None = None

    @property
    def current(self) -> Attempt | None:
        """The attempt in its body, if one is known to have started."""
        for attempt in self.attempts.values():
            return attempt if attempt.started_at is not None else None
        return None

    @property
    def can_take_work(self) -> bool:
        """Whether assignments may be put in its queue."""
        return self.ready_at is not None and not self.leaving and self.farewell is None


@dataclass(slots=True)
class Stopping:
    """The node's own way out: since when, and how urgent."""

    since: float
    why: str
    hurry: int = 0


def _vouch_for_nothing(_until_boot: float) -> None:
    """Nobody watches over the lease of a node that needs none."""


@dataclass(slots=True)
class Floor:
    """The shared state of one node.

    `lease` is None on a store of one node. The lease counts from `renewed_at` (CLOCK_BOOTTIME);
    `fenced` says why nothing may run here; who watches over a frozen node hears by `vouch` until
    when it may. `skew_s` is how far this host's wall clock is ahead of `clock`, the store's; at
    `returned_at` (monotonic) the store was back after it had been away. `strays` counts processes
    of ended attempts that run on after their kill.
    """

    node_id: str
    settings: Settings
    clock: Clock
    pool: Pool
    scribe: Scribe
    metrics: Metrics
    slots: dict[str, Slot] = field(default_factory=dict)
    types: dict[str, TypeInfo] = field(default_factory=dict)
    known: dict[int, frozenset[str]] = field(default_factory=dict)
    queues: set[str] = field(default_factory=set)
    held: dict[str, float] = field(default_factory=dict)
    options: dict[str, TaskOptions] = field(default_factory=dict)
    generation: int = 1
    booted_generation: int = 0
    stopping: Stopping | None = None
    draining: str = ""
    store_away: str = ""
    lease: LeasePlan | None = None
    renewed_at: float = 0.0
    fenced: str = ""
    skew_s: float = 0.0
    returned_at: float = float("-inf")
    vouch: Callable[[float], None] = _vouch_for_nothing
    listener: Listener | None = None
    traces: NodeTraces | None = None
    host: Host = field(default_factory=Host)
    last_gap_at: float | None = None
    fatal: str = ""
    remedy: str = ""
    rescued: str = ""
    endings: list[Ending] = field(default_factory=list)
    strays: int = 0
    worst_lag_s: float = 0.0
    _wall: datetime = field(init=False)
    _mono: float = field(init=False)

    def __post_init__(self) -> None:
        self._wall, self._mono = self.clock.now(), self.clock.mono()

    def attempts(self) -> Iterator[tuple[Slot, Attempt]]:
        """Yield every attempt with its worker."""
        for slot in self.slots.values():
            for attempt in slot.attempts.values():
                yield slot, attempt

    def running(self) -> Iterator[tuple[Slot, Attempt]]:
        """Yield every attempt in its body with its worker; none of those that wait behind one."""
        for slot in self.slots.values():
            if (attempt := slot.current) is not None:
                yield slot, attempt

    @property
    def workers_wanted(self) -> int:
        """How many workers there should be now."""
        return 0 if self.stopping is not None or self.fenced else self.settings.workers

    def learn(self, generation: int, types: Iterable[TypeInfo]) -> None:
        """Take in the types of a generation of the app; older workers keep theirs."""
        self.types = {info.name: info for info in types}
        self.known[generation] = frozenset(self.types)
        alive = {slot.generation for slot in self.slots.values()} | {generation}
        self.known = {one: names for one, names in self.known.items() if one in alive}

    def tell_types(self) -> None:
        """Have it written down which types this node knows."""
        queues = {name: one.queue for name, one in self.options.items()}
        secrets = {name: one.secret_params for name, one in self.types.items()}
        self.scribe.ask(TypesNote(queues, secrets))

    def claimable(self, takers: Iterable[Slot]) -> tuple[str, ...]:
        """Return the types whose tasks may be started now, on any of these workers."""
        known = [self.known[one] for one in {slot.generation for slot in takers}]
        if not self.held and all(names == self.types.keys() for names in known):
            return tuple(self.types)  # as it nearly always is
        startable = frozenset(self.types).difference(self.held).intersection(*known)
        return tuple(kind for kind in self.types if kind in startable)

    def limits_of(self, claim: Claim) -> TaskLimits:
        """Return the effective limits of a task: task > type > queue > settings."""
        return self.settings.for_task(
            claim.type,
            claim.queue,
            self.options.get(claim.type),
            timeout=claim.timeout,
            soft_timeout=claim.soft_timeout,
            max_retries=claim.max_retries,
        )

    def rules_of(self, attempt: Attempt) -> Rules:
        """Return the thresholds the attempt is judged by, made once for these settings."""
        if attempt.rules is None or attempt.ruled_by is not self.settings:
            attempt.rules, attempt.ruled_by = self._rules_of(attempt), self.settings
        return attempt.rules

    def _rules_of(self, attempt: Attempt) -> Rules:
        limits, settings = attempt.limits, self.settings
        return Rules(
            heartbeat_s=limits.heartbeat_interval * limits.heartbeat_misses,
            progress_s=limits.stall_after,
            progress_is_limit=limits.progress_timeout is not None,
            spin_s=limits.cpu_spin_after,
            memory_bytes=limits.memory_limit_bytes,
            on_heartbeat_lost=Action(settings.on_heartbeat_lost),
            on_stalled=Action(settings.on_stalled),
            on_cpu_spin=Action(settings.on_cpu_spin),
            on_memory=Action(settings.on_memory),
        )

    def sweep_strays(self) -> None:
        """End what ended attempts have left running."""
        strays = self.pool.sweep_strangers()
        self.strays = strays.left
        self.metrics.set("unreaped", strays.unreaped)
        self.metrics.inc("zombies_detected_total", strays.found, kind="orphan")

    def note(self, attempt: Attempt, reason: str, text: str) -> None:
        """Add a line to the attempt's audit trail."""
        claim = attempt.claim
        self.scribe.ask(Note(claim.task_id, claim.attempt, reason, text))

    def know_queues(self, names: Iterable[str]) -> None:
        """Give queues that are new here their own series."""
        new = set(names) - self.queues
        if new and len(self.queues) + len(new) <= QUEUES_SHOWN:
            self.queues |= new
            self.metrics.allow("queue", new)

    def anchor(self) -> float:
        """Read both clocks together, once a turn, for `wall`; return by how much one was set."""
        wall, mono = self.clock.now(), self.clock.mono()
        stepped_s = (wall - self._wall).total_seconds() - (mono - self._mono)
        self._wall, self._mono = wall, mono
        return stepped_s

    def wall(self, mono: float) -> datetime:
        """Return the wall-clock time of a monotonic moment."""
        return self._wall + timedelta(seconds=mono - self._mono)

    def begin(self, attempt: Attempt, started_ns: int, output_start: int) -> None:
        """Note that its first line has run, however that became known; said more than once."""
        if attempt.started_at is None:
            attempt.started_at = started_ns / NS_PER_S
            attempt.output_start = output_start
            claim = attempt.claim
            self.metrics.of_task(claim.queue, claim.type).started.inc()

    def end(
        self,
        slot: Slot,
        attempt: Attempt,
        outcome: Outcome,
        *,
        usage: dict[str, float] | None = None,
        ended_at: float | None = None,
        output_end: int | None = None,
        children: tuple[str, ...] = (),
    ) -> None:
        """Take an attempt off its worker and put its ending down for this turn's commit."""
        slot.attempts.pop(attempt.seq, None)
        if outcome.reason is Reason.NEVER_STARTED:
            slot.assigned -= 1  # the worker will not count it either
        limits = attempt.limits
        ended_mono = self.clock.mono() if ended_at is None else ended_at
        started = attempt.started_at
        tail, has_result, info = None, outcome.result_json is not None, None
        if not has_result:
            info = self.types.get(attempt.claim.type)
        if not has_result and started is not None:
            tail = self.pool.output_tail(slot.worker_id, attempt.output_start, output_end)
        self.endings.append(
            Ending(
                task_id=attempt.claim.task_id,
                attempt=attempt.claim.attempt,
                outcome=outcome,
                policy=limits.policy,
                started_at=None if started is None else self.wall(started),
                ended_at=self.wall(ended_mono),
                usage=usage or {},
                log_tail=tail,
                type=attempt.claim.type,
                queue=attempt.claim.queue,
                timeout=limits.timeout,
                children=_specs(children),
                traced=_traced(slot, attempt),
                params_json="{}" if has_result else attempt.claim.params_json,
                marked=() if info is None else tuple(info.secret_params),
            )
        )
        if attempt.mark is not None or attempt.soft_told:
            self.metrics.inc("stops_total", phase=_phase(attempt, outcome))
        if attempt.mark is not None:
            self._verify_gone(attempt, outcome, self.wall(ended_mono))

    def reclaim_segments(self, task_id: str, attempt: int) -> None:
        """Remove the shared memory that a dead attempt made, if it left any."""
        if count := self.pool.reclaim_segments(task_id, attempt):
            emit("segments.reclaimed", task_id=task_id, attempt=attempt, segments=count)

    def _verify_gone(self, attempt: Attempt, outcome: Outcome, ended_at: datetime) -> None:
        """Write down the last steps of a stop wish: the body has stopped, nothing of it runs."""
        latency = self.clock.mono() - attempt.mark_heard_at
        self.metrics.observe("cancel_latency_seconds", latency)
        if outcome.state is State.SUCCESS:
            self.note(attempt, "cancel_too_late", f"too late, finished at {ended_at.isoformat()}")
            return
        stopped = {"reported": "the body left", "taken_back": "the body had not begun"}
        how = stopped.get(outcome.proof, "its process was ended")
        self.note(attempt, "cancel_stopped", how)
        gone = f"nothing of the attempt runs any more, {latency:.2f} s after the node heard"
        self.note(attempt, "cancel_verified", gone)
        emit("cancel.verified", **attempt.named, latency_s=round(latency, 3))

    def take_endings(self) -> list[Finish]:
        """Return what ended since the last time, as one request or none."""
        endings, self.endings = self.endings, []
        return [Finish(tuple(endings))] if endings else []


def _phase(attempt: Attempt, outcome: Outcome) -> str:
    """Return how far it had to go until the attempt ended."""
    if outcome.proof not in ("reported", "taken_back"):
        return "killed"
    return "interrupted" if attempt.acknowledged else "asked"


def _traced(slot: Slot, attempt: Attempt) -> Traced | None:
    if (place := attempt.traceparent) is None:
        return None
    return Traced(
        span=place,
        parent=attempt.claim.traceparent,
        claimed_at=attempt.claim.claimed_at,
        worker_id=slot.worker_id,
        pid=slot.pid,
        autopsy_id=attempt.autopsy_id,
    )


def _specs(children: tuple[str, ...]) -> tuple[ChildSpec, ...]:
    return tuple(ChildSpec(raw) for raw in children)
