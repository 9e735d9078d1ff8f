"""Finding one page of tasks without ever reading the whole table.

Secret kept here: a query is split into streams, each one an index read in the order of ids (by
type, else by state, else all); what no index covers is tested on a bounded window of each stream,
and the page says from where to go on. The end of an id is looked for in an index as well, among a
bounded number of ids. Only the store's readers use it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from supervisor.model.query import TEXT, Term, pieces, plain_pattern, states_left
from supervisor.model.states import State
from supervisor.store.criteria import (
    ERROR_HEAD,
    Condition,
    Criteria,
    Sieve,
    needs_attempt,
    sieve_of,
)
from supervisor.store.record import AutopsyRecord
from supervisor.store.schema import attempts, autopsies, tasks
from supervisor.store.view import AutopsyFilter, AutopsyPage, TaskFilter

#: Rows that one page may test, of all streams: about 20 ms on SQLite. Those whose attempts are
#: looked at, too, cost four times as much.
WINDOW, WINDOW_OF_ATTEMPTS = 15_000, 5_000
PAGE_MAX = 500
#: Ids of each state, newest first, among which the end of one is looked for.
ENDS_WINDOW = 1_000_000
#: States that few tasks read: their index leads to less than that of a type.
_FEW = frozenset({State.RUNNING, State.FAILED, State.TIMEOUT, State.CANCELED})
#: What no id of a task reaches, in any collation.
_LOWEST, _HIGHEST = "", "u"


@dataclass(frozen=True, slots=True)
class Found:
    """A page of ids in the order wanted, and where the pages beside it begin (None: no such).

    `looked` is how many rows were tested at least where that, not the page, was the limit; else 0.
    """

    ids: list[str]
    next_id: str | None
    prev_id: str | None
    looked: int = 0


@dataclass(frozen=True, slots=True)
class _Stream:
    """All tasks, or those of one state or type, in the order of an index."""

    column: sa.Column[str] | None = None
    value: str = ""

    def select(self, walk: _Walk, *, is_file: bool) -> sa.Select[Any]:
        """Return the ids of a walk in order."""
        task_id = tasks.c.task_id
        query: sa.Select[Any] = sa.select(task_id)
        if self.column is None:
            return query.where(*walk.beyond(task_id)).order_by(walk.order(task_id))
        if is_file:
            query = query.where(self.column == self.value, *walk.beyond(task_id))
            return query.order_by(walk.order(task_id))
        # Told that the column equals a value, PostgreSQL may read every task by its id instead,
        # until it has met enough of them. In this order there is but one index.
        low, high = walk.ends()
        both = sa.tuple_(self.column, task_id)
        return query.where(
            both > sa.tuple_(sa.literal(self.value), sa.literal(low)),
            both < sa.tuple_(sa.literal(self.value), sa.literal(high)),
        ).order_by(walk.order(self.column), walk.order(task_id))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The streams, and what is tested row by row: by the store, and then by the sieve."""

    streams: list[_Stream]
    tests: list[Condition]
    sieve: Sieve | None
    with_attempt: bool
    is_file: bool

    @property
    def has_tests(self) -> bool:
        return bool(self.tests) or self.sieve is not None

    @property
    def window(self) -> int:
        """How many rows of each stream are tested: all together as many as of one."""
        whole = min(WINDOW, WINDOW_OF_ATTEMPTS) if self.with_attempt else WINDOW
        return max(1, whole // max(1, len(self.streams)))


@dataclass(frozen=True, slots=True)
class _Walk:
    """From where a stream is read, and which way."""

    start_id: str | None
    down: bool

    def order(self, column: Any) -> Any:
        return column.desc() if self.down else column.asc()

    def beyond(self, column: Any) -> list[Condition]:
        """Say what comes after the start."""
        if self.start_id is None:
            return []
        return [column < self.start_id if self.down else column > self.start_id]

    def ends(self) -> tuple[str, str]:
        """Return between which ids it goes, both of them left out."""
        if self.down:
            return _LOWEST, _HIGHEST if self.start_id is None else self.start_id
        return _LOWEST if self.start_id is None else self.start_id, _HIGHEST

    def until(self, column: Any, last_id: str) -> Condition:
        """Say what does not come after this one."""
        met: Condition = column >= last_id if self.down else column <= last_id
        return met


@dataclass(frozen=True, slots=True)
class _Read:
    """What a stream gave; `resume_id` is the last id it tested, None at the stream's end."""

    ids: list[str]
    resume_id: str | None
    cut_by_window: bool = False


def terms_of(wanted: TaskFilter) -> tuple[Term, ...]:
    """Return all that a filter asks for as terms."""
    terms = list(wanted.terms)
    if wanted.states:
        terms.append(Term("state", tuple(map(str, wanted.states))))
    for name, values in (("type", wanted.types), ("queue", wanted.queues)):
        if values:
            terms.append(Term(name, tuple(map(plain_pattern, values))))
    if wanted.tag:
        terms.append(Term("tag", (wanted.tag,)))
    if wanted.text.strip():
        terms.append(Term(TEXT, (wanted.text.strip(),)))
    return tuple(terms)


def find_page(
    connection: sa.Connection, wanted: TaskFilter, now: datetime, limit: int | None = None
) -> Found:
    """Return the ids of a page, and where the next and the former one begin.

    With `limit` it may be longer than a page that people see.
    """
    limit = limit or max(1, min(wanted.limit, PAGE_MAX))
    plan = _plan(connection, terms_of(wanted), wanted.as_of or now)
    back = wanted.before_id if wanted.oldest_first else wanted.after_id
    start = wanted.after_id if wanted.oldest_first else wanted.before_id
    walk = _Walk(start if back is None else back, down=wanted.oldest_first is (back is not None))
    ids, end_id, looked = _merged(connection, plan, walk, limit)
    if back is None:
        return Found(ids, end_id, ids[0] if ids and start is not None else None, looked)
    ids.reverse()
    return Found(ids, ids[-1] if ids else end_id, end_id, looked)


def count(connection: sa.Connection, wanted: TaskFilter, now: datetime, most: int) -> Counted:
    """Count the tasks of a filter, at most about `most` of them, on one window of each stream."""
    plan = _plan(connection, terms_of(wanted), wanted.as_of or now)
    found = [
        _counted(connection, stream, plan, _Walk(None, down=True), most) for stream in plan.streams
    ]
    return Counted(sum(each.count for each in found), all(each.is_all for each in found))


@dataclass(frozen=True, slots=True)
class Counted:
    """How many there are; at least so many where not all were looked at."""

    count: int
    is_all: bool


def _merged(
    connection: sa.Connection, plan: _Plan, walk: _Walk, limit: int
) -> tuple[list[str], str | None, int]:
    """Return ids in the order of the walk, where it goes on, and how many were tested if that
    ended it."""
    found = [_read(connection, stream, plan, walk, limit) for stream in plan.streams]
    stops = [each.resume_id for each in found if each.resume_id is not None]
    # Beyond the first id where a stream stopped, that stream may hold tasks not yet seen.
    stop = (max if walk.down else min)(stops, default=None)
    merged = heapq.merge(*(each.ids for each in found), reverse=walk.down)
    ids = [one for one in merged if stop is None or (one >= stop if walk.down else one <= stop)]
    if len(ids) > limit:
        return ids[:limit], ids[limit - 1], 0
    return ids, stop, plan.window * sum(each.cut_by_window for each in found)


def _exact_types(terms: Sequence[Term]) -> list[str] | None:
    """Return the only types that a query leaves; None when it does not name them."""
    left: dict[str, None] | None = None
    for term in terms:
        named = [pieces(value) for value in term.values]
        if term.name == "type" and not term.negated and all(len(one) == 1 for one in named):
            names = {one[0]: None for one in named}
            left = names if left is None else {one: None for one in left if one in names}
    return None if left is None else list(left)


def _plan(connection: sa.Connection, terms: Sequence[Term], now: datetime) -> _Plan:
    """Split a query into streams and tests."""
    states, types = states_left(terms), _exact_types(terms)
    criteria = Criteria(is_file=connection.dialect.name == "sqlite", now=now)
    if types is not None and not _FEW.issuperset(states):
        rest = [term for term in terms if not _is_exact_type(term)]
        return _planned([_Stream(tasks.c.type, name) for name in types], criteria, rest)
    rest = [term for term in terms if term.name != "state"]
    if len(states) == len(State):
        return _planned([_Stream()], criteria, rest)
    return _planned([_Stream(tasks.c.state, state.value) for state in states], criteria, rest)


def _is_exact_type(term: Term) -> bool:
    exact = all(len(pieces(value)) == 1 for value in term.values)
    return term.name == "type" and not term.negated and exact


def _planned(streams: list[_Stream], criteria: Criteria, rest: Sequence[Term]) -> _Plan:
    return _Plan(streams, criteria.of(rest), sieve_of(rest), needs_attempt(rest), criteria.is_file)


def _read(
    connection: sa.Connection, stream: _Stream, plan: _Plan, walk: _Walk, limit: int
) -> _Read:
    newest = stream.select(walk, is_file=plan.is_file)
    if not plan.has_tests:
        ids = list(connection.execute(newest.limit(limit + 1)).scalars())
        return _Read(ids, ids[limit - 1] if len(ids) > limit else None)
    bound = connection.execute(newest.limit(1).offset(plan.window - 1)).scalar()
    tested = _tested(newest, stream, plan, walk, bound)
    ids = _sieved(connection, tested, plan, limit + 1)
    if len(ids) > limit:
        return _Read(ids, ids[limit - 1])
    return _Read(ids, bound, cut_by_window=bound is not None)


def _counted(
    connection: sa.Connection, stream: _Stream, plan: _Plan, walk: _Walk, most: int
) -> Counted:
    newest = stream.select(walk, is_file=plan.is_file)
    bound = None
    if plan.has_tests:
        bound = connection.execute(newest.limit(1).offset(plan.window - 1)).scalar()
        newest = _tested(newest, stream, plan, walk, bound)
    if plan.sieve is not None:
        found = len(_sieved(connection, newest, plan, most + 1))
    else:
        some = newest.limit(most + 1).subquery()
        found = connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
    return Counted(min(found, most), found <= most and bound is None)


def _sieved(
    connection: sa.Connection, tested: sa.Select[Any], plan: _Plan, limit: int
) -> list[str]:
    """Return the first ids of a window that meet all."""
    sieve = plan.sieve
    if sieve is None:
        return list(connection.execute(tested.limit(limit)).scalars())
    with connection.execute(tested) as rows:
        met = (task_id for task_id, head in rows if sieve(head))
        return list(itertools.islice(met, limit))


def _tested(
    newest: sa.Select[Any], stream: _Stream, plan: _Plan, walk: _Walk, bound: str | None
) -> sa.Select[Any]:
    """Return the ids of a window that meet the tests, in the order of the walk, with what a sieve
    is to see."""
    column = tasks.c.task_id
    if bound is not None:
        newest = newest.where(walk.until(column, bound))
    if stream.column is None and not plan.with_attempt:
        return newest.where(*plan.tests)
    if stream.column is not None:
        newest = newest.add_columns(stream.column)
    window = newest.limit(plan.window).subquery()
    same = (attempts.c.task_id == column) & (attempts.c.attempt == tasks.c.attempt)
    rows: Any = tasks.outerjoin(attempts, same) if plan.with_attempt else tasks
    order = [walk.order(window.c[name]) for name in reversed(window.c.keys())]
    seen = (sa.literal(1) if plan.sieve is None else ERROR_HEAD).label("seen")
    query = sa.select(window.c.task_id).order_by(*order)
    if plan.is_file:
        joined = window.join(rows, column == window.c.task_id)
        return query.add_columns(seen).select_from(joined).where(*plan.tests)
    # PostgreSQL would rather read all tasks by their ids and look for each in the window; the
    # offset keeps it from seeing through.
    one_row = sa.select(seen).select_from(rows).where(column == window.c.task_id, *plan.tests)
    row = one_row.offset(0).lateral("tested")
    return query.add_columns(row.c.seen).select_from(window.join(row, sa.true()))


def newest_of(
    connection: sa.Connection, state: State, before_id: str | None, limit: int
) -> sa.Subquery:
    """Return the newest tasks of a state as a subquery of `state` and `task_id`, so many at most.

    What is joined to it is to be ordered by both, or a planner reads all tasks by their ids.
    """
    stream, walk = _Stream(tasks.c.state, state.value), _Walk(before_id, down=True)
    newest = stream.select(walk, is_file=connection.dialect.name == "sqlite")
    return newest.add_columns(tasks.c.state).limit(limit).subquery()


def find_ends(connection: sa.Connection, end: str, limit: int) -> list[str]:
    """Return the ids that end like this, at most `limit` of each state.

    No index has ids by their end: it reads those of `tasks_by_state`, never a row.
    """
    found: list[str] = []
    for state in State:
        newest = (
            sa.select(tasks.c.task_id)
            .where(tasks.c.state == state)
            .order_by(tasks.c.task_id.desc())
            .limit(ENDS_WINDOW)
            .subquery()
        )
        query = sa.select(newest.c.task_id).where(newest.c.task_id.endswith(end, autoescape=True))
        found += connection.execute(query.limit(limit)).scalars()
    return sorted(found)


def find_autopsies(connection: sa.Connection, wanted: AutopsyFilter) -> AutopsyPage:
    """Return one page of bundles, newest first; tests a bounded number of them."""
    column = autopsies.c
    tests = [
        tested == value
        for tested, value in (
            (tasks.c.type, wanted.type),
            (column.verdict, wanted.verdict),
            (column.diagnosis, wanted.diagnosis),
            (column.node_id, wanted.node_id),
        )
        if value
    ]
    limit = max(1, min(wanted.limit, PAGE_MAX))
    order = (column.created_at.desc(), column.autopsy_id.desc())
    newest = _before(connection, wanted.before_id)
    newest += [] if wanted.since is None else [column.created_at >= wanted.since]
    newest += [] if wanted.until is None else [column.created_at <= wanted.until]
    end = connection.execute(
        sa.select(column.created_at, column.autopsy_id)
        .where(*newest)
        .order_by(*order)
        .limit(1)
        .offset(WINDOW - 1)
    ).first()
    query = (
        sa.select(autopsies, tasks.c.type)
        .select_from(autopsies.outerjoin(tasks, tasks.c.task_id == column.task_id))
        .where(*newest, *([] if end is None else [column.created_at >= end.created_at]), *tests)
        .order_by(*order)
        .limit(limit + 1)
    )
    found = [_with_type(row) for row in connection.execute(query)]
    if len(found) > limit:
        return AutopsyPage(tuple(found[:limit]), found[limit - 1][0].autopsy_id)
    return AutopsyPage(tuple(found), None if end is None else end.autopsy_id)


def _with_type(row: Any) -> tuple[AutopsyRecord, str | None]:
    fields = dict(row._mapping)
    kind = fields.pop("type")
    return AutopsyRecord(**fields), kind


def _before(connection: sa.Connection, autopsy_id: str | None) -> list[Any]:
    """Return the conditions of what was taken before this one; nothing was before one unknown."""
    if autopsy_id is None:
        return []
    column = autopsies.c
    at = connection.execute(
        sa.select(column.created_at).where(column.autopsy_id == autopsy_id)
    ).scalar()
    if at is None:
        return [sa.false()]
    return [
        column.created_at <= at,
        sa.or_(column.created_at < at, column.autopsy_id < autopsy_id),
    ]
