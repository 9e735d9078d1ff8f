"""An act on all tasks of a query: one object that is carried out step by step and can be stopped.

Invariants: the query is frozen when the act begins (it names the moment until which its tasks were
submitted, and had come to the state in which they are meant), each task is answered on its own, and
what is counted was written with it. Pure values; the ledger writes them, a web process carries them
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from supervisor.model.query import Query, QueryError, Term, parse
from supervisor.model.states import State


class BulkVerb(StrEnum):
    """What may be done to all tasks of a query (a closed set)."""

    CANCEL = "cancel"
    FAIL = "fail"
    RERUN = "rerun"


#: In which states a verb means something: tasks in others are not gone through.
MEANT_FOR: Mapping[BulkVerb, tuple[State, ...]] = MappingProxyType(
    {
        BulkVerb.CANCEL: (State.PENDING, State.RUNNING),
        BulkVerb.FAIL: (State.RUNNING,),
        BulkVerb.RERUN: (State.FAILED, State.TIMEOUT),
    }
)

#: Since when a task is in its state, for verbs that are meant for few states.
_SINCE: Mapping[BulkVerb, str] = MappingProxyType(
    {BulkVerb.FAIL: "claimed", BulkVerb.RERUN: "ended"}
)

#: The answer to a task that had left the query when its turn came.
CHANGED = "changed meanwhile"


@dataclass(frozen=True, slots=True)
class Example:
    """A task that an act did nothing to, and why."""

    task_id: str
    answer: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAct:
    """One act on many; over when it has `ended_at`, and then stopped by `ended_by` if that is set.

    Its query is read as at `as_of`, when a page had said what that is. `total` is how many tasks
    there were when they were counted, None until then: `counted` are so far, down to the id
    `counted_to`. `answers` counts each answer. `next_id` is the last id that it has gone through.
    """

    bulk_id: str
    verb: str
    query: str
    operator: str
    reason: str
    created_at: datetime
    as_of: datetime
    counted: int = 0
    counted_to: str | None = None
    total: int | None = None
    done: int = 0
    refused: int = 0
    answers: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    next_id: str | None = None
    holder: str | None = None
    held_until: datetime | None = None
    ended_at: datetime | None = None
    ended_by: str | None = None

    @property
    def is_known(self) -> bool:
        """False for an act of a later version: only who knows its verb and query carries it out."""
        try:
            parse(self.query)
        except QueryError:
            return False
        return self.verb in tuple(BulkVerb)

    @property
    def gone_through(self) -> int:
        """How many tasks have had their turn."""
        return self.done + self.refused

    @property
    def left_first(self) -> int:
        """How many had left the query before their turn, once it has come to its end."""
        is_through = self.ended_at is not None and self.ended_by is None
        return max(0, (self.total or 0) - self.gone_through) if is_through else 0

    @property
    def share(self) -> float | None:
        """How much of it is done, from 0 to 1; None until its tasks are counted."""
        if self.total is None:
            return None
        gone = self.gone_through + self.left_first
        return min(1.0, gone / self.total) if self.total else 1.0


def frozen(query: Query, verb: BulkVerb, until: datetime) -> Query:
    """Return the query of those tasks that the verb is meant for and that there were by then."""
    by_then = (f"<={until.isoformat().removesuffix('+00:00')}Z",)
    bounds = [Term("state", tuple(map(str, MEANT_FOR[verb]))), Term("submitted", by_then)]
    if verb in _SINCE:
        bounds.append(Term(_SINCE[verb], by_then))
    return (*query, *(term for term in bounds if term not in query))
