"""Opening the store: what every kind of it offers, the kinds by URL, and the check of its schema.

Invariants: the ledger takes `writing()`, the reader `reading()`; a reading open creates nothing. A
schema newer than this code is taken if the migration that made it says that this code survives it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from supervisor.clock import Clock, SystemClock
from supervisor.errors import ConfigError, StoreUnavailable, StoreUnready
from supervisor.settings import without_password
from supervisor.store.schema import SCHEMA_VERSION, store_facts
from supervisor.store.session import Session

#: How long a writer tries to get its turn before it says that the store is locked.
WRITE_DEADLINE_S = 5.0


class Store(ABC):
    """An open store. Safe to share between threads, not across a fork.

    `name` is for people (no password in it); `identity` tells one shared store from another, "" for
    a file; `is_shared` says that nodes of several hosts may run on it.
    """

    url: str
    name: str
    clock: Clock
    identity: str = ""
    is_shared: bool = False
    path: Path | None = None

    @abstractmethod
    def writing(self, *, wait_s: float = WRITE_DEADLINE_S) -> AbstractContextManager[Session]:
        """Hold one write transaction: committed at the end, rolled back on any error.

        Raises: StoreUnavailable when no turn was got within `wait_s`, or the store is broken.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Hold one read transaction: everything in it is seen at the same moment."""

    @abstractmethod
    def looking(self) -> AbstractContextManager[Session]:
        """Hold a session for a node's questions; a server answers each as of its own moment."""

    @abstractmethod
    def join(self, connection: sa.Connection) -> Session:
        """Return a session in the caller's transaction, which becomes a write transaction.

        Raises: Refused when the connection is in autocommit or on another database.
        """

    @abstractmethod
    def upgrade(self) -> None:
        """Run the migrations it has not seen, in one transaction."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""

    @property
    def skew_s(self) -> float:
        """How far the wall clock of this host is ahead of the store's, as last measured."""
        return 0.0

    def file_changed(self) -> bool:
        """Say whether the file at `path` is gone or is another one than was opened."""
        return False

    def rescue(self, target: Path) -> Path:
        """Save what this store holds to a new file, even when its own file was deleted.

        Returns the file it wrote: `target`, or with a number behind it, so that an earlier rescue
        is never overwritten. Raises: StoreUnavailable.
        """
        raise StoreUnavailable(f"{self.name} is no file: {target} was not written")


@contextmanager
def rolled_back(connection: sa.Connection, begin: str) -> Iterator[None]:
    """Hold a transaction that writes nothing. What ends it early is told, and nothing else."""
    connection.exec_driver_sql(begin)
    try:
        yield
    finally:
        # The link may be lost, or Ctrl-C have ended a statement: then it is rolled back already.
        with suppress(sa.exc.DBAPIError, sa.exc.PendingRollbackError):
            connection.exec_driver_sql("ROLLBACK")


def open_store(url: str, *, create: bool, clock: Clock | None = None) -> Store:
    """Open the store at `url`; with `create`, make file and tables or bring them up to date.

    Raises: StoreUnavailable when there is none (and `create` is False) or it cannot be opened;
    ConfigError for a URL that is not supported or a schema this version does not know.
    """
    store = _connect(url, create=create, clock=clock or SystemClock())
    try:
        _check_schema(store, create=create)
    except BaseException:
        store.close()
        raise
    return store


def _connect(url: str, *, create: bool, clock: Clock) -> Store:
    try:
        kind = make_url(url).get_backend_name()
    except sa.exc.ArgumentError as error:
        raise ConfigError(
            f"{without_password(url)!r} is not a store URL",
            remedy="Write sqlite:////absolute/path.db or postgresql://host/database",
        ) from error
    if kind == "sqlite":
        from supervisor.store.sqlite import open_file

        return open_file(url, create=create, clock=clock)
    if kind == "postgresql":
        from supervisor.store.postgresql import open_server

        return open_server(url, clock=clock)
    raise ConfigError(
        f"stores of kind {kind!r} are not supported",
        remedy="Use sqlite:////absolute/path.db or postgresql://host/database",
    )


def _check_schema(store: Store, *, create: bool) -> None:
    with store.reading() as connection:
        version = schema_version(connection)
        survives = version is not None and version > SCHEMA_VERSION and _survives(connection)
    if version == SCHEMA_VERSION or survives:
        return
    if version is not None and version > SCHEMA_VERSION:
        raise ConfigError(
            f"the store {store.name} has schema {version}, this version knows {SCHEMA_VERSION}",
            remedy="Install the version of task-supervisor that wrote it, or a newer one.",
        )
    if not create:
        what = "holds no task store" if version is None else f"has the older schema {version}"
        raise StoreUnready(
            f"{store.name} {what}",
            remedy="Run `supervisor db upgrade`.",
            path=store.name,
            schema=version,
        )
    store.upgrade()


def schema_version(connection: sa.Connection) -> str | None:
    """Return the revision that a database has; None when it holds no task store."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
    return None if row is None else str(row[0])


def _survives(connection: sa.Connection) -> bool:
    """Whether the newer schema says that code which knows ours may still run on it."""
    query = sa.select(store_facts.c.value).where(store_facts.c.name == "oldest_code")
    oldest = connection.execute(query).scalar()
    return oldest is not None and str(oldest) <= SCHEMA_VERSION


def is_present(path: Path) -> bool:
    """Say whether there is something at a path; False too where we may not look."""
    try:
        path.stat()
    except OSError:
        return False
    return True
