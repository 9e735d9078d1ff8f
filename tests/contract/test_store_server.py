"""The PostgreSQL store: its tables, its time, its words, and what two of its users do at once."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from ledger_scene import NODE, START, Scene
from servers import PostgreSQL, proxy

from supervisor.clock import SystemClock
from supervisor.errors import ConfigError, StoreBusy, StoreUnavailable
from supervisor.model.outcome import returned
from supervisor.model.spec import TaskSpec
from supervisor.node import port
from supervisor.node.scribe import StoreScribe
from supervisor.store import Ledger, Reader, Store, Transaction, migrations, open_store, postgresql
from supervisor.store.schema import metadata
from supervisor.store.vitals import VitalsBook
from supervisor.telemetry.metrics import Metrics
from supervisor.testing import ManualClock


@pytest.fixture
def store_url(new_database: Callable[[], str]) -> str:
    """Here the store is a database of the test's own."""
    url = new_database()
    open_store(url, create=True).close()
    return url


@pytest.fixture
def new_database(postgresql: PostgreSQL) -> Callable[[], str]:
    """Make an empty database and return its URL."""

    def make() -> str:
        with psycopg.connect(postgresql.dsn, autocommit=True) as server:
            for number in itertools.count():
                name = f"server_{number}"
                query = "SELECT 1 FROM pg_database WHERE datname = %s"
                if server.execute(query, [name]).fetchone() is None:
                    server.execute(f"CREATE DATABASE {name}")
                    return f"postgresql+psycopg://postgres@127.0.0.1:{postgresql.port}/{name}"
        raise AssertionError("unreachable")

    return make


@pytest.fixture
def driver(store_url: str) -> Iterator[psycopg.Connection]:
    """A connection of somebody else."""
    with psycopg.connect(store_url.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


def test_the_migrations_build_the_tables_of_the_code(store: Store) -> None:
    with store.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_an_empty_database_is_no_store_until_it_is_upgraded(
    new_database: Callable[[], str],
) -> None:
    url = new_database()
    with pytest.raises(StoreUnavailable, match="holds no task store") as error:
        open_store(url, create=False)
    assert "supervisor db upgrade" in error.value.remedy
    with closing(open_store(url, create=True)) as made:
        assert len(made.identity) == 16
        with closing(open_store(url, create=False)) as again:
            assert again.identity == made.identity


def test_many_create_one_store_at_once(new_database: Callable[[], str]) -> None:
    url = new_database()
    found: list[object] = []

    def create() -> None:
        try:
            with closing(open_store(url, create=True)) as store:
                found.append(store.identity)
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1, found


def _at_revision(url: str, revision: str) -> None:
    """Build the tables of an earlier version."""
    engine = sa.create_engine(url)
    config = Config()
    config.set_main_option("script_location", migrations.__path__[0].replace("%", "%%"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    finally:
        engine.dispose()


#: What a node of schema 0001 writes and reads that 0002 touches: it names its columns.
OLD_NODE = (
    """INSERT INTO nodes (node_id, node_name, pid, start_ticks, boot_id, pid_ns, version, listen,
     started_at) VALUES ('old', 'host', 7, 70, 'boot', 1, '0.1', '', now())""",
    """SELECT node_id, node_name, pid, start_ticks, boot_id, pid_ns, version, listen, started_at,
     ended_at FROM nodes WHERE ended_at IS NULL""",
    "DELETE FROM task_types WHERE type = 'old'",
    "INSERT INTO task_types (type, queue, node_id, seen_at) VALUES ('old', NULL, 'old', now())",
    "UPDATE nodes SET ended_at = now(), note = 'stopped' WHERE node_id = 'old'",
)


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_a_store_of_an_earlier_version_is_upgraded_and_old_nodes_go_on(
    new_database: Callable[[], str], revision: str
) -> None:
    url = new_database()
    _at_revision(url, revision)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as old:
        old.execute(OLD_NODE[0])
        old.execute(
            "INSERT INTO tasks (task_id, type, queue, priority, state, reason, run_after, attempt,"
            " retry_count, crash_count, quarantined, created_at, dedup_held, params) VALUES"
            " ('task_1', 'greet', 'default', 5, 'PENDING', 'submitted', now(), 0, 0, 0, false,"
            " now(), false, '{}')"
        )
        with pytest.raises(StoreUnavailable, match=f"older schema {revision}"):
            open_store(url, create=False)
        with closing(open_store(url, create=True)) as store:
            (node,) = Reader(store).nodes()
            assert (node.node_id, node.lease_left_s) == ("old", None)
            for statement in OLD_NODE[1:]:
                old.execute(statement)
            scene = Scene(store, now=store.clock.now())
            scene.register()
            (claim,) = scene.claim()
            assert claim.task_id == "task_1"


def test_a_newer_schema_is_taken_only_if_it_says_that_we_survive_it(
    store_url: str, driver: psycopg.Connection
) -> None:
    driver.execute("UPDATE alembic_version SET version_num = '0999'")
    open_store(store_url, create=True).close()
    driver.execute("UPDATE store_facts SET value = '0998' WHERE name = 'oldest_code'")
    with pytest.raises(ConfigError, match="has schema 0999"):
        open_store(store_url, create=True)


def test_times_are_those_of_the_database(store_url: str) -> None:
    """A host whose clock is an hour fast submits what is due now, and its error is known."""
    fast = ManualClock(at=datetime.now(UTC) + timedelta(hours=1))
    with closing(open_store(store_url, create=False, clock=fast)) as store:
        assert store.skew_s == pytest.approx(3600, abs=5)
        assert abs(store.clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
        fast.advance(60)
        assert abs(store.clock.now() - datetime.now(UTC)) < timedelta(seconds=70)


@pytest.mark.parametrize(
    ("change", "words", "remedy"),
    [
        ({"port": 1}, "does not answer", "Check that the server runs"),
        ({"database": "nowhere"}, "does not exist", "createdb"),
        ({"username": "nobody_here"}, "does not exist", "Create it"),
    ],
)
def test_what_cannot_be_reached_says_what_to_do(
    store_url: str, change: dict[str, object], words: str, remedy: str
) -> None:
    url = sa.make_url(store_url).set(password="hunter2", **change)  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable, match=words) as error:
        open_store(url.render_as_string(hide_password=False), create=False)
    assert remedy in error.value.remedy
    assert "hunter2" not in str(error.value)


def test_a_lost_connection_is_replaced_at_the_next_transaction(
    scene: Scene, driver: psycopg.Connection
) -> None:
    scene.submit()
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    driver.execute(f"SELECT pg_terminate_backend(pid, 5000) {others}")  # waits until it is gone
    scene.submit()
    assert len(scene.reader.tasks().tasks) == 2


def test_a_server_that_only_reads_is_left_for_the_one_that_writes(
    scene: Scene, driver: psycopg.Connection
) -> None:
    database = driver.info.dbname
    driver.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with closing(open_store(scene.store.url, create=False)) as store:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="is read-only"):
                Ledger(store).run(lambda tx: tx.submit([TaskSpec(type="greet")], START))
        driver.execute("SET transaction_read_only = off")
        driver.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
        Ledger(store).run(lambda tx: tx.submit([TaskSpec(type="greet")], START))
    assert len(scene.reader.tasks().tasks) == 1


def test_an_option_that_the_client_library_does_not_know_is_told(scene: Scene) -> None:
    with pytest.raises(ConfigError, match='invalid connection option "bogus"') as error:
        open_store(f"{scene.store.url}?bogus=1", create=False)
    assert "Correct what stands behind" in error.value.remedy


def _submit_and_be_cut(tx: Transaction, driver: psycopg.Connection) -> None:
    tx.submit([TaskSpec(type="greet")], START)
    driver.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    tx.submit([TaskSpec(type="greet")], START)


def test_a_transaction_that_is_cut_writes_nothing(scene: Scene, driver: psycopg.Connection) -> None:
    with pytest.raises(StoreUnavailable):
        scene.ledger.run(lambda tx: _submit_and_be_cut(tx, driver))
    assert scene.reader.tasks().tasks == ()


def test_a_server_that_takes_all_and_answers_nothing_is_given_up(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql._Line, "answer_s", 0.3)
    monkeypatch.setitem(postgresql.LINK, "connect_timeout", 2)
    swallow, url = threading.Event(), sa.make_url(store_url)
    with (
        proxy(url.port or 0, swallow) as port,
        closing(
            open_store(url.set(port=port).render_as_string(hide_password=False), create=False)
        ) as store,
    ):
        scene = Scene(store)
        scene.submit()
        swallow.set()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            scene.submit()
        assert time.monotonic() - began < 10
        swallow.clear()
        scene.submit()
        assert len(scene.reader.tasks().tasks) == 2


def test_two_that_block_each_other_are_told_to_try_again(
    scene: Scene, driver: psycopg.Connection
) -> None:
    first, second = scene.submit(), scene.submit()
    update = "UPDATE tasks SET reason = reason WHERE task_id = %s"
    tries = []

    def act(tx: object) -> None:
        tries.append(1)
        session = tx._session  # type: ignore[attr-defined]
        session._run(update, [second])
        session._pipeline.sync()  # it is locked by now
        if len(tries) == 1:
            other.start()
            event.wait(5)
        session._run(update, [first])

    event = threading.Event()

    def opposite() -> None:
        with driver.transaction():
            driver.execute("SET LOCAL deadlock_timeout = '3s'")
            driver.execute(update, [first])
            event.set()
            driver.execute(update, [second])

    other = threading.Thread(target=opposite)
    scene.ledger.run(act)
    other.join()
    assert len(tries) >= 2


def test_a_lock_that_somebody_keeps_is_not_waited_for_again(
    scene: Scene, driver: psycopg.Connection
) -> None:
    task_id = scene.submit()
    with driver.transaction():
        driver.execute("SELECT 1 FROM tasks WHERE task_id = %s FOR UPDATE", [task_id])
        with pytest.raises(StoreUnavailable, match="is locked by another transaction") as error:
            scene.ledger.run(lambda tx: _cancel_in_a_hurry(tx, task_id))
        assert not isinstance(error.value, StoreBusy)
    scene.cancel(task_id)


IN_THE_WAY = """
CREATE FUNCTION in_the_way() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'another one was first' USING ERRCODE = '40001'; END $$;
CREATE TRIGGER in_the_way BEFORE INSERT ON vitals EXECUTE FUNCTION in_the_way();
CREATE TRIGGER in_the_way BEFORE INSERT ON leaders EXECUTE FUNCTION in_the_way();
"""


def test_others_in_the_way_of_vital_signs_and_of_the_sweep_do_not_take_the_store_away(
    scene: Scene, driver: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    scene.register()
    answered = threading.Event()
    scribe = StoreScribe(scene.store, NODE, SystemClock(), Metrics(version="t"), answered.set)
    note = port.VitalsNote({"node": {"stage": "running"}, "workers": []})
    sweep = port.ReadOrphans(lead_s=5.0)
    book = VitalsBook(scene.store)
    scribe.start()
    try:
        driver.execute(IN_THE_WAY)
        assert _answers(scribe, answered, note, sweep) == [port.MarksRead(())]
        assert book.latest(NODE) is None
        driver.execute("DROP FUNCTION in_the_way CASCADE")
        assert _answers(scribe, answered, note, sweep) == [
            port.OrphansRead((), 1), port.MarksRead(())
        ]  # fmt: skip
        latest = book.latest(NODE)
        assert latest is not None
        assert latest.node["stage"] == "running"
    finally:
        assert scribe.stop(10)
    assert caplog.messages == []


def _answers(
    scribe: StoreScribe, answered: threading.Event, *requests: port.Request
) -> list[port.Reply]:
    """Hand in requests and a question behind them; return all that is answered."""
    answered.clear()
    scribe.ask(*requests, port.ReadMarks())
    assert answered.wait(20)
    return scribe.replies()


def _cancel_in_a_hurry(tx: Transaction, task_id: str) -> None:
    tx._session._run("SET LOCAL lock_timeout = '50ms'", [])
    tx.cancel([task_id], by="anna", reason="not needed", now=START)


def _at_once(count: int, act: Callable[[int], object]) -> list[object]:
    """Run it in so many threads that start together; return what each returned."""
    start, answers = threading.Barrier(count), [None] * count

    def one(number: int) -> None:
        start.wait()
        answers[number] = act(number)  # type: ignore[call-overload]

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_of_many_that_submit_one_dedup_key_one_creates_it(scene: Scene) -> None:
    def submit(_: int) -> object:
        spec = TaskSpec(type="greet", dedup_key="only")
        return scene.ledger.run(lambda tx: tx.submit([spec], START)[0])

    answers = _at_once(8, submit)
    assert sorted(answer.created for answer in answers) == [False] * 7 + [True]  # type: ignore[attr-defined]
    assert len({answer.task_id for answer in answers}) == 1  # type: ignore[attr-defined]


def test_claims_at_once_share_no_task_and_leave_none(scene: Scene) -> None:
    for _ in range(40):
        scene.submit()
    claimed = _at_once(4, lambda number: scene.claim(10, node_id=f"node_{number}"))
    ids = [claim.task_id for claims in claimed for claim in claims]  # type: ignore[attr-defined]
    assert len(set(ids)) == len(ids)
    rest = scene.claim(40)
    assert len(ids) + len(rest) == 40


def test_what_somebody_is_claiming_is_not_waited_for(
    scene: Scene, driver: psycopg.Connection
) -> None:
    held, free = scene.submit(), scene.submit()
    with driver.transaction():
        driver.execute("SELECT 1 FROM tasks WHERE task_id = %s FOR UPDATE", [held])
        assert [claim.task_id for claim in scene.claim(2)] == [free]
    assert [claim.task_id for claim in scene.claim(2)] == [held]


def test_a_cancel_and_an_ending_at_once_leave_one_truth(scene: Scene) -> None:
    for _ in range(20):
        claim = scene.running()
        ended, acted = _at_once(
            2,
            lambda number, claim=claim: (  # type: ignore[misc]
                scene.finish(claim, returned("1"))
                if number == 0
                else scene.ledger.run(
                    lambda tx: tx.cancel([claim.task_id], by="anna", reason="late", now=START)
                )
            ),
        )
        assert ended is not None
        assert acted is not None
        moves = [step[:2] for step in scene.trail(claim.task_id) if step[1] is not None]
        assert moves == [(None, "PENDING"), ("PENDING", "RUNNING"), ("RUNNING", "SUCCESS")]


def test_a_lease_is_renewed_until_it_is_over(scene: Scene) -> None:
    scene.now = scene.store.clock.now()
    scene.register()
    with scene.ledger.transaction() as tx:
        assert not tx.renew(NODE, 5, 0.5)  # it was registered without one
        tx.revive(NODE, 5, 0.5)
        assert tx.renew(NODE, 5, 0.5)
        assert tx.renew(NODE, -1, 0.25)
        assert not tx.renew(NODE, 5, 0.0)
    (node,) = scene.reader.nodes()
    assert node.skew_s == 0.25
    assert node.lease_left_s is not None
    assert node.lease_left_s < 0
    with scene.ledger.transaction() as tx:
        tx.end_node(NODE, scene.now, "its lease was over")
        assert not tx.renew(NODE, 5, 0.0)
        assert tx.revive(NODE, 5, 0.0)
        assert tx.renew(NODE, 5, 0.0)
        assert not tx.renew("nobody", 5, 0.0)
        assert not tx.revive("nobody", 5, 0.0)
    (node,) = scene.reader.nodes()
    assert node.ended_at is None
    reasons = [line.reason for line in scene.reader.audit()]
    assert reasons.count("node_returned") == 2


def test_orphans_say_how_long_their_lease_is_over(scene: Scene) -> None:
    scene.now = scene.store.clock.now()
    scene.register("node_a")
    scene.submit()
    scene.claim(node_id="node_a")
    with scene.ledger.transaction() as tx:
        tx.revive("node_a", 60, 0.0)
        (held,) = tx.orphans("node_b")
        tx.revive("node_a", -2, 0.0)
        (lost,) = tx.orphans("node_b")
        assert tx.owned("node_b") == []
        (own,) = tx.owned("node_a")
    assert held.lease_over_s == pytest.approx(-60, abs=1)
    assert lost.lease_over_s == pytest.approx(2, abs=1)
    assert own.task_id == lost.task_id


def test_one_leads_and_the_next_has_a_higher_term(scene: Scene) -> None:
    with scene.ledger.transaction() as tx:
        assert tx.lead("sweeper", "node_a", 60) == 1
        assert tx.lead("sweeper", "node_b", 60) is None
        assert tx.lead("sweeper", "node_a", -1) == 1
        assert tx.lead("sweeper", "node_b", 60) == 2
        assert tx.lead("sweeper", "node_a", 60) is None


def test_of_many_that_want_to_lead_one_does(scene: Scene) -> None:
    terms = _at_once(6, lambda n: scene.ledger.run(lambda tx: tx.lead("sweeper", f"node_{n}", 60)))
    assert sorted(terms, key=str) == [1] + [None] * 5


def test_a_ledger_needs_no_clock_of_its_own(store: Store) -> None:
    assert Ledger(store).clock is store.clock
    assert Ledger(store, SystemClock()).clock is not store.clock


def test_a_node_whose_lease_is_over_claims_nothing(scene: Scene) -> None:
    """A claim may have been on its way when the link was cut, and arrive when it is healed."""
    scene.now = scene.store.clock.now()
    scene.register()
    scene.submit()
    with scene.ledger.transaction() as tx:
        tx.revive(NODE, -1, 0.0)
    assert scene.claim() == []
    with scene.ledger.transaction() as tx:
        tx.revive(NODE, 60, 0.0)
    assert len(scene.claim()) == 1


def test_a_node_that_comes_back_is_not_written_off_meanwhile(scene: Scene) -> None:
    scene.now = scene.store.clock.now()
    scene.register()
    with scene.ledger.transaction() as tx:
        tx.revive(NODE, -1, 0.0)
        assert tx.lapsed_nodes() == [NODE]
    with scene.ledger.transaction() as back:
        back.revive(NODE, 60, 0.0)
        with scene.ledger.transaction() as sweeper:
            assert sweeper.lapsed_nodes() == []
    with scene.ledger.transaction() as tx:
        assert tx.renew(NODE, 60, 0.0)


def test_a_lease_is_over_by_the_clock_of_the_server_alone(scene: Scene) -> None:
    """The time that was measured last may be far ahead: the server's clock was set back since."""
    scene.now = scene.store.clock.now()
    scene.register("node_a")
    scene.submit()
    scene.claim(node_id="node_a")
    ahead = Ledger(scene.store, ManualClock(scene.now + timedelta(hours=1)))
    with ahead.transaction() as tx:
        tx.revive("node_a", 60, 0.0)
        (held,) = tx.orphans("node_b")
    assert held.lease_over_s == pytest.approx(-60, abs=1)
