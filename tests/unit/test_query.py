"""The query language: what is written is read back; what cannot be read is shown where it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.bound import Between, Range, number_of, span_of, when_of
from supervisor.model.query import (
    QUALIFIERS,
    TEXT,
    Kind,
    QueryError,
    Term,
    parse,
    pieces,
    plain_pattern,
    render,
)

NOW = datetime(2026, 11, 30, 8, 30, 15, 7, tzinfo=UTC)
DAY = timedelta(days=1)
TODAY = datetime(2026, 11, 30, tzinfo=UTC)
STEP = timedelta(microseconds=1)

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
spans = st.from_regex(r"[1-9][0-9]{0,2}(ms|s|m|h|d|w)([1-9]s)?", fullmatch=True)
days = st.dates().map(str)
signs = st.sampled_from([">", "<", ">=", "<="])
VALUES = {
    Kind.PATTERN: words.filter(lambda one: one.count("*") < 8),
    Kind.PART: words.filter(lambda one: one.count("*") < 8),
    Kind.EXACT: words,
    Kind.ALIKE: st.just("") | words,
    Kind.MOMENT: st.one_of(
        st.builds(str.__add__, signs, st.one_of(spans, days.filter(lambda d: d < "9999-12-31"))),
        st.sampled_from(["today", "yesterday", "now", "later", "2026-11-29"]),
    ),
    Kind.SPAN: st.builds(str.__add__, signs, spans),
    Kind.NUMBER: st.builds(str.__add__, st.one_of(signs, st.just("")), st.integers(0, 99).map(str)),
}


def _terms() -> st.SearchStrategy[Term]:
    free = st.builds(
        Term, st.just(TEXT), words.filter(str.strip).map(lambda w: (w,)), st.booleans()
    )
    named = [
        st.builds(
            Term,
            st.just(one.name),
            st.lists(
                st.sampled_from(one.choices) if one.choices else VALUES[one.kind],
                min_size=1, max_size=3, unique=True,
            ).map(lambda some: tuple(map(str, some))),
            st.booleans(),
        )
        for one in QUALIFIERS.values()
    ]  # fmt: skip
    return st.one_of(free, *named)


@given(st.lists(_terms(), max_size=5))
def test_what_is_rendered_is_read_back(terms: list[Term]) -> None:
    assert parse(render(terms)) == tuple(terms)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_at_a_place_in_it(text: str) -> None:
    refused: QueryError | None = None
    try:
        found = parse(text)
    except QueryError as exc:
        refused = exc
    if refused is None:
        assert parse(render(found)) == found
    else:
        assert 0 <= refused.position <= len(text)
        assert refused.length > 0
        assert refused.message
        assert refused.remedy


def test_a_query_is_terms_with_values() -> None:
    assert parse('state:failed,TIMEOUT -type:"my report",b by:ann "timed out" -x "-y"') == (
        Term("state", ("FAILED", "TIMEOUT")),
        Term("type", ("my report", "b"), negated=True),
        Term("by", ("ann",)),
        Term("text", ("timed out",)),
        Term("text", ("x",), negated=True),
        Term("text", ("-y",)),
    )
    assert parse('pattern:"" -by:a,""') == (
        Term("pattern", ("",)), Term("by", ("a", ""), negated=True),
    )  # fmt: skip
    assert parse(" \n ") == ()
    free = [Term("text", (word,)) for word in ("-", "a,b", '5"')]
    assert parse('- a,b 5"') == tuple(free)
    assert render(parse("  STATE:Running   QUARANTINED:YES ")) == "state:running quarantined:yes"


@pytest.mark.parametrize(
    ("text", "position", "length", "message", "remedy"),
    [
        ("a stat:failed", 2, 5, "There is no qualifier `stat:`.", "Did you mean `state:`? There"),
        ("zzzz:1", 0, 5, "There is no qualifier `zzzz:`.", "There are state, type, queue"),
        ("http://x", 0, 5, "There is no qualifier `http:`.", "To find a text with a colon, put"),
        ("state:failed,timout", 13, 6, "`state:timout` is not known.",
         "Did you mean `state:timeout`? It takes pending, running, success, failed, canceled,"),
        ("state:", 6, 1, "`state:` says nothing here.", "It takes pending, running"),
        ("type:a,", 7, 1, "`type:` says nothing here.", "It takes a name; * stands for anything"),
        ('by:"ann', 3, 4, "A quote is opened here and not closed.", 'Close it with ".'),
        ('by:"ann"x', 8, 1, "Something follows a closing quote.", "Leave a space behind it"),
        ('a "  "', 2, 2, "There is nothing between these quotes.", "Leave them out."),
        ("submitted:2h", 10, 2, "`submitted:2h` cannot be read.", "It takes an age (>2h is longer"),
        ("ended:<2026-02-30", 6, 11, "`ended:<2026-02-30` cannot be read.", "It takes an age"),
        ("ran:5m", 4, 2, "`ran:5m` cannot be read.", "It takes a span (>5m"),
        ("attempts:many", 9, 4, "`attempts:many` cannot be read.", "It takes a number, or >2"),
        ("quarantined:maybe", 12, 5, "`quarantined:maybe` is not known.", "It takes yes, no"),
        ("type:" + "*a" * 9, 5, 18, f"`type:{'*a' * 9}` has more than 8 stars.", "It takes a name"),
        ("a\0", 0, 2, "The text holds a NUL character.", "Leave it out."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_shown_where_it_is(
    text: str, position: int, length: int, message: str, remedy: str
) -> None:
    with pytest.raises(QueryError) as refused:
        parse(text)
    found = refused.value
    assert (found.position, found.length, found.message) == (position, length, message)
    assert found.remedy.startswith(remedy) or remedy in found.remedy


def test_a_query_has_bounds() -> None:
    for text in ("a" * 2001, "a " * 21, "type:" + ",".join("a" * 51)):
        with pytest.raises(QueryError):
            parse(text)


@pytest.mark.parametrize(
    ("bound", "low", "high"),
    [
        (">2h", None, NOW - timedelta(hours=2)),
        ("<=1h30m", NOW - timedelta(hours=1.5), None),
        ("<1h", NOW - timedelta(hours=1) + STEP, None),
        ("<2026-11-29", None, TODAY - DAY),
        (">2026-11-29", TODAY, None),
        ("<=2026-11-29", None, TODAY),
        (">=2026-11-29", TODAY - DAY, None),
        ("2026-11-29", TODAY - DAY, TODAY),
        (">2026-11-29T08:30", datetime(2026, 11, 29, 8, 30, tzinfo=UTC) + STEP, None),
        ("<2026-11-29T08:30:00+02:00", None, datetime(2026, 11, 29, 6, 30, tzinfo=UTC)),
        ("today", TODAY, TODAY + DAY),
        ("yesterday", TODAY - DAY, TODAY),
        ("now", None, NOW + STEP),
        ("later", NOW + STEP, None),
    ],
)
def test_bounds_on_times(bound: str, low: datetime | None, high: datetime | None) -> None:
    read = when_of(bound)
    assert read is not None
    assert read(NOW) == Between(low, high)


def test_bounds_on_spans_and_numbers() -> None:
    assert span_of(">5m") == Range(300_000_001, None)
    assert span_of("<=1h30m") == Range(None, 5_400_000_000)
    assert number_of("3") == Range(3, 3)
    assert number_of("<3") == Range(None, 2)
    for wrong in ("", ">", "5m", ">5", ">-5m", ">5 years", ">99999999w"):
        assert span_of(wrong) is None


def test_stars_of_a_pattern() -> None:
    assert pieces(r"a*b\*c\\d\e") == ["a", r"b*c\d\e"]
    assert pieces("a\\") == ["a\\"]


@given(st.text())
def test_a_plain_pattern_stands_for_its_text(text: str) -> None:
    assert pieces(plain_pattern(text)) == [text]
