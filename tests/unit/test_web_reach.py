"""Lost and recovered are told once each, and only when they are true."""

from __future__ import annotations

import logging

import pytest

from supervisor.testing.clock import ManualClock
from supervisor.web.site import Reach


def names(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        name
        for record in caplog.records
        for name in ("store.lost", "store.recovered")
        if name in record.getMessage()
    ]


def test_each_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    reach = Reach(clock)
    with caplog.at_level(logging.INFO):
        reach.found(clock.mono())
        for _ in range(3):
            clock.advance(1)
            reach.lost("no such file")
        for _ in range(3):
            clock.advance(1)
            reach.found(clock.mono())
    assert names(caplog) == ["store.lost", "store.recovered"]


def test_an_answer_to_a_request_from_before_tells_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    reach = Reach(clock)
    begun = clock.mono()
    clock.advance(1)
    with caplog.at_level(logging.INFO):
        reach.lost("no such file")
        reach.found(begun)
        assert names(caplog) == ["store.lost"]
        clock.advance(1)
        reach.found(clock.mono())
    assert names(caplog) == ["store.lost", "store.recovered"]
