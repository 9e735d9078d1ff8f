"""Tables as CSV that a spreadsheet shows and does not run.

Invariants: what a spreadsheet would take for a formula is behind an apostrophe, at the beginning of
a cell and wherever a spreadsheet of another country begins one; control characters of foreign text
are shown as their codes; rows leave as they are read, a page at a time.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

from supervisor.web.wording import lines

#: Where a formula may begin. Where commas stand in numbers, a spreadsheet separates by semicolons,
#: and sees no quotes in the middle of what it takes for a cell.
_SIGNS = r"=+\-@\uff1d\uff0b\uff0d\uff20"
_BEGINS = re.compile(rf"""\A(?=[ "]*[{_SIGNS}\t\n|%])|(?<=[;\t\n])(?=[ "]*[{_SIGNS}])""")


def cell(value: object) -> str:
    """Return a cell that a spreadsheet shows as it is; an apostrophe tells it so."""
    return "" if value is None else _BEGINS.sub("'", lines(value))


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
