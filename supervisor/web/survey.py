"""What the pages know of the nodes beyond their rows: their last readings, added up.

Invariants: a reading that is too old says nothing of now, and what nobody has said is told as not
said, never as none. The sums are those of the metrics: zombies by kind, workers alive by wanted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from supervisor.store import Store
from supervisor.store.vitals import VitalsBook, VitalsView
from supervisor.words.roll import SAID, Roll

#: Over how long workers are counted for survival, as the alert does.
SURVIVAL, TELLS = timedelta(minutes=5), timedelta(minutes=1)
#: Kinds of zombies that only nodes know.
KINDS = ("stalled", "heartbeat_lost", "orphan")


#: Workers alive by those wanted, by the time of the reading; None where none are wanted.
Shares = Mapping[datetime, float | None]


@dataclass(frozen=True, slots=True)
class Survival:
    """The node that kept the least of the workers it wanted: which, and how much of them.

    `tells` is whether it was asked for long enough to mean something, as the alert waits.
    """

    node_name: str
    share: float
    tells: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """The readings of the nodes that run, and how many of these nodes have none of now.

    `zombies` are by kind, empty when no node has said; `survival` is None when none has.
    """

    readings: Mapping[str, VitalsView]
    silent: int
    zombies: Mapping[str, int]
    survival: Survival | None


class Surveyor:
    """Asks what nodes have said; what it was told once it does not ask again.

    Safe to share between threads.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._store: Store | None = None
        self._asked_at: datetime | None = None
        self._shares: dict[str, Shares] = {}

    def survey(self, store: Store, roll: Roll, now: datetime) -> Survey:
        """Ask what the nodes that run have said last."""
        names = {node.node_id: node.node_name for node in roll.running}
        with self._turn:
            recent = self._ask(store, names, now)
            shares = dict(self._shares)
        latest = {node_id: recent[node_id][-1] for node_id in names if node_id in recent}
        zombies: Counter[str] = Counter()
        said = 0
        for view in latest.values():
            told: Mapping[str, int] | None = view.node.get("zombies")
            if told is not None:
                said += 1
                zombies.update({kind: int(told.get(kind, 0)) for kind in KINDS})
        kept = [
            one
            for node_id in latest
            if (one := _survival(names[node_id], shares[node_id])) is not None
        ]
        return Survey(
            readings=latest,
            silent=len(names) - said,
            zombies=dict(zombies) if said else {},
            survival=min(kept, key=lambda one: one.share, default=None),
        )

    def _ask(
        self, store: Store, node_ids: Iterable[str], now: datetime
    ) -> Mapping[str, Sequence[VitalsView]]:
        """Return the readings of now, and keep how many workers were alive by all of a while."""
        is_next = self._asked_at is not None and timedelta() <= now - self._asked_at <= SAID / 2
        if store is not self._store or not is_next:
            self._shares = {}  # what was said meanwhile it has not heard
        self._store, self._asked_at = store, now
        book = VitalsBook(store)
        recent = book.all_since(now - SAID)
        before, self._shares = self._shares, {}
        for node_id in node_ids:
            known = before.get(node_id)
            new = recent.get(node_id, ()) if known else book.since(node_id, now - SURVIVAL)
            shares = {**(known or {}), **{view.at: _alive(view.node) for view in new}}
            self._shares[node_id] = {at: one for at, one in shares.items() if at > now - SURVIVAL}
        return recent


def _survival(name: str, shares: Shares) -> Survival | None:
    """Return the mean of workers alive by those wanted, where any were wanted."""
    told = {at: share for at, share in shares.items() if share is not None}
    if not told:
        return None
    mean = sum(told.values()) / len(told)
    return Survival(name, mean, max(told) - min(told) >= TELLS)


def _alive(node: Mapping[str, Any]) -> float | None:
    """Return how many are alive of those wanted; a node that starts has had none yet."""
    alive, wanted = node.get("workers_alive"), node.get("workers_desired")
    if alive is None or not wanted or node.get("stage") == "starting":
        return None
    return float(alive / wanted)
