"""The last hour by the minute, as both kinds of store tell it, and what waits at each level."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from ledger_scene import POLICY, START, Scene

from supervisor.model import outcome as ended
from supervisor.model.states import State
from supervisor.store import trend
from supervisor.store.levels import Gate, QueueLevel, gates, levels, oldest
from supervisor.store.trend import MINUTES, Hour, Minute, Trend

ONCE = replace(POLICY, max_retries=0)


def told(hour: Hour) -> dict[int, tuple[int, ...]]:
    """Return the minutes in which something moved, by their distance to the last."""
    last = hour.minutes[-1].at
    return {
        round((one.at - last).total_seconds() / 60): (
            one.submitted, one.started, one.success, one.failed, one.timeout, one.canceled,
            one.requeued,
        )
        for one in hour.minutes
        if one.submitted or one.started or one.success + one.failed + one.timeout + one.canceled
    }  # fmt: skip


def waited(hour: Hour) -> list[int]:
    return [one.waiting for one in hour.minutes]


def test_an_hour_is_told_by_the_minute(scene: Scene) -> None:
    scene.submit()  # claimed below, an hour and a half later
    scene.pass_time(5400)
    first = scene.submit()
    scene.submit(run_after=START + timedelta(days=1))
    claims = scene.claim(2)
    scene.pass_time(60)
    scene.finish(claims[0], ended.returned("1"))
    scene.finish(claims[1], ended.raised("ValueError", "no", "tb"))  # it is tried again
    scene.pass_time(120)
    (again,) = scene.claim()
    scene.cancel(first, again.task_id)
    scene.finish(again, ended.soft_timed_out(), policy=ONCE)
    third = scene.running()
    scene.finish(third, ended.never_started("its worker was gone"))
    waits = scene.submit()
    scene.cancel(waits)
    hour = Trend(scene.store).hour(scene.now)
    assert hour.is_whole
    assert hour.minutes[-1].at == scene.now.replace(second=0, microsecond=0)
    found = told(hour)
    assert found[-3] == (2, 2, 0, 0, 0, 0, 0)
    assert found[-2] == (0, 0, 1, 1, 0, 0, 0)
    submitted, started, success, failed, timeout, canceled, requeued = found[0]
    assert (submitted, started, success, failed, requeued) == (2, 2, 0, 0, 1)
    assert timeout + canceled == 1
    assert waited(hour)[-5:] == [1, 1, 2, 2, 2]
    assert set(waited(hour)[:-4]) == {1}


def test_what_waits_follows_back_from_what_waits_now(scene: Scene) -> None:
    counted = []
    for number in range(12):
        for _ in range(number % 4):
            scene.submit()
        claims = scene.claim(number % 3)
        for claim in claims[:1]:
            scene.finish(claim, ended.raised("ValueError", "no", "tb"))
        counted.append(scene.reader.counts(scene.now).by_state[State.PENDING])
        scene.pass_time(60)
    assert waited(Trend(scene.store).hour(scene.now))[-13:-1] == counted


def test_minutes_that_are_over_are_counted_once(scene: Scene) -> None:
    one = Trend(scene.store)
    for number in range(10):
        for _ in range(number):
            scene.finish(scene.running(), ended.returned("1"))
        kept = one.hour(scene.now)
        assert kept == Trend(scene.store).hour(scene.now)
        scene.pass_time(30 + 17 * number)
    scene.pass_time(7200)
    assert told(one.hour(scene.now)) == {}
    scene.now = START + timedelta(seconds=90)  # the clock is set back
    assert one.hour(scene.now) == Trend(scene.store).hour(scene.now)


def test_where_too_much_happened_it_begins_later(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trend, "ROWS_MOST", 30)
    for _ in range(20):
        scene.finish(scene.running(), ended.returned("1"))  # three rows
        scene.pass_time(60)
    hour = Trend(scene.store).hour(scene.now)
    assert not hour.is_whole
    assert 5 <= len(hour.minutes) <= 10
    assert [one.success for one in hour.minutes] == [1] * (len(hour.minutes) - 1) + [0]
    one = Trend(scene.store)
    assert one.hour(scene.now) == one.hour(scene.now)


def test_an_empty_store_has_an_hour_of_nothing(scene: Scene) -> None:
    hour = Trend(scene.store).hour(scene.now)
    assert len(hour.minutes) == MINUTES
    assert {replace(one, at=START) for one in hour.minutes} == {
        Minute(at=START, submitted=0, started=0, success=0, failed=0, timeout=0, canceled=0,
               requeued=0, waiting=0)
    }  # fmt: skip


def level(kind: str, priority: int, counts: tuple[int, int, int], due: datetime | None) -> object:
    in_queue, scheduled, running = counts
    return QueueLevel(
        queue="mail", priority=priority, type=kind, in_queue=in_queue, scheduled=scheduled,
        running=running, oldest_due=due,
    )  # fmt: skip


def test_levels_and_gates(scene: Scene) -> None:
    for priority, kind, later_s in ((1, "greet", 0), (1, "part", 60), (5, "greet", 0)):
        scene.submit(
            queue="mail", type=kind, priority=priority,
            run_after=START + timedelta(seconds=later_s),
        )  # fmt: skip
    scene.claim()
    for priority_, reason in ((None, "the bank is down"), (1, "slow")):
        with scene.ledger.transaction() as tx:
            tx.pause("mail", priority_, by="anna", reason=reason, now=scene.now)
    scene.pass_time(10)
    with scene.ledger.transaction() as tx:
        tx.resume("mail", 1, by="ben", reason="quick again", now=scene.now)
    with scene.store.reading() as connection:
        found, doors = levels(connection, scene.now), gates(connection)
    claimed_first = scene.reader.tasks().tasks
    top = next(task.priority for task in claimed_first if task.state is State.RUNNING)
    other = 6 - top
    assert set(found) == {
        level("greet", top, (0, 0, 1), None),
        level("greet", other, (1, 0, 0), START),
        level("part", 1, (0, 1, 0), None),
    }
    assert oldest(found) == START
    assert oldest(()) is None
    later = START + timedelta(seconds=10)
    assert doors == (
        Gate(queue="mail", priority=None, paused=True, by="anna", reason="the bank is down",
             at=START),
        Gate(queue="mail", priority=1, paused=False, by="ben", reason="quick again", at=later),
    )  # fmt: skip
