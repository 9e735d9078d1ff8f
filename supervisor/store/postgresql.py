"""A store in a PostgreSQL database: any number of nodes and clients on any number of hosts.

Secret kept here: connections (direct or through a pooler in transaction mode: no state of a session
is relied on then), time-outs, whose time counts (the database's).
Invariant: a transaction that failed was not written, unless the link was lost at its commit, which
the error says. Where another transaction stood in the way it is a `StoreBusy`: try again.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy.engine import URL, make_url

from supervisor.clock import Clock
from supervisor.errors import ConfigError, Refused
from supervisor.settings import without_password
from supervisor.store.arrays import ArraySession, ArrayStatements
from supervisor.store.engine import WRITE_DEADLINE_S, Store, rolled_back
from supervisor.store.postgresql_error import lost_at_commit, plain_errors
from supervisor.store.schema import store_facts
from supervisor.store.session import Session

CONNECT_TIMEOUT_S = 5
#: A peer that does not answer is given up after about this long, in a statement or between two.
LINK: dict[str, Any] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "client_encoding": "UTF8",  # of a database without an encoding the driver would give bytes
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
#: Longer than any statement may take; on its way to it a wait looks up this often.
ANSWER_S, WAKE_S = 15.0, 0.1
#: What every transaction of ours lives with. A node that is cut off or stopped in the middle of one
#: must not keep its rows locked for longer than others can wait.
_LIMITS = {
    "lock_timeout": "5s",
    "statement_timeout": "10s",
    "idle_in_transaction_session_timeout": "5s",
    "timezone": "UTC",
    # Each statement has its index. A plan made while a table was empty, or before anybody counted
    # its rows, must not read, sort or hash all of it for as long as the plan is kept.
    **dict.fromkeys(
        ("enable_seqscan", "enable_sort", "enable_hashjoin", "enable_mergejoin", "jit"), "off"
    ),
}
#: Statements that were sent twice are kept prepared, with a plan made once for any parameters: what
#: a batch holds changes, how it is found does not.
_DIRECT = {**_LIMITS, "plan_cache_mode": "force_generic_plan"}
PREPARE_AFTER = 1
#: A connection that was used so short a time ago, and is quiet, is not asked whether it lives.
TRUSTED_S = 1.0
#: The database's time is carried on by our own clock for this long.
MEASURE_EVERY_S = 10.0
#: Numbers the lock under which tables are changed.
_UPGRADE_LOCK = 7_716_253_590


class _Line(psycopg.Connection[Any]):
    """A connection that is given up when the server owes an answer for too long.

    The kernel gives up a peer that acknowledges nothing; one behind a proxy may acknowledge all and
    never answer.
    """

    answer_s: float | None = ANSWER_S
    used_at = float("-inf")

    def is_quiet(self) -> bool:
        """Say whether nothing has come in while it was idle: what comes then is its end."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return not poll.poll(0)

    def wait(self, gen: Any, interval: float = WAKE_S, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, self.answer_s if timeout is None else timeout)
        except psycopg.errors._WaitTimeout as error:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer for {self.answer_s} s") from error


class DatabaseClock:
    """The database's time, measured now and then and carried on by a clock that nobody sets."""

    def __init__(self, own: Clock) -> None:
        self._own = own
        #: The database's time at a moment of `boot()`; replaced as a whole, since others read it.
        self._anchor = own.now(), own.boot()
        self.measured_at = float("-inf")
        self.skew_s = 0.0

    def measured(self, theirs: datetime, before: float, after: float) -> None:
        """Take in what the database said between two moments of `boot()`."""
        middle = (before + after) / 2
        off = (theirs - self._at(middle)).total_seconds()
        if self.measured_at == float("-inf") or abs(off) > (after - before) / 2:
            self._anchor = theirs, middle
        self.measured_at = after
        self.skew_s = (self._own.now() - self._at(self._own.boot())).total_seconds()

    def _at(self, boot: float) -> datetime:
        base, base_boot = self._anchor
        return base + timedelta(seconds=boot - base_boot)

    def now(self) -> datetime:
        return self._at(self._own.boot())

    def mono(self) -> float:
        return self._own.mono()

    def boot(self) -> float:
        return self._own.boot()

    def sleep(self, seconds: float) -> None:
        self._own.sleep(seconds)


class ServerStore(Store):
    """An open store on a server; `is_pooled` says that a pooler stands between."""

    is_shared = True

    def __init__(self, url: URL, own: Clock) -> None:
        self.url = url.render_as_string(hide_password=False)
        self.name = without_password(self.url)
        self.is_pooled = False
        self.clock: DatabaseClock = DatabaseClock(own)
        self.statements = ArrayStatements()
        self._arguments = _arguments(url)
        self._idle: list[_Line] = []
        self._engine = sa.create_engine(
            "postgresql+psycopg://",
            creator=self._connect,
            poolclass=sa.QueuePool,
            pool_size=5,
            max_overflow=50,
            pool_pre_ping=True,
            pool_reset_on_return=None,  # every user here ends its transaction itself
        )

    def open(self) -> None:
        """Connect once, and learn what is true of the store as a whole."""
        with plain_errors(self.name):
            self._idle.append(self._connect())
            self._learn_identity()

    def _learn_identity(self) -> None:
        with self._engine.connect() as connection:
            if sa.inspect(connection).has_table(store_facts.name):
                self.identity = _identity(connection) or ""

    def _connect(self) -> _Line:
        try:
            connection = _Line.connect(
                **self._arguments, autocommit=True, prepare_threshold=PREPARE_AFTER
            )
        except psycopg.ProgrammingError as error:
            raise ConfigError(
                f"the address of the store {self.name}: {' '.join(str(error).split())}",
                remedy="Correct what stands behind the `?`: PostgreSQL names it in "
                "`Parameter Key Words` of its client library.",
            ) from error
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: _Line) -> None:
        answer: Any = self._measure(connection)
        self.is_pooled = answer[1] != connection.info.backend_pid
        if self.is_pooled:  # the next transaction may run in another session
            connection.prepare_threshold = None
        else:
            connection.execute("".join(f"SET {k} = '{v}';" for k, v in _DIRECT.items()))

    def _measure(self, connection: _Line) -> Any:
        before = self.clock.boot()
        answer: Any = connection.execute(
            "SELECT clock_timestamp(), pg_backend_pid()", prepare=False
        ).fetchone()
        self.clock.measured(answer[0], before, self.clock.boot())
        return answer

    @contextmanager
    def writing(self, *, wait_s: float = WRITE_DEADLINE_S) -> Iterator[Session]:  # noqa: ARG002 - time-outs of the server
        with plain_errors(self.name):
            connection = self._taken()
            sent = False
            try:
                with ExitStack() as pipeline:
                    session = ArraySession(
                        connection,
                        self.statements,
                        lambda: self._opened(connection, pipeline),
                        may_be_alone=not self.is_pooled,  # the limits are set by a BEGIN there
                    )
                    yield session
                    sent = True
                    end = session.end()
                if end is not None and end.statusmessage != "COMMIT":
                    raise AssertionError(f"a failed transaction was committed: {end.statusmessage}")
            except BaseException as error:
                self._give_up(connection, error)
                # Any other error is the server's word that a statement failed, or not an error.
                if sent and connection.closed and isinstance(error, psycopg.OperationalError):
                    raise lost_at_commit(self.name, error) from error
                raise
            self._idle.append(connection)

    def _opened(self, connection: _Line, ends: ExitStack) -> psycopg.Pipeline:
        """Begin a transaction in a pipeline."""
        if self.is_pooled:  # several statements in one need the simple protocol
            connection.execute(self._begin(), prepare=False)
        pipeline = ends.enter_context(connection.pipeline())
        if not self.is_pooled:
            connection.execute(self._begin(), prepare=False)
        return pipeline

    @contextmanager
    def looking(self) -> Iterator[Session]:
        with plain_errors(self.name):
            connection = self._taken()
            try:
                yield ArraySession(connection, self.statements)
            except BaseException:
                self._give_up(connection)
                raise
            self._idle.append(connection)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        begin = self._begin("ISOLATION LEVEL REPEATABLE READ READ ONLY")
        opened = self._engine.connect
        with plain_errors(self.name), opened() as connection, rolled_back(connection, begin):
            yield connection

    def _begin(self, how: str = "") -> str:
        begin = f"BEGIN {how};"
        if not self.is_pooled:
            return begin
        return begin + "".join(f"SET LOCAL {k} = '{v}';" for k, v in _LIMITS.items())

    def _taken(self) -> _Line:
        """Return a connection that is not known to be lost."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            try:
                if connection.is_quiet():
                    now = self.clock.boot()
                    due = self.clock.measured_at + MEASURE_EVERY_S
                    if now > min(
                        due, connection.used_at + TRUSTED_S
                    ):  # what was used a moment ago needs no question of its own
                        self._measure(connection)
                    connection.used_at = now
                    return connection
            except psycopg.OperationalError:
                pass  # lost, and noticed by the measurement
            connection.close()

    def _give_up(self, connection: _Line, error: BaseException | None = None) -> None:
        """Roll back; a connection that cannot even do that is closed, and its idle like too.

        So is one to a server that only reads: the next may be led to the primary.
        """
        try:
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                connection.close()
            elif connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.execute("ROLLBACK", prepare=False)
        except psycopg.Error:
            connection.close()
        if connection.closed:
            self._close_idle()
        else:
            self._idle.append(connection)

    def _close_idle(self) -> None:
        with suppress(IndexError):  # other threads take from it too
            while True:
                self._idle.pop().close()

    def join(self, connection: sa.Connection) -> Session:
        if connection.dialect.name != self.statements.dialect.name:
            raise Refused(
                f"the connection is to {connection.dialect.name}, the store is {self.name}",
                remedy="Pass a connection to the task store's own database.",
            )
        if not connection.in_transaction():
            connection.begin()
        driver: Any = connection.connection.driver_connection
        if driver.autocommit:
            raise Refused(
                "the connection is in autocommit: there is no transaction to join",
                remedy="Pass a connection inside `with engine.begin() as connection:`.",
            )
        found = _identity(connection) if _has_facts(connection) else None
        if found != self.identity:
            raise Refused(
                f"the connection is to another database than {self.name}",
                remedy="Pass a connection to the task store's own database.",
            )
        return _JoinedSession(driver, self.statements, self.name)

    def upgrade(self) -> None:
        from supervisor.store.migrations import upgrade  # alembic costs 0.2 s: only when needed

        with plain_errors(self.name), self._engine.connect() as connection, connection.begin():
            line: Any = connection.connection.driver_connection
            line.answer_s = None  # both the wait for another upgrade and our own may take long
            no_limit = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;"
            connection.exec_driver_sql(self._begin() + no_limit)
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")
            connection.exec_driver_sql("SET LOCAL lock_timeout = '5s'")  # nobody waits behind us
            upgrade(connection)  # a no-op if another process did it while we waited
            connection.exec_driver_sql("COMMIT")
            line.answer_s = ANSWER_S
        self._learn_identity()

    @property
    def skew_s(self) -> float:
        return self.clock.skew_s

    def close(self) -> None:
        self._close_idle()
        self._engine.dispose()


class _JoinedSession(ArraySession):
    """A session in a transaction of the caller's, who hears of its errors in our words."""

    __slots__ = ("_name",)

    def __init__(self, connection: Any, statements: ArrayStatements, name: str) -> None:
        super().__init__(connection, statements)
        self._name = name

    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:
        with plain_errors(self._name):
            return super()._run(sql, parameters)


def open_server(url: str, *, clock: Clock) -> ServerStore:
    """Connect to the server at `url`. Raises: StoreUnavailable."""
    store = ServerStore(make_url(url), clock)
    try:
        store.open()
    except BaseException:
        store.close()
        raise
    return store


def _arguments(url: URL) -> dict[str, Any]:
    """Return what libpq is told; what the URL says wins."""
    named = {
        "host": url.host,
        "port": url.port,
        "user": url.username,
        "password": url.password,
        "dbname": url.database,
    }
    given = {name: value for name, value in named.items() if value is not None}
    return {**LINK, "application_name": "supervisor", **given, **url.query}


def _has_facts(connection: sa.Connection) -> bool:
    found = connection.exec_driver_sql(f"SELECT to_regclass('{store_facts.name}')").scalar()
    return found is not None


def _identity(connection: sa.Connection) -> str | None:
    query = sa.select(store_facts.c.value).where(store_facts.c.name == "identity")
    found = connection.execute(query).scalar()
    return None if found is None else str(found)
