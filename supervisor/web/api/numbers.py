"""The five numbers, by the same definitions as the metrics and the pages."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from supervisor.model.access import Right
from supervisor.store.levels import oldest
from supervisor.store.numbers import WINDOW_S
from supervisor.web import census
from supervisor.web.api.endpoint import READ, Endpoint, Moment, Nothing
from supervisor.web.visit import Visit


class EndedIn(msgspec.Struct, kw_only=True):
    """Attempts of one type that ended in the window; `type` is null for all types together.

    Rates are shares of one, null where nothing can be divided. `p99_s`: 99 % ran no longer.
    """

    type: str | None
    success: int
    failed: int
    timeout: int
    canceled: int
    requeued: int
    p99_s: float | None
    failed_rate: float | None
    canceled_rate: float | None


class FiveNumbers(msgspec.Struct, kw_only=True):
    """What waits, how long attempts ran, what failed and was canceled, what is lost.

    `ended` has all types together first, then each; null when more ended than can be counted. It is
    of the `window_s` seconds before `window_at`, `by_state` of `counted_at`, the rest of `at`: what
    is dear to count on a large store is some seconds older, up to two minutes.
    """

    at: Moment
    counted_at: Moment
    by_state: dict[str, int]
    in_queue: int
    scheduled: int
    running: int
    oldest_due: Moment | None
    lost: int
    window_s: float
    window_at: Moment
    ended: list[EndedIn] | None


class MinuteOf(msgspec.Struct, kw_only=True):
    """One minute, the last of them not over when it was counted. Endings are of attempts.

    `waiting` are the PENDING tasks at its end, due or not.
    """

    at: Moment
    submitted: int
    started: int
    success: int
    failed: int
    timeout: int
    canceled: int
    requeued: int
    waiting: int


class Hour(msgspec.Struct):
    """The minutes, oldest first; not `is_whole` where more happened than can be counted.

    They were counted at `counted_at`: on a large store some seconds ago, up to two minutes.
    """

    counted_at: Moment
    minutes: list[MinuteOf]
    is_whole: bool


def get_numbers(visit: Visit, _query: Nothing, _body: None) -> FiveNumbers:
    """Show the five numbers: in queue, p99 of run time, failed, canceled, lost."""
    live, (states, _), (endings, _) = (
        census.live(visit), census.states(visit), census.endings(visit),
    )  # fmt: skip
    return FiveNumbers(
        at=live.at,
        counted_at=states.at,
        by_state={str(state): count for state, count in states.by_state.items()},
        in_queue=sum(one.in_queue for one in live.levels),
        scheduled=sum(one.scheduled for one in live.levels),
        running=sum(one.running for one in live.levels),
        oldest_due=oldest(live.levels),
        lost=live.lost,
        window_s=WINDOW_S,
        window_at=endings.at,
        ended=None
        if endings.by_type is None
        else [msgspec.convert(one, EndedIn, from_attributes=True) for one in endings.by_type],
    )


def get_hour(visit: Visit, _query: Nothing, _body: None) -> Hour:
    """Show the last hour by the minute: submitted, started, ended, waiting."""
    found, age_s = census.hour(visit)
    return Hour(
        visit.now() - timedelta(seconds=age_s),
        [msgspec.convert(one, MinuteOf, from_attributes=True) for one in found.minutes],
        found.is_whole,
    )


ENDPOINTS = (
    Endpoint(method=READ, rule="/numbers/hour", function=get_hour, needs=Right.TASKS, answer=Hour),
    Endpoint(
        method=READ, rule="/numbers", function=get_numbers, needs=Right.TASKS, answer=FiveNumbers
    ),
)
