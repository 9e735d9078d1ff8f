"""The five numbers, by the same definitions as the metrics and the pages."""

from __future__ import annotations

import msgspec

from supervisor.model.access import Right
from supervisor.model.states import State
from supervisor.store import Reader
from supervisor.store.numbers import WINDOW_S, Numbers
from supervisor.web.api.endpoint import READ, Endpoint, Moment, Nothing
from supervisor.web.visit import Visit
from supervisor.web.watch import watch
from supervisor.words.roll import roll_call

#: How old what all who ask share may be: an ending is looked for in ten minutes of the trail.
FRESH_S = 5.0


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

    `ended` has all types together first, then each; null when more ended than can be counted.
    """

    at: Moment
    by_state: dict[str, int]
    in_queue: int
    scheduled: int
    running: int
    oldest_due: Moment | None
    lost: int
    window_s: float
    ended: list[EndedIn] | None


class MinuteOf(msgspec.Struct, kw_only=True):
    """One minute, the last of them not over yet. Endings are of attempts.

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
    """The minutes, oldest first; not `is_whole` where more happened than can be counted."""

    minutes: list[MinuteOf]
    is_whole: bool


def get_numbers(visit: Visit, _query: Nothing, _body: None) -> FiveNumbers:
    """Show the five numbers: in queue, p99 of run time, failed, canceled, lost."""
    return visit.see("api.numbers", FRESH_S, _numbers)


def get_hour(visit: Visit, _query: Nothing, _body: None) -> Hour:
    """Show the last hour by the minute: submitted, started, ended, waiting."""
    found = visit.see("hour", FRESH_S, lambda reader: watch().hour(reader.store.clock.now()))
    return Hour(
        [msgspec.convert(one, MinuteOf, from_attributes=True) for one in found.minutes],
        found.is_whole,
    )


def _numbers(reader: Reader) -> FiveNumbers:
    now = reader.store.clock.now()
    numbers = Numbers(reader.store)
    levels = numbers.live(now).levels
    ended = numbers.ended(now)
    counts = reader.counts(now).by_state
    return FiveNumbers(
        at=now,
        by_state={str(state): counts[state] for state in State},
        in_queue=sum(one.in_queue for one in levels),
        scheduled=sum(one.scheduled for one in levels),
        running=sum(one.running for one in levels),
        oldest_due=min((one.oldest_due for one in levels if one.oldest_due), default=None),
        lost=numbers.lost(now, dead=roll_call(reader).gone),
        window_s=WINDOW_S,
        ended=None
        if ended is None
        else [msgspec.convert(one, EndedIn, from_attributes=True) for one in ended],
    )


ENDPOINTS = (
    Endpoint(method=READ, rule="/numbers/hour", function=get_hour, needs=Right.TASKS, answer=Hour),
    Endpoint(
        method=READ, rule="/numbers", function=get_numbers, needs=Right.TASKS, answer=FiveNumbers
    ),
)
