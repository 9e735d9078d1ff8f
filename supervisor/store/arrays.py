"""One open transaction on PostgreSQL: a statement over many rows goes out once, with arrays.

Secret kept here: how the statement for one row becomes the one for many. An INSERT selects from
`unnest`, an UPDATE or DELETE joins with it, a list of ids or of VALUES becomes arrays: one round
trip whatever the number of rows, and a plan that can be kept. Only the PostgreSQL store makes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Insert, String
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.types import NullType, TypeEngine

from supervisor.store.session import (
    Answer,
    Build,
    BuildSized,
    Ordered,
    Session,
    Statements,
    Write,
    hinted,
)

#: A parameter as the dialect writes it, with the cast it may add.
_PARAMETER = re.compile(r"%\((\w+)\)s(?:::[A-Z]+(?: WITH TIME ZONE)?(?:\(\d+\))?)?")
_ONE_OF = re.compile(rf"IN \({_PARAMETER.pattern}\)")
_ROW = re.compile(rf"VALUES \({_PARAMETER.pattern}(?:, {_PARAMETER.pattern})*\)")


#: Held by the transaction, so it works through a pooler too; in one order, so that two never wait
#: for each other.
_LOCK = (
    "SELECT pg_advisory_xact_lock(hashtextextended(key, 5))"
    " FROM (SELECT unnest(%s::text[]) AS key ORDER BY 1) AS keys"
)


#: Writes a value (not None) as it stands in the text of an array.
Writer = Callable[[Any], str]


def _text(one: str) -> str:
    return '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"'


_WRITERS: dict[str, Writer] = {
    "::text[]": _text,
    "::TIMESTAMP WITH TIME ZONE[]": datetime.isoformat,
}


def _array(write: Writer, column: Sequence[Any]) -> str:
    """Return an array as text: the driver's own way costs fifteen times as much."""
    distinct = set(column)
    if 4 * len(distinct) <= len(column):  # in a batch much is the same: it is written once
        words = {one: "NULL" if one is None else write(one) for one in distinct}
        parts = [words[one] for one in column]
    else:
        parts = ["NULL" if one is None else write(one) for one in column]
    return "{" + ",".join(parts) + "}"


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The ways of one statement: for one row, for arrays of rows, for arrays in place of one row.

    `writers` write the values of each parameter.
    """

    one: str
    many: str
    each: str
    writers: tuple[Writer, ...]
    answers: bool

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """Return these rows as one array for each parameter."""
        return [
            _array(write, column)
            for write, column in zip(self.writers, zip(*rows, strict=True), strict=True)
        ]


class ArrayStatements(Statements):
    """The SQL of every statement used so far, in each of its ways."""

    def __init__(self) -> None:
        super().__init__(PGDialect_psycopg(paramstyle="pyformat"))  # type: ignore[no-untyped-call]
        self._compiled: dict[Callable[..., Ordered], _Compiled] = {}

    def compiled(self, build: Callable[..., Ordered], *sized: int) -> _Compiled:
        """Return the ways of a statement."""
        return self._compiled.get(build) or self._compile_ways(build, build(*sized))

    def _compile_ways(self, build: Callable[..., Ordered], what: Ordered) -> _Compiled:
        keys = list(what.names) if isinstance(what.statement, Insert) else None
        made: Any = what.statement.compile(dialect=self.dialect, column_keys=keys)  # type: ignore[attr-defined]
        sql = " ".join(hinted(str(made.string), self.dialect).split())
        found = tuple(_PARAMETER.findall(sql))
        if found != what.names:
            raise AssertionError(f"{build.__qualname__} takes {found}, declared {what.names}")
        arrays = {name: self._array(made.binds[name].type) for name in found}
        ways = _Compiled(
            one=_PARAMETER.sub(lambda m: f"%s{arrays[m[1]][:-2]}", sql),
            many=_many(sql, arrays) if found else sql,
            each=_each(sql, arrays),
            writers=tuple(_WRITERS.get(array, str) for array in arrays.values()),
            answers=sql.startswith(("SELECT", "WITH")) or " RETURNING " in sql,
        )
        self._compiled[build] = ways
        return ways

    def _array(self, kind: TypeEngine[Any]) -> str:
        """Return the cast to an array of a type; none to one that nobody declared."""
        if isinstance(kind, NullType):
            return "[]"
        if isinstance(kind, String):
            return "::text[]"  # a cast to VARCHAR(n) would cut without a word
        return f"::{self.dialect.type_compiler_instance.process(kind)}[]"


def _many(sql: str, arrays: dict[str, str]) -> str:
    """Return a statement over arrays of its parameters."""
    given = ", ".join(f"%s{arrays[name]}" for name in arrays)
    joined = _PARAMETER.sub(lambda m: f"it.{m[1]}", sql)
    names = ", ".join(arrays)
    if sql.startswith("INSERT"):
        into, _, rest = joined.partition(" VALUES (")
        values, _, tail = rest.partition(")")
        return f"{into} SELECT {values} FROM unnest({given}) AS it ({names}){tail}"
    word = "USING" if sql.startswith("DELETE") else "FROM"
    head, where, tail = joined.partition(" WHERE ")
    return f"{head} {word} unnest({given}) AS it ({names}){where}{tail}"


def _each(sql: str, arrays: dict[str, str]) -> str:
    """Return a statement over one row of a list with arrays in its place."""
    sql = _ONE_OF.sub(lambda m: f"= ANY(%s{arrays[m[1]]})", sql)
    given = ", ".join(f"%s{array}" for array in arrays.values())
    return _ROW.sub(f"SELECT * FROM unnest({given})", sql)


class ArraySession(Session):
    """A connection in an open transaction on PostgreSQL, or `begin` opens one in a pipeline.

    It is opened when it must be: a statement that is alone is a transaction by itself. In the
    pipeline what asks for no answer is sent and not waited for; its error comes with the next
    answer, or at the end.
    """

    __slots__ = ("_alone", "_begin", "_connection", "_may_be_alone", "_pipeline")

    has_leases = True
    _statements: ArrayStatements

    def __init__(
        self,
        connection: Any,
        statements: ArrayStatements,
        begin: Callable[[], Any] | None = None,
        *,
        may_be_alone: bool = True,
    ) -> None:
        super().__init__(None, statements)
        self._connection = connection
        self._may_be_alone = may_be_alone
        self._begin = begin
        self._pipeline: Any = None
        self._alone: tuple[str, Sequence[Any]] | None = None

    def end(self) -> Any:
        """Run the one statement that there was, or send the COMMIT and return its cursor."""
        if self._begin is None:
            return self._connection.execute("COMMIT", prepare=False)
        if self._alone is not None:
            self._connection.execute(*self._alone)
        return None

    def rows(self, build: Build, *parameters: Any) -> list[Any]:
        return self.ask(build, *parameters)()

    def ask(self, build: Build, *parameters: Any) -> Answer:
        answer: Answer = self._run(self._statements.compiled(build).one, parameters).fetchall
        return answer

    def ask_of(self, build: BuildSized, wanted: Iterable[str]) -> Answer:
        given = [(one,) for one in dict.fromkeys(wanted)]
        if not given:
            return list
        ways = self._statements.compiled(build, 1)
        answer: Answer = self._run(ways.each, ways.columns(given)).fetchall
        return answer

    def row(self, build: Build, *parameters: Any) -> Any:
        return self._run(self._statements.compiled(build).one, parameters).fetchone()

    def rows_for(self, build: BuildSized, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        if not given:
            return []
        ways = self._statements.compiled(build, 1)
        cursor = self._run(ways.each, ways.columns(given))
        return cursor.fetchall() if ways.answers else []

    def write(self, build: Build, *parameters: Any) -> int:
        cursor = self._run(self._statements.compiled(build).one, parameters)
        if self._pipeline is not None:
            self._pipeline.sync()
        count: int = cursor.rowcount
        return count

    def write_many(self, build: Build, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        ways = self._statements.compiled(build)
        if len(rows) == 1:
            self._send(ways.one, rows[0])
        else:
            self._send(ways.many, ways.columns(rows))

    def write_together(self, *writes: Write) -> None:
        """Insert rows into several tables in one statement: each costs what a row or two cost."""
        chosen = [(self._statements.compiled(build), rows) for build, rows in writes if rows]
        if not chosen:
            return
        *first, last = [ways.one if len(rows) == 1 else ways.many for ways, rows in chosen]
        parts = ", ".join(f"part_{at} AS ({sql})" for at, sql in enumerate(first))
        values = [
            value
            for ways, rows in chosen
            for value in (rows[0] if len(rows) == 1 else ways.columns(rows))
        ]
        self._send(f"WITH {parts} {last}" if parts else last, values)

    def lock(self, keys: Sequence[str]) -> None:
        self._run(_LOCK, [_array(_text, keys)]).fetchall()

    def decode(self, value: Any) -> Any:
        return value.astimezone(UTC) if isinstance(value, datetime) else value

    def _send(self, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement that asks for no answer."""
        if self._begin is not None and self._alone is None and self._may_be_alone:
            self._alone = sql, parameters
        else:
            self._run(sql, parameters)

    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:
        if self._begin is not None:
            self._pipeline, self._begin = self._begin(), None
            if self._alone is not None:
                self._run(*self._alone)
        cursor = self._connection.cursor()
        cursor.execute(sql, parameters)
        return cursor
