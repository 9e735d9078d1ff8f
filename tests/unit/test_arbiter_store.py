"""A store that neither answers nor fails is away: no claims, and the reason is said."""

from __future__ import annotations

import pytest
from test_arbiter import House

from supervisor.model.states import State
from supervisor.node import port


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    names = [record.message for record in caplog.records]
    return [name for name in names if name.startswith("store.")]


def test_a_silent_store_is_away_until_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    house.live(1)
    with caplog.at_level("INFO", logger="supervisor"):
        house.scribe.waited = 6.9
        house.live(1)
        assert house.arbiter.health.not_ready == ()
        house.scribe.waited = 7.0
        house.live(1)
        task = house.run("quick")
        house.live(2)
        assert house.arbiter.health.not_ready == (
            "store away: no answer for 7 s: does its disk hang?",
        )
        assert house.scribe.tasks[task].state is State.PENDING
        house.scribe.waited = 0.0
        house.live(1)
    assert house.arbiter.health.not_ready == ()
    assert house.scribe.tasks[task].state is State.SUCCESS
    assert events(caplog) == ["store.lost", "store.recovered"]


def test_what_the_store_says_itself_counts_more(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    house.live(1)
    with caplog.at_level("INFO", logger="supervisor"):
        house.scribe.waited = 8.0
        house.live(1)
        house.scribe.waited = 0.0
        house.scribe._replies.append(port.StoreAway("the disk is full"))
        house.live(1)
        assert house.arbiter.health.not_ready == ("store away: the disk is full",)
        house.scribe._replies.append(port.StoreBack())
        house.live(1)
    assert house.arbiter.health.not_ready == ()
    assert events(caplog) == ["store.lost", "store.lost", "store.recovered"]
