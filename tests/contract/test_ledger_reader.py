"""What people look at: found by prefix, filtered, paged, counted."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from ledger_scene import NODE, START, Scene

from supervisor.errors import Refused
from supervisor.model import outcome as ended
from supervisor.model.states import State
from supervisor.store import TaskFilter, search
from supervisor.store.view import Backlog, CheckpointView, Counts
from supervisor.words.veil import veiled_lines


def test_a_prefix_is_enough_when_it_names_one_task(scene: Scene) -> None:
    for digits in ("a" * 32, "a" * 31 + "b", "c" * 32):
        scene.submit(task_id=f"task_{digits}")
    for given in ("c" * 8, "task_" + "c" * 8, "task_" + "c" * 32):
        view = scene.reader.task(given)
        assert view is not None
        assert view.task_id == "task_" + "c" * 32
    for given in ("c" * 7, "d" * 8, "", "task_", "C" * 8, "%"):
        assert scene.reader.task(given) is None
    with pytest.raises(Refused, match="several tasks"):
        scene.reader.task("a" * 8)


def test_the_last_checkpoint_is_that_of_the_latest_attempt_that_saved_one(scene: Scene) -> None:
    claim = scene.running()
    assert scene.reader.checkpoint(claim.task_id) is None
    with scene.ledger.transaction() as tx:
        assert tx.checkpoint(claim.task_id, 1, '{"page":3}', START)
    scene.finish(claim, ended.raised("Error", "no", ""))
    scene.pass_time(10)
    (second,) = scene.claim()
    assert scene.reader.checkpoint(claim.task_id) == CheckpointView(1, START, '{"page":3}')
    with scene.ledger.transaction() as tx:
        assert tx.checkpoint(claim.task_id, second.attempt, '{"page":4}', scene.now)
    assert scene.reader.checkpoint(claim.task_id) == CheckpointView(2, scene.now, '{"page":4}')


def _ids(scene: Scene, **wanted: object) -> list[str]:
    page = scene.reader.tasks(TaskFilter(**wanted))  # type: ignore[arg-type]
    return [line.task_id for line in page.tasks]


def test_filters_hold_together(scene: Scene) -> None:
    a = scene.submit(queue="x", tags=("red", "50%"), dedup_key="order:1", submitted_by="anna")
    b = scene.submit(queue="y", type="part", tags=("reddish",))
    c = scene.submit(queue="y", type="part", dedup_key="order:2")
    scene.cancel(c)
    assert _ids(scene) == [c, b, a]
    assert _ids(scene, states=(State.PENDING,)) == [b, a]
    assert _ids(scene, states=(State.CANCELED, State.PENDING)) == [c, b, a]
    assert _ids(scene, types=("part",)) == [c, b]
    assert _ids(scene, types=("greet", "part"), states=(State.PENDING,)) == [b, a]
    assert _ids(scene, queues=("y",), states=(State.PENDING,)) == [b]
    assert _ids(scene, tag="red") == [a]
    assert _ids(scene, tag="50%") == [a]
    assert _ids(scene, text="order:") == [c, a]
    assert _ids(scene, text="anna") == [a]
    assert _ids(scene, text=b) == _ids(scene, text=b[5:]) == [b]
    assert _ids(scene, text="%") == []


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"states": tuple(State)},
        {"types": ("greet", "part")},
        {"queues": ("default",)},
        {"types": ("greet", "part"), "states": (State.PENDING, State.CANCELED), "text": "p"},
    ],
)
@pytest.mark.parametrize("window", [3, search.WINDOW])
def test_pages_follow_each_other_without_gap_or_repeat(
    scene: Scene, wanted: dict[str, object], window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "WINDOW", window)
    ids = [scene.submit(type=("greet", "part")[index % 3 == 0]) for index in range(20)]
    scene.cancel(*ids[::4])
    only_parts = "text" in wanted  # the "p" is in "part", and in no id
    expected = [ids[index] for index in range(20) if index % 3 == 0 or not only_parts]
    seen: list[str] = []
    before_id = None
    while True:
        page = scene.reader.tasks(TaskFilter(**wanted, before_id=before_id, limit=4))  # type: ignore[arg-type]
        seen += [line.task_id for line in page.tasks]
        assert len(page.tasks) <= 4
        before_id = page.next_id
        if before_id is None:
            break
    assert seen == expected[::-1]


def test_counts_tell_due_from_scheduled(scene: Scene) -> None:
    claim = scene.running()
    scene.finish(claim, ended.returned("1"))
    scene.running(queue="x")
    scene.submit(queue="x")
    scene.submit(queue="y", type="part", run_after=START + timedelta(seconds=5))
    nothing = dict.fromkeys(State, 0)
    by_state = {**nothing, State.SUCCESS: 1, State.RUNNING: 1, State.PENDING: 2}
    assert scene.reader.counts(START) == Counts(by_state, in_queue=1)
    assert scene.reader.counts(START + timedelta(seconds=5)) == Counts(by_state, in_queue=2)
    assert scene.reader.backlog_by_queue(START) == [Backlog("x", 1, 0, 1), Backlog("y", 0, 1, 0)]
    assert scene.reader.backlog_by_type(START) == [
        Backlog("greet", 1, 0, 1),
        Backlog("part", 0, 1, 0),
    ]


def test_queues_show_their_pauses(scene: Scene) -> None:
    scene.submit(queue="x")
    with scene.ledger.transaction() as tx:
        tx.pause("x", 3, by="anna", reason="flood", now=START + timedelta(seconds=1))
        tx.pause("y", None, by="bert", reason="down", now=START)
    x, y = scene.reader.queues(START)
    assert (x.queue, x.paused, x.paused_priorities, x.by, x.reason, x.in_queue) == (
        "x",
        False,
        (3,),
        "anna",
        "flood",
        1,
    )
    assert (y.queue, y.paused, y.paused_priorities, y.by, y.in_queue) == ("y", True, (), "bert", 0)


def test_the_audit_of_everything_is_paged(scene: Scene) -> None:
    ids = [scene.submit() for _ in range(3)]
    newest = scene.reader.audit(limit=2)
    assert [line.task_id for line in newest] == [ids[2], ids[1]]
    older = scene.reader.audit(before_id=newest[-1].audit_id, limit=2)
    assert [line.task_id for line in older] == [ids[0]]


def test_dedup_keys_and_tags_are_listed_without_values_of_secret_params(scene: Scene) -> None:
    secret = {"password": "blue-horse", "code": "9-battery"}
    with scene.ledger.transaction() as tx:
        tx.record_types({"greet": None}, NODE, START, {"greet": ("code",)})
    keys = ["a:blue-horse", "b:9-battery", "c:blue", None]
    for key in keys:
        scene.submit(
            params_json=json.dumps(secret),
            dedup_key=key,
            tags=("9-battery", "urgent") if key else (),
        )
    more = json.dumps({**secret, "more": "x" * 70_000})
    scene.submit(params_json=more, dedup_key="d", tags=("urgent",))
    lines = veiled_lines(scene.store, scene.reader.tasks(TaskFilter(oldest_first=True)).tasks)
    assert [(line.dedup_key, line.tags) for line in lines] == [
        ("a:[redacted]", ("[redacted]", "urgent")),
        ("b:[redacted]", ("[redacted]", "urgent")),
        ("c:blue", ("[redacted]", "urgent")),
        (None, ()),
        ("[redacted]", ("[redacted]",)),
    ]


def test_a_task_shows_its_latest_attempt(scene: Scene) -> None:
    scene.register()
    claim = scene.running()
    view = scene.reader.task(claim.task_id)
    assert view is not None
    assert (view.assigned, view.node_id, view.worker_id, view.claimed_at) == (
        True,
        "node_a",
        "worker_0",
        START,
    )
    assert [node.running for node in scene.reader.nodes()] == [1]
    scene.finish(claim, ended.raised("ValueError", "no", "trace", retryable=False))
    view = scene.reader.task(claim.task_id)
    assert view is not None
    assert (view.state, view.error_type, view.error) == (State.FAILED, "ValueError", "no")


def test_of_one_task_the_latest_attempts_and_rows_can_be_read_alone(scene: Scene) -> None:
    claim = scene.running()
    task_id = claim.task_id
    for number in (1, 2, 3):
        if number > 1:
            scene.pass_time(3600)
            (claim,) = scene.claim()
        assert (claim.task_id, claim.attempt) == (task_id, number)
        scene.finish(claim, ended.raised("ValueError", "no", "tb"))
    assert [one.attempt for one in scene.reader.attempts(task_id)] == [1, 2, 3]
    assert [one.attempt for one in scene.reader.attempts(task_id, 2)] == [2, 3]
    trail = scene.reader.history(task_id)
    assert [one.audit_id for one in trail] == sorted(one.audit_id for one in trail)
    assert scene.reader.history(task_id, 4) == trail[-4:]
    assert scene.reader.history(task_id, 400) == trail
