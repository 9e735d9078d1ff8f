"""Orders to nodes and their vital signs: what the ledger promises, on both stores."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from ledger_scene import NODE, Scene

from supervisor.errors import Refused, UnknownTask
from supervisor.model import outcome
from supervisor.model.order import UNANSWERED, Order, OrderKind
from supervisor.store.ledger.vitals import KEPT_FOR
from supervisor.store.orders import OrderDesk
from supervisor.store.vitals import VitalsBook, VitalsView

WHO = {"by": "anna", "reason": "it hangs"}


def desk(scene: Scene) -> OrderDesk:
    return OrderDesk(scene.store, lambda: None)


def ask(scene: Scene, kind: str, node_id: str | None = NODE, **what: Any) -> Order:
    with scene.ledger.transaction() as tx:
        return tx.orders.ask(node_id, kind, **{**WHO, **what}, now=scene.now)


def answer(scene: Scene, order: Order, text: str) -> bool:
    with scene.ledger.transaction() as tx:
        return tx.orders.answer(order.order_id, text, scene.now)


def open_of(scene: Scene, node_id: str = NODE) -> list[Order]:
    with scene.ledger.looking() as look:
        return look.open_orders(node_id)


def general(scene: Scene) -> list[tuple[str, str, str | None]]:
    lines = [x for x in scene.reader.audit(limit=100) if x.task_id is None]
    return [(x.operator, x.reason, x.note) for x in reversed(lines)][1:]  # first: the node's start


def test_evidence_is_asked_of_the_node_that_runs_the_attempt_and_answered_once(
    scene: Scene,
) -> None:
    scene.register()
    claim = scene.running()
    order = ask(scene, "capture", None, task_id=claim.task_id, attempt=1)
    assert order == Order(
        order_id=order.order_id, node_id=NODE, kind=OrderKind.CAPTURE, task_id=claim.task_id,
        attempt=1, operator="anna", reason="it hangs", created_at=scene.now,
    )  # fmt: skip
    assert open_of(scene) == [order]
    assert open_of(scene, "another") == []
    scene.pass_time(2)
    assert answer(scene, order, "complete: lock_held")
    assert not answer(scene, order, "again")
    assert open_of(scene) == []
    (read,) = desk(scene).of_task(claim.task_id)
    assert (read.answer, read.answered_at) == ("complete: lock_held", scene.now)
    assert desk(scene).order(order.order_id) == read
    assert scene.trail(claim.task_id)[-2:] == [
        (None, None, "anna", "capture_ordered", "it hangs"),
        (None, None, "supervisor", "order_answered", "capture: complete: lock_held"),
    ]


def test_the_same_order_is_not_written_twice_while_it_is_open(scene: Scene) -> None:
    scene.register()
    first = ask(scene, "drain")
    assert ask(scene, "drain", by="bob", reason="I too") == first
    assert ask(scene, "undrain") != first
    answer(scene, first, "done")
    assert ask(scene, "drain").order_id != first.order_id
    assert len(desk(scene).of_node(NODE)) == 3


def test_what_has_changed_since_is_refused_with_what_is_true_now(scene: Scene) -> None:
    scene.register()
    claim = scene.running()
    task_id = claim.task_id
    with pytest.raises(Refused, match=f"attempt 2 of {task_id} is over: attempt 1 runs now"):
        ask(scene, "capture", task_id=task_id, attempt=2)
    with pytest.raises(Refused, match=f"{task_id} runs on node_a, not on node_b"):
        ask(scene, "capture", "node_b", task_id=task_id, attempt=1)
    scene.finish(claim, outcome.returned("1"))
    with pytest.raises(Refused, match=f"{task_id} is SUCCESS: nothing of it runs"):
        ask(scene, "capture", task_id=task_id, attempt=1)
    with pytest.raises(UnknownTask):
        ask(scene, "capture", task_id="task_0", attempt=1)
    assert open_of(scene) == []


@pytest.mark.parametrize(
    ("kind", "what", "told"),
    [
        ("dance", {}, "no order is called 'dance'"),
        ("drain", {"task_id": "task_0"}, "drain names a task"),
        ("capture", {}, "capture names a task"),
        ("drain", {"by": " "}, "operator"),
        ("drain", {"reason": ""}, "reason"),
        ("drain", {"node_id": "node_z"}, "no node node_z"),
    ],
)
def test_an_order_that_means_nothing_is_refused(
    scene: Scene, kind: str, what: dict[str, Any], told: str
) -> None:
    scene.register()
    with pytest.raises(Refused, match=told):
        ask(scene, kind, **what)
    assert open_of(scene) == []


def test_the_end_of_a_node_answers_what_it_left_open(scene: Scene) -> None:
    scene.register()
    done, left = ask(scene, "drain"), ask(scene, "stop")
    answer(scene, done, "drains")
    scene.pass_time(5)
    with scene.ledger.transaction() as tx:
        tx.end_node(NODE, scene.now, "found dead")
    assert not answer(scene, left, "stops")
    stop, drain = desk(scene).of_node(NODE)
    assert (stop.order_id, stop.answer, stop.answered_at) == (left.order_id, UNANSWERED, scene.now)
    assert drain.answer == "drains"
    with pytest.raises(Refused, match="node node_a has ended"):
        ask(scene, "drain")
    assert general(scene) == [
        ("anna", "node_drain_ordered", "node_a: it hangs"),
        ("anna", "node_stop_ordered", "node_a: it hangs"),
        ("supervisor", "order_answered", "node_a: drain: drains"),
        ("supervisor", "node_ended", "node_a: found dead"),
        ("supervisor", "order_answered", f"node_a: stop: {UNANSWERED}"),
    ]


def test_the_desk_rings_after_the_order_is_written(scene: Scene) -> None:
    scene.register()
    seen: list[int] = []
    OrderDesk(scene.store, lambda: seen.append(len(open_of(scene)))).ask(NODE, "drain", **WHO)
    assert seen == [1]


def vital(scene: Scene, node_id: str, cpu_s: float) -> None:
    document = {"node": {"cpu_s": cpu_s}, "workers": [{"task_id": "task_1", "attempt": 2}]}
    with scene.ledger.transaction() as tx:
        tx.vitals.write(node_id, scene.now, json.dumps(document))


def test_vital_signs_are_read_as_they_were_written_and_go_after_an_hour(scene: Scene) -> None:
    book = VitalsBook(scene.store)
    assert book.latest("node_a") is None
    start = scene.now
    vital(scene, "node_b", 9.0)
    for cpu_s in (1.0, 2.0):
        vital(scene, "node_a", cpu_s)
        vital(scene, "node_a", cpu_s)  # again after an answer that was lost
        scene.pass_time(5)
    workers = ({"task_id": "task_1", "attempt": 2},)
    latest = VitalsView("node_a", start + timedelta(seconds=5), {"cpu_s": 2.0}, workers)
    assert book.latest("node_a") == latest
    assert latest.of_attempt("task_1", 2) == workers[0]
    assert latest.of_attempt("task_1", 1) is None
    assert book.since("node_a", start) == [latest]
    assert [one.at for one in book.since("node_a", start - timedelta(seconds=1))] == [
        start,
        latest.at,
    ]
    assert set(book.latest_of(["node_a", "node_b", "node_c"])) == {"node_a", "node_b"}
    assert book.all_since(start) == {"node_a": [latest]}
    every = book.all_since(start - timedelta(seconds=1))
    assert {node_id: len(views) for node_id, views in every.items()} == {"node_a": 2, "node_b": 1}
    assert every["node_a"][-1] == latest
    with scene.ledger.transaction() as tx:
        assert tx.vitals.remove_old(start + KEPT_FOR) == 0
        assert tx.vitals.remove_old(start + KEPT_FOR + timedelta(seconds=1)) == 2
    assert book.latest("node_b") is None
    assert book.since("node_a", start - timedelta(seconds=1)) == [latest]


def test_a_drain_behind_an_undrain_is_an_order_of_its_own(scene: Scene) -> None:
    scene.register()
    first, back = ask(scene, "drain"), ask(scene, "undrain")
    again = ask(scene, "drain")
    assert [one.order_id for one in open_of(scene)] == [
        first.order_id, back.order_id, again.order_id,
    ]  # fmt: skip
    assert ask(scene, "drain") == again


def test_what_somebody_else_asked_meanwhile_is_not_overtaken_unseen(scene: Scene) -> None:
    scene.register()
    seen_at = scene.now
    scene.pass_time(1)
    drain = ask(scene, "drain", seen_at=seen_at)
    answer(scene, drain, "draining")
    scene.pass_time(1)
    with pytest.raises(Refused, match=f"anna asked node {NODE} to drain at 20"):
        ask(scene, "stop", by="bob", seen_at=seen_at)
    assert ask(scene, "drain", by="bob", seen_at=seen_at).order_id != drain.order_id
    assert ask(scene, "stop", by="anna", seen_at=scene.now).kind == "stop"
    assert ask(scene, "undrain", by="cleo").kind == "undrain"
    scene.pass_time(1)
    assert ask(scene, "stop", by="bob", seen_at=scene.now).operator == "anna"
