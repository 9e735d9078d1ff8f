"""The plan of the live demo asks for what the shop has, and brings every kind of ending."""

from __future__ import annotations

from collections import Counter
from random import Random

from supervisor.demo import shop
from supervisor.demo.plan import ACTS, PAUSE, RESUME, STREAMS, Act, Plan, Stream

QUEUES = {"mail", "orders", "imports", "reports", "images", "default"}


def test_every_type_of_the_shop_comes_and_its_params_are_taken() -> None:
    assert {one.type for one in STREAMS} == set(shop.app.types)
    dice = Random(3)
    queues = {
        shop.app.checked({"type": one.type, "params": one.params(dice)}).queue
        for one in STREAMS
        for _ in range(50)
    }
    assert queues == QUEUES


def test_people_step_in_on_what_there_is_and_what_they_pause_they_resume() -> None:
    of_queues = {PAUSE, RESUME}
    for act in ACTS:
        assert act.about in (QUEUES if act.kind in of_queues else set(shop.app.types)), act
    paused, resumed = (
        {(act.about, act.every_s) for act in ACTS if act.kind == kind} for kind in (PAUSE, RESUME)
    )
    assert paused == resumed


def test_what_is_due_comes_as_often_as_planned_and_once_when_the_host_was_away() -> None:
    plan, ages = Plan(), [n / 4 for n in range(480)]
    came = Counter(item for age in ages for item in plan.due(age))
    for item in (*STREAMS, *ACTS):
        planned = (120 - item.first_s) / item.every_s
        assert abs(came[item] - planned) <= 1 + planned * 0.1, item
    late = Counter(plan.due(100_000.0))
    assert set(late) == {*STREAMS, *ACTS}
    assert set(late.values()) == {1}
    assert {type(item) for item in late} == {Act, Stream}
