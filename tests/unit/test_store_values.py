"""The store's pure parts: times, URLs, statements, plain words for errors. Nothing is opened."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from supervisor.errors import ConfigError, IllegalTransition, Refused, StoreUnavailable
from supervisor.model.spec import bad_text
from supervisor.store import open_store
from supervisor.store.ledger.intervene import Act
from supervisor.store.schema import Moment, from_micros, metadata, tasks, to_micros
from supervisor.store.session import Ordered, Statements, id_names, ids, ordered, storable
from supervisor.store.sqlite import plain_errors, store_path


def _dialect(url: str, **options: Any) -> sa.Dialect:
    kind: Any = make_url(url).get_dialect()
    made: sa.Dialect = kind(**options)
    return made


SQLITE = _dialect("sqlite://")
POSTGRESQL = _dialect("postgresql+psycopg://", paramstyle="format")
NOON = datetime(2026, 5, 20, 12, 0, 0, 123456, tzinfo=UTC)


@given(st.datetimes(timezones=st.timezones()))
def test_a_time_survives_as_microseconds(moment: datetime) -> None:
    try:
        as_utc = moment.astimezone(UTC)
    except OverflowError:
        return
    assert from_micros(to_micros(moment)) == as_utc


def test_no_time_is_no_number() -> None:
    assert to_micros(None) is None
    assert from_micros(None) is None


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRESQL])
def test_a_naive_time_is_refused_on_every_backend(dialect: sa.Dialect) -> None:
    with pytest.raises(ValueError, match="without an offset"):
        Moment().process_bind_param(NOON.replace(tzinfo=None), dialect)


def test_a_time_is_a_number_on_sqlite_and_a_timestamp_elsewhere() -> None:
    moment = Moment()
    assert moment.process_bind_param(NOON, SQLITE) == 1779278400123456
    assert moment.process_result_value(1779278400123456, SQLITE) == NOON
    assert moment.process_bind_param(NOON, POSTGRESQL) == NOON
    elsewhere = NOON.astimezone(timezone(timedelta(hours=8)))
    read = moment.process_result_value(elsewhere, POSTGRESQL)
    assert read is not None
    assert (read, read.tzinfo) == (NOON, UTC)


def test_every_table_compiles_for_postgresql() -> None:
    for table in metadata.sorted_tables:
        ddl = str(sa.schema.CreateTable(table).compile(dialect=POSTGRESQL))
        assert ddl.strip().startswith(f"CREATE TABLE {table.name}")
        assert "TIMESTAMP WITHOUT" not in ddl


def test_a_store_is_an_absolute_path() -> None:
    assert store_path("sqlite:////var/lib/tasks.db") == Path("/var/lib/tasks.db")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///tasks.db",
        "mysql://db/tasks",
        "tasks.db",
        "",
    ],
)
def test_any_other_store_is_a_config_error_with_a_remedy(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_store(url, create=False)
    assert "sqlite:////absolute/path.db" in error.value.remedy


def _by_ids(size: int) -> Ordered:
    return ordered(sa.select(tasks.c.state).where(tasks.c.task_id.in_(ids(size))), *id_names(size))


def _wrong() -> Ordered:
    return ordered(sa.select(tasks.c.state).where(tasks.c.task_id == sa.bindparam("a")), "b")


def _hinted() -> Ordered:
    return ordered(sa.text("SELECT 1 FROM tasks /* INDEXED BY tasks_due */"))


def test_statements_are_compiled_once_for_each_size() -> None:
    statements = Statements(SQLITE)
    two = statements.sized(_by_ids, 2)
    assert two.count("?") == 2
    assert statements.sized(_by_ids, 2) is two
    assert statements.sized(_by_ids, 4).count("?") == 4


def test_parameters_that_do_not_match_the_statement_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="declared"):
        Statements(SQLITE).sql(_wrong)


def test_an_index_hint_is_words_for_sqlite_only() -> None:
    assert Statements(SQLITE).sql(_hinted).endswith("FROM tasks INDEXED BY tasks_due")
    other = Statements(POSTGRESQL).sql(_hinted)
    assert other.rstrip().endswith("FROM tasks")


def _driver_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("as the driver says it")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_BUSY, "is locked by another process"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "is locked by another process"),
        (sqlite3.SQLITE_READONLY, "is read-only"),
        (sqlite3.SQLITE_FULL, "the disk is full"),
        (sqlite3.SQLITE_CORRUPT, "is malformed"),
        (sqlite3.SQLITE_NOTADB, "is not an SQLite database"),
        (sqlite3.SQLITE_CANTOPEN, "it is gone"),
        (sqlite3.SQLITE_IOERR_FSYNC, "cannot be read or written"),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_what_the_driver_says_is_told_plainly(code: int, words: str, wrapped: bool) -> None:
    cause: Exception = _driver_error(code)
    if wrapped:
        cause = sa.exc.OperationalError("SELECT 1", {}, cause)
    with pytest.raises(StoreUnavailable) as error, plain_errors(Path("/x/tasks.db")):
        raise cause
    assert error.value.message.startswith("the store /x/tasks.db ")
    assert words in error.value.message
    assert error.value.remedy
    assert "PATH" not in error.value.remedy


@pytest.mark.parametrize(
    "bug", [sqlite3.IntegrityError("UNIQUE"), sqlite3.ProgrammingError("closed")]
)
def test_a_bug_is_not_called_an_outage(bug: Exception) -> None:
    with pytest.raises(type(bug)), plain_errors(Path("/x")):
        raise bug


def test_our_own_errors_pass_unchanged() -> None:
    with pytest.raises(IllegalTransition), plain_errors(Path("/x")):
        raise IllegalTransition


def test_an_act_names_its_operator_and_reason() -> None:
    assert Act("anna", "why", NOON).by == "anna"
    for by, reason, why in (
        ("", "why", "is missing"),
        ("anna", " \t", "is missing"),
        ("anna\0", "why", "holds a NUL"),
        ("anna", "\ud800", "holds a lone surrogate"),
    ):
        with pytest.raises(Refused, match=why):
            Act(by, reason, NOON)


@given(st.text(st.characters(exclude_categories=())))
@example("\ud800 \0 \udfff")
def test_any_text_can_be_stored(text: str) -> None:
    kept = storable(text)
    assert kept is not None
    assert bad_text(kept) == ""
    if not bad_text(text):
        assert kept == text
