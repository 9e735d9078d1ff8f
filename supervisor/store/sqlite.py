"""A store in an SQLite file: one node, any number of clients on the same host.

Secret kept here: SQLite's pragmas and locks, and the plain words for its errors. Invariants: a
reading open creates nothing; a deleted file is never created anew behind a running node; writers
hold one BEGIN IMMEDIATE at a time and retry it with jitter (a busy handler starves them).
"""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.pool import PoolProxiedConnection

from supervisor.clock import Clock, SystemClock
from supervisor.errors import ConfigError, Refused, StoreUnavailable, SupervisorError
from supervisor.store.engine import WRITE_DEADLINE_S, Store, is_present, rolled_back
from supervisor.store.session import Session, Statements

#: Pause between tries; measured: p50 0.2 ms and p99 3 ms against a node that commits every 1 ms.
RETRY_PAUSE_S = (0.0002, 0.001)
READ_BUSY_MS = 5000
#: A submit changes nine pages, of which each is written whole: half the usual size is 6 % faster.
PAGE_BYTES = 2048
#: The log is copied into the file when it has 8 MB, and is used from its start again.
CHECKPOINT_PAGES = 4000


class FileStore(Store):
    """An open store in a file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path: Path = path
        self.url = f"sqlite:///{quote(str(path))}"
        self.name = str(path)
        self.clock = clock
        self._readers = _engine(path, busy_ms=READ_BUSY_MS, read_only=True)
        self._writers = _engine(path, busy_ms=0, read_only=False)
        self.statements = Statements(self._writers.dialect)
        self._idle: list[PoolProxiedConnection] = []  # the pool's own round trip costs a tenth
        with plain_errors(path):
            self._keeper = self._writers.raw_connection()  # still reads a file that was deleted
            self._inode = _inode(path)

    @contextmanager
    def writing(self, *, wait_s: float = WRITE_DEADLINE_S) -> Iterator[Session]:
        with plain_errors(self.path):
            connection = self._writer()
            try:
                cursor = connection.cursor()
                self._begin(cursor, wait_s)
                try:
                    yield Session(cursor, self.statements)
                    cursor.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):  # the first error says more
                        cursor.execute("ROLLBACK")
                    raise
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)

    def _writer(self) -> PoolProxiedConnection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._writers.raw_connection()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        opened = self._readers.connect
        with plain_errors(self.path), opened() as connection, rolled_back(connection, "BEGIN"):
            yield connection

    @contextmanager
    def looking(self) -> Iterator[Session]:
        with self.reading() as connection:
            yield Session(connection.connection.cursor(), self.statements)

    def join(self, connection: sa.Connection) -> Session:
        if connection.dialect.name != self.statements.dialect.name:
            raise Refused(
                f"the connection is to {connection.dialect.name}, the store is {self.path}",
                remedy="Pass a connection to the task store's own database.",
            )
        if not connection.in_transaction():
            connection.begin()
        driver: Any = connection.connection.driver_connection
        files = {row[1]: row[2] for row in driver.execute("PRAGMA database_list")}
        if not _same_file(files.get("main", ""), self.path):
            raise Refused(
                f"the connection is open on {files.get('main') or 'memory'}, not on {self.path}",
                remedy="Pass a connection to the task store's own database.",
            )
        with plain_errors(self.path):
            cursor = driver.cursor()
            # Writes nothing but takes the lock, so that what is read next cannot be outdated.
            cursor.execute("UPDATE queues SET paused = paused WHERE queue = ''")
        if not driver.in_transaction:
            raise Refused(
                "the connection is in autocommit: there is no transaction to join",
                remedy="Pass a connection inside `with engine.begin() as connection:`.",
            )
        return Session(cursor, self.statements)

    def _begin(self, cursor: Any, wait_s: float) -> None:
        give_up = self.clock.mono() + wait_s
        while True:
            try:
                cursor.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or self.clock.mono() >= give_up:
                    raise
            else:
                return
            self.clock.sleep(random.uniform(*RETRY_PAUSE_S))

    def file_changed(self) -> bool:
        try:
            return _inode(self.path) != self._inode
        except (FileNotFoundError, NotADirectoryError):
            return True

    def rescue(self, target: Path) -> Path:
        path = _new_file(target)
        try:
            with plain_errors(path), closing(sqlite3.connect(path)) as copy:
                driver: Any = self._keeper.driver_connection
                driver.backup(copy)
        except BaseException:
            path.unlink()  # a caller that tries again would fill the directory with empty files
            raise
        return path

    def hold(self) -> None:
        """Let the connection kept for a rescue open the log too, while its file is still there."""
        with plain_errors(self.path):
            self._keeper.cursor().execute("SELECT count(*) FROM sqlite_master").fetchall()

    def upgrade(self) -> None:
        from supervisor.store.migrations import upgrade  # alembic costs 0.2 s: only when needed

        with (
            plain_errors(self.path),
            self._writers.connect() as connection,
            connection.begin(),  # Alembic leaves a transaction alone that is already open
        ):
            self._begin(connection.connection.cursor(), WRITE_DEADLINE_S)
            upgrade(connection)  # a no-op if another process did it while we waited

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        self._keeper.close()
        self._readers.dispose()
        self._writers.dispose()


def open_file(url: str, *, create: bool, clock: Clock) -> FileStore:
    """Open the file at `url`; with `create`, make one if there is none.

    Raises: StoreUnavailable when there is none (and `create` is False) or it cannot be opened;
    ConfigError for a store in memory or a relative path.
    """
    path = store_path(url)
    if create:
        _make_file(path)
    elif not is_present(path):
        raise StoreUnavailable(
            f"no store at {path}",
            remedy="Name another with --store or SUPERVISOR_STORE, or create it: "
            "`supervisor db upgrade`.",
            path=str(path),
        )
    store = FileStore(path, clock)
    try:
        store.hold()
    except BaseException:
        store.close()
        raise
    return store


def store_path(url: str) -> Path:
    """Return the absolute path an SQLite URL names.

    Raises: ConfigError for a store in memory or a relative path.
    """
    parsed = make_url(url)
    name = parsed.database or ":memory:"
    if name == ":memory:" or not Path(name).is_absolute():
        raise ConfigError(
            f"the store must be an absolute path, not {name!r}",
            remedy="Write sqlite:////absolute/path.db (four slashes)",
        )
    return Path(name)


def _make_file(path: Path) -> None:
    if is_present(path):
        return  # whether it can be written is told by SQLite, in words about a store that is there
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise _cannot_create(path, error) from error


def _new_file(target: Path) -> Path:
    for number in itertools.count():
        path = target.with_name(f"{target.name}.{number}") if number else target
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            continue
        except OSError as error:
            raise _cannot_create(path, error) from error
        break
    return path


def _cannot_create(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"cannot create the store {path}: {error.strerror}",
        remedy="Choose a place you may write to, with --store or SUPERVISOR_STORE.",
        path=str(path),
    )


def _engine(path: Path, *, busy_ms: int, read_only: bool) -> sa.Engine:
    # mode=rw: a connection made after the file was deleted must fail, not make an empty one.
    uri = f"file:{quote(str(path))}?mode=rw"

    def connect() -> sqlite3.Connection:
        driver = sqlite3.connect(
            uri,
            uri=True,
            check_same_thread=False,
            isolation_level=None,  # we say BEGIN and COMMIT ourselves
            cached_statements=256,
        )
        try:
            _prepare(driver, busy_ms=busy_ms, read_only=read_only)
        except BaseException:
            driver.close()
            raise
        return driver

    return sa.create_engine(
        "sqlite://",
        creator=connect,
        poolclass=sa.QueuePool,
        pool_size=5,
        max_overflow=50,
        pool_reset_on_return=None,  # every user here ends its transaction itself
    )


def _prepare(driver: sqlite3.Connection, *, busy_ms: int, read_only: bool) -> None:
    driver.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a file that is still empty
    _log_ahead(driver)
    for pragma in (
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"busy_timeout = {READ_BUSY_MS}",  # others may be setting up the store as well
        "synchronous = FULL",  # a commit that was answered survives a power cut
        "foreign_keys = ON",
        f"query_only = {int(read_only)}",
        f"busy_timeout = {busy_ms}",
    ):
        driver.execute(f"PRAGMA {pragma}")


def _log_ahead(driver: sqlite3.Connection) -> None:
    """Put a database into WAL mode; nothing to do when it is in it already.

    Of several that do it to a new file at once, some are told that it is locked without a wait.
    """
    clock = SystemClock()
    give_up = clock.mono() + WRITE_DEADLINE_S
    while True:
        try:
            driver.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or clock.mono() >= give_up:
                raise
        else:
            return
        clock.sleep(random.uniform(*RETRY_PAUSE_S))


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return (error.sqlite_errorcode & 0xFF) == sqlite3.SQLITE_BUSY


def _same_file(name: str, path: Path) -> bool:
    try:
        return _inode(Path(name)) == _inode(path)
    except OSError:
        return False


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


_PLAIN = {
    sqlite3.SQLITE_BUSY: ("is locked by another process", "Find who holds it: `fuser PATH`."),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", "Find who holds it: `fuser PATH`."),
    sqlite3.SQLITE_READONLY: ("is read-only", "Check owner and mode of the file and its folder."),
    sqlite3.SQLITE_FULL: ("cannot grow: the disk is full", "Free space on its file system."),
    sqlite3.SQLITE_CORRUPT: (
        "is malformed",
        "Stop every node and recover it: `sqlite3 PATH .recover`.",
    ),
    sqlite3.SQLITE_NOTADB: ("is not an SQLite database", "Check the store's path."),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened: it is gone, or its folder cannot be written",
        "Check that the file exists, and owner and mode of its folder.",
    ),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", "Check the disk (`dmesg`)."),
    sqlite3.SQLITE_ERROR: (
        "has other tables than this version writes",
        "Put the right file in place, or run `supervisor db upgrade`.",
    ),
    sqlite3.SQLITE_PERM: ("may not be accessed", "Check owner and mode of the file."),
}


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn the driver's errors into StoreUnavailable that says what a person can do.

    A constraint is a bug of ours and is left as it is. A statement that does not fit the tables may
    be one too, but what was to be written is kept: somebody may have swapped the file.
    """
    try:
        yield
    except SupervisorError:
        raise
    except (sqlite3.Error, sa.exc.DBAPIError) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        code = getattr(cause, "sqlite_errorcode", None)
        if code is None or (code & 0xFF) not in _PLAIN:
            raise
        what, remedy = _PLAIN[code & 0xFF]
        if code == sqlite3.SQLITE_ERROR:
            what = f"{what}: {cause}"
        raise StoreUnavailable(
            f"the store {path} {what}",
            remedy=remedy.replace("PATH", str(path)),
            path=str(path),
            code=getattr(cause, "sqlite_errorname", ""),
        ) from error
