"""What is counted of the whole store for all viewers together, for pages and API alike.

Invariants: each count tells its moment; what is dear to count is counted beside, and shown with its
age meanwhile. The definitions are those of the metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from supervisor.model.states import State
from supervisor.store import Reader
from supervisor.store.levels import QueueLevel
from supervisor.store.numbers import Ended, Numbers
from supervisor.store.trend import Hour
from supervisor.web.visit import Visit
from supervisor.web.watch import watch
from supervisor.words.roll import Roll, roll_call

#: How old what all viewers share may be at least: what is dear to count rests longer.
FRESH_S, DEAR_FRESH_S = 1.0, 5.0


@dataclass(frozen=True, slots=True)
class Live:
    """What lives in the store, and the nodes. `lost` are the RUNNING attempts without a node."""

    at: datetime
    levels: tuple[QueueLevel, ...]
    roll: Roll
    lost: int


@dataclass(frozen=True, slots=True)
class Endings:
    """What ended in the ten minutes before: of all types, then each; None when it is too much."""

    at: datetime
    by_type: tuple[Ended, ...] | None


@dataclass(frozen=True, slots=True)
class States:
    """How many tasks there are in each state."""

    at: datetime
    by_state: Mapping[State, int]


def live(visit: Visit) -> Live:
    """Count what waits and runs. Raises: StoreUnavailable, as all here."""
    return visit.see("live", FRESH_S, _live)


def states(visit: Visit) -> tuple[States, float]:
    """Count all tasks by state; return their age in seconds too."""
    return visit.see_dear("states", DEAR_FRESH_S, _states)


def endings(visit: Visit) -> tuple[Endings, float]:
    """Count what ended lately; return their age in seconds too."""
    return visit.see_dear("endings", DEAR_FRESH_S, _endings)


def hour(visit: Visit) -> tuple[Hour, float]:
    """Count the last hour by the minute; return its age in seconds too."""
    seen = watch()
    return visit.see_dear("hour", DEAR_FRESH_S, lambda one: seen.hour(one.store.clock.now()))


def _live(reader: Reader) -> Live:
    now, numbers, roll = reader.store.clock.now(), Numbers(reader.store), roll_call(reader)
    return Live(now, numbers.levels(now), roll, numbers.lost(now, dead=roll.gone))


def _states(reader: Reader) -> States:
    now = reader.store.clock.now()
    return States(now, reader.by_state())


def _endings(reader: Reader) -> Endings:
    now = reader.store.clock.now()
    return Endings(now, Numbers(reader.store).ended(now))
