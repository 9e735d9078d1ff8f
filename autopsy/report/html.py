"""The report as a page that stands alone: no script, no network, harmless whatever it shows.

Secret: the layout in HTML. Pure; the same parts as the text. Invariants: all text passes through
`markup.element`; the page forbids itself everything but its own style.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autopsy import VERSION
from autopsy.bundle import Heading
from autopsy.report import svg
from autopsy.report.markup import Markup, constant, element, joined
from autopsy.report.part import Block, Chart, Drawing, Graph, Lines, Part, Stack, Strips, Table
from autopsy.report.style import sheet
from autopsy.report.view import Cause, Verdict, document, verdict
from autopsy.section import Section

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# The first stacks are read, the others looked up.
_OPEN_STACKS = 6
_MAX_LINES = 400
_MAX_STEPS = 200


def render_html(heading: Heading, sections: Sequence[Section]) -> str:
    """Return the whole report as one HTML page."""
    first = verdict(heading, sections)
    parts = document(heading, sections)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", first.title),
        element("style", constant(sheet())),
    )
    body = element(
        "body", element("main", _verdict(first), _contents(parts), *map(_part, parts), _foot())
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def render_part(part: Part) -> Markup:
    """Return one part of the report for another page, which has a style for it."""
    return joined(*_blocks(part.blocks))


def _verdict(first: Verdict) -> Markup:
    why = element("p", first.why) if first.why else None
    causes = [_cause(one, first=not number) for number, one in enumerate(first.causes)]
    return element(
        "header", element("h1", first.title), element("p", first.taken, class_="dim"), why, causes
    )


def _cause(one: Cause, *, first: bool) -> Markup:
    good = " good" if one.code.startswith("none.") else ""
    sure = element(
        "span", svg.bar(one.confidence), f" {one.sure} ({one.confidence:.0%})", class_="sure"
    )
    remedy = element("p", element("strong", "What to do: "), one.remedy) if one.remedy else None
    return element(
        "section",
        element("h2", one.code),
        sure,
        element("p", one.sentence) if one.sentence else None,
        remedy,
        element("ul", *(element("li", line) for line in one.evidence)) if one.evidence else None,
        class_=f"cause{' first' if first else ''}{good}",
    )


def _contents(parts: Sequence[Part]) -> Markup:
    links = (element("a", part.title.split(" at ")[0], href=f"#{part.name}") for part in parts)
    return element("nav", *links, aria_label="Parts of this report")


def _part(part: Part) -> Markup:
    return element(
        "details",
        element("summary", element("h2", part.title)),
        *_blocks(part.blocks),
        id=part.name,
        class_="part",
        open=None if part.folded else "",
    )


def _blocks(blocks: Sequence[Block]) -> Iterator[Markup]:
    stacks = 0
    for block in blocks:
        if isinstance(block, Stack):
            stacks += 1
            yield _stack(block, is_open=stacks <= _OPEN_STACKS and not block.page_only)
        elif isinstance(block, Lines):
            yield _lines(block)
        elif isinstance(block, Table):
            yield _table(block)
        else:
            yield _drawing(block)


def _lines(block: Lines) -> Markup:
    left = len(block.lines) - _MAX_LINES
    shown = block.lines[-_MAX_LINES:]
    earlier = element("p", f"{left} earlier lines are in the section", class_="dim")
    if block.code:
        pre = element("pre", *_with_breaks(shown), tabindex="0")
        return joined(earlier if left > 0 else None, pre)
    return joined(earlier if left > 0 else None, *(element("p", line) for line in shown))


def _with_breaks(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield line.replace("\n", " ")
        yield "\n"


def _table(block: Table) -> Markup:
    def numeric(column: int) -> str | None:
        return "n" if column in block.numbers else None

    head = element(
        "tr",
        *(element("th", t, scope="col", class_=numeric(n)) for n, t in enumerate(block.head)),
    )
    body = (
        element("tr", *(element("td", t, class_=numeric(n)) for n, t in enumerate(row)))
        for row in block.rows
    )
    table = element("table", element("thead", head), element("tbody", *body))
    left = element("p", f"{block.left_out} more", class_="dim") if block.left_out > 0 else None
    return element("div", table, left, class_="scroll", tabindex="0")


def _stack(block: Stack, *, is_open: bool) -> Markup:
    note = element("span", f": {block.note}", class_="dim") if block.note else None
    calls = [_step_lines(*one) for one in _steps(block)]
    return element(
        "details",
        element("summary", block.title, note),
        element("ol", *calls, class_="calls"),
        class_="stack",
        open="" if is_open else None,
    )


def _steps(block: Stack) -> Iterator[tuple[str, str, str, str, bool]]:
    for step in block.steps[:_MAX_STEPS]:
        yield step.function, step.place, step.source, step.change, step.own
    if len(block.steps) > _MAX_STEPS:
        yield f"... {len(block.steps) - _MAX_STEPS} calls left out ...", "", "", "", False


def _step_lines(function: str, place: str, source: str, change: str, own: bool) -> Markup:
    kind = change.partition(",")[0]
    return element(
        "li",
        element("span", function, class_="function"),
        " ",
        element("span", place, class_="place"),
        element("span", f" {change}", class_="change") if change else None,
        element("code", source) if source else None,
        class_=f"{kind} {'own' if own else ''}".strip() or None,
    )


def _drawing(block: Drawing) -> Markup:
    words = element("ul", *(element("li", line) for line in block.words), class_="words")
    picture = block.picture
    if isinstance(picture, Graph):
        drawn = element("div", svg.graph(picture), class_="scroll", tabindex="0")
        return element("div", drawn, words, class_="beside")
    if isinstance(picture, Chart):
        return joined(words, element("div", svg.chart(picture), class_="fit", tabindex="0"))
    return joined(
        element("div", svg.strips(picture), class_="fit", tabindex="0"), _legend(picture), words
    )


def _legend(picture: Strips) -> Markup:
    def square(number: int) -> Markup:
        rect = element("rect", x=0, y=0, width=11, height=11, class_=f"c{number}")
        return element("svg", rect, viewBox="0 0 11 11", width=11, height=11, aria_hidden="true")

    return element(
        "ul",
        *(
            element("li", square(number), f"{number + 1}. {name}")
            for number, name in enumerate(picture.stacks[: svg.COLOURS])
        ),
        class_="legend",
    )


def _foot() -> Markup:
    said = (
        f"Made by autopsy {VERSION}. Secrets were removed before anything was written; what "
        "cannot be recognised as one cannot be removed, so treat this page as confidential."
    )
    return element("footer", said)
