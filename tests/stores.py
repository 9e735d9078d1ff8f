"""Where nodes under test keep their tasks: a file, or a database (and a Redis) of their own.

Secret kept here: how a place of each kind is made and removed, and read past the product's own
reader. A kind is what a node is given as its store and queue: `sqlite`, `postgresql` (which rings
by itself) or `postgresql+redis`. Several nodes may share a place on a server.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sqlite3
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import servers

from supervisor.store import open_store

FILE, SERVER, SERVER_AND_REDIS = "sqlite", "postgresql", "postgresql+redis"


class Place(ABC):
    """One store under test."""

    url: str
    queue = "none"

    @abstractmethod
    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read rows past our own reader; each `?` stands for a value."""

    @abstractmethod
    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keep everybody else from writing."""

    @abstractmethod
    def damage(self) -> list[str]:
        """Say what the database itself finds wrong with what it holds."""

    @abstractmethod
    def remove(self) -> None:
        """Remove what was made outside of the nodes' directories."""


class File(Place):
    """A SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            return db.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()

    def damage(self) -> list[str]:
        (found,) = self.query("PRAGMA integrity_check")[0]
        return [] if found == "ok" else [str(found)]

    def remove(self) -> None:
        """It goes with its directory."""


class Database(Place):
    """A database of a PostgreSQL server, and perhaps a Redis that rings; others may share both.

    What is asked here goes past every pooler, and waits for a server that is being started again.
    """

    #: How long a server may be away while a test asks.
    PATIENCE_S = 20.0

    def __init__(
        self,
        server: servers.PostgreSQL,
        redis: servers.Redis | None = None,
        *,
        host: str = "127.0.0.1",
        through: servers.PgBouncer | None = None,
        template: str = "template1",
    ) -> None:
        self.server = server
        self.redis = redis
        self.name = f"tasks_{secrets.token_hex(6)}"
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()
        self._administer(f"CREATE DATABASE {self.name} TEMPLATE {template}")
        direct = f"postgresql://postgres@{host}:{server.port}/{self.name}"
        self.url = direct if through is None else through.url(self.name)
        if redis is not None:
            self.queue = f"redis://{host}:{redis.port}/0"

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        words: Any = sql.replace("?", "%s")
        give_up = time.monotonic() + self.PATIENCE_S
        while True:
            try:
                with self._lock:
                    return self._rows(words, values)
            except psycopg.OperationalError:
                if time.monotonic() > give_up:
                    raise
            time.sleep(0.05)

    def _rows(self, sql: Any, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = psycopg.connect(self._dsn, autocommit=True)
        try:
            return self._connection.execute(sql, values or None).fetchall()
        except psycopg.OperationalError:
            self._disconnect()
            raise

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with psycopg.connect(self._dsn) as connection:
            connection.execute("LOCK TABLE tasks, attempts, nodes, outbox IN EXCLUSIVE MODE")
            yield

    def damage(self) -> list[str]:
        return []

    def sessions(self) -> list[int]:
        """Return the pids of the server's processes that serve somebody else here."""
        rows = self.query(
            "SELECT pid FROM pg_stat_activity WHERE datname = ? AND pid <> pg_backend_pid()",
            self.name,
        )
        return [pid for (pid,) in rows]

    def end_sessions(self) -> int:
        """Let the server end all of them, in the middle of whatever they do; return how many."""
        rows = self.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = ? AND pid <> pg_backend_pid()",
            self.name,
        )
        return len(rows)

    def copy(self, redis: servers.Redis | None = None) -> Database:
        """Make another store with the same rows, on the same servers; nobody may use this one now.

        Making the tables of a new one takes twenty times as long.
        """
        self._disconnect()
        made = Database(self.server, redis or self.redis, template=self.name)
        identity = secrets.token_hex(8)
        made.query("UPDATE store_facts SET value = ? WHERE name = 'identity' RETURNING 1", identity)
        return made

    def remove(self) -> None:
        self._disconnect()
        self._administer(f"DROP DATABASE {self.name} WITH (FORCE)")

    @property
    def _dsn(self) -> str:
        return self.server.dsn.replace("dbname=postgres", f"dbname={self.name}")

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _administer(self, sql: str) -> None:
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(sql)  # type: ignore[arg-type]


class Places:
    """Makes places of any kind, on servers that are started when they are needed first.

    Their tables are there: what makes them costs a fifth of a node's start, on a server more.
    """

    def __init__(self) -> None:
        self._postgresql: servers.PostgreSQL | None = None
        self._redis: servers.Redis | None = None
        self._empty_file: Path | None = None
        self._empty_database: Database | None = None

    def make(self, kind: str, root: Path) -> Place:
        """Make a new place; a file lies in `root`. Raises: servers.ServerMissing."""
        match kind:
            case "sqlite":
                return File(Path(shutil.copy(self._file_with_tables(), root / "tasks.db")))
            case "postgresql":
                return self._database_with_tables().copy()
            case "postgresql+redis":
                return self._database_with_tables().copy(self._bell())
        raise ValueError(f"no kind of store under test: {kind}")

    @property
    def pids(self) -> set[int]:
        """Return the servers that run."""
        return {one.pid for one in (self._postgresql, self._redis) if one is not None}

    def close(self) -> None:
        """Stop the servers."""
        for server in (self._postgresql, self._redis):
            if server is not None:
                server.stop()
        if self._empty_file is not None:
            shutil.rmtree(self._empty_file.parent)

    def _file_with_tables(self) -> Path:
        if self._empty_file is None:
            self._empty_file = Path(tempfile.mkdtemp(prefix="empty-")) / "tasks.db"
            open_store(f"sqlite:///{self._empty_file}", create=True).close()
        return self._empty_file

    def _database_with_tables(self) -> Database:
        if self._empty_database is None:
            self._postgresql = servers.start_postgresql()
            self._empty_database = Database(self._postgresql)
            open_store(self._empty_database.url, create=True).close()
        return self._empty_database

    def _bell(self) -> servers.Redis:
        if self._redis is None:
            self._redis = servers.start_redis()
        return self._redis
