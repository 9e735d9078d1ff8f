"""Orders to a node: each carried out once and answered in words, whatever comes in between."""

from __future__ import annotations

from typing import Any

import pytest
from test_arbiter import House

from supervisor.model.order import Order, OrderKind
from supervisor.model.states import State
from supervisor.node import port
from supervisor.node.arbiter import Pace

SLOW = Pace(idle_s=0.5, poll_s=0.5, busy_s=0.1)


def ask(house: House, kind: str, task_id: str | None = None, attempt: int = 1) -> str:
    scribe = house.scribe
    order_id = f"order_{len(scribe.orders) + len(scribe.answers):032x}"
    scribe.orders[order_id] = Order(
        order_id=order_id, node_id="node-1", kind=kind, task_id=task_id,
        attempt=attempt if task_id else None, operator="anna", reason="it hangs",
        created_at=house.clock.now(),
    )  # fmt: skip
    return order_id


def told(house: House, kind: str, task_id: str | None = None, attempt: int = 1) -> str:
    """Ask, wait a little, and return the answer."""
    order_id = ask(house, kind, task_id, attempt)
    for _ in range(20):
        house.live(0.5)
        if order_id in house.scribe.answers:
            break
    house.live(0.5)
    return house.scribe.answers[order_id]


def captured(house: House) -> list[dict[str, Any]]:
    return [one.facts.values for one in house.scribe.autopsies]


def test_evidence_is_taken_of_what_runs_and_lets_it_live() -> None:
    house = House(SLOW)
    task = house.run("hopeless")
    house.live(1)
    answer = told(house, OrderKind.CAPTURE, task)
    (facts,) = captured(house)
    name = f"{task}-1-asked-{0:012x}"
    assert (facts["name"], facts["verdict"]) == (name, "asked")
    assert facts["why"] == "asked for by anna: it hangs"
    assert answer == f"complete: no diagnosis; bundle {name}"
    assert house.kills() == 0
    assert house.scribe.tasks[task].state is State.RUNNING
    house.live(20)
    assert house.pool.calls == [("capture", "asked")]  # once, though it was read many times


def test_each_order_has_a_bundle_of_its_own() -> None:
    house = House(SLOW)
    task = house.run("hopeless")
    house.live(1)
    assert told(house, OrderKind.CAPTURE, task) != told(house, OrderKind.CAPTURE, task)
    assert len({facts["name"] for facts in captured(house)}) == 2


@pytest.mark.parametrize("attempt", [1, 2])
def test_an_attempt_that_is_over_is_not_examined(attempt: int) -> None:
    house = House(SLOW)
    task = house.run("quick" if attempt == 1 else "hopeless")
    house.live(1)
    answer = told(house, OrderKind.CAPTURE, task, attempt)
    assert answer == f"not taken: attempt {attempt} does not run here any more"
    assert captured(house) == []


def test_evidence_before_a_kill_is_not_taken_twice() -> None:
    house = House(workers=1, timeout=5, autopsy_budget=10)
    house.pool.capture_s = 5.0
    task = house.run("hopeless")
    house.live(6)
    answer = told(house, OrderKind.CAPTURE, task)
    assert answer == "not taken: evidence is being taken before its kill"


@pytest.mark.parametrize(
    ("status", "why", "answer"),
    [
        ("busy", "somebody examines it", "not taken: somebody examines it"),
        ("failed", "the disk is full", "failed: the disk is full"),
    ],
)
def test_an_examination_that_fails_is_told(status: str, why: str, answer: str) -> None:
    house = House(SLOW)
    house.pool.capture_s = float("inf")
    task = house.run("hopeless")
    house.live(1)
    order_id = ask(house, OrderKind.CAPTURE, task)
    house.live(3)
    assert house.scribe.answers == {}
    (slot, _), *_ = house.arbiter.floor.running()
    name = f"{task}-1-asked-{order_id[-12:]}"
    facts = port.Facts({"task_id": task, "attempt": 1, "name": name, "verdict": "asked"}, True)
    house.arbiter._hear(
        port.Captured(slot.worker_id, facts, "", status, [], 0.0, 0, why), house.clock.mono()
    )
    assert house.scribe.answers == {order_id: answer}


def shown(house: House) -> tuple[float, float, str]:
    """Return what metrics and vital signs say: takes nothing, stops, its stage."""
    node = house.scribe.vitals[-1]["node"]
    return house.gauge("draining"), house.gauge("stopping"), node["stage"]


def test_what_is_told_of_a_drain_is_the_same_everywhere_at_once() -> None:
    house = House(SLOW, workers=1)
    house.run("report")
    house.live(7)
    assert shown(house) == (0.0, 0.0, "running")
    ask(house, OrderKind.DRAIN)
    house.live(2.5)
    assert shown(house) == (1.0, 0.0, "draining")
    ask(house, OrderKind.UNDRAIN)
    house.live(2.5)
    assert shown(house) == (0.0, 0.0, "running")
    ask(house, OrderKind.STOP)
    house.live(2.5)
    assert shown(house) == (1.0, 1.0, "stopping")


def test_a_drained_node_claims_nothing_until_it_is_told_to() -> None:
    house = House(SLOW, workers=1)
    running = house.run("report")
    house.live(1)
    answer = told(house, OrderKind.DRAIN)
    assert answer == "it takes no more tasks; 1 run to their end"
    why = "takes no tasks: asked by anna: it hangs"
    assert why in house.arbiter.health.not_ready
    later = house.run("quick")
    house.live(650)
    assert house.scribe.tasks[running].state is State.SUCCESS
    assert house.scribe.tasks[later].state is State.PENDING
    assert house.scribe.vitals[-1]["node"]["stage"] == "drained"
    assert told(house, OrderKind.DRAIN).startswith("it takes no more tasks already: asked by anna")
    assert told(house, OrderKind.UNDRAIN) == "it takes tasks again"
    house.live(2)
    assert house.scribe.tasks[later].state is State.SUCCESS
    assert told(house, OrderKind.UNDRAIN) == "it was not told to take no more tasks"
    assert house.arbiter.health.not_ready == ()


def test_a_node_stops_as_it_does_at_a_signal() -> None:
    house = House(SLOW, workers=1, drain_grace=30)
    task = house.run("polite")
    house.live(1)
    order_id = ask(house, OrderKind.STOP)
    house.live(10)
    stopping = "asked by anna: it hangs"
    assert house.arbiter.floor.stopping is not None
    assert house.arbiter.floor.stopping.why == stopping
    assert told(house, OrderKind.STOP) == f"it is stopping already: {stopping}"
    assert house.arbiter.floor.stopping.hurry == 0  # asking twice is no hurry
    assert told(house, OrderKind.DRAIN) == f"not done: it is stopping already: {stopping}"
    assert told(house, OrderKind.UNDRAIN) == f"not done: it is stopping: {stopping}"
    house.live(120)
    assert house.arbiter.done
    assert house.scribe.answers[order_id] == "it stops; 1 running may go on for up to 30 s"
    assert house.scribe.tasks[task].state is State.PENDING


def test_what_was_taken_is_not_taken_again_while_its_answer_is_unwritten() -> None:
    house = House(SLOW)
    task = house.run("hopeless")
    house.live(1)
    order_id = ask(house, OrderKind.CAPTURE, task)
    order = house.scribe.orders[order_id]
    house.live(3)
    house.scribe.answers.clear()
    house.scribe.orders[order_id] = order  # its commit was lost, and will be sent again
    house.live(5)
    assert house.pool.calls == [("capture", "asked")]


def test_a_node_that_may_run_nothing_takes_no_orders_until_it_may() -> None:
    house = House(SLOW)
    house.live(2)
    house.arbiter.floor.fenced = "the lease is over"
    order_id = ask(house, OrderKind.DRAIN)
    house.live(8)
    assert house.scribe.answers == {}
    assert house.scribe.vitals[-1]["node"]["stage"] == "fenced"
    house.arbiter.floor.fenced = ""
    house.live(3)
    assert house.scribe.answers == {order_id: "it takes no more tasks; 0 run to their end"}


def test_an_order_of_a_later_version_is_answered_all_the_same() -> None:
    house = House(SLOW)
    assert told(house, "dance") == "not done: this version of the node knows no such order"


def test_vital_signs_tell_what_each_worker_is_at() -> None:
    house = House(SLOW, workers=2)
    task = house.run("report")
    house.live(60)
    node, (first, second) = (house.scribe.vitals[-1][part] for part in ("node", "workers"))
    assert node == {
        "stage": "running", "workers_desired": 2, "workers_alive": 2,
        "loop_lag_s": node["loop_lag_s"],
        "zombies": {"stalled": 0, "heartbeat_lost": 0, "orphan": 0},
    }  # fmt: skip
    busy, idle = (first, second) if first["task_id"] else (second, first)
    assert (busy["task_id"], busy["attempt"], busy["state"]) == (task, 1, "busy")
    assert busy["rss"] == 50 * 2**20
    assert busy["progress"] == [1.0, None]
    assert 0 <= busy["since_progress_s"] <= 35
    assert busy["verdict"] is None
    assert idle["state"] == "idle"
    assert (idle["task_id"], idle["progress"]) == (None, None)
    assert {first["slot"], second["slot"]} == {0, 1}
    assert 10 <= len(house.scribe.vitals) <= 13


def test_nothing_is_shown_while_the_store_is_away() -> None:
    house = House(SLOW)
    house.live(20)
    before = len(house.scribe.vitals)
    house.scribe.go_away()
    house.live(30)
    house.scribe.come_back()
    house.live(1)
    assert len(house.scribe.vitals) <= before + 1


def test_an_order_that_cannot_be_carried_out_is_answered_and_can_be_given_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(SLOW)
    task = house.run("hopeless")
    house.live(1)

    def no_descriptors(*_: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as trouble:
        trouble.setattr(house.pool, "capture", no_descriptors)
        answer = told(house, OrderKind.CAPTURE, task)
    assert answer == "failed: OSError(24, 'Too many open files')"
    assert captured(house) == []
    assert told(house, OrderKind.CAPTURE, task).startswith("complete")
