"""Bounds in a query: `>2h`, `<2026-11-29`, `today`, `>=3`, as half-open intervals.

Secret kept here: what a bound means. A span before a time is an age (`>2h`: longer ago than two
hours), a day or a time is itself (`<2026-11-29`: before that day). All times are UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MOMENT_HINT = (
    "an age (>2h is longer ago than two hours, <30m is less), a day (2026-11-29, <2026-11-29), "
    "a time (>2026-11-29T08:30), today, yesterday, now or later"
)
DURATION_HINT = "a span (>5m, <30s, >=1h30m; ms, s, m, h, d, w)"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_COMPARED = re.compile(r"(>=|<=|>|<)?(.+)\Z", re.DOTALL)
_SPAN = re.compile(r"(?:\d{1,9}(?:\.\d{1,6})?(?:ms|[smhdw]))+\Z", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?\Z", re.ASCII
)
_NUMBER = re.compile(r"\d{1,9}\Z", re.ASCII)
_STEP = timedelta(microseconds=1)
_SPAN_MOST_S = 100 * 366 * 86400.0


@dataclass(frozen=True, slots=True)
class Between:
    """What lies from `low` on and before `high`; None is open."""

    low: datetime | None
    high: datetime | None


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from `low` to `high`, both included; None is open."""

    low: int | None
    high: int | None


When = Callable[[datetime], Between]


def when_of(text: str) -> When | None:
    """Read a bound on a time; what it means follows from the time it is asked at."""
    if word := _WORDS.get(text.lower()):
        return word
    compared = _COMPARED.match(text)
    if compared is None:
        return None
    sign, value = compared[1] or "", compared[2]
    seconds = _seconds(value)
    if seconds is not None:
        return _aged(sign, timedelta(seconds=seconds)) if sign else None
    begin, end = _day_or_time(value, sign)
    if begin is None or end is None:
        return None
    found = _against(sign, begin, end)
    return lambda _: found


def span_of(text: str) -> Range | None:
    """Read a bound on a span, in microseconds."""
    compared = _COMPARED.match(text)
    seconds = None if compared is None else _seconds(compared[2])
    if compared is None or seconds is None or not compared[1]:
        return None
    return _ranged(compared[1], timedelta(seconds=seconds) // _STEP)


def number_of(text: str) -> Range | None:
    """Read a bound on a number; without a sign it is the number itself."""
    compared = _COMPARED.match(text)
    if compared is None or not _NUMBER.match(compared[2]):
        return None
    return _ranged(compared[1] or "", int(compared[2]))


def _ranged(sign: str, value: int) -> Range:
    match sign:
        case ">":
            return Range(value + 1, None)
        case ">=":
            return Range(value, None)
        case "<":
            return Range(None, value - 1)
        case "<=":
            return Range(None, value)
    return Range(value, value)


def _seconds(text: str) -> float | None:
    if not _SPAN.match(text):
        return None
    seconds = sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    return seconds if seconds <= _SPAN_MOST_S else None


def _aged(sign: str, age: timedelta) -> When:
    if sign == ">":
        return lambda now: Between(None, now - age)
    if sign == ">=":
        return lambda now: Between(None, now - age + _STEP)
    if sign == "<":
        return lambda now: Between(now - age + _STEP, None)
    return lambda now: Between(now - age, None)


def _day_or_time(text: str, sign: str) -> tuple[datetime | None, datetime | None]:
    """Return from when to before when a day, or a time that is compared with, lasts."""
    try:
        if _DAY.match(text):
            begin = datetime.fromisoformat(text).replace(tzinfo=UTC)
            return begin, begin + timedelta(days=1)
        if sign and _TIME.match(text):
            given = datetime.fromisoformat(text)
            begin = given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
            return begin, begin + _STEP
    except (ValueError, OverflowError):  # there is no such day
        pass
    return None, None


def _against(sign: str, begin: datetime, end: datetime) -> Between:
    match sign:
        case ">":
            return Between(end, None)
        case ">=":
            return Between(begin, None)
        case "<":
            return Between(None, begin)
        case "<=":
            return Between(None, end)
    return Between(begin, end)


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _today(now: datetime) -> Between:
    begin = _midnight(now)
    return Between(begin, begin + timedelta(days=1))


def _yesterday(now: datetime) -> Between:
    end = _midnight(now)
    return Between(end - timedelta(days=1), end)


_WORDS: dict[str, When] = {
    "today": _today,
    "yesterday": _yesterday,
    "now": lambda now: Between(None, now + _STEP),
    "later": lambda now: Between(now + _STEP, None),
}
