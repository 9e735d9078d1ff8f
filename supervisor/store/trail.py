"""The audit trail as a whole, newest first: who did what, and which index finds it.

Secret kept here: a filter is read along one of three indexes (one task's rows, the acts of people,
all ids); what none of them covers is tested on a bounded window, and the page says from where to go
on. Times are turned into ids, which grow with them. Read-only; pages, API and command line ask.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from supervisor.model.states import Reason
from supervisor.store.engine import Store
from supervisor.store.ledger.audit import ACCESS_REASONS, SUPERVISOR
from supervisor.store.numbers import ORDER_SLACK_S, ids_since
from supervisor.store.reader import history_line
from supervisor.store.schema import BY_PEOPLE, audit_log
from supervisor.store.view import HistoryLine

#: Rows that one page may test: about 20 ms on SQLite.
WINDOW = 20_000
PAGE_MAX = 500
_SLACK = timedelta(seconds=ORDER_SLACK_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailFilter:
    """What to look for; empty fields ask nothing. `reasons` are any of these.

    `only_people` leaves out what the supervisor did by itself, and submits, which `operator` alone
    does too, unless `reasons` name them: see `leaves_out_submits`. `with_access` tells who
    may see sign-ins, users, tokens and downloads too. `since` and `until` hold to the minute.
    """

    operator: str = ""
    reasons: Collection[str] = ()
    only_people: bool = False
    with_access: bool = True
    task_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    before_id: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class TrailPage:
    """Rows of the trail, newest first; `next_id` goes on, None at the end."""

    lines: tuple[HistoryLine, ...]
    next_id: int | None


class Trail:
    """The audit trail of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, wanted: TrailFilter) -> TrailPage:
        """Return one page, newest first."""
        limit = max(1, min(wanted.limit, PAGE_MAX))
        column = audit_log.c
        stream, tests = _stream(wanted), _tests(wanted)
        with self._store.reading() as connection:
            within = _within(connection, wanted)
            newest = sa.select(audit_log).where(*stream, *within).order_by(column.id.desc())
            floor = _floor(connection, stream, within) if tests else None
            if floor is not None:
                tests.append(column.id >= floor)
            rows = connection.execute(newest.where(*tests).limit(limit + 1)).all()
        lines = tuple(history_line(row) for row in rows[:limit])
        if len(rows) > limit:
            return TrailPage(lines, lines[-1].audit_id)
        return TrailPage(lines, floor)


def leaves_out_submits(wanted: TrailFilter) -> bool:
    """Say whether submits are not looked for: among what somebody did only where named."""
    if wanted.only_people:
        return True
    by_person = not wanted.task_id and wanted.operator not in ("", SUPERVISOR)
    return by_person and Reason.SUBMITTED not in wanted.reasons


def _stream(wanted: TrailFilter) -> list[Any]:
    """Return the condition that leads to an index."""
    if wanted.task_id:
        return [audit_log.c.task_id == wanted.task_id]
    return [sa.text(f"({BY_PEOPLE})")] if leaves_out_submits(wanted) else []


def _tests(wanted: TrailFilter) -> list[Any]:
    column = audit_log.c
    tests: list[Any] = []
    if wanted.task_id and wanted.only_people:
        tests.append(sa.text(f"({BY_PEOPLE})"))
    if wanted.operator:
        tests.append(column.operator == wanted.operator)
    if wanted.reasons:
        tests.append(column.reason.in_(sorted(wanted.reasons)))
    if not wanted.with_access:
        tests.append(column.reason.not_in(sorted(ACCESS_REASONS)))
    if wanted.since is not None:
        tests.append(column.at >= wanted.since)
    if wanted.until is not None:
        tests.append(column.at <= wanted.until)
    return tests


def _within(connection: sa.Connection, wanted: TrailFilter) -> list[Any]:
    """Return the bounds of the ids."""
    column = audit_log.c
    bounds: list[Any] = []
    if wanted.before_id is not None:
        bounds.append(column.id < wanted.before_id)
    if wanted.since is not None:
        bounds.append(column.id > ids_since(connection, _moved(wanted.since, -_SLACK))[0])
    if wanted.until is not None:
        bounds.append(column.id <= ids_since(connection, _moved(wanted.until, _SLACK))[0])
    return bounds


def _moved(moment: datetime, by: timedelta) -> datetime:
    """Return a moment earlier or later; the first and last of all years have none beyond them."""
    try:
        return moment + by
    except OverflowError:
        return moment


def _floor(connection: sa.Connection, stream: list[Any], within: list[Any]) -> int | None:
    """Return the last id of the window; None when the stream ends within it."""
    column = audit_log.c
    query = sa.select(column.id).where(*stream, *within).order_by(column.id.desc())
    found: int | None = connection.execute(query.limit(1).offset(WINDOW - 1)).scalar()
    return found
