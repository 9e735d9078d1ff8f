"""The report as text, for a terminal: the verdict first, then every part, a few screens in all.

Secret: the layout in characters. Pure; the same parts as the page, less of each.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from autopsy.bundle import Heading
from autopsy.report.markup import plain
from autopsy.report.part import Drawing, Lines, Part, Stack, Table
from autopsy.report.view import Verdict, document, verdict
from autopsy.section import Section

_WIDTH = 110
_COLUMN = 64
_MAX_LINES = 100
_MAX_ROWS = 40
_MAX_STACKS = 12
_MAX_STEPS = 30
_INNER_STEPS = 22
# A line of a log or an output; the whole is in the section.
_MAX_LINE = 1000


def render_text(heading: Heading, sections: Sequence[Section]) -> str:
    """Return the whole report as text."""
    lines = [*_verdict(verdict(heading, sections))]
    for part in document(heading, sections):
        lines += part_lines(part)
    return "\n".join(plain(line, 2 * _MAX_LINE).replace("\n", " ") for line in lines) + "\n"


def _verdict(first: Verdict) -> Iterator[str]:
    yield first.title
    yield first.taken
    if first.why:
        yield first.why
    for one in first.causes:
        yield ""
        yield f"{one.code}  {one.confidence:.0%}"
        if one.sentence:
            yield from textwrap.wrap(
                one.sentence, _WIDTH, initial_indent="  ", subsequent_indent="  "
            )
            yield from textwrap.wrap(
                f"What to do: {one.remedy}", _WIDTH, initial_indent="  ", subsequent_indent="    "
            )
        yield from (f"  {line}" for line in one.evidence)


def part_lines(part: Part) -> Iterator[str]:
    """Yield a part as text, titled."""
    yield ""
    yield part.title
    yield "-" * len(part.title)
    stacks = 0
    for block in part.blocks:
        if isinstance(block, Stack):
            stacks += not block.page_only
            if stacks <= _MAX_STACKS and not block.page_only:
                yield from _stack(block)
        elif isinstance(block, Lines):
            yield from _lines(block)
        elif isinstance(block, Table):
            yield from _table(block)
        else:
            yield from _words(block)
    if stacks > _MAX_STACKS:
        yield f"{stacks - _MAX_STACKS} more stacks are in the section {part.name}"


def _lines(block: Lines) -> Iterator[str]:
    left = len(block.lines) - _MAX_LINES
    if left > 0:
        yield f"[{left} earlier lines are in the section]"
    yield from (_short(line) for line in block.lines[-_MAX_LINES:])


def _short(line: str) -> str:
    left = len(line) - _MAX_LINE
    return f"{line[:_MAX_LINE]} [cut {left} characters]" if left > 0 else line


def _words(block: Drawing) -> Iterator[str]:
    yield from (f"  {line}" for line in block.words[:_MAX_ROWS])


def _stack(block: Stack) -> Iterator[str]:
    yield f"{block.title}{f': {block.note}' if block.note else ''}"
    left = len(block.steps) - _MAX_STEPS
    for number, step in enumerate(block.steps):
        if left > 0 and _INNER_STEPS <= number < _INNER_STEPS + left:
            if number == _INNER_STEPS:
                yield f"    ... {left} calls left out ..."
            continue
        change = f"  <- {step.change}" if step.change else ""
        yield f"    {step.function}  {step.place}{change}".rstrip()
        if step.source:
            yield f"        {step.source}"


def _table(block: Table) -> Iterator[str]:
    shown = block.rows[:_MAX_ROWS]
    cells = [
        [*(_cell(text, _COLUMN) for text in row[:-1]), _cell(row[-1], _WIDTH)]
        for row in (block.head, *shown)
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(block.head))]
    for row in cells:
        padded = (
            text.rjust(widths[column]) if column in block.numbers else text.ljust(widths[column])
            for column, text in enumerate(row[:-1])
        )
        last = row[-1].rjust(widths[-1]) if len(row) - 1 in block.numbers else row[-1]
        yield "  " + "  ".join((*padded, last)).rstrip()
    left = len(block.rows) - len(shown) + block.left_out
    if left > 0:
        yield f"  [{left} more]"


def _cell(text: str, limit: int) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
