"""The real pool: workers and autopsies of one node, behind the port the arbiter knows.

Secret kept here: which process is which worker, and which child's exit is whose. Everything is
non-blocking; what is heard is queued as events in the order it happened. Main thread only.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autopsy.signals import INTERRUPT
from supervisor.clock import Clock
from supervisor.errors import WireBroken
from supervisor.model.crash import is_native
from supervisor.model.health import Host, Signs
from supervisor.node import port, probe, process
from supervisor.node.capture import Captures, Patient
from supervisor.node.ear import Ear
from supervisor.node.lifeline import Lifeline
from supervisor.node.nursery import Nursery
from supervisor.settings import Settings
from supervisor.telemetry.events import emit
from supervisor.worker import segments, tree, wire
from supervisor.worker.vitals import Reading

#: A worker that has not said Ready by then is given up.
BIRTH_S = 10.0


@dataclass(slots=True)
class _Worker:
    """One worker process and what ties it to us; `killed` once we have sent it SIGKILL."""

    worker_id: str
    asked_at: float
    line: Lifeline
    temp_dir: Path
    pid: int = 0
    born: int | None = None
    pidfd: int = -1
    ready: bool = False
    garbled: str = ""
    killed: bool = False


class ProcessPool:
    """Workers as operating system processes; `node.port.Pool` says what each verb means."""

    def __init__(
        self, app: str, node_id: str, settings: Settings, clock: Clock, ear: Ear, temp_root: Path
    ) -> None:
        self._node_id = node_id
        self._settings = settings
        self._clock = clock
        self._ear = ear
        self._temp_root = temp_root
        self._events: deque[port.PoolEvent] = deque()
        self._workers: dict[str, _Worker] = {}
        self._tools = process.Tools()
        self._watchdog: process.Watchdog | None = None
        self._buffer = bytearray(wire.READ_BYTES)
        self._nursery = Nursery(
            app, node_id, settings, clock, ear, self._tools, parent=self, tell=self._events.append
        )
        self._captures = Captures(
            Path(settings.autopsy_dir),
            clock,
            ear,
            self._events.append,
            databases=settings.autopsy_databases,
            end_statements=settings.end_statements,
            memory_snapshot_bytes=settings.memory_snapshot_bytes,
        )
        self._host = probe.HostWatch(clock)
        self._strays: set[int] = set()

    def vouch(self, until_boot: float) -> None:
        """Let workers run until then (CLOCK_BOOTTIME) even if we stand still, and no longer."""
        if self._watchdog is None:
            self._watchdog = process.Watchdog(self._node_id)
        self._watchdog.vouch(until_boot, self._nursery.pids())

    def boot(self, generation: int) -> None:
        self._nursery.boot(generation)
        self._spare_zygotes()

    def _spare_zygotes(self) -> None:
        if self._watchdog is not None:
            self._watchdog.spare(self._nursery.pids())

    def birth(self, worker_id: str, generation: int) -> None:
        self._nursery.want(worker_id, generation)

    def expect(self, worker_id: str) -> tuple[wire.WorkerConfig, Lifeline]:
        """Make ready what a worker is born with. Raises: OSError when too little is left for it."""
        process.require_descriptors(len(self._workers))
        settings = self._settings
        line = Lifeline(settings.log_records, settings.log_tail_bytes, settings.stack_window)
        temp_dir = self._temp_root / worker_id
        worker = _Worker(worker_id, self._clock.mono(), line, temp_dir)
        self._workers[worker_id] = worker
        return self._config(worker), line

    def _config(self, worker: _Worker) -> wire.WorkerConfig:
        return wire.WorkerConfig(
            worker_id=worker.worker_id,
            node_id=self._node_id,
            supervisor_pid=os.getpid(),
            beat_period_s=min(1.0, self._settings.heartbeat_interval / 3),
            temp_dir=str(worker.temp_dir),
            recycle_after_tasks=self._settings.recycle_after_tasks,
            recycle_growth_bytes=self._settings.recycle_growth_bytes,
            recycle_growth_fds=self._settings.recycle_growth_fds,
            recycle_growth_threads=self._settings.recycle_growth_threads,
        )

    def adopt(self, worker_id: str, pid: int) -> None:
        """Take in a worker that was born; one that was given up meanwhile is a stranger."""
        worker = self._workers.get(worker_id)
        if worker is None:
            return
        worker.pid = pid
        worker.born = tree.start_ticks(pid)
        self._spare_zygotes()  # an exec'ed worker was one of them until now
        self._events.append(port.Born(worker_id, pid))
        worker.pidfd = os.pidfd_open(pid)
        self._ear.listen(worker.line.control.fileno(), lambda: self._hear_worker(worker))
        self._ear.listen(worker.pidfd, lambda: self._collect(worker))

    def mourn(self, worker_id: str, why: str) -> None:
        """Forget a worker that will not be born."""
        worker = self._workers.pop(worker_id, None)
        if worker is not None:
            worker.line.close()
            self._events.append(port.BirthFailed(worker_id, why))

    def events(self) -> list[port.PoolEvent]:
        self._captures.turn()
        self._overdue_births()
        self._nursery.turn()
        for number in self._ear.signals:
            self._events.append(port.Signal(signal.Signals(number).name))
        self._ear.signals.clear()
        heard = list(self._events)
        self._events.clear()
        return heard

    def _hear_worker(self, worker: _Worker) -> None:
        try:
            for message in worker.line.hear(self._buffer):
                if isinstance(message, wire.Ready):
                    worker.ready = True
                self._events.append(port.Said(worker.worker_id, message))
        except EOFError:
            self._ear.forget(worker.line.control.fileno())
        except WireBroken as exc:
            worker.garbled = f"the node ended it, since it sent an {exc}"
            emit("worker.garbled", worker_id=worker.worker_id, pid=worker.pid, error=str(exc))
            self.kill_tree(worker.worker_id)

    def _collect(self, worker: _Worker) -> None:
        death = process.reap(worker.pid)
        if death is None:
            return
        with suppress(EOFError, WireBroken):  # its last words may still be in the socket
            while messages := list(worker.line.hear(self._buffer)):
                self._events += [port.Said(worker.worker_id, message) for message in messages]
        self._ear.forget(worker.pidfd)
        os.close(worker.pidfd)
        worker.pidfd = -1
        self._events.append(self._exit_of(worker, death))

    def _exit_of(self, worker: _Worker, death: process.Death) -> port.Exited:
        """Put together what is known of an end, while the worker's line is still open."""
        foreign = death.status.signal == signal.SIGKILL and not worker.killed
        return port.Exited(
            worker_id=worker.worker_id,
            status=death.status,
            last=worker.line.vitals.read(),
            max_rss_bytes=death.max_rss_bytes,
            garbled=worker.garbled,
            oom=self._host.explain_kill() if foreign else None,
            dump=worker.line.fatal_dump() if is_native(death.status) else "",
            spent=death.spent,
        )

    def _overdue_births(self) -> None:
        now = self._clock.mono()
        for worker in list(self._workers.values()):
            if not worker.ready and now - worker.asked_at > BIRTH_S:
                if worker.pid:
                    self.kill_tree(worker.worker_id)
                else:
                    self._nursery.give_up(worker.worker_id)
                    self.mourn(worker.worker_id, f"not born within {BIRTH_S:g} s")

    def send(self, worker_id: str, message: wire.FromNode) -> bool:
        worker = self._workers.get(worker_id)
        return worker is not None and worker.line.send(message)

    def assign(self, worker_id: str, assign: wire.Assign) -> bool:
        worker = self._workers.get(worker_id)
        return worker is not None and worker.line.assign(assign)

    def stop_after(self, worker_id: str) -> bool:
        worker = self._workers.get(worker_id)
        return worker is not None and worker.line.assign(wire.Stop())

    def take_back(self, worker_id: str) -> list[int]:
        worker = self._workers.get(worker_id)
        return worker.line.take_back() if worker is not None else []

    def look(self, worker_id: str) -> Reading | None:
        worker = self._workers.get(worker_id)
        return worker.line.vitals.read() if worker is not None else None

    def examine(self, worker_id: str, reading: Reading, now: float) -> Signs | None:
        worker = self._workers.get(worker_id)
        return probe.signs(worker.pid, reading, now) if worker is not None else None

    def host(self) -> Host:
        return self._host.look()

    def capture(
        self, worker_id: str, facts: port.Facts, budget_s: float, *, remains: bool = False
    ) -> None:
        worker = self._workers[worker_id]
        patient = Patient(worker_id, worker.pid, worker.born or 0, worker.line.keep())
        self._captures.start(patient, facts, budget_s, facts_only=remains)

    def prune_bundles(self) -> None:
        settings = self._settings
        if Path(settings.autopsy_dir).is_dir():
            command = process.autopsy_command(
                *("prune", settings.autopsy_dir),
                *("--keep-days", str(settings.autopsy_keep_days)),
                *("--keep-bytes", str(settings.autopsy_keep_bytes)),
            )
            self._tools.run(*command)

    def knock(self, worker_id: str) -> None:
        if (worker := self._workers.get(worker_id)) is not None:
            tree.send_signal(worker.pid, INTERRUPT, born=worker.born)

    def terminate(self, worker_id: str) -> None:
        if (worker := self._workers.get(worker_id)) is not None:
            process.terminate(worker.pid, worker.born)

    def kill_tree(self, worker_id: str) -> int:
        worker = self._workers.get(worker_id)
        if worker is None:
            return 0
        worker.killed = True
        return process.kill_worker_tree(worker.pid, worker.born)

    def output_tail(self, worker_id: str, start: int, end: int | None) -> str:
        worker = self._workers.get(worker_id)
        return worker.line.output_tail(start, end) if worker is not None else ""

    def trim(self, worker_id: str) -> None:
        if (worker := self._workers.get(worker_id)) is not None:
            worker.line.trim()

    def forget(self, worker_id: str) -> None:
        """Close what is left of a worker that was reaped, and remove its scratch space."""
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return
        self._ear.forget(worker.line.control.fileno())
        worker.line.close()
        if not process.remove_empty(worker.temp_dir):
            self._tools.run("rm", "-rf", "--", str(worker.temp_dir))

    def reclaim_segments(self, task_id: str, attempt: int) -> int:
        made = segments.made_by(segments.prefix_of(task_id, attempt))
        if made:  # giving back much memory takes a while: beside the loop
            self._tools.run("rm", "-f", "--", *map(str, made))
        return len(made)

    def reconfigure(self, settings: Settings) -> None:
        """Use new settings for what is born from here on."""
        self._settings = settings

    def shift(self, gap_s: float) -> None:
        for worker in self._workers.values():
            worker.asked_at += gap_s
        self._nursery.shift(gap_s)
        self._captures.shift(gap_s)

    def sweep_strangers(self) -> port.Strays:
        tools = self._tools.pids()
        if self._nursery.unborn():
            # One of the unknown children may be a newborn of ours: the next round.
            return self._strays_now(0)
        known = {worker.pid for worker in self._workers.values() if worker.pidfd >= 0}
        known |= self._nursery.pids() | self._captures.pids()
        known |= tools | (self._watchdog.pids() if self._watchdog else set())
        strangers = [pid for pid in tree.children(os.getpid()) if pid not in known]
        for pid in strangers:
            tree.kill_descendants(pid)
            tree.send_signal(pid, signal.SIGKILL)
        found = len(set(strangers) - self._strays)
        self._strays = {pid for pid in strangers if process.reap(pid) is None}
        return self._strays_now(found)

    def _strays_now(self, found: int) -> port.Strays:
        running = sum(map(tree.is_alive, self._strays))
        return port.Strays(found, running, process.count_unreaped())

    def close(self) -> None:
        """End what is left; called once the arbiter has let every worker go."""
        for worker_id in list(self._workers):
            self.kill_tree(worker_id)
            self.forget(worker_id)
        self._nursery.close()
        self._captures.close()
        if self._watchdog is not None:
            self._watchdog.close()
        self._tools.wait(2)
