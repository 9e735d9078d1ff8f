"""The report in pieces, for a page that is not ours: each part by itself, and what is missing.

Secret: which parts a reader looks for, and which sections each of them is made of. Pure. Invariant:
each part that is looked for is there, with its contents or with the reason why it has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autopsy.bundle import Heading
from autopsy.report.html import render_part
from autopsy.report.markup import Markup
from autopsy.report.part import Part
from autopsy.report.view import document
from autopsy.section import Section, Status

#: What is looked for, and the sections that it is made of.
_EXPECTED = (
    ("waits", "Who waits for what", ("thread_locks", "asyncio", "locks", "databases")),
    ("stacks", "Stacks", ("stacks",)),
    ("ring", "The last minutes", ("ring",)),
    ("memory", "Memory", ("memory",)),
    ("sockets", "Sockets", ("sockets",)),
    ("logs", "Log records", ("logs",)),
    ("output", "End of its output", ("output",)),
)
_LAST = ("unseen", "sections")


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a report as markup, harmless whatever was collected; or why there is none.

    `folded` says that it is of second interest.
    """

    name: str
    title: str
    markup: Markup | None
    why: tuple[str, ...] = ()
    folded: bool = False


def pieces(heading: Heading, sections: Sequence[Section]) -> list[Piece]:
    """Return the parts in the order of reading; those without contents before the last two."""
    parts = document(heading, sections)
    found = [_shown(one) for one in parts]
    there = {one.name for one in found}
    by_name = {one.name: one for one in sections}
    absent = [
        Piece(name, title, None, tuple(_why(by_name, of)), folded=True)
        for name, title, of in _EXPECTED
        if name not in there
    ]
    first = [one for one in found if one.name not in _LAST]
    return [*first, *absent, *(one for one in found if one.name in _LAST)]


def _shown(part: Part) -> Piece:
    try:
        return Piece(part.name, part.title, render_part(part), (), part.folded)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as exc:
        why = f"it cannot be drawn ({type(exc).__name__}: {exc}); see its section"
        return Piece(part.name, part.title, None, (why,), folded=True)


def _why(sections: dict[str, Section], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        one = sections.get(name)
        if one is None:
            yield f"{name}: not collected in this bundle"
        elif one.status is Status.OK:
            yield f"{name}: looked at, and there was nothing to tell"
        else:
            yield f"{name}: {one.status}{f', {one.reason}' if one.reason else ''}"
