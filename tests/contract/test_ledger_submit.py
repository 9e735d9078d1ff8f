"""Submitting: what is written, and what a second submit of the same thing writes: nothing."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from ledger_scene import START, Scene

from supervisor.clock import SystemClock
from supervisor.errors import Refused
from supervisor.model.outcome import raised, returned
from supervisor.model.record import Due, Submitted
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State
from supervisor.store import Ledger, open_store
from supervisor.store.schema import audit_log, outbox, queues, tasks

ID_A = "task_" + "a" * 32


def test_a_submit_writes_task_audit_and_outbox_together(scene: Scene) -> None:
    due = START + timedelta(hours=1)
    spec = TaskSpec(
        type="greet",
        params_json='{"name":"Ada"}',
        dedup_key="greet:ada",
        dedup_ttl=60.0,
        queue="mail",
        priority=7,
        timeout=30.0,
        soft_timeout=20.0,
        max_retries=1,
        run_after=due,
        submitted_by="user_1",
        tags=("a", "b"),
    )
    with scene.ledger.transaction() as tx:
        (answer,) = tx.submit([spec], START)
    assert answer.created
    view = scene.reader.task(answer.task_id)
    assert view is not None
    assert view == replace(
        view,
        state=State.PENDING,
        reason="submitted",
        type="greet",
        params_json='{"name":"Ada"}',
        dedup_key="greet:ada",
        dedup_held=True,
        dedup_ttl=60.0,
        queue="mail",
        priority=7,
        timeout=30.0,
        soft_timeout=20.0,
        max_retries=1,
        run_after=due,
        created_at=START,
        submitted_by="user_1",
        tags=("a", "b"),
        attempt=0,
    )
    assert scene.trail(answer.task_id) == [(None, "PENDING", "user_1", "submitted", None)]
    assert scene.rows(outbox, "task_id", "event_id", "event_type", "run_after") == [
        (answer.task_id, 0, "task.due", due)
    ]
    assert scene.rows(queues, "queue", "priority", "paused") == [("mail", -1, False)]


def test_who_submits_nameless_is_unknown_in_the_audit(scene: Scene) -> None:
    task_id = scene.submit()
    assert scene.trail(task_id) == [(None, "PENDING", "unknown", "submitted", None)]


def test_a_held_key_answers_its_task_and_writes_nothing(scene: Scene) -> None:
    first = scene.submit(dedup_key="k", params_json='{"n":1}')
    with scene.ledger.transaction() as tx:
        again = tx.submit([TaskSpec(type="greet", dedup_key="k", params_json='{"n":2}')], START)
    assert again == [Submitted(first, created=False)]
    assert scene.rows(tasks, "task_id", "params") == [(first, '{"n":1}')]
    assert scene.rows(audit_log, "task_id") == [(first,)]
    assert scene.rows(outbox, "task_id") == [(first,)]


def test_equal_keys_within_a_batch_are_one_task(scene: Scene) -> None:
    specs = [TaskSpec(type="greet", dedup_key=key) for key in ("k", "other", "k", "k")]
    with scene.ledger.transaction() as tx:
        answers = tx.submit(specs, START)
    assert [answer.created for answer in answers] == [True, True, False, False]
    assert len({answers[index].task_id for index in (0, 2, 3)}) == 1
    assert len(scene.rows(tasks, "task_id")) == len(scene.rows(outbox, "task_id")) == 2


def test_a_key_is_held_after_success_and_free_after_a_final_failure(scene: Scene) -> None:
    won = scene.running(dedup_key="won")
    scene.finish(won, returned("1"))
    lost = scene.running(dedup_key="lost")
    scene.finish(lost, raised("Error", "no", "", retryable=False))
    assert scene.submit(dedup_key="won") == won.task_id
    assert scene.submit(dedup_key="lost") != lost.task_id


def test_a_key_is_free_after_cancel(scene: Scene) -> None:
    first = scene.submit(dedup_key="k")
    scene.cancel(first)
    assert scene.submit(dedup_key="k") != first


def test_a_ttl_counts_from_the_end(scene: Scene) -> None:
    claim = scene.running(dedup_key="k", dedup_ttl=60.0)
    scene.pass_time(3600)
    assert scene.submit(dedup_key="k") == claim.task_id  # never frees a live task
    scene.finish(claim, returned("1"))
    scene.pass_time(59.9)
    assert scene.submit(dedup_key="k") == claim.task_id
    scene.pass_time(0.1)
    second = scene.submit(dedup_key="k")
    assert second != claim.task_id
    assert scene.rows(tasks, "task_id", "dedup_held") == sorted(
        [(claim.task_id, False), (second, True)]
    )


def test_a_known_task_id_with_the_same_content_is_answered(scene: Scene) -> None:
    spec = TaskSpec(type="greet", task_id=ID_A, params_json='{"a":1,"b":2}')
    twin = TaskSpec(type="greet", task_id=ID_A, params_json='{"b": 2, "a": 1}')
    with scene.ledger.transaction() as tx:
        answers = tx.submit([spec, spec], START) + tx.submit([twin], START)
    due = Due(("default", 5, "greet"), ID_A, START.timestamp())
    known = Submitted(ID_A, created=False)
    assert answers == [Submitted(ID_A, created=True, due=due), known, known]
    assert scene.trail(ID_A) == [(None, "PENDING", "unknown", "submitted", None)]


def test_a_known_task_id_with_other_content_refuses_the_whole_batch(scene: Scene) -> None:
    scene.submit(task_id=ID_A)
    specs = [TaskSpec(type="greet"), TaskSpec(type="part", task_id=ID_A)]
    with scene.ledger.transaction() as tx, pytest.raises(Refused, match="other content"):
        tx.submit(specs, START)
    assert scene.rows(tasks, "task_id", "type") == [(ID_A, "greet")]


def test_a_naive_time_is_refused(scene: Scene) -> None:
    with pytest.raises(ValueError, match="without an offset"):
        scene.submit(run_after=START.replace(tzinfo=None))
    assert scene.rows(tasks, "task_id") == []


def test_an_error_after_a_submit_leaves_nothing(scene: Scene) -> None:
    def submit_and_raise() -> None:
        with scene.ledger.transaction() as tx:
            tx.submit([TaskSpec(type="greet")], START)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        submit_and_raise()
    assert scene.rows(tasks, "task_id") == scene.rows(audit_log, "id") == []
    assert scene.rows(outbox, "task_id") == scene.rows(queues, "queue") == []


def _submit_ten(url: str) -> list[str]:
    store = open_store(url, create=False)
    ledger = Ledger(store, SystemClock())

    def one(_: int) -> str:
        with ledger.transaction() as tx:
            return tx.submit([TaskSpec(type="greet", dedup_key="k")], START)[0].task_id

    with ThreadPoolExecutor(10) as pool:
        ids = list(pool.map(one, range(10)))
    store.close()
    return ids


def test_fifty_submits_at_once_make_one_task(scene: Scene, store_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(5) as pool:
        answers = pool.map(_submit_ten, [store_url] * 5)
        pool.close()
        pool.join()
    ids = {task_id for answer in answers for task_id in answer}
    assert sum(map(len, answers)) == 50
    assert scene.rows(tasks, "task_id") == [(task_id,) for task_id in ids]
    assert scene.rows(outbox, "task_id") == [(task_id,) for task_id in ids]
    assert len(ids) == 1


def test_a_submit_joins_the_callers_transaction(scene: Scene, store_url: str) -> None:
    engine = sa.create_engine(store_url)
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("CREATE TABLE orders (name TEXT)"))
            connection.commit()
            for end, name in ((connection.rollback, "lost"), (connection.commit, "kept")):
                connection.execute(sa.text("INSERT INTO orders VALUES (:name)"), {"name": name})
                tx = scene.ledger.joined(connection)
                (answer,) = tx.submit([TaskSpec(type="greet", dedup_key=name)], START)
                assert scene.reader.task(answer.task_id) is None  # not before their commit
                end()
            assert connection.execute(sa.text("SELECT name FROM orders")).scalars().all() == [
                "kept"
            ]
        assert scene.rows(tasks, "dedup_key") == [("kept",)]
    finally:
        engine.dispose()


def test_a_join_starts_the_transaction_it_finds_missing(scene: Scene, store_url: str) -> None:
    engine = sa.create_engine(store_url)
    try:
        with engine.connect() as connection:
            scene.ledger.joined(connection).submit([TaskSpec(type="greet")], START)
            connection.rollback()
            scene.ledger.joined(connection).submit([TaskSpec(type="part")], START)
            connection.commit()
        assert scene.rows(tasks, "type") == [("part",)]
    finally:
        engine.dispose()


def test_a_join_refuses_autocommit_and_other_databases(scene: Scene, store_url: str) -> None:
    for url, options, why in (
        (store_url, {"isolation_level": "AUTOCOMMIT"}, "in autocommit"),
        ("sqlite://", {}, "open on memory" if scene.store.path else "the connection is to sqlite"),
    ):
        engine = sa.create_engine(url, **options)
        try:
            with engine.connect() as connection, pytest.raises(Refused, match=why):
                scene.ledger.joined(connection)
        finally:
            engine.dispose()


def test_a_task_without_a_queue_goes_to_the_queue_of_its_type(scene: Scene) -> None:
    with scene.ledger.transaction() as tx:
        tx.record_types({"greet": "mail", "part": None}, "node_a", START)
    specs = [
        TaskSpec(type="greet"),
        TaskSpec(type="greet", queue="own"),
        TaskSpec(type="part"),
        TaskSpec(type="alien"),
    ]
    with scene.ledger.transaction() as tx:
        answers = tx.submit(specs, START)
    views = [scene.reader.task(answer.task_id) for answer in answers]
    assert [view and view.queue for view in views] == ["mail", "own", "default", "default"]
    assert scene.rows(queues, "queue") == [("default",), ("mail",), ("own",)]


def test_a_repeated_submit_is_the_same_after_its_type_was_announced(scene: Scene) -> None:
    spec = TaskSpec(type="greet", task_id=ID_A)
    with scene.ledger.transaction() as tx:
        tx.submit([spec], START)
        tx.record_types({"greet": "mail"}, "node_a", START)
        assert tx.submit([spec], START) == [Submitted(ID_A, created=False)]
        with pytest.raises(Refused):
            tx.submit([replace(spec, queue="mail")], START)
