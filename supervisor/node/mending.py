"""What is put right in the background: marks to deliver, tasks of dead nodes, strangers, counts.

Secret kept here: the rhythm of these rounds, and how a death is proven. An attempt of another node
is ended only with proof: its process is gone (pid and start time). Where that cannot be seen from
here: on a store of one node, its boot is over, or the store's lock is ours and a safety interval
has passed; on a store that nodes share, its node's lease is over by the store's own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from supervisor.model import outcome as ended
from supervisor.model.record import Ending, NodeRecord, ProcessIdentity, Traced
from supervisor.model.retry import RetryPolicy
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
#: What runs on this node by the store is compared with what does this often, on a shared store.
OWN_EVERY_S = 15.0
LEASE = "lease"
#: A type that nobody here runs is named again after this long, then after twice as long each time.
UNROUTED_AGAIN_S, UNROUTED_MOST_S = 60.0, 3600.0


class Mending:
    """Rounds of maintenance, each at its own pace."""

    def __init__(self, floor: Floor, own: ProcessIdentity) -> None:
        self._floor = floor
        self._own = own
        self._began = floor.clock.mono()
        self._last: dict[str, float] = {}
        self._inherited: Sequence[Orphan] = ()
        #: Nodes that run something and that the store does not know → since when we see that.
        self._nameless: dict[str, float] = {}
        self._term: int | None = None
        self._unknown: frozenset[tuple[str, int]] = frozenset()
        self.unrouted: frozenset[str] = frozenset()
        #: Type → when it may be named again, and the pause after that.
        self._named_unrouted: dict[str, tuple[float, float]] = {}

    def hurry_marks(self) -> None:
        """Somebody says that there is a stop wish, or an order for a node."""
        self._last.pop("marks", None)

    def hurry_own(self) -> None:
        """The store was away: an answer to a claim may have been lost with it."""
        self._last.pop("own", None)

    def mend(self, now: float) -> None:
        """Do the rounds that are due."""
        floor = self._floor
        lease_s = floor.lease.lease_s if floor.lease is not None else None
        if self._is_due("marks", MARKS_EVERY_S, now):
            floor.scribe.ask(port.ReadMarks(), port.ReadOrders())
        if self._is_due("strangers", STRANGERS_EVERY_S, now):
            floor.sweep_strays()
        if floor.types and self._is_due("orphans", floor.settings.sweep_interval, now):
            floor.scribe.ask(port.ReadOrphans(lease_s))  # their retry rules come with the types
        if self._inherited and floor.types and self._is_due("inherited", UNPROVEN_AGAIN_S, now):
            self._inherited = self._end_proven(self._inherited, now)
        if lease_s is not None and self._is_due("own", OWN_EVERY_S, now):
            floor.scribe.ask(*floor.take_endings(), port.ReadOwn())
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

    def hear(self, read: port.OrphansRead | port.OwnRead | port.CountsRead, now: float) -> None:
        """The store has answered what a round asked."""
        match read:
            case port.OrphansRead():
                self._sweep(read, now)
            case port.OwnRead():
                self._own_running(read, now)
            case port.CountsRead():
                self.counts(read)

    def counts(self, read: port.CountsRead) -> None:
        """Take in the store's numbers: the queues there are, and types that nobody here runs."""
        floor = self._floor
        floor.know_queues(read.by_queue)
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

    def _own_running(self, read: port.OwnRead, now: float) -> None:
        """Give back what was claimed for us and of which we never heard.

        What has just ended here may still read RUNNING: only what is unknown twice is given back,
        since its ending was handed in before the second question.
        """
        floor = self._floor
        known = {(one.claim.task_id, one.claim.attempt) for _, one in floor.attempts()}
        unknown = read.running - known
        for task_id, attempt in sorted(unknown & self._unknown):
            lost = ended.never_started("the answer to its claim was lost")
            floor.endings.append(
                Ending(
                    task_id=task_id,
                    attempt=attempt,
                    outcome=lost,
                    policy=RetryPolicy(),
                    ended_at=floor.clock.now(),
                )
            )
            emit("claim.lost", task_id=task_id, attempt=attempt)
        self._unknown = unknown - self._unknown
        if self._unknown:
            self._last["own"] = now - OWN_EVERY_S + UNPROVEN_AGAIN_S

    def _sweep(self, read: port.OrphansRead, now: float) -> None:
        """End the attempts of other nodes whose death is proven."""
        floor = self._floor
        if floor.fenced:
            return
        self._mind_term(read.term)
        unproven = self._end_proven(read.orphans, now)
        if unproven:
            self._last["orphans"] = now - floor.settings.sweep_interval + UNPROVEN_AGAIN_S

    def inherit(self, orphans: Sequence[Orphan]) -> None:
        """Take on what dead nodes of this host ran: it is proven here, whoever leads elsewhere."""
        self._inherited = orphans

    def _end_proven(self, orphans: Sequence[Orphan], now: float) -> list[Orphan]:
        """End those whose death is proven; return those that are lost and not proven dead yet."""
        unproven = []
        for orphan in orphans:
            proof = self._proof(orphan, now)
            if proof is not None:
                self._end(orphan, proof)
            elif self._floor.lease is None or self._is_dead_here(orphan):
                unproven.append(orphan)
        return unproven

    def _end(self, orphan: Orphan, proof: str) -> None:
        floor = self._floor
        detail = f"node {orphan.node_id}, worker pid {orphan.pid}: {proof}"
        lost = ended.node_lost(proof, detail)
        if proof.startswith(LEASE):
            lost = ended.node_lost(proof, detail, "the node that ran it did not renew its lease")
        options = floor.options.get(orphan.type)
        limits = floor.settings.for_task(
            orphan.type, orphan.queue, options, max_retries=orphan.max_retries
        )
        at = floor.clock.now()  # once: of one that began in an hour to come both are the same
        floor.endings.append(
            Ending(
                task_id=orphan.task_id,
                attempt=orphan.attempt,
                outcome=lost,
                policy=self._policy(limits.policy, proof),
                started_at=_at_most(orphan.started_at, at),
                ended_at=at,
                type=orphan.type,
                queue=orphan.queue,
                traced=_traced(orphan),
                timeout=limits.timeout,
            )
        )
        floor.reclaim_segments(orphan.task_id, orphan.attempt)

    def _mind_term(self, term: int | None) -> None:
        """Show who sweeps: a term that is new is ours from now on."""
        if self._floor.lease is None:
            return
        self._floor.metrics.set("sweeper_leading", float(term is not None))
        if term is not None and term != self._term:
            emit("sweeper.elected", term=term)
        self._term = term

    def _policy(self, policy: RetryPolicy, proof: str) -> RetryPolicy:
        """Return when it may run again: a death that is only inferred leaves a doubt for a while.

        A node that is cut off has ended its workers by itself before its lease was over, unless it
        stood still as a whole.
        """
        if not proof.startswith(LEASE):
            return policy
        return replace(policy, least_s=self._floor.settings.requeue_safety)

    def _proof(self, orphan: Orphan, now: float) -> str | None:
        """Say how we know that the attempt is over, None if we do not."""
        if self._floor.lease is not None:
            return self._proof_on_shared(orphan, self._floor.lease.lease_s, now)
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

    def _is_dead_here(self, orphan: Orphan) -> bool:
        """Whether its node ran on this host and is seen to be gone."""
        here, node = Place(self._own.boot_id, self._own.pid_ns), orphan.node
        return node is not None and is_gone(node.process, here)

    def _proof_on_shared(self, orphan: Orphan, lease_s: float, now: float) -> str | None:
        if self._is_dead_here(orphan):
            if lives(orphan.pid, orphan.start_ticks):
                return None  # its worker is still dying: the next round will see
            return "its worker and its node are gone (pid and start time)"
        if orphan.node is None:  # its row went with a database that was replaced
            seen_s = now - self._nameless.setdefault(orphan.node_id, now)
            return f"{LEASE}: its node has none for {seen_s:.1f} s" if seen_s > lease_s else None
        over_s = orphan.lease_over_s  # less is a lease that holds
        if over_s is None or over_s <= 0 or self._is_just_back(now):
            return None
        return f"{LEASE}: that of its node ended {over_s:.1f} s ago by the store's clock"

    def _is_just_back(self, now: float) -> bool:
        """Whether the store was away for us too: others are coming back with what they ended."""
        lease = self._floor.lease
        return lease is not None and now - self._floor.returned_at < lease.renew_every_s


def _traced(orphan: Orphan) -> Traced | None:
    if (place := orphan.span or orphan.traceparent) is None:
        return None
    return Traced(
        span=place,
        parent=orphan.traceparent,
        claimed_at=orphan.claimed_at,
        worker_id=orphan.worker_id,
        pid=orphan.pid,
    )


def _at_most(moment: datetime | None, now: datetime) -> datetime | None:
    """Return a moment of a former node; the clock may have been set back since."""
    return None if moment is None else min(moment, now)


def dead_nodes(nodes: list[NodeRecord], own: ProcessIdentity) -> frozenset[str]:
    """Return the ids of former nodes of this host and boot whose process is gone."""
    here = Place(own.boot_id, own.pid_ns)
    return frozenset(node.node_id for node in nodes if is_gone(node.process, here))
