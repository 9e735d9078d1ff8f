"""Workers that follow a script, behind the same port as the real ones; no process is touched."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.model.crash import ExitStatus
from supervisor.model.health import Host, Signs
from supervisor.node import port
from supervisor.node.floor import NS_PER_S
from supervisor.settings import Settings
from supervisor.testing.clock import ManualClock
from supervisor.worker import wire
from supervisor.worker.vitals import Reading

_SIGKILLED, _SIGTERMED = ExitStatus(signal.SIGKILL), ExitStatus(signal.SIGTERM)


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
        self.knocks: list[float] = []

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
            self._exit(puppet, ExitStatus(signal.SIGSEGV))
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
        self._exit(puppet, ExitStatus(code=0))

    def _exit(self, puppet: _Puppet, status: ExitStatus) -> None:
        last = self._reading(puppet)
        del self._puppets[puppet.worker_id]
        self._events.append(port.Exited(puppet.worker_id, status, last, 0))

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

    def capture(
        self, worker_id: str, facts: port.Facts, budget_s: float, *, remains: bool = False
    ) -> None:
        self.calls.append(("capture", str(facts.values["verdict"])))
        captured = port.Captured(
            worker_id, facts, f"{facts.values['name']}.zip", "complete", [], 300.0, 1000
        )
        self._captures.append((self._clock.mono() + self.capture_s, captured))

    def knock(self, worker_id: str) -> None:
        self.knocks.append(self._clock.mono())

    def terminate(self, worker_id: str) -> None:
        self.calls.append(("terminate", worker_id))
        if (puppet := self._puppets.get(worker_id)) is not None:
            self._exit(puppet, _SIGTERMED)

    def kill_tree(self, worker_id: str) -> int:
        self.calls.append(("kill", worker_id))
        if (puppet := self._puppets.get(worker_id)) is not None:
            self._exit(puppet, _SIGKILLED)
        return 0

    def output_tail(self, worker_id: str, start: int, end: int | None) -> str:
        return ""

    def prune_bundles(self) -> None:
        """Scripted captures leave no file."""

    def trim(self, worker_id: str) -> None:
        """Scripted workers print nothing."""

    def forget(self, worker_id: str) -> None:
        self._puppets.pop(worker_id, None)

    def reclaim_segments(self, task_id: str, attempt: int) -> int:
        return 0  # scripted workers make none

    def reconfigure(self, settings: Settings) -> None:
        """Scripts stay as they are."""

    def shift(self, gap_s: float) -> None:
        self._captures = [(at + gap_s, captured) for at, captured in self._captures]

    def sweep_strangers(self) -> port.Strays:
        return port.Strays()
