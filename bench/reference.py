"""The least that a tracked queue must do on SQLite, task by task: the yardstick of the same run.

One transaction to take a task and one to end it, with the same durability as ours (WAL,
synchronous=FULL). It retries nothing, watches nothing, audits nothing.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from pathlib import Path

NAME = "plain SQLite loop"
#: What such loops gave, in tasks per second, on the machine for which the budgets were set: one row
#: to enqueue, two processes to drain. Source: the measurements of peers that the budgets come from.
ENQUEUE_THERE, DRAIN_THERE = 7216.0, 4274.0


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def prepare(path: Path, tasks: int) -> None:
    """Fill a queue."""
    db = _connect(path)
    db.execute("CREATE TABLE q (id INTEGER PRIMARY KEY, state TEXT, result TEXT)")
    db.execute("CREATE INDEX pending ON q (id) WHERE state = 'P'")
    db.execute("BEGIN")
    db.executemany("INSERT INTO q (state) VALUES (?)", [("P",)] * tasks)
    db.execute("COMMIT")
    db.close()


def enqueue_rate(path: Path, tasks: int) -> float:
    """Return single inserts per second, one transaction each."""
    db = _connect(path)
    db.execute("CREATE TABLE IF NOT EXISTS q (id INTEGER PRIMARY KEY, state TEXT, result TEXT)")
    began = time.perf_counter()
    for _ in range(tasks):
        db.execute("INSERT INTO q (state) VALUES ('P')")
    rate = tasks / (time.perf_counter() - began)
    db.close()
    return rate


def _worker(path: Path) -> None:
    db = _connect(path)
    take = (
        "UPDATE q SET state = 'R' WHERE id = "
        "(SELECT id FROM q WHERE state = 'P' ORDER BY id LIMIT 1) RETURNING id"
    )
    while row := db.execute(take).fetchone():
        db.execute("UPDATE q SET state = 'S', result = 'null' WHERE id = ?", row)
    db.close()


def drain_rate(path: Path, tasks: int, workers: int = 2) -> float:
    """Return tasks per second of that many processes emptying the queue."""
    prepare(path, tasks)
    processes = [multiprocessing.Process(target=_worker, args=(path,)) for _ in range(workers)]
    began = time.perf_counter()
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return tasks / (time.perf_counter() - began)
