"""What a node writes about itself, and what it finds of other nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from ledger_scene import NODE, START, Scene

from supervisor.errors import StoreBusy
from supervisor.model import outcome as ended
from supervisor.model.record import Due
from supervisor.store import AutopsyRecord, Orphan, Transaction, WorkerRecord
from supervisor.store.ledger.transaction import TRIES
from supervisor.store.muster import name_of
from supervisor.store.schema import audit_log, outbox
from supervisor.store.view import TypeView
from supervisor.words.roll import left_out, roll_call

AUTOPSY = AutopsyRecord(
    autopsy_id="autopsy_1",
    task_id="task_" + "0" * 32,
    attempt=1,
    node_id=NODE,
    pid=100,
    path="/var/autopsies/1.zip",
    status="captured",
    verdict="stalled",
    diagnosis="lock_deadlock",
    diagnosis_json='{"threads":2}',
    created_at=START,
    bytes=4096,
    ms=850,
)


def test_a_node_is_written_down_and_ends_once(scene: Scene) -> None:
    record = scene.register()
    for seconds, note in ((5, "stopped by SIGTERM"), (9, "again")):
        with scene.ledger.transaction() as tx:
            tx.end_node(NODE, START + timedelta(seconds=seconds), note)
    (view,) = scene.reader.nodes()
    assert (view.node_id, view.node_name, view.listen, view.ended_at, view.note) == (
        NODE,
        "host-1",
        record.listen,
        START + timedelta(seconds=5),
        "stopped by SIGTERM",
    )
    assert scene.rows(audit_log, "task_id", "reason", "note") == [
        (None, "node_started", "host-1 (node_a), pid 7"),
        (None, "node_ended", "node_a: stopped by SIGTERM"),
    ]


def test_no_node_that_may_own_something_is_left_out_however_many_there_are(scene: Scene) -> None:
    for number in range(260):
        scene.register(f"node_{number:03}")
        scene.pass_time(1)
    first = scene.submit()
    scene.claim(node_id="node_000")
    with scene.ledger.transaction() as tx:
        for number in range(150):
            tx.end_node(f"node_{number:03}", scene.now, "stopped")
    roll = roll_call(scene.reader)
    numbers = [int(node.node_id[5:]) for node in roll.every]
    assert numbers == [*range(259, 149, -1), 0, *range(149, 49, -1)]
    assert len(roll.running) == 110
    task = scene.reader.task(first)
    assert task is not None
    owner = roll.gone_node(task)
    assert owner is not None
    assert (owner.node_id, owner.running) == ("node_000", 1)
    assert left_out(scene.store, roll) == 49
    assert (name_of(scene.store, "node_007"), name_of(scene.store, "node_7")) == ("host-1", None)


def test_what_a_node_says_of_its_types_replaces_what_it_said_before(scene: Scene) -> None:
    later = START + timedelta(seconds=5)
    with scene.ledger.transaction() as tx:
        tx.record_types({"greet": "mail", "part": None}, NODE, START)
    with scene.ledger.transaction() as tx:
        tx.record_types({"greet": None, "new": "mail"}, NODE, later)
        tx.record_types({"new": "other"}, "node_b", later)
    assert scene.reader.types() == [
        TypeView("greet", None, NODE, later),
        TypeView("new", "other", "node_b", later),
        TypeView("part", None, None, START),
    ]


def test_the_latest_record_of_a_worker_stands(scene: Scene) -> None:
    born = WorkerRecord(
        worker_id="worker_0", node_id=NODE, pid=100, start_ticks=5000, started_at=START
    )
    other = replace(born, worker_id="worker_1", node_id="node_b")
    ended_worker = replace(born, ended_at=START + timedelta(seconds=9), exit="signal 9")
    with scene.ledger.transaction() as tx:
        tx.record_workers([born, other])
        tx.record_workers([born, ended_worker])
    assert scene.reader.workers() == [other, ended_worker]  # the living first
    assert scene.reader.workers(NODE) == [ended_worker]


def test_an_autopsy_is_found_by_id_and_by_task(scene: Scene) -> None:
    later = replace(
        AUTOPSY, autopsy_id="autopsy_2", task_id=None, created_at=START + timedelta(seconds=1)
    )
    with scene.ledger.transaction() as tx:
        tx.record_autopsy(replace(AUTOPSY, status="partial"))
        tx.record_autopsy(AUTOPSY)
        tx.record_autopsy(later)
    assert scene.reader.autopsies() == [later, AUTOPSY]
    assert scene.reader.autopsies(AUTOPSY.task_id) == [AUTOPSY]
    assert scene.reader.autopsy("autopsy_2") == later
    assert scene.reader.autopsy("autopsy_3") is None


def test_orphans_are_the_running_attempts_of_other_nodes(scene: Scene) -> None:
    record = scene.register()
    claim = scene.running(timeout=9.0, max_retries=1)
    scene.submit()
    mine = scene.claim(node_id="node_b")
    orphan = Orphan(
        task_id=claim.task_id,
        attempt=1,
        type="greet",
        queue="default",
        max_retries=1,
        mark=None,
        node_id=NODE,
        node=record,
        worker_id="worker_0",
        pid=100,
        start_ticks=5000,
        claimed_at=START,
        started_at=None,
        timeout=9.0,
    )
    with scene.ledger.looking() as look:
        assert look.orphans("node_b") == [orphan]
        assert [each.task_id for each in look.orphans(NODE)] == [mine[0].task_id]
        assert look.orphans(NODE)[0].node is None  # node_b never registered
    scene.finish(claim, ended.node_lost("gone", ""))
    with scene.ledger.looking() as look:
        assert look.orphans("node_b") == []


def test_publishing_deletes_the_events_it_publishes(scene: Scene) -> None:
    ids = [scene.submit() for _ in range(3)]
    with scene.ledger.transaction() as tx:
        assert tx.publish(2, START - timedelta(seconds=1)) == []  # they were rung a moment ago
        published = tx.publish(2, START)
    newest = [Due(("default", 5, "greet"), task_id, START.timestamp()) for task_id in ids[1:]]
    assert sorted(published, key=lambda due: due.task_id) == newest  # the oldest are in hand now
    assert scene.rows(outbox, "task_id") == [(ids[0],)]
    with scene.ledger.transaction() as tx:
        assert [len(tx.publish(2, START)), len(tx.publish(2, START))] == [1, 0]
    assert len(scene.claim(5)) == 3  # the row is the truth


def test_a_note_moves_nothing(scene: Scene) -> None:
    claim = scene.running()
    with scene.ledger.transaction() as tx:
        tx.note(claim.task_id, 1, reason="stalled", text="no progress for 300 s", now=START)
    assert scene.trail(claim.task_id)[-1] == (
        None,
        None,
        "supervisor",
        "stalled",
        "no progress for 300 s",
    )


def test_what_another_stands_in_the_way_of_is_tried_again_and_told(scene: Scene) -> None:
    told: list[int] = []
    tried: list[Transaction] = []
    scene.register()

    def act(tx: Transaction) -> str:
        tx.end_node(NODE, START, f"try {len(tried)}")
        tried.append(tx)
        if len(tried) < 4:
            raise StoreBusy("another one was first")
        return "done"

    assert scene.ledger.run(act, conflicted=lambda: told.append(len(tried))) == "done"
    assert told == [1, 2, 3]
    assert scene.rows(audit_log, "reason", "note")[1:] == [
        ("node_ended", "node_a: try 3"),
    ]


def test_what_stays_in_the_way_is_told_and_raised(scene: Scene) -> None:
    told: list[int] = []

    def act(_tx: Transaction) -> None:
        raise StoreBusy("another one was first")

    with pytest.raises(StoreBusy):
        scene.ledger.run(act, conflicted=lambda: told.append(1))
    assert len(told) == TRIES
