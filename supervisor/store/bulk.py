"""Acts on many tasks as people begin and follow them, and as a web process carries them out.

Invariants: tasks are looked for without a transaction that writes, and acted on in one that looks
again; the bell rings after its commit. The client offers it to the pages, the API and the carrier.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from supervisor.errors import Refused
from supervisor.model.bulk import BulkAct, BulkVerb, frozen
from supervisor.model.query import parse, render
from supervisor.store.engine import Store
from supervisor.store.ledger import Ledger
from supervisor.store.ledger.bulk import Hold, bulk_act
from supervisor.store.schema import bulk_acts
from supervisor.store.search import find_page
from supervisor.store.view import TaskFilter

#: Tasks of one step, and how many of them are found at once when they are counted.
STEP, COUNTED_AT_ONCE = 200, 20_000
#: How long a step keeps others away; whoever goes on after a crash waits so long.
HOLD_S = 5.0
ROWS_MAX = 100


class BulkDesk:
    """Begins, follows and carries out acts on many; `ring` says of what kind of act there is one.

    Safe to share between threads.
    """

    def __init__(self, store: Store, ring: Callable[[BulkVerb], None]) -> None:
        self._store = store
        self._ledger = Ledger(store)
        self._ring = ring

    # --- people -------------------------------------------------------------------------------

    def begin(
        self, verb: str, query: str, *, by: str, reason: str, seen_at: datetime | None = None
    ) -> BulkAct:
        """Begin an act on all tasks of a query that there were at `seen_at` (None: now).

        Somebody has to carry it out: every web process does. Raises: QueryError, Refused.
        """
        if verb not in tuple(BulkVerb):
            raise Refused(f"no act is called {verb!r}", remedy=f"One of {', '.join(BulkVerb)}.")
        now = self._ledger.clock.now()
        kind = BulkVerb(verb)
        as_of = min(seen_at or now, now).astimezone(UTC)
        text = render(frozen(parse(query), kind, as_of))
        parse(text)  # one that cannot be read again could never be carried out
        return self._ledger.run(
            lambda tx: tx.bulk.begin(kind, text, by=by, reason=reason, now=now, as_of=as_of)
        )

    def stop(self, bulk_id: str, *, by: str, reason: str) -> bool:
        """End an act before its end; what is done stays done. False when it is over already."""
        now = self._ledger.clock.now()
        return self._ledger.run(lambda tx: tx.bulk.stop(bulk_id, by=by, reason=reason, now=now))

    def get(self, bulk_id: str) -> BulkAct | None:
        """Return one act; None if there is none of this id."""
        return next(
            iter(self._read(sa.select(bulk_acts).where(bulk_acts.c.bulk_id == bulk_id))), None
        )

    def latest(self, limit: int = ROWS_MAX) -> list[BulkAct]:
        """Return the acts that were begun last, newest first."""
        newest = sa.select(bulk_acts).order_by(bulk_acts.c.created_at.desc())
        return self._read(newest.limit(limit))

    # --- who carries them out -----------------------------------------------------------------

    def open(self) -> list[BulkAct]:
        """Return the acts that are not over, oldest first, but for those of a later version."""
        query = sa.select(bulk_acts).where(
            sa.text("ended_at IS NULL"), bulk_acts.c.verb.in_(list(BulkVerb))
        )
        found = self._read(query.order_by(bulk_acts.c.created_at).limit(ROWS_MAX))
        return [act for act in found if act.is_known]

    def hold(self, act: BulkAct, holder: str) -> BulkAct | None:
        """Take or keep an act; None when it has moved or is another's."""
        hold = self._hold(holder)
        return self._ledger.run(lambda tx: tx.bulk.hold(act, hold))

    def step(self, act: BulkAct, holder: str) -> BulkAct | None:
        """Count the next tasks of an act, or once all are counted act on the next.

        None when it has moved or is another's.
        """
        if act.total is None:
            ids, next_id = self._find(act, act.counted_to, COUNTED_AT_ONCE)
            hold = self._hold(holder)
            return self._ledger.run(lambda tx: tx.bulk.count(act, hold, len(ids), next_id))
        ids, next_id = self._find(act, act.next_id, STEP)
        hold = self._hold(holder)
        moved = self._ledger.run(lambda tx: tx.bulk.step(act, hold, ids, next_id))
        if moved is not None and moved.done > act.done:
            self._ring(BulkVerb(act.verb))
        return moved

    def release(self, holder: str) -> None:
        """Hold nothing any more, so that another one goes on at once."""
        self._ledger.run(lambda tx: tx.bulk.release(holder))

    def _hold(self, holder: str) -> Hold:
        now = self._ledger.clock.now()
        return Hold(holder, now, now + timedelta(seconds=HOLD_S))

    def _find(self, act: BulkAct, from_id: str | None, limit: int) -> tuple[list[str], str | None]:
        """Return the next ids of an act's query, and from where it goes on."""
        wanted = TaskFilter(terms=parse(act.query), before_id=from_id)
        with self._store.reading() as connection:
            found = find_page(connection, wanted, act.as_of, limit)
        return found.ids, found.next_id

    def _read(self, query: sa.Select[tuple[object, ...]]) -> list[BulkAct]:
        with self._store.reading() as connection:
            return [bulk_act(row, lambda moment: moment) for row in connection.execute(query)]
