"""A store with a frozen clock and short words for what a contract test does to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from supervisor.clock import SystemClock
from supervisor.model.outcome import Outcome, Settlement
from supervisor.model.record import Acted, Claim, Ending, NodeRecord, Owner, ProcessIdentity
from supervisor.model.retry import RetryPolicy
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State
from supervisor.store import Ledger, Reader, Store
from supervisor.store.schema import metadata, store_facts

START = datetime(2026, 5, 20, 10, 30, tzinfo=UTC)
POLICY = RetryPolicy(max_retries=2, base_s=10, max_s=3600, max_crashes=3)
NODE = "node_a"

#: from, to, operator, reason, note
Step = tuple[str | None, str | None, str, str, str | None]


@dataclass
class Scene:
    """One store; `now` moves only when a test says so."""

    store: Store
    now: datetime = START
    ledger: Ledger = field(init=False)
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.store, SystemClock())
        self.reader = Reader(self.store)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def submit(self, type: str = "greet", **fields: Any) -> str:
        with self.ledger.transaction() as tx:
            return tx.submit([TaskSpec(type=type, **fields)], self.now)[0].task_id

    def claim(
        self,
        count: int = 1,
        *,
        node_id: str = NODE,
        queues: list[str] | None = None,
        types: frozenset[str] = frozenset({"greet", "part"}),
        only: frozenset[str] | None = None,
        tips: Sequence[str] = (),
        scan: bool = True,
    ) -> list[Claim]:
        owners = [Owner(f"worker_{index}", 100 + index, 5000) for index in range(count)]
        with self.ledger.transaction() as tx:
            return tx.claim(
                owners,
                node_id=node_id,
                queues=queues,
                types=types,
                only=only,
                tips=tips,
                scan=scan,
                now=self.now,
            )

    def running(self, **fields: Any) -> Claim:
        """Submit a task and claim it, alone."""
        task_id = self.submit(**fields)
        (claim,) = self.claim()
        assert claim.task_id == task_id
        return claim

    def finish(
        self,
        claim: Claim,
        outcome: Outcome,
        *,
        chance: float = 0.0,
        policy: RetryPolicy = POLICY,
        **fields: Any,
    ) -> Settlement | None:
        ending = Ending(
            task_id=claim.task_id,
            attempt=claim.attempt,
            outcome=outcome,
            policy=policy,
            ended_at=self.now,
            **fields,
        )
        with self.ledger.transaction() as tx:
            return tx.finish([ending], chance=lambda: chance)[0]

    def cancel(self, *ids: str) -> list[Acted]:
        with self.ledger.transaction() as tx:
            return tx.cancel(ids, by="anna", reason="not needed", now=self.now)

    def fail(self, *ids: str) -> list[Acted]:
        with self.ledger.transaction() as tx:
            return tx.fail(ids, by="anna", reason="stuck", now=self.now)

    def rerun(self, *ids: str) -> list[Acted]:
        with self.ledger.transaction() as tx:
            return tx.rerun(ids, by="anna", reason="fixed", now=self.now)

    def register(self, node_id: str = NODE) -> NodeRecord:
        record = NodeRecord(
            node_id=node_id,
            node_name="host-1",
            process=ProcessIdentity(pid=7, start_ticks=70, boot_id="boot", pid_ns=4026531836),
            version="0.1.0",
            listen="127.0.0.1:9464",
            started_at=self.now,
        )
        with self.ledger.transaction() as tx:
            tx.register_node(record)
        return record

    def state(self, task_id: str) -> State:
        view = self.reader.task(task_id)
        assert view is not None
        return view.state

    def trail(self, task_id: str) -> list[Step]:
        return [
            (line.from_state, line.to_state, line.operator, line.reason, line.note)
            for line in self.reader.history(task_id)
        ]

    def rows(self, table: sa.Table, *columns: str) -> list[tuple[Any, ...]]:
        """Return these columns of every row, in the order of the primary key."""
        query = sa.select(*(table.c[name] for name in columns)).order_by(*table.primary_key)
        with self.store.reading() as connection:
            return [tuple(row) for row in connection.execute(query)]


def emptied(store: Store) -> Store:
    """Take every row out of a database that tests share; facts of the store as a whole stay."""
    names = ", ".join(table.name for table in metadata.sorted_tables if table is not store_facts)
    with store.writing() as session:
        session._run(f"TRUNCATE {names} RESTART IDENTITY", [])
    return store
