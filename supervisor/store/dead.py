"""Dead letters: tasks that ended FAILED or TIMEOUT for good, by what they have in common.

Invariants: one look reads a bounded number of the newest of each state, by the index of states, and
says from where older ones go on; what makes a group is what its query asks for, so that the query
finds all of the group and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from supervisor.model.query import Term, plain_pattern, render
from supervisor.model.states import State
from supervisor.store.criteria import ERROR_HEAD, pattern_of_head
from supervisor.store.engine import Store
from supervisor.store.schema import attempts, tasks
from supervisor.store.search import newest_of

#: Tasks of each state that one look reads: about 30 ms on SQLite.
WINDOW = 2_500
DEAD = (State.FAILED, State.TIMEOUT)
#: Type, reason, error type, pattern, quarantined.
_Key = tuple[str, str, str | None, str, bool]
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DeadTask:
    """One task, with the end of its latest attempt."""

    task_id: str
    type: str
    state: State
    reason: str
    ended_at: datetime | None
    quarantined: bool
    error_type: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Tasks of one type that ended alike; counts are of those looked at."""

    type: str
    reason: str
    error_type: str | None
    pattern: str
    quarantined: bool
    count: int
    last_hour: int
    last_day: int
    newest: DeadTask

    @property
    def query(self) -> str:
        """The query that finds all of it, also what was not looked at."""
        terms = [
            Term("state", tuple(map(str, DEAD))),
            Term("type", (plain_pattern(self.type),)),
            Term("reason", (self.reason,)),
            Term("quarantined", ("yes" if self.quarantined else "no",)),
            Term("error", ("*",), negated=True)
            if self.error_type is None
            else Term("error", (plain_pattern(self.error_type),)),
            Term("pattern", (self.pattern,)),
        ]
        return render(terms)


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Groups, the largest first; `next_id` is the `before_id` of older ones, None at the end."""

    groups: tuple[DeadGroup, ...]
    looked: int
    next_id: str | None


class DeadBook:
    """The dead letters of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def look(self, now: datetime, before_id: str | None = None) -> DeadPage:
        """Group the newest dead letters, or those before one."""
        with self._store.reading() as connection:
            found = [_read(connection, state, before_id) for state in DEAD]
        # Below the highest id where one state was cut, there may be more of it.
        cut = max((rows[-1].task_id for rows in found if len(rows) == WINDOW), default=None)
        rows = [row for some in found for row in some if cut is None or row.task_id >= cut]
        return DeadPage(tuple(_grouped(rows, now)), len(rows), cut)


def _read(connection: sa.Connection, state: State, before_id: str | None) -> list[DeadTask]:
    window = newest_of(connection, state, before_id, WINDOW)
    same = (attempts.c.task_id == tasks.c.task_id) & (attempts.c.attempt == tasks.c.attempt)
    column = tasks.c
    query = (
        sa.select(
            column.task_id, column.type, column.state, column.reason, column.ended_at,
            column.quarantined, attempts.c.error_type, ERROR_HEAD,
        )
        .select_from(
            window.join(tasks, column.task_id == window.c.task_id).outerjoin(attempts, same)
        )
        .order_by(window.c.state.desc(), window.c.task_id.desc())
    )  # fmt: skip
    return [_task(row) for row in connection.execute(query)]


def _task(row: Any) -> DeadTask:
    task_id, kind, state, *rest = row
    return DeadTask(task_id, kind, State(state), *rest)


def _grouped(rows: Iterable[DeadTask], now: datetime) -> list[DeadGroup]:
    pattern = functools.cache(pattern_of_head)
    by_key: dict[_Key, list[DeadTask]] = {}
    for row in rows:
        key = (row.type, row.reason, row.error_type, pattern(row.error), bool(row.quarantined))
        by_key.setdefault(key, []).append(row)
    groups = [_group(key, some, now) for key, some in by_key.items()]
    return sorted(groups, key=lambda one: (one.count, one.newest.task_id), reverse=True)


def _group(key: _Key, some: list[DeadTask], now: datetime) -> DeadGroup:
    ages = [now - one.ended_at for one in some if one.ended_at is not None]
    return DeadGroup(
        *key,
        count=len(some),
        last_hour=sum(age <= _HOUR for age in ages),
        last_day=sum(age <= _DAY for age in ages),
        newest=max(some, key=lambda one: one.task_id),
    )
