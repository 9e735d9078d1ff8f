"""A store with very many rows, made by the database itself in seconds.

The rows are what the ledger's verbs would have left, with ids in the order of time. Used by the
benchmark of large stores and by the tests of query plans.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import psycopg

from supervisor.store import open_store
from supervisor.store.sqlite import store_path

#: Types, queues and priorities that the rows are spread over.
TYPES, QUEUES, PRIORITIES = 20, 5, 3
#: Milliseconds since 1970 at which the last ended task was submitted (2026-05-20) if nothing else
#: is wanted, between two of them, and until what is not due yet.
LAST_MS, STEP_MS, LATER_MS = 1_779_273_000_000, 100, 10**12
#: Audit rows of one ended task.
TRAIL = 10
_TASK = (
    "task_id, type, queue, priority, state, reason, run_after, attempt, retry_count, crash_count,"
    " quarantined, created_at, ended_at, dedup_held, params"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """How many there are to be. Of the pending tasks one in `due_every` is due, others are later.

    The last of those that ended was submitted at `last_ms`.

    Of 100 ended tasks 90 read SUCCESS, 5 FAILED, 3 CANCELED and 2 TIMEOUT.
    """

    ended: int = 0
    pending: int = 0
    workers: int = 0
    autopsies: int = 0
    due_every: int = 10
    last_ms: int = LAST_MS


def fill(url: str, rows: Rows) -> None:
    """Make the store and fill it. Nobody else may have it open, and no planner has counted."""
    open_store(url, create=True).close()
    if url.startswith("sqlite"):
        _fill_file(url, rows)
    else:
        _fill_server(url, rows)


def ended_id(rows: Rows, number: int) -> str:
    """Return the id of an ended task; the last has the highest number."""
    submitted = rows.last_ms - (rows.ended - number) * STEP_MS
    return f"task_{submitted:012x}7000{number:016x}"


def _fill_file(url: str, rows: Rows) -> None:
    with closing(sqlite3.connect(store_path(url), isolation_level=None)) as db:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -200000"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("BEGIN")
        for sql in _statements(rows, _File()):
            db.execute(sql)
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode = WAL")


def _fill_server(url: str, rows: Rows) -> None:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as db:
        db.execute("SET synchronous_commit = off; SET maintenance_work_mem = '256MB'")
        db.execute("DROP INDEX audit_of_task")
        for sql in _statements(rows, _Server()):
            db.execute(sql.encode())
        db.execute("CREATE INDEX audit_of_task ON audit_log (task_id, id)")


def count(url: str) -> None:
    """Let the planner know how many rows there are, as its server does by and by.

    A server also writes down all pages: what is changed next costs the same on every store of it.
    """
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(store_path(url), isolation_level=None)) as file:
            file.execute("ANALYZE")
        return
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as server:
        server.execute("VACUUM (ANALYZE)")
        server.execute("CHECKPOINT")


class _File:
    """How SQLite says it."""

    no = "0"

    def series(self, count: int) -> str:
        numbers = f"SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {count - 1}"
        return f"(WITH RECURSIVE s(n) AS ({numbers}) SELECT n FROM s) AS s"

    def hex(self, value: str, digits: int) -> str:
        return f"printf('%0{digits}x', {value})"

    def time(self, ms: str) -> str:
        return f"({ms}) * 1000"


class _Server:
    """How PostgreSQL says it."""

    no = "false"

    def series(self, count: int) -> str:
        return f"(SELECT n::bigint FROM generate_series(0, {count - 1}) AS n) AS s"

    def hex(self, value: str, digits: int) -> str:
        return f"lpad(to_hex(({value})::bigint), {digits}, '0')"

    def time(self, ms: str) -> str:
        return f"to_timestamp(({ms})::numeric / 1000)"


_Say = _File | _Server


def _statements(rows: Rows, say: _Say) -> Iterator[str]:
    at = say.time(str(rows.last_ms))
    yield (
        "INSERT INTO queues (queue, priority, paused, at)"
        f" SELECT 'queue_' || n, -1, {say.no}, {at} FROM {say.series(QUEUES)}"
    )
    if rows.ended:
        yield _ended(rows, say)
        yield _attempts(say)
        yield _audit(say)
    if rows.pending:
        yield _pending(rows, say)
        yield _outbox()
    if rows.workers:
        yield _workers(rows, say)
    if rows.autopsies:
        yield _autopsies(rows, say)


def _id(say: _Say, ms: str) -> str:
    return f"'task_' || {say.hex(ms, 12)} || '7000' || {say.hex('n', 16)}"


def _common() -> str:
    return f"'type_' || (n % {TYPES}), 'queue_' || (n % {QUEUES}), n % {PRIORITIES}"


def _ended(rows: Rows, say: _Say) -> str:
    ms = f"{rows.last_ms} - ({rows.ended} - n) * {STEP_MS}"
    state = (
        "CASE WHEN n % 100 < 90 THEN 'SUCCESS' WHEN n % 100 < 95 THEN 'FAILED'"
        " WHEN n % 100 < 98 THEN 'CANCELED' ELSE 'TIMEOUT' END"
    )
    return (
        f"INSERT INTO tasks ({_TASK}) SELECT {_id(say, ms)}, {_common()}, {state}, 'returned',"
        f" {say.time(ms)}, 1, 0, 0, {say.no}, {say.time(ms)}, {say.time(ms + ' + 50')}, {say.no},"
        f" '{{\"n\":' || n || '}}' FROM {say.series(rows.ended)}"
    )


def _pending(rows: Rows, say: _Say) -> str:
    ms = f"{rows.last_ms} + n"
    due = f"CASE WHEN n % {rows.due_every} = 0 THEN {ms} ELSE {rows.last_ms} + {LATER_MS} + n END"
    return (
        f"INSERT INTO tasks ({_TASK}) SELECT {_id(say, ms)}, {_common()}, 'PENDING', 'submitted',"
        f" {say.time(due)}, 0, 0, 0, {say.no}, {say.time(ms)}, NULL, {say.no}, '{{}}'"
        f" FROM {say.series(rows.pending)}"
    )


def _attempts(say: _Say) -> str:
    return (
        "INSERT INTO attempts (task_id, attempt, node_id, worker_id, pid, start_ticks, claimed_at,"
        " started_at, ended_at, outcome, reason, proof, effects_unknown)"
        " SELECT task_id, 1, 'node_0', 'worker_0', 1, 1, created_at, created_at, ended_at, state,"
        f" reason, 'reported', {say.no} FROM tasks WHERE state NOT IN ('PENDING', 'CANCELED')"
        " ORDER BY task_id"
    )


def _audit(say: _Say) -> str:
    """Three moves and then notes, task by task."""
    return (
        "INSERT INTO audit_log (task_id, attempt, at, from_state, to_state, operator, reason, note)"
        " SELECT task_id, 1, created_at, CASE n WHEN 0 THEN NULL WHEN 1 THEN 'PENDING'"
        " WHEN 2 THEN 'RUNNING' END, CASE n WHEN 0 THEN 'PENDING' WHEN 1 THEN 'RUNNING'"
        " WHEN 2 THEN state END, 'supervisor', 'claimed', CASE WHEN n > 2 THEN 'a note' END"
        f" FROM tasks, {say.series(TRAIL)} WHERE state NOT IN ('PENDING') ORDER BY task_id, n"
    )


def _outbox() -> str:
    return (
        "INSERT INTO outbox (task_id, event_id, event_type, run_after, created_at)"
        " SELECT task_id, 0, 'task.due', run_after, created_at FROM tasks WHERE state = 'PENDING'"
    )


def _workers(rows: Rows, say: _Say) -> str:
    """Of 1000 workers one lives."""
    at = say.time(f"{rows.last_ms} + n")
    return (
        "INSERT INTO workers (worker_id, node_id, pid, start_ticks, started_at, ended_at)"
        f" SELECT 'w_' || {say.hex('n', 16)}, 'node_' || (n % 3), n, n, {at},"
        f" CASE WHEN n % 1000 > 0 THEN {at} END FROM {say.series(rows.workers)}"
    )


def _autopsies(rows: Rows, say: _Say) -> str:
    """Ten groups that wait for the same."""
    found = "thread_locks: MainThread waits for Account_' || (n % 10) || '._lock, held by Thread-1"
    cause = f"""'[{{"code":"deadlock.in_process","confidence":0.95,"evidence":["{found}"]}}]'"""
    at = f"{rows.last_ms} - ({rows.ended} - n) * {STEP_MS}"
    return (
        "INSERT INTO autopsies (autopsy_id, task_id, attempt, node_id, pid, path, status,"
        f" diagnosis, diagnosis_json, created_at, bytes, ms) SELECT 'a_' || {say.hex('n', 16)},"
        f" {_id(say, at)}, 1, 'node_0', 1, '/bundle', 'captured', 'deadlock.in_process', {cause},"
        f" {say.time(at)}, 1000, 500 FROM {say.series(rows.autopsies)}"
    )
