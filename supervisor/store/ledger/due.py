"""Finding: what is due and may run on a node, best first; nothing is changed here.

Secret kept here: the levels (queue, priority, type) that have PENDING rows are found by skipping
through one partial index, then each is sought for its oldest due rows: the cost grows with levels
and claims, never with future rows, unknown types or rows that ended. Called by `claim` and by who
asks what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, bindparam, literal_column, select, text

from supervisor.model.record import Level
from supervisor.store.schema import WHOLE_QUEUE, queues, tasks
from supervisor.store.session import Ordered, Session, id_names, ids, ordered

#: What the table shows to be due longer than what the bell named, but by less than this, is likely
#: to have been named to another node a moment ago: it is left to that one.
UNDERWAY = timedelta(seconds=2)

#: Minus priority, run_after as the backend has it, task id, type: they sort as they are claimed.
Place = tuple[int, Any, str, str]

#: The parameters of `oldest_due`.
OF_LEVEL = ("the_queue", "the_priority", "the_type", "now", "limit")


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a node learns beside its claims: the first time due of what waits, and the pauses."""

    next_due: datetime | None
    paused: frozenset[tuple[str, int]]


def outlook(
    session: Session, wanted: Sequence[str] | None, types: Collection[str], *, levels: bool
) -> Callable[[], Outlook]:
    """Ask for the outlook; what is returned gives it, at the end of the transaction or after."""
    view = View(session, wanted, types, scan=levels)
    return lambda: Outlook(view.next_due(), view.paused())


class View:
    """What waits, as the store shows it: all is asked for at once, and taken in when needed."""

    def __init__(
        self,
        session: Session,
        wanted: Sequence[str] | None,
        types: Collection[str],
        tips: Sequence[str] = (),
        scan: bool = True,
    ) -> None:
        self._session = session
        self._wanted, self._types = wanted, types
        self._paused = session.ask(_select_paused)
        self._tipped = session.ask_of(_select_tipped, tips)
        self._levels = session.ask(_select_levels) if scan else list
        self._held: frozenset[tuple[str, int]] | None = None

    def paused(self) -> frozenset[tuple[str, int]]:
        """Return what is paused: (queue, priority), or (queue, -1) for the queue as a whole."""
        if self._held is None:
            self._held = frozenset((queue, priority) for queue, priority in self._paused())
        return self._held

    def due(self, at: Any) -> dict[Level, Any]:
        """Return those of the levels that have something due."""
        return {level: first for level, first in self.levels().items() if first <= at}

    def levels(self) -> dict[Level, Any]:
        """Return the levels with PENDING rows that may run here, with the first time due."""
        found = ((tuple(row[:3]), row[3]) for row in self._levels())
        return {level: first for level, first in found if self._may_run(level)}

    def named(self, at: Any) -> list[Place]:
        """Return those of the tasks that the bell named that wait still and may run here."""
        return sorted(
            (-priority, run_after, task_id, type_)
            for task_id, queue, priority, type_, run_after in self._tipped()
            if run_after <= at and self._may_run((queue, priority, type_))
        )

    def next_due(self) -> datetime | None:
        """Return when the first claimable task is (or was) due, or None when there is none."""
        due = self.levels().values()
        found: datetime | None = self._session.decode(min(due)) if due else None
        return found

    def _may_run(self, level: Level) -> bool:
        queue, priority, type_ = level
        held = self.paused()
        return (
            type_ in self._types
            and (self._wanted is None or queue in self._wanted)
            and (queue, priority) not in held
            and (queue, WHOLE_QUEUE) not in held
        )


def best_due(
    session: Session,
    named: Sequence[Place],
    levels: dict[Level, Any],
    limit: int,
    free: int,
    at: Any,
    only: Collection[str],
) -> list[Place]:
    """Merge what was named with what else is due: a bell that always names enough hides nothing."""
    if not named:
        return _due(session, list(levels), limit, free, at, only)
    favoured = sorted(
        (minus, session.decode(run_after) - UNDERWAY, task_id, type_)
        for minus, run_after, task_id, type_ in named
    )
    if len(favoured) >= limit:  # then only levels that have something better are of interest
        last = favoured[limit - 1]
        levels = {
            level: first
            for level, first in levels.items()
            if (-level[1], session.decode(first)) < last[:2]
        }
    names = {place[2] for place in named}
    others = [
        (minus, session.decode(run_after), task_id, type_)
        for minus, run_after, task_id, type_ in _due(
            session, list(levels), limit + len(named), free, at, only
        )
        if task_id not in names
    ]
    return sorted([*favoured, *others])


def _due(
    session: Session, levels: Sequence[Level], limit: int, free: int, at: Any, only: Collection[str]
) -> list[Place]:
    """Return the best of these levels; with less than the limit where one may not be claimed."""
    found: list[Place] = []
    for priority in sorted({level[1] for level in levels}, reverse=True):
        left = limit - len(found)
        asked = [
            (level[2], session.ask(_select_due, *level, at, left))
            for level in levels
            if level[1] == priority
        ]
        same = [
            (-priority, run_after, task_id, type_)
            for type_, answer in asked
            for run_after, task_id in answer()
        ]
        same.sort()  # longest due first over all queues and types; the id decides a tie
        found += same[:left]
        if len(found) == limit or any(type_ not in only for *_, type_ in found[free:]):
            break
    return found


def _select_levels() -> Ordered:
    # Three loose index scans, one in the other: each step is one seek in tasks_due to the next
    # queue, then to the next priority of that queue, then to the next type of both; and one more
    # to the first time due of each.
    of_queue = "queue = {0}.queue"
    of_both = f"{of_queue} AND tasks.priority = {{0}}.priority"
    of_level = f"{of_both} AND tasks.type = {{0}}.type"
    return ordered(
        text(
            f"WITH RECURSIVE q(queue) AS (SELECT {_first('queue')}"
            f" UNION ALL SELECT {_first('queue', 'queue > q.queue')}"
            " FROM q WHERE q.queue IS NOT NULL"
            "), p(queue, priority) AS ("
            f" SELECT queue, {_first('priority', of_queue.format('q'))}"
            " FROM q WHERE q.queue IS NOT NULL"
            " UNION ALL SELECT queue,"
            f" {_first('priority', of_queue.format('p') + ' AND tasks.priority > p.priority')}"
            " FROM p WHERE p.priority IS NOT NULL"
            "), t(queue, priority, type) AS ("
            f" SELECT queue, priority, {_first('type', of_both.format('p'))}"
            " FROM p WHERE p.priority IS NOT NULL"
            " UNION ALL SELECT queue, priority,"
            f" {_first('type', of_both.format('t') + ' AND tasks.type > t.type')}"
            " FROM t WHERE t.type IS NOT NULL"
            f") SELECT queue, priority, type, {_first('run_after', of_level.format('t'))}"
            " FROM t WHERE type IS NOT NULL"
        )
    )


def _first(column: str, where: str = "queue IS NOT NULL") -> str:
    """Return the query for the lowest value of a column among PENDING rows like these.

    Not `min`: it is only one seek where the planner knows that there are many rows.
    """
    return (
        f"(SELECT tasks.{column} FROM tasks /* INDEXED BY tasks_due */"
        f" WHERE state = 'PENDING' AND tasks.{where} ORDER BY tasks.{column} LIMIT 1)"
    )


def _select_paused() -> Ordered:
    return ordered(select(queues.c.queue, queues.c.priority).where(queues.c.paused == text("true")))


def _level() -> tuple[Any, ...]:
    return (
        text("state = 'PENDING'"),  # literal: the partial index is only used for the same words
        tasks.c.queue == bindparam("the_queue"),
        tasks.c.priority == bindparam("the_priority"),
        tasks.c.type == bindparam("the_type"),
    )


def oldest_due() -> Select[Any]:
    """Return the query for run_after and id of what is due longest in a level.

    Its parameters are `OF_LEVEL`.
    """
    return (
        select(tasks.c.run_after, tasks.c.task_id)
        .where(*_level(), tasks.c.run_after <= bindparam("now"))
        .order_by(tasks.c.run_after, tasks.c.task_id)
        .limit(bindparam("limit"))
        .offset(literal_column("0"))
        .with_for_update(skip_locked=True)  # what another node is about to claim is not waited for
    )


def _select_due() -> Ordered:
    return ordered(oldest_due(), *OF_LEVEL)


def _select_tipped(size: int) -> Ordered:
    column = tasks.c
    return ordered(
        select(column.task_id, column.queue, column.priority, column.type, column.run_after)
        .where(column.task_id.in_(ids(size)), text("/* + */state = 'PENDING'"))
        .with_for_update(skip_locked=True),
        *id_names(size),
    )
