"""Tables as CSV that a spreadsheet shows and does not run.

Invariants: a cell that a spreadsheet would take for a formula begins with an apostrophe; control
characters of foreign text are shown as their codes; rows leave as they are read, a page at a time.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from supervisor.web.wording import lines

#: A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cell(value: object) -> str:
    """Return a cell that a spreadsheet shows as it is; an apostrophe tells it so."""
    text = "" if value is None else lines(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def as_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Return the lines of a table, some at a time."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(head)
    yield _taken(text)  # rows may be long in coming
    for count, row in enumerate(rows):
        writer.writerow([cell(value) for value in row])
        if count % 100 == 0:
            yield _taken(text)
    yield _taken(text)


def _taken(text: io.StringIO) -> str:
    found = text.getvalue()
    text.seek(0)
    text.truncate()
    return found
