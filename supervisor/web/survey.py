"""What the pages know of the nodes beyond their rows: their last readings, added up.

Invariants: a reading that is too old says nothing of now, and what nobody has said is told as not
said, never as none. The sums are those of the metrics: zombies by kind, workers alive by wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from supervisor.store import Reader
from supervisor.store.vitals import VitalsBook, VitalsView
from supervisor.words.roll import SAID, Roll

#: Over how long workers are counted for survival, as the alert does.
SURVIVAL, TELLS = timedelta(minutes=5), timedelta(minutes=1)
#: Kinds of zombies that only nodes know.
KINDS = ("stalled", "heartbeat_lost", "orphan")


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


def survey(reader: Reader, roll: Roll, now: datetime) -> Survey:
    """Ask what the nodes that run have said last."""
    book = VitalsBook(reader.store)
    names = {node.node_id: node.node_name for node in roll.running}
    latest = {
        node_id: view for node_id, view in book.latest_of(names).items() if now - view.at <= SAID
    }
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
        if (one := _survival(names[node_id], book.since(node_id, now - SURVIVAL))) is not None
    ]
    return Survey(
        readings=latest,
        silent=len(names) - said,
        zombies=dict(zombies) if said else {},
        survival=min(kept, key=lambda one: one.share, default=None),
    )


def _survival(name: str, views: list[VitalsView]) -> Survival | None:
    """Return the mean of workers alive by those wanted, where any were wanted."""
    told = [(view.at, share) for view in views if (share := _alive(view.node)) is not None]
    if not told:
        return None
    mean = sum(share for _, share in told) / len(told)
    return Survival(name, mean, told[-1][0] - told[0][0] >= TELLS)


def _alive(node: Mapping[str, Any]) -> float | None:
    """Return how many are alive of those wanted; a node that starts has had none yet."""
    alive, wanted = node.get("workers_alive"), node.get("workers_desired")
    if alive is None or not wanted or node.get("stage") == "starting":
        return None
    return float(alive / wanted)
