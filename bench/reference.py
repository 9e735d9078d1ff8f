"""The least that a tracked queue must do on a store, task by task: the yardstick of the same run.

One transaction to take a task and one to end it, with the same durability as ours (a file: WAL,
synchronous=FULL; PostgreSQL: the same server). It retries nothing, watches nothing, audits nothing.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.place import Kind, Place


@dataclass(frozen=True, slots=True)
class Reference:
    """A loop's name, and what it gave on the machine for which the budgets were set.

    In tasks per second: one row to enqueue, two processes to drain. Source: the measurements of
    peers that the budgets come from.
    """

    name: str
    enqueue_there: float
    drain_there: float


_FILE = Reference("plain SQLite loop", 7216.0, 4274.0)
_SERVER = Reference("plain psycopg loop", 4765.0, 3110.0)


def of(place: Place) -> Reference:
    """Return the loop that is measured on such a store."""
    return _FILE if place.kind is Kind.SQLITE else _SERVER


def enqueue_rate(place: Place, tasks: int) -> float:
    """Return single inserts per second on a new store, one transaction each."""
    db = _table(place)
    began = time.perf_counter()
    for _ in range(tasks):
        db.execute("INSERT INTO q (state) VALUES ('P')")
    rate = tasks / (time.perf_counter() - began)
    db.close()
    return rate


def drain_rate(place: Place, tasks: int, workers: int = 2) -> float:
    """Return tasks per second of that many processes emptying the queue of a new store."""
    db = _table(place)
    db.execute("CREATE INDEX pending ON q (id) WHERE state = 'P'")
    db.execute("BEGIN")
    for _ in range(tasks):
        db.execute("INSERT INTO q (state) VALUES ('P')")
    db.execute("COMMIT")
    db.close()
    processes = [multiprocessing.Process(target=_worker, args=(place,)) for _ in range(workers)]
    began = time.perf_counter()
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return tasks / (time.perf_counter() - began)


def _connect(place: Place) -> Any:
    if place.kind is not Kind.SQLITE:
        return psycopg.connect(place.store, autocommit=True, prepare_threshold=1)
    connection = sqlite3.connect(place.folder / "peer.db", isolation_level=None, timeout=10)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _table(place: Place) -> Any:
    key = "INTEGER" if place.kind is Kind.SQLITE else "bigserial"
    db = _connect(place)
    db.execute(f"CREATE TABLE q (id {key} PRIMARY KEY, state TEXT, result TEXT)")
    return db


def _worker(place: Place) -> None:
    db = _connect(place)
    mark, skip = ("?", "") if place.kind is Kind.SQLITE else ("%s", "FOR UPDATE SKIP LOCKED")
    take = (
        "UPDATE q SET state = 'R' WHERE id = "
        f"(SELECT id FROM q WHERE state = 'P' ORDER BY id LIMIT 1 {skip}) RETURNING id"
    )
    while row := db.execute(take).fetchone():
        db.execute(f"UPDATE q SET state = 'S', result = 'null' WHERE id = {mark}", row)
    db.close()
