"""Where one measurement happens: a folder and a new store, on a private server where it needs one.

Secret kept here: what the three kinds of store are made of. The servers keep what is committed:
PostgreSQL flushes each commit and vacuums as it does in earnest; Redis is a doorbell and keeps
nothing. They are gone with the block.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import psycopg

from bench.peers import server


class Kind(StrEnum):
    """A kind of store."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"
    REDIS = "postgresql+redis"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, the addresses of its store and doorbell, and the processes of their servers."""

    kind: Kind
    folder: Path
    store: str
    queue: str = "none"
    admin: str = ""
    pids: tuple[int, ...] = ()
    _names: list[str] = field(default_factory=list, repr=False)

    def below(self, name: str) -> Place:
        """Return a place with a new store, on the same servers."""
        folder = self.folder / name
        folder.mkdir()
        if self.kind is Kind.SQLITE:
            return Place(self.kind, folder, _file(folder))
        self._names.append(name)
        store = _new_database(self.admin, f"bench{len(self._names)}")
        return Place(self.kind, folder, store, self.queue, self.admin, self.pids, self._names)

    def database(self) -> Database:
        """Open the store for counting."""
        return Database(self)


class Database:
    """A connection of the measurement's own; a parameter is a `?`."""

    def __init__(self, place: Place) -> None:
        self._connection: Any
        if place.kind is Kind.SQLITE:
            path = place.folder / "bench.db"
            self._mark = "?"
            self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
        else:
            self._mark = "%s"
            self._connection = psycopg.connect(place.store, autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        """Return all rows of a query."""
        found: list[Any] = self._connection.execute(
            sql.replace("?", self._mark), parameters
        ).fetchall()
        return found

    def count(self, rows: str) -> int:
        """Return how many there are of what stands after FROM."""
        return int(self.rows(f"SELECT count(*) FROM {rows}")[0][0])

    def trail(self) -> int:
        """Return the number of the last audit row: cheap, however many there are."""
        return int(self.rows("SELECT coalesce(max(id), 0) FROM audit_log")[0][0])


@contextmanager
def made(kind: Kind) -> Iterator[Place]:
    """Make a place, and remove it at the end."""
    root = Path(tempfile.mkdtemp(prefix="supervisor-bench-"))
    root.chmod(0o711)  # PostgreSQL runs as somebody else and must get to its folder
    try:
        with ExitStack() as servers:
            folder = root / "here"
            folder.mkdir()
            if kind is Kind.SQLITE:
                yield Place(kind, folder, _file(folder))
                return
            postgresql = servers.enter_context(server.durable_postgresql(root))
            queue, pids = "none", [*postgresql.pids]
            if kind is Kind.REDIS:
                redis = servers.enter_context(server.forgetful_redis(root))
                queue = redis.address
                pids += redis.pids
            store = _new_database(postgresql.address, "bench")
            yield Place(kind, folder, store, queue, postgresql.address, tuple(pids))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _file(folder: Path) -> str:
    return f"sqlite:///{folder / 'bench.db'}"


def _new_database(admin: str, name: str) -> str:
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return admin.rpartition("/")[0] + f"/{name}"
