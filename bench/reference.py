"""The least that a tracked queue must do on a store, task by task: the yardstick of the same run.

One transaction to take a task and one to end it, with the same durability as ours (a file: WAL,
synchronous=FULL; PostgreSQL: the same server). It retries nothing, watches nothing, audits nothing.
"""

from __future__ import annotations

import multiprocessing
import resource
import sqlite3
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench import node
from bench.place import Kind, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the loop gave on the machine for which the budgets were set.

    `enqueue`, `bulk`: rows a second from one process, one by one and a thousand a transaction;
    `drain`: tasks a second with two processes; `cpu_s`: of loop and server per 1,000 tasks drained;
    `start_p50_ms`, `start_p99_ms`: from the call to the body, one task each 20 ms. Source: the
    measurements of peers that the budgets come from.
    """

    enqueue: float
    bulk: float
    drain: float
    cpu_s: float
    start_p50_ms: float
    start_p99_ms: float


@dataclass(frozen=True, slots=True)
class Reference:
    """A loop's name, and what it gave there."""

    name: str
    there: Given


_FILE = Reference(
    "plain SQLite loop",
    Given(enqueue=7216, bulk=421_912, drain=4274, cpu_s=0.12, start_p50_ms=2.5, start_p99_ms=5.2),
)
_SERVER = Reference(
    "plain psycopg loop",
    Given(enqueue=4765, bulk=77_684, drain=3110, cpu_s=0.33, start_p50_ms=3.5, start_p99_ms=6.8),
)
#: A loop that finds nothing looks again after this pause.
LOOK_S = 0.005


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


def bulk_rate(place: Place, tasks: int) -> float:
    """Return inserts per second, a thousand in each transaction."""
    db = _table(place)
    mark = _mark(place)
    began = time.perf_counter()
    for _ in range(tasks // 1000):
        db.execute("BEGIN")
        db.cursor().executemany(f"INSERT INTO q (state) VALUES ({mark})", [("P",)] * 1000)
        db.execute("COMMIT")
    rate = tasks // 1000 * 1000 / (time.perf_counter() - began)
    db.close()
    return rate


@dataclass(frozen=True, slots=True)
class Drained:
    """How fast a queue emptied, and at what cost: tasks a second, CPU seconds per 1,000 of them."""

    rate: float
    cpu_s: float


def drain(place: Place, tasks: int, workers: int = 2) -> Drained:
    """Empty the queue of a new store with that many processes."""
    db = _table(place)
    db.execute("CREATE INDEX pending ON q (id) WHERE state = 'P'")
    db.execute("BEGIN")
    for _ in range(tasks):
        db.execute("INSERT INTO q (state) VALUES ('P')")
    db.execute("COMMIT")
    db.close()
    processes = [multiprocessing.Process(target=_worker, args=(place,)) for _ in range(workers)]
    began, cpu_s = time.perf_counter(), _cpu_s(place)
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    took_s = time.perf_counter() - began
    return Drained(tasks / took_s, (_cpu_s(place) - cpu_s) / tasks * 1000)


def start_waits(place: Place, tasks: int) -> list[float]:
    """Return milliseconds from each insert to the body of its task, one each 20 ms."""
    db = _table(place)
    db.execute("CREATE INDEX pending ON q (id) WHERE state = 'P'")
    stamps: multiprocessing.SimpleQueue[int] = multiprocessing.SimpleQueue()
    processes = [multiprocessing.Process(target=_listener, args=(place, stamps)) for _ in range(2)]
    for process in processes:
        process.start()
    time.sleep(0.5)
    sent = []
    for _ in range(tasks):
        sent.append(time.monotonic_ns())
        db.execute("INSERT INTO q (state) VALUES ('P')")
        time.sleep(0.02)
    seen = sorted(stamps.get() for _ in range(tasks))
    for process in processes:
        process.terminate()
        process.join()
    db.close()
    return [(b - a) / 1e6 for a, b in zip(sent, seen, strict=True)]


def _cpu_s(place: Place) -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + node.servers_cpu_s(place)


def _mark(place: Place) -> str:
    return "?" if place.kind is Kind.SQLITE else "%s"


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


def _take(place: Place) -> str:
    skip = "" if place.kind is Kind.SQLITE else "FOR UPDATE SKIP LOCKED"
    return (
        "UPDATE q SET state = 'R' WHERE id = "
        f"(SELECT id FROM q WHERE state = 'P' ORDER BY id LIMIT 1 {skip}) RETURNING id"
    )


def _end(place: Place) -> str:
    return f"UPDATE q SET state = 'S', result = 'null' WHERE id = {_mark(place)}"


def _worker(place: Place) -> None:
    db, take, end = _connect(place), _take(place), _end(place)
    while row := db.execute(take).fetchone():
        db.execute(end, row)
    db.close()


def _listener(place: Place, stamps: multiprocessing.SimpleQueue[int]) -> None:
    db, take, end = _connect(place), _take(place), _end(place)
    while True:
        if row := db.execute(take).fetchone():
            stamps.put(time.monotonic_ns())
            db.execute(end, row)
        else:
            time.sleep(LOOK_S)
