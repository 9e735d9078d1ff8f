"""A spec says what JSON can say, and every bad value in it is named by its path."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.errors import InvalidSpec, Problem
from supervisor.model.spec import (
    MAX_RETRIES,
    MAX_TIMEOUT_S,
    NO_SOFT_TIMEOUT,
    SPEC_FIELDS,
    TaskSpec,
    parse_spec,
    shorten,
)

ID = "task_0123456789abcdef0123456789abcdef"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


class Unprintable:
    """An object whose repr raises, as a half-built ORM object's does."""

    def __repr__(self) -> str:
        raise RuntimeError("no session")


class NoOffset(tzinfo):
    def utcoffset(self, _when: datetime | None) -> None:
        return None

    tzname = dst = utcoffset


def problems(**fields: Any) -> list[Problem]:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({"type": "t", **fields})
    assert caught.value.remedy
    assert str(caught.value) == "; ".join(map(str, caught.value.problems))
    return caught.value.problems


def problem(**fields: Any) -> Problem:
    found = problems(**fields)
    assert len(found) == 1, found
    return found[0]


def accepted(**fields: Any) -> TaskSpec:
    return parse_spec({"type": "t", **fields})


class TestWholeSpec:
    def test_the_least_spec_takes_the_defaults(self) -> None:
        assert accepted() == TaskSpec(
            type="t",
            params_json="{}",
            task_id=None,
            dedup_key=None,
            dedup_ttl=None,
            queue=None,
            priority=5,
            timeout=None,
            soft_timeout=None,
            max_retries=None,
            run_after=None,
            submitted_by=None,
            tags=(),
            parent_id=None,
        )

    def test_every_field_is_taken_over(self) -> None:
        raw = {
            "type": "export_report",
            "params": {"user_id": 1001, "report_type": "sales"},
            "task_id": ID,
            "dedup_key": "export:1001:2026-11",
            "dedup_ttl": 3600,
            "queue": "exports",
            "priority": 7,
            "timeout": 60,
            "soft_timeout": 50,
            "max_retries": 0,
            "run_after": "2026-05-20T10:30:00+08:00",
            "submitted_by": "user_1001",
            "tags": ["a", "b"],
            "parent_id": ID,
            "traceparent": TRACE,
        }
        assert set(raw) == set(SPEC_FIELDS)
        parsed = parse_spec(raw)
        assert parsed.traceparent == TRACE
        assert parsed == TaskSpec(
            type="export_report",
            params_json='{"user_id":1001,"report_type":"sales"}',
            task_id=ID,
            dedup_key="export:1001:2026-11",
            dedup_ttl=3600.0,
            queue="exports",
            priority=7,
            timeout=60.0,
            soft_timeout=50.0,
            max_retries=0,
            run_after=datetime(2026, 5, 20, 2, 30, tzinfo=UTC),
            submitted_by="user_1001",
            tags=("a", "b"),
            parent_id=ID,
        )

    @pytest.mark.parametrize(
        "field", ["dedup_key", "parent_id", "priority", "queue", "run_after", "tags", "task_id"]
    )
    def test_none_is_the_same_as_left_out(self, field: str) -> None:
        assert accepted(**{field: None}) == accepted()

    def test_no_soft_limit_is_not_the_same_as_left_out(self) -> None:
        assert accepted(soft_timeout=None, timeout=5).soft_timeout == NO_SOFT_TIMEOUT
        assert accepted(timeout=5).soft_timeout is None

    @pytest.mark.parametrize("field", ["timeout", "max_retries", "dedup_ttl"])
    def test_none_that_could_not_be_kept_is_refused(self, field: str) -> None:
        with pytest.raises(InvalidSpec, match=rf"^{field}: cannot be none.*leave it out"):
            accepted(**{field: None})

    def test_the_type_is_required(self) -> None:
        with pytest.raises(InvalidSpec, match=r"^type: is missing$"):
            parse_spec({})

    @pytest.mark.parametrize("raw", [None, [], "type", 3, [("type", "t")]])
    def test_what_is_no_object_is_refused(self, raw: Any) -> None:
        with pytest.raises(InvalidSpec, match=r"^spec: must be an object"):
            parse_spec(raw)

    def test_all_problems_are_named_at_once(self) -> None:
        found = problems(
            type="a b",
            params={"x": [1, {"y": math.nan}], "z": {1}},
            priority=True,
            timeout=0,
            retry_count=1,
            colour="red",
            run_after=datetime(2026, 1, 1),  # noqa: DTZ001
        )
        assert [one.path for one in found] == [
            "retry_count",
            "colour",
            "params.x[1].y",
            "params.z",
            "type",
            "priority",
            "timeout",
            "run_after",
        ]

    @pytest.mark.parametrize(
        ("field", "why"),
        [
            ("retry_count", "is counted by the store: leave it out"),
            ("created_at", "is set by the store: leave it out"),
            ("state", "is not a field of a task"),
            ("params_json", "is not a field of a task"),
            ("Priority", "is not a field of a task"),
        ],
    )
    def test_unknown_and_server_owned_fields(self, field: str, why: str) -> None:
        assert problem(**{field: "x"}) == Problem(field, why)

    @pytest.mark.parametrize(
        ("key", "path"),
        [
            (7, "7"),
            (None, "None"),
            ("a\0b", "'a\\x00b'"),
            ("\ud800", "'\\ud800'"),
            ("a\nb", "'a\\nb'"),
            ("k" * 9999, "'" + "k" * 58 + "…"),
        ],
    )
    def test_a_key_that_is_no_name_is_shown_safely(self, key: Any, path: str) -> None:
        with pytest.raises(InvalidSpec) as caught:
            parse_spec({"type": "t", key: 1})
        assert caught.value.problems == [Problem(path, "is not a field of a task")]

    def test_the_callers_mapping_is_left_alone(self) -> None:
        raw = {"type": "t", "params": {"a": [1]}, "tags": ["x"]}
        before = json.dumps(raw)
        parse_spec(MappingProxyType(raw))
        assert json.dumps(raw) == before


class TestNames:
    @pytest.mark.parametrize(
        "name", ["t", "_", "exports", "shop.mail:send-2", "A" * 200, "__proto__", "None", "x--"]
    )
    def test_good_names_are_kept_unchanged(self, name: str) -> None:
        spec = accepted(type=name, queue=name)
        assert (spec.type, spec.queue) == (name, name)

    @pytest.mark.parametrize(
        "name",
        [
            "",
            " ",
            "a b",
            " a",
            "a ",
            "../x",
            "/etc/passwd",
            "a" * 201,
            "a" * 300,
            "🦊",
            "ünicode",
            "a\u200f",
            "\u202eexe",
            "a\n",
            "a\nb",
            "\ta",
            "%s",
            "{0}",
            "<b>",
            "a;b",
            "a'b",
            'a"b',
            "9lives",
            "-x",
            ".x",
            "a\0",
            "\ud800",
            "ａ",
            5,
            True,
            b"t",
            ["t"],
            Unprintable(),
        ],
    )
    def test_odd_names_are_refused(self, name: Any) -> None:
        why = (
            "must be a name of letters, digits and _ . : - (at most 200, not starting with a digit)"
        )
        assert problems(type=name, queue=name) == [
            Problem("type", why, shorten(name)),
            Problem("queue", why, shorten(name)),
        ]

    @pytest.mark.parametrize(
        "value",
        [
            "",
            "x",
            ID[:-1],
            ID + "0",
            ID + "\n",
            ID.upper(),
            ID.replace("0", "g", 1),
            5,
            ID.encode(),
        ],
    )
    def test_ids_have_one_form(self, value: Any) -> None:
        why = "must be task_ and 32 lowercase hex digits"
        assert problems(task_id=value, parent_id=value) == [
            Problem("task_id", why, shorten(value)),
            Problem("parent_id", why, shorten(value)),
        ]


class TestTexts:
    @pytest.mark.parametrize(("field", "most"), [("dedup_key", 512), ("submitted_by", 200)])
    def test_length_bounds(self, field: str, most: int) -> None:
        for good in ("x", "🦊" * most, "%s {0} <b> '; --", "a\nb", "\u200f", " "):
            assert getattr(accepted(**{field: good}), field) == good
        for bad in ("", "x" * (most + 1), 5, b"x", ["x"], True):
            why = f"must be text of 1 to {most} characters"
            assert problem(**{field: bad}) == Problem(field, why, shorten(bad))

    @pytest.mark.parametrize("field", ["dedup_key", "submitted_by"])
    def test_what_no_store_can_keep(self, field: str) -> None:
        nul = Problem(field, "must not hold a NUL character", "'a\\x00'")
        assert problem(**{field: "a\0"}) == nul
        lone = Problem(field, "must not hold a lone surrogate", "'\\ud800'")
        assert problem(**{field: "\ud800"}) == lone

    @pytest.mark.parametrize("tags", [[], ["x"], ("a", "b"), ["t" * 64] * 32])
    def test_good_tags(self, tags: Any) -> None:
        assert accepted(tags=tags).tags == tuple(tags)

    @pytest.mark.parametrize(
        ("tags", "why"),
        [
            ("abc", "must be a list of at most 32 texts"),
            ({"a"}, "must be a list of at most 32 texts"),
            (3, "must be a list of at most 32 texts"),
            (["x"] * 33, "must be a list of at most 32 texts"),
            ([""], "each tag must be text of 1 to 64 characters"),
            (["x" * 65], "each tag must be text of 1 to 64 characters"),
            ([None], "each tag must be text of 1 to 64 characters"),
            (b"abc", "each tag must be text of 1 to 64 characters"),
            (["a\0"], "each tag must not hold a NUL character"),
        ],
    )
    def test_bad_tags(self, tags: Any, why: str) -> None:
        assert problem(tags=tags) == Problem("tags", why, shorten(tags))


class TestNumbers:
    @pytest.mark.parametrize(("field", "high"), [("priority", 9), ("max_retries", MAX_RETRIES)])
    def test_whole_numbers(self, field: str, high: int) -> None:
        for good in (0, 1, high):
            assert getattr(accepted(**{field: good}), field) == good
        for bad in (-1, high + 1, True, False, 1.0, "1", math.nan, [1], 10**5000, Unprintable()):
            why = f"must be a whole number from 0 to {high}"
            assert problem(**{field: bad}) == Problem(field, why, shorten(bad))

    @pytest.mark.parametrize("field", ["timeout", "soft_timeout", "dedup_ttl"])
    def test_seconds(self, field: str) -> None:
        for good in (1, 0.001, 5e-324, MAX_TIMEOUT_S):
            assert getattr(accepted(**{field: good}), field) == good
        for bad in (
            0, -0.0, -1, MAX_TIMEOUT_S * 1.000001, math.nan, math.inf, -math.inf, True, "60",
            Decimal(60), timedelta(seconds=60), 10**400, -(10**400), 1j,
        ):  # fmt: skip
            why = "must be seconds above 0 and up to 2592000"
            assert problem(**{field: bad}) == Problem(field, why, shorten(bad))

    @settings(deadline=None, max_examples=40)
    @given(st.floats(0.001, 1000), st.floats(0.001, 1000))
    def test_the_soft_limit_is_below_the_hard_one(self, soft: float, hard: float) -> None:
        if soft < hard:
            spec = accepted(soft_timeout=soft, timeout=hard)
            assert (spec.soft_timeout, spec.timeout) == (soft, hard)
        else:
            found = problem(soft_timeout=soft, timeout=hard)
            why = f"must be below timeout ({hard:g})"
            assert found == Problem("soft_timeout", why, f"{soft:g}")


class TestRunAfter:
    @pytest.mark.parametrize(
        "value",
        [
            "2026-05-20T10:30:00Z",
            "2026-05-20 10:30:00+00:00",
            "2026-05-20T18:30:00+08:00",
            datetime(2026, 5, 20, 10, 30, tzinfo=UTC),
            datetime(2026, 5, 20, 12, 30, tzinfo=timezone(timedelta(hours=2))),
        ],
    )
    def test_any_offset_becomes_utc(self, value: Any) -> None:
        moment = accepted(run_after=value).run_after
        assert moment == datetime(2026, 5, 20, 10, 30, tzinfo=UTC)
        assert moment is not None
        assert moment.tzinfo is UTC

    @settings(deadline=None, max_examples=40)
    @given(st.datetimes(timezones=offsets))
    def test_any_aware_moment_is_kept_or_out_of_range(self, moment: datetime) -> None:
        try:
            expected = moment.astimezone(UTC)
        except OverflowError:
            assert problem(run_after=moment).why == "is outside the years 1 to 9999 in UTC"
        else:
            assert accepted(run_after=moment).run_after == expected

    @pytest.mark.parametrize(
        ("value", "why"),
        [
            ("tomorrow", "must be an ISO 8601 time such as 2026-05-20T10:30:00Z"),
            ("", "must be an ISO 8601 time such as 2026-05-20T10:30:00Z"),
            ("2026-02-30T00:00:00Z", "must be an ISO 8601 time such as 2026-05-20T10:30:00Z"),
            (1779273000, "must be a datetime or ISO 8601 text"),
            (date(2026, 5, 20), "must be a datetime or ISO 8601 text"),
            (timedelta(minutes=5), "must be a datetime or ISO 8601 text"),
            (True, "must be a datetime or ISO 8601 text"),
            ("9999-12-31T23:59:59-05:00", "is outside the years 1 to 9999 in UTC"),
            ("0001-01-01T00:00:00+05:00", "is outside the years 1 to 9999 in UTC"),
        ],
    )
    def test_bad_moments(self, value: Any, why: str) -> None:
        assert problem(run_after=value) == Problem("run_after", why, shorten(value))

    @pytest.mark.parametrize(
        "value",
        [
            "2026-05-20T10:30:00",
            "2026-05-20",
            datetime(2026, 5, 20, 10, 30),  # noqa: DTZ001
            datetime(2026, 5, 20, 10, 30, tzinfo=NoOffset()),
        ],
    )
    def test_a_naive_moment_is_refused(self, value: Any) -> None:
        found = problem(run_after=value)
        assert (found.path, found.why.split(" (")[0]) == ("run_after", "must say its offset")


class TestShorten:
    @settings(deadline=None, max_examples=40)
    @given(st.text() | st.binary() | st.lists(st.integers()))
    def test_it_is_never_longer_than_asked(self, value: Any) -> None:
        shown = shorten(value, 20)
        assert len(shown) <= 20
        assert shown == repr(value) or (shown[:-1] == repr(value)[:19] and shown[-1] == "…")

    def test_a_text_of_exactly_the_limit_is_whole(self) -> None:
        assert shorten("x" * 18, 20) == "'" + "x" * 18 + "'"

    def test_a_repr_that_raises_is_named(self) -> None:
        assert shorten(Unprintable()) == "<Unprintable, its repr raised RuntimeError>"

    def test_a_repr_without_end_is_named(self) -> None:
        class Endless:
            def __repr__(self) -> str:
                return repr(self)

        assert shorten(Endless()) == "<Endless, its repr raised RecursionError>"
