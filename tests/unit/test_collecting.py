"""Sources that are asked at scrape time: limited in time and cost, absent when they cannot tell."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from supervisor.clock import Clock
from supervisor.telemetry import collecting
from supervisor.telemetry.collecting import Collecting, Sample
from supervisor.telemetry.metrics import Metrics
from supervisor.testing import ManualClock


class Source:
    """A source of `outbox_pending` that does what the test says."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.asked = 0
        self.takes_s = 0.0
        self.error: Exception | None = None
        self.free = threading.Event()
        self.free.set()
        self.done = threading.Event()

    def read(self) -> Iterator[Sample]:
        self.asked += 1
        self._clock.advance(self.takes_s)
        self.free.wait(10)
        if self.error is not None:
            raise self.error
        yield Sample("outbox_pending", self.asked)

    def close(self) -> None:
        self.free.set()


class Desk:
    """Metrics with one source, `backlog`, and a clock that the source moves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.source = Source(self.clock)
        self.metrics = scraped_by(self.clock, self.source)

    def scrape(self) -> dict[str, float]:
        """Return the source's own value, and what is told of it."""
        body = self.metrics.render()[0].decode()
        return {
            sample.name.removeprefix("supervisor_").removeprefix("collector_"): sample.value
            for family in text_string_to_metric_families(body)
            for sample in family.samples
            if sample.name.startswith(("supervisor_outbox", "supervisor_collector"))
        }


def scraped_by(clock: Clock, source: Source) -> Metrics:
    metrics = Metrics()
    sources = Collecting(clock)
    sources.add("backlog", source.read, ["outbox_pending"])
    metrics.collect_with(sources)
    return metrics


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(collecting, "WAIT_S", 5.0)
    desk = Desk()
    yield desk
    desk.source.close()


def test_an_answer_serves_for_half_a_second_and_then_no_longer(desk: Desk) -> None:
    assert desk.scrape() == {"outbox_pending": 1, "duration_seconds": 0, "success": 1}
    desk.clock.advance(0.49)
    assert desk.scrape()["outbox_pending"] == 1
    desk.clock.advance(0.02)
    assert desk.scrape()["outbox_pending"] == 2


def test_a_slow_source_is_asked_for_a_twentieth_of_the_time(desk: Desk) -> None:
    desk.source.takes_s = 0.25
    assert desk.scrape() == {"outbox_pending": 1, "duration_seconds": 0.25, "success": 1}
    desk.clock.advance(4.9)
    assert desk.scrape()["outbox_pending"] == 1
    desk.clock.advance(0.2)
    assert desk.scrape()["outbox_pending"] == 2


def test_no_answer_is_shown_that_is_older_than_a_minute(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.source.takes_s = 30.0
    assert desk.scrape() == {"outbox_pending": 1, "duration_seconds": 30, "success": 1}
    desk.clock.advance(59.9)
    assert desk.scrape()["outbox_pending"] == 1
    monkeypatch.setattr(collecting, "WAIT_S", 0.02)
    desk.source.free.clear()  # from now on it does not come back
    desk.clock.advance(0.2)
    ticker = threading.Timer(0.05, desk.clock.advance, [10.0])
    ticker.start()
    found = desk.scrape()
    ticker.join()
    assert "outbox_pending" not in found
    assert found["success"] == 0


def test_what_took_long_to_fail_is_asked_again_at_once(desk: Desk) -> None:
    desk.source.takes_s, desk.source.error = 3.0, TimeoutError("the store is away")
    assert desk.scrape() == {"duration_seconds": 3, "success": 0}
    desk.source.takes_s, desk.source.error = 0.0, None
    desk.clock.advance(0.4)
    assert desk.scrape() == {"duration_seconds": 3, "success": 0}
    desk.clock.advance(0.2)
    assert desk.scrape() == {"outbox_pending": 2, "duration_seconds": 0, "success": 1}


def test_what_fails_is_absent_and_told_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.source.error = ValueError("no such table")
    for _ in range(3):
        assert desk.scrape() == {"duration_seconds": 0, "success": 0}
        desk.clock.advance(1)
    desk.source.error = None
    assert desk.scrape()["outbox_pending"] == 4
    told = [record.fields for record in caplog.records]  # type: ignore[attr-defined]
    assert told == [{"collector": "backlog", "error": "no such table"}]


def test_one_that_hangs_is_waited_for_once_and_never_asked_twice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "WAIT_S", 0.02)
    desk.source.free.clear()
    ticker = threading.Timer(0.05, desk.clock.advance, [3.0])
    ticker.start()
    found = desk.scrape()
    ticker.join()
    assert found == {"duration_seconds": 3.0, "success": 0}
    desk.clock.advance(60)
    assert desk.scrape() == {"duration_seconds": 63.0, "success": 0}
    assert desk.source.asked == 1
    monkeypatch.setattr(collecting, "WAIT_S", 100.0)
    desk.source.free.set()
    assert desk.scrape() == {"outbox_pending": 1, "duration_seconds": 63.0, "success": 1}
