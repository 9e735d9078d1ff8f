"""The tables: what the migrations build is what the code describes, and every verb has an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from ledger_scene import START, Scene
from test_access import ANNA, CI, record

from supervisor.model.outcome import raised, returned
from supervisor.model.record import Started
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State
from supervisor.store import Store, TaskFilter, migrations
from supervisor.store.access import AccessBook
from supervisor.store.schema import SCHEMA_VERSION, metadata
from supervisor.store.view import AutopsyFilter

#: Small by nature: a row for each queue, and the types, and the nodes and workers of a few days.
SCANNED_BY_INTENT = {"queues", "nodes", "workers", "task_types", "node_types"}


@pytest.fixture
def store_url(file_url: str) -> str:
    """Here the store is a file; the other kind has tests of its own."""
    return file_url


def test_the_migrations_build_the_tables_of_the_code(store: Store) -> None:
    with store.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_partial_indexes_and_checks_are_the_same_words(store: Store) -> None:
    engine = sa.create_engine("sqlite://")
    query = sa.text("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%'")
    try:
        with engine.connect() as fresh, store.reading() as migrated:
            metadata.create_all(fresh)
            found, expected = (
                {name: " ".join(sql.split()) for name, sql in connection.execute(query) if sql}
                for connection in (migrated, fresh)
            )
        assert found == expected
    finally:
        engine.dispose()


def test_the_code_reads_the_newest_revision() -> None:
    script = ScriptDirectory(migrations.__path__[0])
    assert script.get_current_head() == SCHEMA_VERSION


@contextmanager
def _statements(store: Store) -> Iterator[list[str]]:
    """Collect what every connection of the store runs."""
    seen: list[str] = []
    with store.writing() as session:
        driver = session._cursor.connection
    driver.set_trace_callback(seen.append)
    readers: list[Any] = []

    def trace(connection: sa.Connection) -> None:
        readers.append(connection.connection.driver_connection)
        readers[-1].set_trace_callback(seen.append)

    sa.event.listen(store._readers, "engine_connect", trace)
    try:
        yield seen
    finally:
        sa.event.remove(store._readers, "engine_connect", trace)
        for each in (driver, *readers):
            each.set_trace_callback(None)


def _everything(scene: Scene) -> None:
    """Use each verb and each page once."""
    scene.register()
    first = scene.running(dedup_key="k", tags=("t",))
    later = scene.submit(run_after=START + timedelta(days=1), dedup_key="l")
    with scene.ledger.transaction() as tx:
        tx.record_types({"greet": None}, "node_a", START)
        tx.started(
            [Started(task_id=first.task_id, attempt=1, started_at=START, timeout=1, soft_timeout=1)]
        )
        tx.checkpoint(first.task_id, 1, "{}", START)
        tx.marks("node_a")
        tx.orphans("node_b")
        tx.outlook(None, {"greet"})()
    scene.cancel(first.task_id, later)
    scene.finish(first, returned("1"))
    scene.finish(first, returned("1"))
    second = scene.running()
    scene.finish(second, raised("E", "no", "", retryable=False), log_tail="x")
    scene.rerun(second.task_id)
    scene.claim()
    with scene.ledger.transaction() as tx:
        tx.publish(10, START)
    reader = scene.reader
    reader.task(first.task_id)
    for wanted in (
        TaskFilter(),
        TaskFilter(states=(State.FAILED, State.PENDING), before_id=first.task_id),
        TaskFilter(types=("greet",), states=(State.FAILED,), tag="t", text="x"),
        TaskFilter(queues=("default",)),
    ):
        reader.tasks(wanted)
    reader.attempts(first.task_id)
    reader.history(first.task_id)
    reader.audit()
    reader.log(second.task_id)
    reader.nodes()
    reader.types()
    reader.queues(START)
    reader.counts(START)
    reader.backlog_by_type(START)
    reader.autopsies()
    reader.autopsies(first.task_id)
    reader.autopsy("autopsy_1")
    reader.find_autopsies(AutopsyFilter(type="greet", verdict="timeout"))
    book = AccessBook(scene.store)
    book.has_users()
    book.of_session("k", START)
    book.of_token("t", START)
    with scene.ledger.transaction() as tx:
        tx.record_autopsy(record("a1", first.task_id, "timeout", 0))
        tx.access.add_user(ANNA)
        tx.access.begin_session(ANNA, "k", "", START, START)
        tx.access.end_session("k", "anna", START)
        tx.access.change_password("anna", "x", "root", START)
        tx.access.add_token(CI)
        tx.access.revoke_token("ci", "root", START)
        tx.access.web_key("k")
    reader.find_autopsies(AutopsyFilter(before_id="a1"))


def test_no_verb_and_no_page_scans_a_table_that_grows(scene: Scene) -> None:
    with _statements(scene.store) as seen:
        _everything(scene)
    offenders: list[str] = []
    with scene.store.writing() as session:
        for statement in dict.fromkeys(seen):
            if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
                plan = session._cursor.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
                offenders += _offences(statement, [row[3] for row in plan])
    assert len(seen) > 60
    assert offenders == []


def _offences(statement: str, plan: list[str]) -> list[str]:
    """Return the steps that read a growing table to its end, or sort it."""
    sorts = any(step.startswith("USE TEMP B-TREE FOR ORDER") for step in plan)
    bounded = "LIMIT" in statement and not sorts
    # A count must read its index to the end, and never the rows themselves.
    counts = "count(*)" in statement and all("COVERING" in step for step in plan if "SCAN" in step)
    # Acts on many that are open are few: an index has these alone.
    plan = [step for step in plan if not step.endswith("USING INDEX bulk_acts_open")]
    scans = [step.split()[1] for step in plan if step.startswith("SCAN")]
    grown = set(scans) & set(metadata.tables) - SCANNED_BY_INTENT
    if not grown or bounded or counts:
        return []
    return [f"{plan} in {statement}"]


@pytest.mark.parametrize(
    ("verb", "index"),
    [
        ("claim", "tasks_due"),
        ("marks", "tasks_marked"),
        ("orphans", "tasks_by_state"),
        ("dedup", "tasks_dedup"),
        ("history", "audit_of_task"),
        ("types", "tasks_by_type"),
        ("states", "tasks_by_state"),
    ],
)
def test_the_index_made_for_a_verb_is_the_one_it_uses(scene: Scene, verb: str, index: str) -> None:
    with _statements(scene.store) as seen:
        if verb == "claim":
            scene.claim()
        elif verb == "dedup":
            scene.submit(dedup_key="k")
        elif verb == "history":
            scene.reader.history("task_x")
        elif verb == "types":
            scene.reader.tasks(TaskFilter(types=("greet",)))
        elif verb == "states":
            scene.reader.tasks(TaskFilter(states=(State.FAILED,)))
        else:
            with scene.ledger.transaction() as tx:
                getattr(tx, verb)("node_a")
    with scene.store.writing() as session:
        plans = " | ".join(
            row[3]
            for statement in seen
            if statement.startswith(("SELECT", "WITH"))
            for row in session._cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        )
    assert f"INDEX {index} " in plans + " "


def test_a_claim_does_not_touch_what_is_not_due(scene: Scene) -> None:
    """Steps of SQLite's machine, not seconds: 2,000 more rows must not make a claim longer."""

    def steps() -> int:
        count = 0

        def tick() -> int:
            nonlocal count
            count += 1
            return 0

        with scene.store.writing() as session:
            driver = session._cursor.connection
        driver.set_progress_handler(tick, 10)
        claims = scene.claim(4)
        driver.set_progress_handler(None, 0)
        assert len(claims) == 4
        return count

    def due() -> None:
        for _ in range(4):
            scene.submit()

    due()
    due()
    steps()  # compiles the statements
    alone = steps()
    future = START + timedelta(days=1)
    with scene.ledger.transaction() as tx:
        tx.submit([TaskSpec(type="greet", run_after=future)] * 1000, START)
        tx.submit([TaskSpec(type="alien")] * 1000, START)
    due()
    assert steps() <= alone * 1.5 + 10
