"""Every statement that a store sends, caught at the driver, with the work it was for the database.

Secret kept here: how each driver tells. On SQLite the cursor notes text and steps of the virtual
machine, and the plan is asked for the same text with parameters. On PostgreSQL auto_explain sends
each plan as it was run, with the rows that were really read. Nothing of the product knows of it.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg
import pytest

from supervisor.store.schema import metadata

#: Steps of SQLite's virtual machine between two counts.
GRAIN = 1000
_LOOKED_AT = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
#: Indexes of the rows that they are made for: what waits, is marked, lives. They are read whole.
PARTIAL = frozenset(
    str(index.name)
    for table in metadata.sorted_tables
    for index in table.indexes
    if index.dialect_options["postgresql"]["where"] is not None
)
_SCAN = re.compile(r"SCAN (\w+)(?: USING (COVERING )?INDEX (\w+))?")


class Scan(NamedTuple):
    """What is read from an end, without a key to seek; `alone`: an index without its table."""

    table: str
    index: str
    alone: bool


@dataclass(slots=True)
class Sent:
    """One statement as it was run; `label` says which verb or view sent it.

    What it took: on PostgreSQL `visited`, the rows of each table that were looked at, on SQLite
    `steps` of its machine.
    """

    label: str
    sql: str
    parameters: Any = None
    steps: int = 0
    scans: list[Scan] = field(default_factory=list)
    visited: dict[str, int] = field(default_factory=dict)

    def whole(self, tables: Collection[str]) -> list[Scan]:
        """Return what it reads of these tables, or of an index of all rows, without an end."""
        if "LIMIT" in self.sql:
            return []
        return [one for one in self.scans if one.table in tables and one.index not in PARTIAL]


@dataclass(slots=True)
class Wire:
    """What has been sent so far, in order; `label` is given to what follows."""

    sent: list[Sent] = field(default_factory=list)
    label: str = ""

    @contextmanager
    def as_(self, label: str) -> Iterator[None]:
        """Label what is sent inside."""
        self.label = label
        yield
        self.label = ""

    def add(self, sql: str, parameters: Any = None) -> Sent:
        one = Sent(self.label, sql, parameters)
        if self.label:
            self.sent.append(one)
        return one


@contextmanager
def on_file(patch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """Catch what connections to SQLite send that are made from now on."""
    wire = Wire()

    class Cursor(sqlite3.Cursor):
        def execute(self, sql: str, parameters: Any = ()) -> Any:
            self.connection.current = wire.add(sql, parameters)  # type: ignore[attr-defined]
            return super().execute(sql, parameters)

        def executemany(self, sql: str, parameters: Any) -> Any:
            rows = list(parameters)
            for row in rows:  # one by one, so that the steps are of one row
                self.execute(sql, row)
            return self

    class Connection(sqlite3.Connection):
        current: Sent | None = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.set_progress_handler(self._count, GRAIN)

        def _count(self) -> int:
            if self.current is not None:
                self.current.steps += GRAIN
            return 0

        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

    real = sqlite3.connect

    def connect(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **kwargs, factory=Connection)

    patch.setattr(sqlite3, "connect", connect)
    yield wire
    patch.setattr(sqlite3, "connect", real)


def explain_on_file(path: str, sent: list[Sent]) -> None:
    """Ask SQLite for the plans of what was sent, with its parameters unknown."""
    db = sqlite3.connect(path)
    plans: dict[str, list[Scan]] = {}
    for one in sent:
        if one.sql.split(None, 1)[0] in {"BEGIN", "COMMIT", "ROLLBACK", "PRAGMA"}:
            continue
        if one.sql not in plans:
            rows = db.execute(f"EXPLAIN QUERY PLAN {one.sql}", one.parameters).fetchall()
            found = [_SCAN.match(row[3]) for row in rows]
            plans[one.sql] = [Scan(m[1], m[3] or "", bool(m[2])) for m in found if m]
        one.scans = plans[one.sql]
    db.close()


@contextmanager
def on_server(patch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """Catch what connections to PostgreSQL send that are made from now on, as a superuser."""
    wire = Wire()
    real: Any = vars(psycopg.Connection)["connect"]

    def connect(cls: Any, *args: Any, **kwargs: Any) -> Any:
        connection = real.__func__(cls, *args, **kwargs)
        connection.add_notice_handler(lambda notice: _note(wire, notice.message_primary or ""))
        connection.execute(
            "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
            "SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off;"
            "SET auto_explain.log_format = json; SET auto_explain.log_level = notice",
            prepare=False,
        )
        return connection

    patch.setattr(psycopg.Connection, "connect", classmethod(connect))
    yield wire
    patch.setattr(psycopg.Connection, "connect", real)


def _note(wire: Wire, message: str) -> None:
    _, mark, plan = message.partition("plan:\n")
    if not mark:
        return
    told = json.loads(plan)
    one = wire.add(told["Query Text"])
    for node in _nodes(told["Plan"]):
        table = node.get("Relation Name")
        if table is None or node["Node Type"] == "ModifyTable":
            continue
        looked = node["Actual Rows"] + sum(
            node.get(name, 0)
            for name in ("Rows Removed by Filter", "Rows Removed by Index Recheck")
        )
        one.visited[table] = one.visited.get(table, 0) + looked * node["Actual Loops"]
        if "Index Cond" not in node and node["Node Type"] != "Bitmap Heap Scan":
            alone = node["Node Type"] == "Index Only Scan"
            one.scans.append(Scan(table, node.get("Index Name", ""), alone))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)
