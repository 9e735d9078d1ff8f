"""What the scribe answers from the store without changing what tasks are: marks, orders, counts.

Secret kept here: which questions need a look and which a turn as a writer (who leads is written
down), and that only the leader of a shared store is shown what lost nodes ran. Called by the scribe
alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from supervisor.clock import Clock
from supervisor.errors import StoreBusy, StoreUnavailable
from supervisor.node import port
from supervisor.node.probe import own_usage
from supervisor.store import Ledger, Reader
from supervisor.store.ledger import Transaction
from supervisor.telemetry.events import emit

#: The role of the node that ends what lost nodes ran.
SWEEPER = "sweeper"

#: Old vital signs are removed once in so many that are written: once a minute.
REMOVE_EVERY = 12

Question = (
    port.ReadMarks
    | port.ReadOrders
    | port.VitalsNote
    | port.ReadCounts
    | port.ReadOrphans
    | port.ReadOwn
)


class Answering:
    """Answers one node's questions."""

    def __init__(self, ledger: Ledger, node_id: str, clock: Clock) -> None:
        self._ledger = ledger
        self._reader = Reader(ledger.store)
        self._node_id = node_id
        self._clock = clock
        self._shown = 0

    def answer(self, questions: Sequence[port.Request]) -> list[port.Reply]:
        """Answer each question among these once, however often it was asked.

        Where others stay in its way the store is not away: it is asked again in its next round.
        """
        replies = []
        for question in dict.fromkeys(q for q in questions if isinstance(q, Question)):
            with suppress(StoreBusy):
                replies.append(self._answer(question))
        return [reply for reply in replies if reply is not None]

    def _answer(self, question: Question) -> port.Reply | None:
        match question:
            case port.VitalsNote():
                self._try_to_show(question)
                return None
            case port.ReadOrders():
                with self._ledger.looking() as look:
                    return port.OrdersRead(tuple(look.open_orders(self._node_id)))
            case port.ReadMarks():
                with self._ledger.looking() as look:
                    return port.MarksRead(tuple(look.marks(self._node_id)))
            case port.ReadOrphans(lead_s=None):
                with self._ledger.looking() as look:
                    return port.OrphansRead(tuple(look.orphans(self._node_id)))
            case port.ReadOrphans(lead_s=lead_s):
                return self._ledger.run(lambda tx: self._lead(tx, lead_s or 0.0))
            case port.ReadOwn():
                with self._ledger.looking() as look:
                    owned = look.owned(self._node_id)
                return port.OwnRead(frozenset((one.task_id, one.attempt) for one in owned))
            case port.ReadCounts():
                return self._counts()

    def _try_to_show(self, note: port.VitalsNote) -> None:
        """Write vital signs; what is wrong with them alone is told, and stops nothing else."""
        try:
            self._show(note)
        except StoreUnavailable:
            raise
        except Exception as exc:
            emit("loop.failed", step="vitals", error=repr(exc))

    def _show(self, note: port.VitalsNote) -> None:
        """Write what is to be seen of the node, with what only this process can know of itself."""
        cpu_s, rss_bytes = own_usage()
        node = {"cpu_s": round(cpu_s, 2), "rss": rss_bytes, **note.document["node"]}
        document = json.dumps({**note.document, "node": node}, separators=(",", ":"))
        self._shown += 1
        now, removes = self._clock.now(), self._shown % REMOVE_EVERY == 1

        def write(tx: Transaction) -> None:
            tx.vitals.write(self._node_id, now, document)
            if removes:
                tx.vitals.remove_old(now)

        self._ledger.run(write)

    def _lead(self, tx: Transaction, lead_s: float) -> port.OrphansRead:
        """Read the orphans if we lead; end the lapsed nodes of which nothing runs any more."""
        term = tx.lead(SWEEPER, self._node_id, lead_s)
        if term is None:
            return port.OrphansRead(())
        orphans = tuple(tx.orphans(self._node_id))
        busy = {orphan.node_id for orphan in orphans} | {self._node_id}
        for node_id in tx.lapsed_nodes():
            if node_id not in busy:
                tx.end_node(node_id, self._clock.now(), "its lease is over and nothing of it runs")
        return port.OrphansRead(orphans, term)

    def _counts(self) -> port.CountsRead:
        now = self._clock.now()
        return port.CountsRead(
            by_queue={
                b.name: (b.in_queue, b.scheduled, b.running)
                for b in self._reader.backlog_by_queue(now)
            },
            due_by_type={b.name: b.in_queue for b in self._reader.backlog_by_type(now)},
        )
