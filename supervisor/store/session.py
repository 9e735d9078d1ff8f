"""One open transaction on the driver, with statements compiled once for each store.

Secret kept here: how a Core statement becomes text and positional parameters for the driver's
cursor, so that a hot verb pays for no SQLAlchemy object per row. Invariant: the order of parameters
a statement declares is the order its SQL has. Only the ledger's modules use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import BindParameter, Dialect, Insert, String, Table, bindparam, text
from sqlalchemy.sql.base import Executable

from supervisor.store.schema import from_micros, to_micros

#: What needs more parameters goes in several statements (SQLite's oldest limit is 999).
PARAMETERS_MAX = 512
#: Rows inserted by one statement: with at most 20 columns each, far from the limit of parameters.
ROWS_MAX = 64

#: To other databases these are comments, to planners they say which index to use, or (a plus
#: before a column) that none of this column may be used: the ids are what leads to the rows.
_INDEXED_BY = re.compile(r"/\* (INDEXED BY \w+) \*/")
_NO_INDEX = re.compile(r"/\* \+ \*/([\w.]+)")


def hinted(sql: str, dialect: Dialect) -> str:
    """Return a statement with its index hints as this database wants them."""
    if dialect.name == "sqlite":
        return _NO_INDEX.sub(r"+\1", _INDEXED_BY.sub(r"\1", sql))
    return _NO_INDEX.sub(r"(\1 || '')", _INDEXED_BY.sub("", sql))


@dataclass(frozen=True, slots=True)
class Ordered:
    """A Core statement and the names of its parameters in the order the caller passes them."""

    statement: Executable
    names: tuple[str, ...]


Build = Callable[[], Ordered]
BuildSized = Callable[[int], Ordered]
#: Returns the rows of a query that was sent, waiting for them if need be.
Answer = Callable[[], list[Any]]
#: A statement and the rows it is for.
Write = tuple[Build, Sequence[tuple[Any, ...]]]


def ordered(statement: Executable, *names: str) -> Ordered:
    """Declare the parameters of a statement."""
    return Ordered(statement, names)


def insert_into(table: Table, *columns: str, **constants: str) -> Ordered:
    """Declare an INSERT of these columns, which must be in the table's own order.

    `constants` are columns that hold the same in every row, as SQL writes it.
    """
    insert = table.insert().inline()  # nobody asks which key the database chose
    if not constants:
        return Ordered(insert, columns or tuple(column.name for column in table.columns))
    values = {name: bindparam(name, type_=table.c[name].type) for name in columns}
    same = {name: text(value) for name, value in constants.items()}
    return Ordered(insert.values({**values, **same}), columns)


def ids(size: int) -> list[BindParameter[Any]]:
    """Return the parameters of an IN list of that size."""
    return [bindparam(name, type_=String) for name in id_names(size)]


def id_names(size: int) -> tuple[str, ...]:
    """Return their names."""
    return tuple(f"id_{index}" for index in range(size))


def storable(text: str | None) -> str | None:
    """Return a text any backend can keep: lone surrogates as their escapes, NUL as a mark.

    What a task raises or prints may hold both; its ending must not fail for that.
    """
    if text is None:
        return None
    if "\0" in text:
        text = text.replace("\0", "\N{SYMBOL FOR NULL}")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class Statements:
    """The SQL of every statement used so far, by the function that builds it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._sql: dict[tuple[Callable[..., Ordered], int], str] = {}

    def sql(self, build: Build) -> str:
        """Return the text of a statement."""
        key = (build, 0)
        return self._sql.get(key) or self._compile(key, build())

    def sized(self, build: BuildSized, size: int) -> str:
        """Return the text of a statement over `size` ids."""
        key = (build, size)
        return self._sql.get(key) or self._compile(key, build(size))

    def _compile(self, key: tuple[Callable[..., Ordered], int], what: Ordered) -> str:
        keys = list(what.names) if isinstance(what.statement, Insert) else None
        compiled: Any = what.statement.compile(dialect=self.dialect, column_keys=keys)  # type: ignore[attr-defined]
        found = tuple(compiled.positiontup or ())
        if found != what.names:
            raise AssertionError(f"{key[0].__qualname__} takes {found}, declared {what.names}")
        self._sql[key] = sql = hinted(str(compiled.string), self.dialect)
        return sql


class Session:
    """The cursor of an open transaction; times go in and out in the backend's own form."""

    __slots__ = ("_cursor", "_statements")

    #: Whether nodes hold leases here: then who claims must hold one.
    has_leases = False

    def __init__(self, cursor: Any, statements: Statements) -> None:
        self._cursor = cursor
        self._statements = statements

    def rows(self, build: Build, *parameters: Any) -> list[Any]:
        """Run a query and return its rows as tuples."""
        found: list[Any] = self._cursor.execute(self._statements.sql(build), parameters).fetchall()
        return found

    def ask(self, build: Build, *parameters: Any) -> Answer:
        """Send a query whose rows are fetched later, at the end of the transaction at the latest.

        What is asked one after the other costs one round trip, where there are any.
        """
        found = self.rows(build, *parameters)
        return lambda: found

    def ask_of(self, build: BuildSized, wanted: Iterable[str]) -> Answer:
        """Do the same with a query over any number of ids."""
        found = self.rows_of(build, wanted)
        return lambda: found

    def row(self, build: Build, *parameters: Any) -> Any:
        """Run a query and return its first row or None."""
        return self._cursor.execute(self._statements.sql(build), parameters).fetchone()

    def rows_of(self, build: BuildSized, wanted: Iterable[str]) -> list[Any]:
        """Run a statement over any number of ids."""
        return self.rows_for(build, [(one,) for one in dict.fromkeys(wanted)])

    def rows_for(self, build: BuildSized, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run a statement over any number of rows of parameters and return what it returns.

        Sizes are powers of two, so that few are compiled: the last row is given again to fill one.
        """
        found: list[Any] = []
        most = 1 << (PARAMETERS_MAX // len(given[0])).bit_length() - 1 if given else 1
        for start in range(0, len(given), most):
            chunk = list(given[start : start + most])
            size = 1 << (len(chunk) - 1).bit_length()
            chunk += chunk[-1:] * (size - len(chunk))
            sql = self._statements.sized(build, size)
            found += self._cursor.execute(sql, list(chain.from_iterable(chunk))).fetchall()
        return found

    def write(self, build: Build, *parameters: Any) -> int:
        """Run one statement that writes; return how many rows it touched."""
        count: int = self._cursor.execute(self._statements.sql(build), parameters).rowcount
        return count

    def write_many(self, build: Build, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run one statement for each row; rows to insert go in many at a time.

        Each step of a statement gives other threads their turn, which costs more than the row.
        """
        sql = self._statements.sql(build)
        if sql.startswith("INSERT") and sql.endswith(")") and " ON CONFLICT " not in sql:
            self._insert_many(sql, rows)
        elif len(rows) == 1:
            self._cursor.execute(sql, rows[0])
        elif rows:
            self._cursor.executemany(sql, rows)

    def write_together(self, *writes: Write) -> None:
        """Insert rows into several tables, in one statement where the backend can."""
        for build, rows in writes:
            self.write_many(build, rows)

    def _insert_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        start = 0
        while start < len(rows):
            size = min(ROWS_MAX, 1 << (len(rows) - start).bit_length() - 1)
            chunk = rows[start : start + size]
            start += size
            more = f", {sql[sql.rindex('(') :]}" * (size - 1)
            self._cursor.execute(sql + more, list(chain.from_iterable(chunk)))

    def lock(self, keys: Sequence[str]) -> None:
        """Wait for whoever holds these keys, and hold them until the end of the transaction.

        On a file there is nobody to wait for: it has one writer at a time.
        """

    def encode(self, moment: datetime | None) -> Any:
        """Return a time as the driver wants it.

        Raises: ValueError for a naive datetime.
        """
        micros = to_micros(moment)
        return micros if self._statements.dialect.name == "sqlite" else moment

    def decode(self, value: Any) -> Any:
        """Return the aware time the driver gave (typed Any: None only where the column may be)."""
        return from_micros(value) if self._statements.dialect.name == "sqlite" else value
