"""Times, spans, sizes and foreign text as people read them.

Secret kept here: the units. Invariant: text of tasks holds no control character that could reach a
terminal or a page; each is shown as its code.
"""

from __future__ import annotations

from datetime import datetime

from supervisor.clock import stamp
from supervisor.words.tongue import say


def plain(text: object, *, keep: str = "\n\t") -> str:
    """Return text without control characters other than `keep`; each becomes its code."""
    raw = str(text)
    if raw.isprintable():
        return raw
    return "".join(
        char if char.isprintable() or char in keep else f"\\x{ord(char):02x}" for char in raw
    )


def span(seconds: float | None) -> str:
    """Return a span of time with two digits that matter: 350 ms, 4.2 s, 3 m 05 s, 2 h 10 m."""
    if seconds is None:
        return "-"
    if 0.00005 <= seconds < 0.00995:
        return say("%(number).1f ms", number=seconds * 1000)
    if seconds < 1:
        return say("%(number).0f ms", number=seconds * 1000)
    if seconds < 60:
        return say("%(number).1f s", number=seconds)
    whole = int(seconds)
    if whole < 3600:
        return say("%(minutes)d m %(seconds)02d s", minutes=whole // 60, seconds=whole % 60)
    if whole < 86400:
        return say("%(hours)d h %(minutes)02d m", hours=whole // 3600, minutes=whole % 3600 // 60)
    return say("%(days)d d %(hours)02d h", days=whole // 86400, hours=whole % 86400 // 3600)


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a time was, or in how long it will be."""
    if moment is None:
        return "-"
    seconds = (now - moment).total_seconds()
    return say("in %(span)s", span=span(-seconds)) if seconds < 0 else span(seconds)


def clock(moment: datetime | None) -> str:
    """Return a time in UTC to the millisecond."""
    return "-" if moment is None else stamp(moment)


def figure(number: float) -> str:
    """Return a number that somebody else chose: no exponent while it has digits people can read."""
    if abs(number) >= 1e15:
        return f"{number:g}"
    if number == int(number):
        return f"{number:.0f}"
    return f"{number:.1f}" if abs(number) >= 1e5 else f"{number:g}"


def size(count: int) -> str:
    """Return bytes in the unit people read."""
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
