"""Lines for people: columns, ages, colours of states, and text that is safe to print.

Asks nothing but whether stdout is a terminal. What a task wrote (errors, names, notes) passes
`plain` on its way there, so that it cannot move the cursor or hide a line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import click

from supervisor.clock import stamp
from supervisor.model.states import State

CELL_MAX = 60
_COLORS: Mapping[str, str] = MappingProxyType(
    {
        State.PENDING: "cyan",
        State.RUNNING: "blue",
        State.SUCCESS: "green",
        State.FAILED: "red",
        State.TIMEOUT: "red",
        State.CANCELED: "yellow",
    }
)


def plain(text: object, *, keep: str = "\n\t") -> str:
    """Return text without control characters other than `keep`; each becomes its code."""
    raw = str(text)
    if raw.isprintable():
        return raw
    return "".join(
        char if char.isprintable() or char in keep else f"\\x{ord(char):02x}" for char in raw
    )


def cell(value: object, limit: int = CELL_MAX) -> str:
    """Return a value as one line, cut to the limit where a person looks at it; None is a dash."""
    if value is None or value == "":
        return "-"
    text = plain(value, keep="").replace("\\x0a", " ")
    if len(text) <= limit or not sys.stdout.isatty():  # a program wants the whole
        return text
    return text[: limit - 1] + "…"


def state_text(state: object) -> str:
    """Return a state in its colour (the colour is dropped where there is no terminal)."""
    return click.style(str(state), fg=_COLORS.get(str(state)))


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Align rows under their heads; the last column is not padded."""
    table = [list(head), *(list(row) for row in rows)]
    widths = [max(len(click.unstyle(row[i])) for row in table) for i in range(len(head))]
    lines = []
    for row in table:
        padded = [
            text + " " * (width - len(click.unstyle(text)))
            for text, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def span(seconds: float | None) -> str:
    """Return a span of time with two digits that matter: 350 ms, 4.2 s, 3 m 05 s, 2 h 10 m."""
    if seconds is None:
        return "-"
    if 0.00005 <= seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a time was, or in how long it will be."""
    if moment is None:
        return "-"
    seconds = (now - moment).total_seconds()
    return f"in {span(-seconds)}" if seconds < 0 else span(seconds)


def clock(moment: datetime | None) -> str:
    """Return a time in UTC to the millisecond."""
    return "-" if moment is None else stamp(moment)


def size(count: int) -> str:
    """Return bytes in the unit people read."""
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
