"""A type whose tasks end their workers waits; the workers and the other types go on."""

from __future__ import annotations

from collections import Counter

import pytest
from test_arbiter import House

from supervisor.model.spec import TaskSpec
from supervisor.model.states import State
from supervisor.queue import Heard


def told(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, object]]:
    return [r.fields for r in caplog.records if r.message == name]  # type: ignore[attr-defined]


def births(house: House) -> int:
    return house.pool._pids - 1000


def test_the_others_get_their_turn(caplog: pytest.LogCaptureFixture) -> None:
    house = House(workers=2)
    crashing = house.scribe.submit([TaskSpec(type="crashes")] * 100)
    with caplog.at_level("INFO", logger="supervisor"):
        house.live(4)
        assert told(caplog, "type.held") == [{"type": "crashes", "crashes": 6, "wait_s": 2.0}]
        quick = house.scribe.submit([TaskSpec(type="quick")] * 10)
        house.arbiter.ring(Heard(frozenset({"due"})))
        house.live(0.9)
    assert [house.scribe.tasks[task].state for task in quick] == [State.SUCCESS] * 10
    assert house.arbiter.health.not_ready == ()
    assert house.arbiter.health.notes == (
        "tasks of type crashes wait: they ended too many workers one after the other",
    )
    assert told(caplog, "restart.halted") == []
    waiting = [house.scribe.tasks[task] for task in crashing]
    assert Counter(task.state for task in waiting) == Counter({State.PENDING: 100})
    assert sum(task.claim.crash_count for task in waiting) == 6


def test_it_is_tried_again_ever_later(caplog: pytest.LogCaptureFixture) -> None:
    house = House(workers=2)
    house.scribe.submit([TaskSpec(type="crashes")] * 1000)
    with caplog.at_level("INFO", logger="supervisor"):
        house.live(600)
    waits = [fields["wait_s"] for fields in told(caplog, "type.held")]
    assert waits[:8] == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert len(told(caplog, "type.released")) in (len(waits), len(waits) - 1)
    assert births(house) <= 2 + 7 * (len(waits) + 1)  # two at a time die of one try
    assert told(caplog, "restart.halted") == []


def test_a_type_that_has_been_calm_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    house = House(workers=2, max_crashes=1)
    with caplog.at_level("INFO", logger="supervisor"):
        for _ in range(2):
            house.scribe.submit([TaskSpec(type="crashes")] * 6)
            house.live(200)
    assert [fields["wait_s"] for fields in told(caplog, "type.held")] == [2.0, 2.0]
    assert house.arbiter.floor.held == {}


def test_workers_that_die_outside_of_a_body_halt_the_births(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House(workers=2)
    with caplog.at_level("INFO", logger="supervisor"):
        for _ in range(60):
            house.live(2)  # each lives for two seconds
            for slot in list(house.arbiter.floor.slots):
                house.pool.terminate(slot)
    assert told(caplog, "restart.halted") != []
    assert births(house) < 60
    assert house.arbiter.floor.held == {}
