"""Who is at work, which workers have ended, and what nodes said by the minute: on both stores."""

from __future__ import annotations

import json
from datetime import timedelta

from ledger_scene import NODE, START, Scene

from supervisor.model import outcome as ended
from supervisor.model.record import Started
from supervisor.store import WorkerRecord
from supervisor.store.roster import AtWork, Roster
from supervisor.store.vitals import VitalsBook


def test_the_longest_running_come_first_and_what_is_assigned_last(scene: Scene) -> None:
    claims = []
    for _ in range(4):
        claims.append(scene.running())
        scene.pass_time(10)
    with scene.ledger.transaction() as tx:
        for claim, at in ((claims[2], 5), (claims[1], 60)):
            began = START + timedelta(seconds=at)
            tx.started(
                [Started(task_id=claim.task_id, attempt=1, started_at=began, timeout=60,
                         soft_timeout=54)]
            )  # fmt: skip
        tx.cancel([claims[1].task_id], by="anna", reason="enough", now=scene.now)
    scene.finish(claims[3], ended.returned("1"))
    found = Roster(scene.store).at_work()
    assert [one.task_id for one in found] == [claims[number].task_id for number in (2, 1, 0)]
    assert found[1] == AtWork(
        task_id=claims[1].task_id, type="greet", queue="default", attempt=1, node_id=NODE,
        worker_id="worker_0", claimed_at=START + timedelta(seconds=10),
        started_at=START + timedelta(seconds=60), mark_kind="cancel", mark_at=scene.now,
    )  # fmt: skip
    assert (found[0].mark_kind, found[2].started_at) == (None, None)
    assert len(Roster(scene.store).at_work(limit=2)) == 2


def test_workers_that_ended_are_told_by_their_ends(scene: Scene) -> None:
    records = [
        WorkerRecord(
            worker_id=f"w{number}", node_id=NODE, pid=number, start_ticks=1,
            started_at=START + timedelta(seconds=number),
            ended_at=None if ends is None else START + timedelta(seconds=ends),
            exit=None if ends is None else "exit 0",
        )
        for number, ends in enumerate((900, 20, None, 30))
    ]  # fmt: skip
    with scene.ledger.transaction() as tx:
        tx.record_workers(records)
    found = Roster(scene.store).ended_workers()
    assert found == [records[0], records[3], records[1]]
    assert Roster(scene.store).ended_workers(limit=2) == [records[3], records[1]]
    assert Roster(scene.store).living() == [records[2]]
    assert Roster(scene.store).over(["w1", "w2", "w9"]) == {"w1"}
    assert Roster(scene.store).over([]) == set()


def test_the_last_reading_of_each_minute_is_told(scene: Scene) -> None:
    with scene.ledger.transaction() as tx:
        for node_id in (NODE, "node_b"):
            for second in range(0, 300, 5):
                document = {"node": {"second": second}, "workers": []}
                at = START + timedelta(seconds=second)
                tx.vitals.write(node_id, at, json.dumps(document))
    book = VitalsBook(scene.store)
    found = book.by_minute(NODE, START + timedelta(seconds=100))
    assert [one.node["second"] for one in found] == [115, 175, 235, 295]
    assert {one.node_id for one in found} == {NODE}
    assert book.by_minute(NODE, START + timedelta(seconds=300)) == []
    assert book.by_minute("node_c", START) == []
