"""The pattern of an error stands for that error, and for those that differ in numbers and ids."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.pattern import pattern_of
from supervisor.model.query import STARS_MAX, Term, parse, pieces, render

TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(
    ["host ", "7", " 10.0.0.7:5432 ", "'x y'", '"', "'", "\n", "*", "\\", "deadbeef1", "0xff", "é"]
), max_size=30).map("".join))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("connection to 10.0.0.7:5432 refused", "connection to * refused"),
        ("no such file: '/tmp/a b.csv'", "no such file: *"),
        ("task_0123456789abcdef0123456789abcdef is gone", "task_*abcdef*abcdef is gone"),
        ("digest 0123456789abcdef at 0x7fff", "digest * at *"),
        ("5 * 3 = 15", r"* \* * = *"),
        ("first line\nsecond", "first line*"),
        ("facade decade", "facade decade"),
        ("", ""),
    ],
)
def test_what_differs_is_a_star(text: str, pattern: str) -> None:
    assert pattern_of(text) == pattern


@given(TEXTS)
def test_a_pattern_stands_for_its_text(text: str) -> None:
    pattern = pattern_of(text)
    parts = pieces(pattern)
    assert len(parts) - 1 <= STARS_MAX
    assert re.fullmatch(".*".join(map(re.escape, parts)), text, re.DOTALL)
    if pattern and "\0" not in pattern:
        query = (Term("message", (pattern,)),)
        assert parse(render(query)) == query


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("error 5 ***\nfoo", r"error * \*\*\**"),  # its own stars are no star for the rest
        ("error 5\nfoo", "error *"),
        ("at [redacted]@db", "at *@db"),
    ],
)
def test_a_star_stands_for_the_rest(text: str, pattern: str) -> None:
    assert pattern_of(text) == pattern
