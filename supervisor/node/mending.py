"""What is put right in the background: marks to deliver, tasks of dead nodes, strangers, counts.

Secret kept here: the rhythm of these rounds, and how a death is proven. An attempt of another node
is ended only with proof: its process is gone (pid and start time), its boot is over, or, where
neither can be seen from here, the store's lock is ours and a safety interval has passed.
"""

from __future__ import annotations

from datetime import datetime

from supervisor.model import outcome as ended
from supervisor.model.record import Ending, NodeRecord, ProcessIdentity
from supervisor.node import port
from supervisor.node.floor import Floor
from supervisor.store.record import Orphan
from supervisor.telemetry.events import emit
from supervisor.worker.presence import Place, is_gone, lives

MARKS_EVERY_S = 1.0
STRANGERS_EVERY_S = 1.0
COUNTS_EVERY_S = 5.0
PUBLISH_EVERY_S = 1.0
PUBLISH_LIMIT = 1000
PRUNE_EVERY_S = 3600.0
#: A worker of a dead node is gone within moments: look again soon, not at the next round.
UNPROVEN_AGAIN_S = 0.2
#: A type that nobody here runs is named again after this long, then after twice as long each time.
UNROUTED_AGAIN_S, UNROUTED_MOST_S = 60.0, 3600.0


class Mending:
    """Rounds of maintenance, each at its own pace."""

    def __init__(self, floor: Floor, own: ProcessIdentity) -> None:
        self._floor = floor
        self._own = own
        self._began = floor.clock.mono()
        self._last: dict[str, float] = {}
        self.unrouted: frozenset[str] = frozenset()
        #: Type → when it may be named again, and the pause after that.
        self._named_unrouted: dict[str, tuple[float, float]] = {}

    def hurry_marks(self) -> None:
        """Somebody says that there is a stop wish."""
        self._last.pop("marks", None)

    def mend(self, now: float) -> None:
        """Do the rounds that are due."""
        floor = self._floor
        if self._is_due("marks", MARKS_EVERY_S, now):
            floor.scribe.ask(port.ReadMarks())
        if self._is_due("strangers", STRANGERS_EVERY_S, now):
            floor.metrics.set("unreaped", floor.pool.sweep_strangers())
        if floor.types and self._is_due("orphans", floor.settings.sweep_interval, now):
            floor.scribe.ask(port.ReadOrphans())  # their retry rules come with the types
        if self._is_due("publish", PUBLISH_EVERY_S, now) and not floor.store_away:
            floor.scribe.ask(port.Publish(PUBLISH_LIMIT))
        if self._is_due("prune", PRUNE_EVERY_S, now):
            floor.pool.prune_bundles()
        if self._is_due("counts", COUNTS_EVERY_S, now):
            floor.scribe.ask(port.ReadCounts())

    def _is_due(self, what: str, every_s: float, now: float) -> bool:
        if now - self._last.get(what, float("-inf")) < every_s:
            return False
        self._last[what] = now
        return True

    def counts(self, read: port.CountsRead) -> None:
        """Show the store's numbers."""
        floor = self._floor
        floor.know_queues(read.by_queue)
        for queue in floor.queues:  # one that has no live task any more is shown as empty
            due, later, running = read.by_queue.get(queue, (0, 0, 0))
            floor.metrics.set("in_queue", due, queue=queue)
            floor.metrics.set("scheduled", later, queue=queue)
            floor.metrics.set("running", running, queue=queue)
        if floor.types:  # before the app is up, every type is unknown
            wanted = frozenset(name for name, due in read.due_by_type.items() if due)
            self.unrouted = wanted - floor.types.keys()
            self._name_unrouted(floor.clock.mono())

    def _name_unrouted(self, now: float) -> None:
        """Name the types of due tasks that this node does not know, ever more rarely."""
        named = self._named_unrouted
        for name in sorted(self.unrouted):
            at, pause = named.get(name, (now, UNROUTED_AGAIN_S))
            if now >= at:
                emit("task.unrouted", type=name)
                named[name] = now + pause, min(2 * pause, UNROUTED_MOST_S)
        for name in [n for n, (at, _) in named.items() if now >= at + UNROUTED_MOST_S]:
            del named[name]  # long not seen

    def sweep(self, orphans: tuple[Orphan, ...], now: float) -> None:
        """End the attempts of other nodes whose death is proven."""
        floor = self._floor
        unproven = 0
        for orphan in orphans:
            proof = self._proof(orphan, now)
            if proof is None:
                unproven += 1
                self._last["orphans"] = now - floor.settings.sweep_interval + UNPROVEN_AGAIN_S
                continue
            detail = f"node {orphan.node_id}, worker pid {orphan.pid}"
            options = floor.options.get(orphan.type)
            limits = floor.settings.for_task(
                orphan.type, orphan.queue, options, max_retries=orphan.max_retries
            )
            floor.endings.append(
                Ending(
                    task_id=orphan.task_id,
                    attempt=orphan.attempt,
                    outcome=ended.node_lost(proof, f"{detail}: {proof}"),
                    policy=limits.policy,
                    started_at=_at_most(orphan.started_at, floor.clock.now()),
                    ended_at=floor.clock.now(),
                    type=orphan.type,
                )
            )
            floor.reclaim_segments(orphan.task_id, orphan.attempt)
            emit(
                "task.swept",
                task_id=orphan.task_id, attempt=orphan.attempt, type=orphan.type, proof=proof,
            )  # fmt: skip

        floor.metrics.set("zombies", unproven, kind="lost")

    def _proof(self, orphan: Orphan, now: float) -> str | None:
        """Say how we know that the attempt is over, None if we do not."""
        node = orphan.node
        if node is None or node.process.pid_ns != self._own.pid_ns:
            waited = now - self._began >= self._floor.settings.requeue_safety
            return "the store's lock is ours and the safety interval is over" if waited else None
        if node.process.boot_id != self._own.boot_id:
            return "the host has been restarted since"
        if lives(node.process.pid, node.process.start_ticks):
            return None  # it does run, without the lock: only a person can say why
        if lives(orphan.pid, orphan.start_ticks):
            return None  # its worker is still dying: the next round will see
        return "its worker and its node are gone (pid and start time)"


def _at_most(moment: datetime | None, now: datetime) -> datetime | None:
    """Return a moment of a former node; the clock may have been set back since."""
    return None if moment is None else min(moment, now)


def dead_nodes(nodes: list[NodeRecord], own: ProcessIdentity) -> frozenset[str]:
    """Return the ids of former nodes of this host and boot whose process is gone."""
    here = Place(own.boot_id, own.pid_ns)
    return frozenset(node.node_id for node in nodes if is_gone(node.process, here))
