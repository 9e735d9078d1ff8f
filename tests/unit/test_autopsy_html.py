"""The page: all that the text tells, harmless whatever was collected, readable in any light."""

from __future__ import annotations

import copy
import math
import random
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from report_sample import HEADING, PAYLOADS, sections

from autopsy.bundle import Heading
from autopsy.cause import Diagnosis
from autopsy.report import render_html, render_text
from autopsy.report.markup import MAX_TEXT, Markup, element, escaped, plain
from autopsy.report.style import DARK, LIGHT, PAIRS, sheet
from autopsy.report.waiting import waiting
from autopsy.section import Section, Status

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(2)</script>",
    "</svg></pre></title><img src=x onerror=alert(3)>",
    '" onmouseover="alert(4)" x=\'',
    "javascript:alert(5)",
    "<!-- ]]> {{7*7}} &lt;b&gt;",
    "\x00\x1b[2J\x07\x9b31m\r\n",
    "invoice\u202egpj.exe \u2066\u200f",
    "lone \ud800 surrogate",
]


class Page(HTMLParser):
    """The elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def require_harmless(page: str) -> Page:
    """Require that a page has nothing that acts, loads or hides."""
    found = Page(page)
    assert found.open == []
    assert not found.tags & {"script", "img", "iframe", "object", "embed", "base", "form", "input"}
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    places = [value or "" for name, value in found.attributes if name in ("href", "src", "style")]
    assert [place for place in places if not re.fullmatch(r"#[a-z_-]+", place)] == []
    assert page.count("<style>") == page.count("</style>") == 1
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page) is None
    page.encode("utf-8")
    return found


def poisoned(value: Any, poison: str) -> Any:
    if isinstance(value, str):
        return f"{value}{poison}"
    if isinstance(value, dict):
        return {key: poisoned(one, poison) for key, one in value.items()}
    return [poisoned(one, poison) for one in value] if isinstance(value, list) else value


def poisoned_capture(poison: str) -> tuple[Heading, list[Section]]:
    heading = Heading(
        **{
            **{name: getattr(HEADING, name) for name in Heading.__dataclass_fields__},
            "why": poison,
            "host": poison,
            "tools": {poison: poison},
            "diagnosis": (Diagnosis(f"blocked.{poison}", 0.5, (poison, poison)),),
        }
    )
    spoilt = [
        Section(one.name, Status.ERROR, poison, one.ms, poisoned(one.payload, poison))
        for one in sections()
    ]
    return heading, spoilt


@pytest.mark.parametrize("poison", HOSTILE)
def test_nothing_that_was_collected_acts(poison: str) -> None:
    page = require_harmless(render_html(*poisoned_capture(poison)))
    shown = plain(poison).replace("\n", "")
    assert page.text.replace("\n", "").count(shown) > 100


@pytest.mark.parametrize("poison", HOSTILE)
def test_the_text_does_not_act_on_a_terminal(poison: str) -> None:
    told = render_text(*poisoned_capture(poison))
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", told) is None
    told.encode("utf-8")


def test_a_line_of_a_megabyte_is_cut_and_says_so() -> None:
    line = "x" * 2**20
    logs = {"records": [{"created": 1.0, "level": 20, "logger": "a", "text": line}]}
    output = {"text": f"{line}\nshort\n"}
    made = [
        Section("logs", Status.OK, "", 1, logs),
        Section("output", Status.OK, "", 1, output),
    ]
    page = render_html(HEADING, made)
    assert len(page) < 40_000
    assert page.count(f"[cut {2**20 - MAX_TEXT} characters]") == 1
    assert len(render_text(HEADING, made)) < 6_000


def test_the_page_tells_all_that_the_text_tells() -> None:
    page = Page(render_html(HEADING, sections()))
    squeezed = "".join(page.text.split())
    skipped = re.compile(r"^-+$")
    for line in render_text(HEADING, sections()).splitlines():
        # Columns of a table are cells on the page; a mark of a change has no arrow there.
        for cell in re.split(r"  +(?:<- )?| {0,2}\[", line):
            told = "".join(cell.rstrip("]:").split())
            if told and not skipped.match(told):
                assert told in squeezed, cell


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = render_html(HEADING, sections())
    assert not re.search(r"https?:|url\((?!#)|@import|<link", page)
    require_harmless(page)


def test_a_part_that_cannot_be_made_says_so_and_costs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_payload: object) -> None:
        raise KeyError("odd")

    monkeypatch.setattr("autopsy.report.view.sockets", broken)
    told = render_text(HEADING, sections())
    assert "This part could not be made (KeyError: 'odd'); see its section." in told
    assert "End of its output" in told


ODD = (
    None, True, -1, 0, 10**20, math.nan, math.inf, 1e308, "", "odd", [], [None], [[]], {},
    {"cut": 3}, [{"cut": "x"}], [1, "two", {"pid": None}],
)  # fmt: skip


def spoilt(seed: int) -> list[Section]:
    """Return the sample with about one in thirty of its values replaced by odd ones."""
    chance = random.Random(seed)

    def walk(value: Any) -> Any:
        if chance.random() < 0.03:
            return copy.deepcopy(chance.choice(ODD))
        if isinstance(value, dict):
            return {key: walk(one) for key, one in value.items() if chance.random() > 0.02}
        return [walk(one) for one in value[:6]] if isinstance(value, list) else value

    made = {name: walk(payload) for name, payload in PAYLOADS.items()}
    return [
        Section(name, Status.OK, "", 1.0, payload)
        for name, payload in made.items()
        if isinstance(payload, dict)
    ]


@pytest.mark.parametrize("hundred", range(3))
def test_odd_payloads_cost_less_text_never_a_part(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        made = spoilt(seed)
        told = render_text(HEADING, made)
        assert "could not be made" not in told, (seed, told)
        require_harmless(render_html(HEADING, made))


def test_no_sections_at_all_are_a_report_too() -> None:
    assert "deadlock.in_process" in render_text(HEADING, [])
    require_harmless(render_html(HEADING, []))


def test_two_thousand_threads_are_quick_and_short() -> None:
    stacks = [[{"function": f"f{n}", "file": "/a.py", "line": n}] * 30 for n in range(400)]
    threads = [{"tid": n, "name": f"t{n}", "stack": n % 400} for n in range(2000)]
    sample = {"at_ms": 1.0, "method": "py-spy", "threads": threads}
    waits = [
        {"tid": n, "thread": f"t{n}", "for": "lock", "lock": f"0x{n % 50}"} for n in range(2000)
    ]
    made = [
        Section("stacks", Status.OK, "", 1, {"stacks": stacks, "samples": [sample, sample]}),
        Section("thread_locks", Status.OK, "", 1, {"locks": [], "waits": waits}),
    ]
    begun = time.process_time()
    page = render_html(HEADING, made)
    assert time.process_time() - begun < 1.5
    assert len(page) < 700_000
    assert len(render_text(HEADING, made).splitlines()) < 600


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "paper"), PAIRS)
def test_every_ink_is_readable_on_its_paper(colours: dict[str, str], ink: str, paper: str) -> None:
    bright, dim = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
    assert (bright + 0.05) / (dim + 0.05) >= 4.5


def test_the_style_names_only_colours_there_are() -> None:
    used = set(re.findall(r"var\(--(\w+)\)", sheet()))
    assert used <= set(LIGHT)
    assert set(LIGHT) == set(DARK)


def test_markup_escapes_unless_it_is_markup() -> None:
    assert element("p", "<b>", Markup("<i>x</i>"), None, ["a", "&"], class_="'") == (
        '<p class="&#39;">&lt;b&gt;<i>x</i>a&amp;</p>'
    )
    assert escaped("\x1b\u202e\t") == "\\x1b\\u202e\t"


def drawn(**payloads: Any) -> Any:
    part = waiting(payloads)
    assert part is not None
    return [block.picture for block in part.blocks]  # type: ignore[union-attr]


def labels(picture: Any) -> Iterator[str]:
    titles = {node.key: node.title for node in picture.nodes}
    return (f"{titles[e.start]} {e.label} {titles[e.end]}" for e in picture.edges)


def test_the_graph_names_who_waits_holds_and_is_in_a_circle() -> None:
    first, *others = drawn(**PAYLOADS)
    assert sorted(labels(first)) == [
        "6 threads wait for RLock Ledger._lock",
        "Lock Account._lock held by Thread-1 (transfer) (4712)",
        "MainThread (4711) waits for Lock Account._lock",
        "RLock Ledger._lock held by MainThread (4711)",
        "Thread-1 (transfer) (4712) waits for RLock Ledger._lock",
    ]
    assert first.cycle == {"t4711", "t4712", "l0x1", "l0x2"}
    assert [sorted(labels(one)) for one in others] == [
        ["Task-7 waits for asyncio Lock cache", "asyncio Lock cache held by Task-8"],
        ["file lock 08:01:77 held by process 99", "process 4711 waits for file lock 08:01:77"],
        [
            "PostgreSQL 812 (our connection, worker/task_1) blocked by PostgreSQL 809 (psql)",
            "python (4713) waits for the answer of PostgreSQL 812 (our connection, worker/task_1)",
        ],
    ]
    assert not any(one.cycle for one in others)


def test_a_lock_whose_holder_is_gone_or_unknown_says_so() -> None:
    wait = {"tid": 1, "thread": "main", "for": "lock", "lock": "0x1"}
    lock = {"id": "0x1", "kind": "Lock", "name": "a", "locked": True}
    gone = {**lock, "holder_tid": 9, "holder_name": "dead", "holder_alive": False}
    for one, detail in ((lock, "its holder is not known"), (gone, "its holder has ended")):
        (picture,) = drawn(thread_locks={"locks": [one], "waits": [wait]})
        assert [node.detail for node in picture.nodes if node.kind == "lock"] == [detail]


def test_who_waits_for_nothing_known_is_not_drawn() -> None:
    idle = {"tid": 1, "thread": "pool-1", "for": "work item", "lock": "0x1"}
    assert waiting({"thread_locks": {"locks": [], "waits": [idle]}}) is None
    assert waiting({}) is None


def test_many_sockets_are_counted_first() -> None:
    rows = [{"fd": n, "kind": "tcp", "state": "CLOSE_WAIT", "peer": "h:1"} for n in range(150)]
    groups = [{"kind": "tcp", "state": "CLOSE_WAIT", "peer": "h:1", "count": 150}]
    payload = {"sockets": rows, "groups": groups, "left_out": 50}
    told = render_text(HEADING, [Section("sockets", Status.OK, payload=payload)]).splitlines()
    at = told.index("Sockets (200)")
    assert told[at + 2 : at + 4] == [
        "  count  kind  state       peer",
        "    150  tcp   CLOSE_WAIT  h:1",
    ]
    assert "  [160 more]" in told  # 40 of the 200 are shown as text
