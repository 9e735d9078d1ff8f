"""The pages in other languages: every sentence has one, and nothing is written beside them."""

from __future__ import annotations

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from flask import Flask

from supervisor.web import language
from supervisor.words.retold import SHAPES, retold
from supervisor.words.text import span
from supervisor.words.tongue import say, spoken
from tools import translations

TEMPLATES = sorted((Path(language.__file__).parent / "templates").rglob("*.html"))
#: Written the same in every language: names of our own, of states, of formats.
NAMES = re.compile(r"\b(supervisor|task-supervisor|CSV|UTC|API|PENDING|RUNNING|CPU|pid)\b")
_JINJA = re.compile(r"\{#.*?#\}|\{[{%].*?[}%]\}", re.DOTALL)
_ATTRIBUTE = re.compile(r"[\w-]+=\"[^\"]*\"")  # of a macro, whose tag stands elsewhere
_TERM = re.compile(r"\w+:\S+")  # of a query
_WORD = re.compile(r"[^\W\d_]{2,}")


class Reading(HTMLParser):
    """Collects what people read or hear of a page: its text, and what attributes say."""

    SAID = frozenset({"placeholder", "title", "aria-label", "alt"})
    VERBATIM = frozenset({"code", "pre", "kbd", "script", "style"})

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._verbatim = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._verbatim += tag in self.VERBATIM
        self.said += [value or "" for name, value in attrs if name in self.SAID]

    def handle_endtag(self, tag: str) -> None:
        self._verbatim -= tag in self.VERBATIM

    def handle_data(self, data: str) -> None:
        if not self._verbatim:
            self.said.append(data)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_says_nothing_that_is_not_translated(path: Path) -> None:
    reading = Reading()
    reading.feed(_JINJA.sub("", path.read_text()))
    said = NAMES.sub("", _TERM.sub("", _ATTRIBUTE.sub("", " ".join(reading.said))))
    assert _WORD.findall(said) == []


def test_catalogues_are_in_step_and_whole() -> None:
    assert translations.problems() == []


@pytest.mark.parametrize(
    ("cookie", "accepted", "spoken_then"),
    [
        ("", "", "en"),
        ("", "zh-CN,zh;q=0.9,en;q=0.8", "zh_Hans"),
        ("", "zh-Hans-SG", "zh_Hans"),
        ("", "zh-TW,en;q=0.5", "en"),
        ("", "fr,en-GB;q=0.8,zh;q=0.5", "en"),
        ("", "*", "en"),
        ("zh_Hans", "en", "zh_Hans"),
        ("xx", "zh", "zh_Hans"),
    ],
)
def test_the_language_is_the_chosen_or_the_best_liked(
    cookie: str, accepted: str, spoken_then: str
) -> None:
    headers = {"Accept-Language": accepted, "Cookie": f"{language.COOKIE}={cookie}"}
    with Flask("test").test_request_context(headers=headers):
        assert language.language() == spoken_then


def test_what_words_say_is_said_in_the_language_around_them() -> None:
    known = {"%(number).1f s": "%(number).1f 秒", "in %(span)s": "%(span)s后"}
    with spoken(lambda text: known.get(text, text)):
        assert span(4.2) == "4.2 秒"
        assert say("in %(span)s", span=span(2)) == "2.0 秒后"
    assert span(4.2) == "4.2 s"


def test_what_was_written_down_is_retold_in_the_language_around_it() -> None:
    known = {
        "not taken: %(why)s": "未取得：%(why)s",
        "attempt %(attempt)s does not run here any more": "第 %(attempt)s 次尝试已不在此运行",
    }
    answer = "not taken: attempt 3 does not run here any more"
    with spoken(lambda text: known.get(text, text)):
        assert retold(answer) == "未取得：第 3 次尝试已不在此运行"
        assert retold("ValueError: not ours") == "ValueError: not ours"
    assert [retold(one) for one in (answer, *SHAPES)] == [answer, *SHAPES]


def test_what_is_retold_is_what_somebody_writes() -> None:
    written = "\n".join(
        node.value
        for package in ("supervisor", "autopsy")
        for path in (translations.ROOT / package).rglob("*.py")
        if path.name != "retold.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    # Joints like " of " and brackets are put between what two writers have.
    pieces = {
        re.sub(r"^\W+|( of| at)?\W+$", "", piece)
        for one in SHAPES
        for piece in re.split(r"%\(\w+\)s", one)
    }
    assert sorted(piece for piece in pieces if piece not in written) == []
