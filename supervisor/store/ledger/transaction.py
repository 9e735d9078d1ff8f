"""The ledger's door: open a transaction, call verbs on it, leave it committed or rolled back."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

import sqlalchemy as sa

from supervisor.clock import Clock
from supervisor.errors import StoreBusy
from supervisor.model.order import Order
from supervisor.model.outcome import Settlement
from supervisor.model.record import (
    Acted,
    Claim,
    Due,
    Ending,
    Mark,
    NodeRecord,
    Owner,
    Seen,
    Started,
    Submitted,
)
from supervisor.model.spec import TaskSpec
from supervisor.model.trace import Trace
from supervisor.store.engine import Store
from supervisor.store.ledger import (
    claim,
    clock,
    due,
    finish,
    intervene,
    lease,
    node,
    retire,
    submit,
)
from supervisor.store.ledger.access import Access
from supervisor.store.ledger.alerts import Alerts
from supervisor.store.ledger.audit import SUPERVISOR, write_note
from supervisor.store.ledger.bulk import Bulk
from supervisor.store.ledger.due import Outlook
from supervisor.store.ledger.intervene import Act
from supervisor.store.ledger.orders import Orders, open_orders
from supervisor.store.ledger.resubmit import resubmit
from supervisor.store.ledger.vitals import Vitals
from supervisor.store.record import AutopsyRecord, Orphan, Retired, WorkerRecord
from supervisor.store.session import Session

#: A transaction that others stood in the way of is tried so often, after a pause of so long.
TRIES, AGAIN_AFTER_S = 8, (0.001, 0.02)

T = TypeVar("T")


class Look:
    """Questions a node asks between its writes; they need no turn as a writer."""

    __slots__ = ("_now", "_session")

    def __init__(self, session: Session, now: Callable[[], datetime]) -> None:
        self._session = session
        self._now = now

    def marks(self, node_id: str) -> list[Mark]:
        """Return the stop marks on RUNNING attempts of this node."""
        return node.marks(self._session, node_id)

    def open_orders(self, node_id: str) -> list[Order]:
        """Return what this node was asked and has not answered, oldest first."""
        return open_orders(self._session, node_id)

    def orphans(self, node_id: str) -> list[Orphan]:
        """Return the RUNNING attempts of every other node, oldest claim first."""
        return node.orphans(self._session, node_id, self._now())

    def owned(self, node_id: str) -> list[Orphan]:
        """Return the RUNNING attempts of this node as the store has them, oldest claim first."""
        return node.owned(self._session, node_id, self._now())

    def unended_nodes(self) -> list[NodeRecord]:
        """Return the nodes whose end nobody has written down, oldest first."""
        return node.unended_nodes(self._session)

    def outlook(
        self, queues: Sequence[str] | None, types: Collection[str], *, levels: bool = True
    ) -> Callable[[], Outlook]:
        """Ask what waits and what is paused; the answer is to be had even when all is over.

        Without `levels` it does not say when the next is due.
        """
        return due.outlook(self._session, queues, types, levels=levels)


class Transaction(Look):
    """The verbs, within one open transaction. Not to be used after its end."""

    __slots__ = ()

    def submit(
        self, specs: Sequence[TaskSpec], now: datetime, new_ids: Sequence[str] = ()
    ) -> list[Submitted]:
        """Write tasks and answer for each in order; a held dedup key answers its task.

        `new_ids` were just made by the caller, one for each spec. Raises: Refused when a task_id
        exists with other content; nothing of the batch is written.
        """
        return submit.submit(self._session, specs, now, new_ids)

    def claim(
        self,
        owners: Sequence[Owner],
        *,
        node_id: str,
        queues: Sequence[str] | None,
        types: Collection[str],
        only: Collection[str] | None = None,
        free: int = 0,
        tips: Sequence[str] = (),
        scan: bool = True,
        trace: Trace | None = None,
        now: datetime,
    ) -> list[Claim]:
        """Give each owner at most one due task: highest priority first, then longest due.

        With `only`, the first due task of another of `types` ends the list: none overtakes it, but
        the first `free` owners take any. `tips` are ids that the bell named; with `scan` the whole
        table is looked through.
        """
        return claim.claim(
            self._session,
            owners,
            node_id=node_id,
            queues=queues,
            types=types,
            only=only,
            free=free,
            tips=tips,
            scan=scan,
            trace=trace,
            now=now,
        )

    def started(self, starts: Sequence[Started]) -> None:
        """Note that these attempts run their first line, under these limits."""
        claim.started(self._session, starts)

    def finish(
        self,
        endings: Sequence[Ending],
        *,
        operator: str = SUPERVISOR,
        chance: Callable[[], float] = random.random,
        now: datetime | None = None,
    ) -> list[Settlement | None]:
        """End attempts and say what became of each task; None where the fence refused it.

        `now` is when the states change; without it, when each attempt ended.
        """
        return finish.finish(self._session, endings, operator=operator, chance=chance, now=now)

    def checkpoint(self, task_id: str, attempt: int, value_json: str, now: datetime) -> bool:
        """Keep an attempt's latest checkpoint; False when it is no longer the running one."""
        return node.checkpoint(self._session, task_id, attempt, value_json, now)

    def cancel(
        self,
        ids: Sequence[str],
        *,
        by: str,
        reason: str,
        now: datetime,
        seen: Seen | None = None,
    ) -> list[Acted]:
        """Cancel PENDING tasks at once, mark RUNNING ones to be stopped; answer for each in order.

        Raises: Refused when operator or reason is blank.
        """
        return intervene.cancel(self._session, ids, Act(by, reason, now, seen))

    def fail(
        self,
        ids: Sequence[str],
        *,
        by: str,
        reason: str,
        now: datetime,
        seen: Seen | None = None,
    ) -> list[Acted]:
        """Mark RUNNING tasks to be stopped and to end FAILED; answer for each in order.

        Raises: Refused when operator or reason is blank.
        """
        return intervene.fail(self._session, ids, Act(by, reason, now, seen))

    def rerun(
        self,
        ids: Sequence[str],
        *,
        by: str,
        reason: str,
        now: datetime,
        seen: Seen | None = None,
    ) -> list[Acted]:
        """Put FAILED and TIMEOUT tasks back to PENDING, counts at 0; answer for each in order.

        Raises: Refused when operator or reason is blank.
        """
        return intervene.rerun(self._session, ids, Act(by, reason, now, seen))

    def resubmit(
        self, task_id: str, *, by: str, reason: str, now: datetime, copy_id: str | None = None
    ) -> Submitted:
        """Submit a copy of a task that is due at once; `copy_id` names it, if it is given.

        Raises: Refused when operator or reason is blank or another task has that id; UnknownTask.
        """
        return resubmit(self._session, task_id, Act(by, reason, now), copy_id)

    def pause(
        self, queue: str, priority: int | None, *, by: str, reason: str, now: datetime
    ) -> bool:
        """Stop claims from a queue or one priority of it; False when it was paused already.

        Raises: Refused when operator or reason is blank, or the priority is not from 0 to 9.
        """
        return intervene.pause(self._session, queue, priority, Act(by, reason, now))

    def resume(
        self,
        queue: str,
        priority: int | None,
        *,
        by: str,
        reason: str,
        now: datetime,
        seen_at: datetime | None = None,
    ) -> bool:
        """Let claims go on; False when it was not paused.

        Raises: Refused when operator or reason is blank, the priority is not from 0 to 9, or the
        pause is not the one that began at `seen_at`.
        """
        return intervene.resume(self._session, queue, priority, Act(by, reason, now), seen_at)

    def register_node(self, record: NodeRecord, lease_s: float | None = None) -> None:
        """Write down that this node runs; with `lease_s`, for how long without another word."""
        node.register_node(self._session, record, lease_s)

    def renew(self, node_id: str, lease_s: float, skew_s: float) -> bool:
        """Renew a node's lease; False when it was over or somebody wrote down the node's end."""
        return lease.renew(self._session, node_id, lease_s, skew_s)

    def revive(self, node_id: str, lease_s: float, skew_s: float) -> bool:
        """Give a node a new lease, after all that ran on it has ended; False if it is unknown."""
        return lease.revive(self._session, node_id, lease_s, skew_s)

    def lead(self, role: str, node_id: str, lease_s: float) -> int | None:
        """Take or keep a role; return the term, or None while another node holds it."""
        return lease.lead(self._session, role, node_id, lease_s)

    def lapsed_nodes(self) -> list[str]:
        """Return the nodes whose lease is over and whose end nobody has written; they stay so."""
        return lease.lapsed_nodes(self._session)

    def end_node(self, node_id: str, now: datetime, note: str) -> None:
        """Write down that a node has ended; its first end stands."""
        node.end_node(self._session, node_id, now, note)

    def record_types(
        self,
        types: Mapping[str, str | None],
        node_id: str,
        now: datetime,
        secrets: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Write down which types a node knows, each with the queue it names (None: none).

        `secrets` are the names of their params that nobody may be shown.
        """
        node.record_types(self._session, types, node_id, now, secrets or {})

    def record_workers(self, records: Sequence[WorkerRecord]) -> None:
        """Write down workers as they are now; the latest record of each stands."""
        node.record_workers(self._session, records)

    def record_autopsy(self, record: AutopsyRecord) -> None:
        """Write down a bundle; a later record of the same id replaces it."""
        node.record_autopsy(self._session, record)

    @property
    def access(self) -> Access:
        """The verbs about who may sign in at the pages."""
        return Access(self._session)

    @property
    def alerts(self) -> Alerts:
        """The verbs about what Alertmanager tells."""
        return Alerts(self._session)

    @property
    def bulk(self) -> Bulk:
        """The verbs about acts on many tasks."""
        return Bulk(self._session)

    @property
    def orders(self) -> Orders:
        """The verbs about what nodes are asked."""
        return Orders(self._session)

    @property
    def vitals(self) -> Vitals:
        """The verbs about what nodes see of themselves."""
        return Vitals(self._session)

    def note(
        self,
        task_id: str | None,
        attempt: int | None,
        *,
        reason: str,
        text: str,
        now: datetime,
        operator: str = SUPERVISOR,
    ) -> None:
        """Add a note to the audit trail; it moves nothing."""
        write_note(
            self._session,
            now,
            task_id=task_id,
            attempt=attempt,
            operator=operator,
            reason=reason,
            text=text,
        )

    def clock_set(self, step_s: float, now: datetime) -> int:
        """Write down a step of the wall clock; return how many tasks are due again after it."""
        return clock.clock_set(self._session, step_s, now)

    def mind_clock(self, now: datetime) -> int:
        """Do the same if the clock was set back while no node ran."""
        return clock.mind_clock(self._session, now)

    def publish(self, limit: int, before: datetime) -> list[Due]:
        """Take up to `limit` events of before that off the outbox; return whose task waits still.

        The newest come first.
        """
        return node.publish(self._session, limit, before)

    def forget(self, copies: Sequence[Retired]) -> list[str]:
        """Delete ended tasks that a cold file holds; return the ids of those unchanged since."""
        return retire.forget(self._session, copies)

    def forget_audit(self, audit_ids: Sequence[int]) -> None:
        """Delete audit rows that a cold file holds."""
        retire.forget_audit(self._session, audit_ids)


def _pass() -> None:
    """Tell nobody."""


class Ledger:
    """The sole writer of the store. Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self.store = store
        self.clock = clock or store.clock

    def run(self, act: Callable[[Transaction], T], *, conflicted: Callable[[], None] = _pass) -> T:
        """Do it in a transaction of its own, anew when another one got in its way.

        `act` may be called several times; what it returned last was committed. `conflicted` is
        told each time it was in vain. Raises: StoreUnavailable.
        """
        for left in reversed(range(TRIES)):
            try:
                with self.transaction() as transaction:
                    return act(transaction)
            except StoreBusy:
                conflicted()
                if not left:
                    raise
            self.clock.sleep(random.uniform(*AGAIN_AFTER_S))
        raise AssertionError("the last try either returned or raised")

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open one write transaction: committed at the end, rolled back on any error.

        Raises: StoreUnavailable.
        """
        with self.store.writing() as session:
            yield Transaction(session, self.clock.now)

    @contextmanager
    def looking(self) -> Iterator[Look]:
        """Open one read transaction for a node's questions: it waits for no writer.

        Raises: StoreUnavailable.
        """
        with self.store.looking() as session:
            yield Look(session, self.clock.now)

    def joined(self, connection: sa.Connection) -> Transaction:
        """Return the verbs over the caller's own connection: commit and rollback stay theirs.

        Raises: Refused when it is in autocommit or open on another database; StoreUnavailable
        when another writer holds the lock for longer than that connection waits.
        """
        return Transaction(self.store.join(connection), self.clock.now)
