"""Finding one page of tasks without ever reading the whole table.

Secret kept here: a filter is split into streams, each one an index read from its newest id down
(by type, else by state, else all); what no index covers is tested on a bounded window of each
stream, and the page says from where to go on. The end of an id is looked for in an index as well,
among a bounded number of ids. Only the reader uses it.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from supervisor.model.states import State
from supervisor.store.record import AutopsyRecord
from supervisor.store.schema import autopsies, tasks
from supervisor.store.view import AutopsyFilter, AutopsyPage, TaskFilter

#: Rows of a stream that one page may test: about 20 ms on SQLite.
WINDOW = 20_000
PAGE_MAX = 500
#: Ids of each state, newest first, among which the end of one is looked for.
ENDS_WINDOW = 1_000_000
_ALL = sa.true()


@dataclass(frozen=True, slots=True)
class _Found:
    """What a stream gave; `resume_id` is the last id it tested, None at the stream's end."""

    ids: list[str]
    resume_id: str | None


def find_page(connection: sa.Connection, wanted: TaskFilter) -> tuple[list[str], str | None]:
    """Return the ids of a page, newest first, and the `before_id` of the next page."""
    limit = max(1, min(wanted.limit, PAGE_MAX))
    streams, tests = _plan(wanted)
    found = [_read(connection, stream, tests, wanted.before_id, limit) for stream in streams]
    # Below the highest id where a stream stopped, that stream may hold tasks not yet seen.
    floor = max((each.resume_id for each in found if each.resume_id is not None), default=None)
    merged = heapq.merge(*(each.ids for each in found), reverse=True)
    ids = [task_id for task_id in merged if floor is None or task_id >= floor]
    if len(ids) > limit:
        return ids[:limit], ids[limit - 1]
    return ids, floor


def _plan(wanted: TaskFilter) -> tuple[list[Any], list[Any]]:
    """Split a filter into the conditions of its streams and what is tested row by row."""
    column = tasks.c
    by_state = column.state.in_(wanted.states)
    tests: list[Any] = []
    if wanted.types:
        streams = [column.type == name for name in dict.fromkeys(wanted.types)]
        tests += [by_state] if wanted.states else []
    elif wanted.states:
        streams = [column.state == state for state in dict.fromkeys(wanted.states)]
    else:
        streams = [_ALL]
    if wanted.queues:
        tests.append(column.queue.in_(wanted.queues))
    if wanted.tag:
        tests.append(
            column.tags.contains(json.dumps(wanted.tag, ensure_ascii=False), autoescape=True)
        )
    if wanted.text:
        tests.append(_text_test(wanted.text.strip()))
    return streams, tests


def _text_test(words: str) -> Any:
    column = tasks.c
    anywhere = (column.type, column.dedup_key, column.submitted_by)
    return sa.or_(
        column.task_id.startswith(words, autoescape=True),
        column.task_id.startswith(f"task_{words}", autoescape=True),
        column.task_id.endswith(words, autoescape=True),
        *(where.contains(words, autoescape=True) for where in anywhere),
    )


def _read(
    connection: sa.Connection, stream: Any, tests: list[Any], before_id: str | None, limit: int
) -> _Found:
    newest = sa.select(tasks).where(stream).order_by(tasks.c.task_id.desc())
    if before_id is not None:
        newest = newest.where(tasks.c.task_id < before_id)
    if not tests:
        ids = list(connection.execute(_only_ids(newest).limit(limit + 1)).scalars())
        return _Found(ids, ids[limit - 1] if len(ids) > limit else None)
    bound = connection.execute(_only_ids(newest).limit(1).offset(WINDOW - 1)).scalar()
    if bound is not None:
        newest = newest.where(tasks.c.task_id >= bound)
    ids = list(connection.execute(_tested(newest, stream, tests).limit(limit + 1)).scalars())
    return _Found(ids, ids[limit - 1] if len(ids) > limit else bound)


def _tested(newest: sa.Select[Any], stream: Any, tests: list[Any]) -> sa.Select[Any]:
    if stream is _ALL:
        return _only_ids(newest.where(*tests))
    # The window is read first, from the stream's own index: told all at once, PostgreSQL may read
    # every task by its id and test them one by one.
    window = _only_ids(newest).limit(WINDOW).subquery()
    return (
        sa.select(window.c.task_id)
        .join(tasks, tasks.c.task_id == window.c.task_id)
        .where(*tests)
        .order_by(window.c.task_id.desc())
    )


def _only_ids(query: sa.Select[Any]) -> sa.Select[Any]:
    return query.with_only_columns(tasks.c.task_id)


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
    tests = [] if not wanted.type else [tasks.c.type == wanted.type]
    tests += [] if not wanted.verdict else [column.verdict == wanted.verdict]
    limit = max(1, min(wanted.limit, PAGE_MAX))
    order = (column.created_at.desc(), column.autopsy_id.desc())
    newest = _before(connection, wanted.before_id)
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
