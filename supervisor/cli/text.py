"""Lines for a terminal: columns, cells, colours of states.

Asks nothing but whether stdout is a terminal. What a task wrote (errors, names, notes) passes
`plain` on its way there, so that it cannot move the cursor or hide a line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import click

from supervisor.model.states import State
from supervisor.words.text import plain

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
