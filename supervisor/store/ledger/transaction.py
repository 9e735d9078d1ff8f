"""The ledger's door: open a transaction, call verbs on it, leave it committed or rolled back."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from supervisor.clock import Clock
from supervisor.model.outcome import Settlement
from supervisor.model.record import Claim, Ending, Owner, Started, Submitted
from supervisor.model.spec import TaskSpec
from supervisor.store.engine import Store
from supervisor.store.ledger import claim, finish, submit
from supervisor.store.ledger.audit import SUPERVISOR
from supervisor.store.session import Session


class Transaction:
    """The verbs, within one open transaction. Not to be used after its end."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def submit(self, specs: Sequence[TaskSpec], now: datetime) -> list[Submitted]:
        """Write tasks and answer for each in order; a held dedup key answers its task.

        Raises: Refused when a task_id exists with other content; nothing of the batch is written.
        """
        return submit.submit(self._session, specs, now)

    def claim(
        self,
        owners: Sequence[Owner],
        *,
        node_id: str,
        queues: Sequence[str] | None,
        types: Collection[str],
        now: datetime,
    ) -> list[Claim]:
        """Give each owner at most one due task: highest priority first, then longest due."""
        return claim.claim(
            self._session, owners, node_id=node_id, queues=queues, types=types, now=now
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
    ) -> list[Settlement | None]:
        """End attempts and say what became of each task; None where the fence refused it."""
        return finish.finish(self._session, endings, operator=operator, chance=chance)


class Ledger:
    """The sole writer of the store. Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open one write transaction: committed at the end, rolled back on any error.

        Raises: StoreUnavailable.
        """
        with self.store.writing() as session:
            yield Transaction(session)
