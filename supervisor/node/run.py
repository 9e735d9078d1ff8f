"""`supervisor run`: one node from start to exit.

Secret kept here: the order of starting and stopping. A node takes the lock of a store that is a
file, ends what dead nodes left on this host, takes its lease of a store that is shared, and only
then claims. On the way out workers go first, then the scribe writes the last endings.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor import __version__
from supervisor.clock import Clock, SystemClock
from supervisor.errors import (
    BootFailed,
    ConfigError,
    QueueUnavailable,
    StoreUnavailable,
    SupervisorError,
)
from supervisor.model import lease
from supervisor.model.record import NodeRecord, ProcessIdentity
from supervisor.node import port, process
from supervisor.node.arbiter import Arbiter
from supervisor.node.ear import Ear
from supervisor.node.endpoint import Endpoint
from supervisor.node.floor import Floor
from supervisor.node.mending import dead_nodes
from supervisor.node.pool import ProcessPool
from supervisor.node.reporting import SILENT_AFTER_S, Health
from supervisor.node.scraping import Scraping
from supervisor.node.scratch import ScratchRoot
from supervisor.node.scribe import LONGEST_RETRY_S, StoreScribe
from supervisor.queue import Listener, open_bell, open_listener
from supervisor.settings import Settings
from supervisor.store import Ledger, Store, open_store
from supervisor.store.ledger import Transaction
from supervisor.telemetry.events import emit
from supervisor.telemetry.metrics import Metrics
from supervisor.telemetry.trace import open_node_traces

#: Turns under load are at least this far apart, so that messages gather into larger batches.
TURN_GAP_S = 0.001
#: Threads hand over this often: the scribe must not wait 5 ms for the loop's turn to end.
SWITCH_S = 0.0005
#: How long the last endings may take to be written at the end.
LAST_WRITE_S = 10.0
WATCHDOG_EVERY_S = 1.0
#: What a node has been built on: a change of these needs a restart.
FIXED = ("store", "queue", "node_name", "lease", "metrics_listen")
#: The last two are only noted: unheard they would end the node, and others send them in error.
HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def run_node(app: str, read: Callable[[Mapping[str, object]], Settings]) -> int:
    """Run a node until it is told to stop; return the exit code.

    `read` reads all sources of settings over those that the app itself names; it is called again
    at SIGHUP. Raises: ConfigError, StoreUnavailable, BootFailed, each with its remedy.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nothing to read anew before we have started
    overrides = process.describe_app(app)
    with ExitStack() as stack:
        return Node(app, read(overrides), lambda: read(overrides), stack).run()


@dataclass(slots=True)
class _Reloader:
    """Reads the settings anew at SIGHUP; broken ones are refused and the old ones stay."""

    read: Callable[[], Settings]
    floor: Floor
    arbiter: Arbiter | None = None

    def __call__(self) -> None:
        try:
            new = self.read()
        except ConfigError as exc:
            emit("settings.refused", error=str(exc))
            self.floor.metrics.set("config_last_reload_successful", 0)
            return
        old = self.floor.settings
        kept = [name for name in _changed(old, new) if name in FIXED]
        if kept:
            new = replace(new, **{name: getattr(old, name) for name in kept})
            emit("settings.postponed", names=kept)
        self.floor.settings = new
        self.floor.pool.reconfigure(new)
        show_reload(self.floor)
        emit("settings.reloaded", changed=_changed(old, new))
        if self.arbiter is not None:
            self.arbiter.staffing.show_limits()
            self.arbiter.staffing.reload()


def show_reload(floor: Floor) -> None:
    """Show that settings have come into force."""
    floor.metrics.set("config_last_reload_successful", 1)
    now = floor.clock.now().timestamp()
    floor.metrics.set("config_last_reload_success_timestamp_seconds", now)


class Node:
    """Everything one node consists of, put together."""

    def __init__(
        self, app: str, settings: Settings, reload: Callable[[], Settings], stack: ExitStack
    ) -> None:
        process.become_reaper()
        process.raise_descriptor_limit()
        process.share_arenas()
        sys.setswitchinterval(SWITCH_S)
        self._store = open_store(settings.store, create=True, clock=SystemClock())
        self._clock: Clock = self._store.clock
        self._store_hangs = False
        stack.callback(self._close_store)
        if self._store.path is not None:
            lock = process.StoreLock(Path(f"{self._store.path.resolve()}.lock"))
            stack.callback(lock.release)
        own = process.own_identity()
        self.node_id = f"{settings.node_name}-{secrets.token_hex(4)}"
        self._metrics = Metrics(version=__version__, queues=settings.queues)
        self._ear = Ear()
        stack.callback(self._ear.close)
        self._scratch = ScratchRoot()
        stack.callback(self._scratch.remove, [self.node_id])
        own_scratch = self._scratch.of(self.node_id)
        pool = ProcessPool(app, self.node_id, settings, self._clock, self._ear, own_scratch)
        stack.callback(pool.close)
        self._traces = open_node_traces(self.node_id, self._count_lost_traces)
        if self._traces is not None:
            stack.callback(self._traces.close)
        self._scribe = self._make_scribe(settings, stack)
        floor = Floor(self.node_id, settings, self._clock, pool, self._scribe, self._metrics)
        self._floor = floor
        floor.traces = self._traces
        if self._store.is_shared:
            floor.lease, floor.vouch = _plan(settings), pool.vouch
        floor.listener = self._listen_to_bell(settings, stack)
        reloader = _Reloader(reload, floor)
        self._arbiter = reloader.arbiter = Arbiter(floor, own, app, reloader)
        board = self._arbiter.board
        Scraping(self._store, self.node_id, self._metrics, self._clock, board)
        show_reload(floor)
        self._metrics.set("start_time_seconds", self._clock.now().timestamp())
        self._endpoint = Endpoint(settings.metrics_listen, self._metrics, self._health)
        stack.callback(self._endpoint.close)
        self._record = NodeRecord(
            node_id=self.node_id,
            node_name=settings.node_name,
            process=own,
            version=__version__,
            listen=self._endpoint.address,
            started_at=self._clock.now(),
        )

    def run(self) -> int:
        """Turn until told to stop and nothing is left."""
        began = self._clock.mono()
        self._ear.catch(*HEARD)
        self._take_over(self._store)
        self._scribe.start()
        self._arbiter.staffing.boot()
        settings = self._floor.settings
        emit(
            "node.started",
            node_id=self.node_id, node_name=settings.node_name, pid=os.getpid(),
            store=self._store.name, workers=settings.workers,
        )  # fmt: skip
        self._turn_until_done()
        written = self._finish()
        emit(
            "node.stopped",
            duration_s=round(self._clock.mono() - began, 1), left_behind=int(not written),
        )  # fmt: skip
        return self._exit_code(written=written)

    def _turn_until_done(self) -> None:
        clock, arbiter, ear = self._clock, self._arbiter, self._ear
        told_ready, watched_at = False, clock.mono()
        while not arbiter.done:
            began = clock.mono()
            pause = arbiter.turn(began)
            spent = clock.mono() - began
            ear.wait(pause)
            if clock.mono() - began < TURN_GAP_S and self._is_loaded():
                clock.sleep(TURN_GAP_S - spent if spent < TURN_GAP_S else 0)
            if not told_ready and not arbiter.health.not_ready:
                told_ready = True
                notify("READY=1")
            if began - watched_at > WATCHDOG_EVERY_S:
                watched_at = began
                notify("WATCHDOG=1")

    def _is_loaded(self) -> bool:
        return any(len(slot.attempts) > 1 for slot in self._floor.slots.values())

    def _make_scribe(self, settings: Settings, stack: ExitStack) -> StoreScribe:
        store, bell, retry_s = self._store, None, LONGEST_RETRY_S
        if store.is_shared:
            bell = stack.enter_context(open_bell(settings.queue, settings.store, store.identity))
            retry_s = min(retry_s, _plan(settings).renew_every_s)
        trace = None if self._traces is None else self._traces.span_of
        return StoreScribe(
            store, self.node_id, self._clock, self._metrics, self._ear.wake, bell, retry_s, trace
        )

    def _count_lost_traces(self) -> None:
        self._metrics.inc("otel_export_failures_total", signal="traces")

    def _listen_to_bell(self, settings: Settings, stack: ExitStack) -> Listener | None:
        identity = self._store.identity
        try:
            bell = stack.enter_context(open_listener(settings.queue, settings.store, identity))
        except QueueUnavailable as exc:
            emit("bell.refused", error=str(exc))  # the poll finds the work, a little later
            return None
        self._ear.listen(bell.fileno(), lambda: self._arbiter.ring(bell.heard()))
        return bell

    def _health(self) -> Health:
        return self._arbiter.health

    def _take_over(self, store: Store) -> None:
        """End what dead nodes left on this host, and register.

        Of a file the lock says that all former nodes are dead; of a store that is shared others
        than those seen dead here are left to their leases.
        """
        ledger = Ledger(store, self._clock)
        with ledger.looking() as look:
            former, running = look.unended_nodes(), look.orphans(self.node_id)
        own = self._record.process
        dead = dead_nodes(former, own)
        leaders = {lost.pid: lost.start_ticks for lost in running if lost.node_id in dead}
        killed = process.end_marked(dead, leaders)
        if killed:
            emit("orphan.killed", pid=killed, task_id="of former nodes")
            self._metrics.inc("zombies_detected_total", killed, kind="orphan")
        self._scratch.remove(dead)
        over = dead
        if not store.is_shared:
            over = frozenset(node.node_id for node in former if _is_over(node, dead, own))
        ledger.run(lambda tx: self._register(tx, over))
        if store.is_shared:
            self._arbiter.inherit([lost for lost in running if lost.node_id in dead])
        if (plan := self._floor.lease) is not None:
            self._floor.vouch(self._floor.renewed_at + plan.kill_after_s)

    def _register(self, tx: Transaction, over: frozenset[str]) -> None:
        self._floor.renewed_at = self._clock.boot()  # the lease counts from `started_at`
        now, plan = self._clock.now(), self._floor.lease
        if plan is None:
            tx.mind_clock(now)
        for node_id in sorted(over):
            tx.end_node(node_id, now, f"found dead by {self.node_id}")
        record = replace(self._record, started_at=now)  # what was to be ended before took its time
        tx.register_node(record, None if plan is None else plan.lease_s)

    def _finish(self) -> bool:
        notify("STOPPING=1")
        floor = self._floor
        why = floor.stopping.why if floor.stopping else floor.fatal
        last = [] if floor.rescued or floor.store_away else [port.NodeEnded(why or "ended")]
        self._scribe.ask(*floor.take_endings(), *last)
        written = self._scribe.stop(LAST_WRITE_S)
        self._arbiter.hear_out()
        self._store_hangs = self._scribe.waited_s() > SILENT_AFTER_S
        if floor.rescued:  # once more: what ended since then was written to the lost file
            written = written and self._rescue_again(Path(floor.rescued))
        return written

    def _close_store(self) -> None:
        if not self._store_hangs:  # else a thread is in a call that holds the connection
            self._store.close()

    def _rescue_again(self, target: Path) -> bool:
        try:
            self._store.rescue(target).replace(target)
        except (StoreUnavailable, OSError) as exc:
            emit("store.lost", error=f"{target} lacks the last endings: {exc}")
            return False
        return True

    def _exit_code(self, *, written: bool) -> int:
        floor = self._floor
        if not floor.fatal and not written:
            raise StoreUnavailable(
                f"stopped with {self._scribe.unwritten()} requests unwritten: "
                f"{floor.store_away or 'the store did not answer in time'}",
                remedy="Bring the store back and start a node: it ends those attempts (node_lost).",
            )
        if not floor.fatal:
            return 0
        if floor.booted_generation == 0:
            raise BootFailed(floor.fatal, remedy=floor.remedy)
        raise SupervisorError(floor.fatal, remedy=floor.remedy)


def _plan(settings: Settings) -> lease.LeasePlan:
    return lease.plan(settings.lease, settings.cancel_grace, settings.autopsy_budget)


def _is_over(node: NodeRecord, dead: frozenset[str], own: ProcessIdentity) -> bool:
    """Whether a former node cannot be running: gone here, or not of this boot and namespace."""
    here = (node.process.boot_id, node.process.pid_ns) == (own.boot_id, own.pid_ns)
    return node.node_id in dead if here else True


def notify(state: str) -> None:
    """Tell systemd about us, if it asked to be told. Source: sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        try:
            sock.connect(address)
            sock.send(state.encode())
        except OSError as exc:
            emit("loop.failed", step="notify", error=str(exc))


def _changed(old: Settings, new: Settings) -> list[str]:
    names = [name for name in old.__slots__ if not name.startswith("_")]
    return [name for name in names if getattr(old, name) != getattr(new, name)]
