"""Params are what JSON can write, up to 64 levels and 256 KiB; the rest is named by its path."""

from __future__ import annotations

import json
import math
import socket
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.errors import InvalidSpec, Problem
from supervisor.model.spec import (
    PARAMS_MAX_BYTES,
    PARAMS_MAX_DEPTH,
    json_problems,
    parse_spec,
    shorten,
)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
finite = scalars.filter(lambda value: not isinstance(value, float) or math.isfinite(value))
values = st.recursive(
    finite,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)
anything = finite | st.floats() | st.text() | st.binary(max_size=2)


class Unprintable:
    """An object whose repr raises, as a half-built ORM object's does."""

    def __repr__(self) -> str:
        raise RuntimeError("no session")


def problems(params: Any) -> list[Problem]:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({"type": "t", "params": params})
    return caught.value.problems


def problem(params: Any) -> Problem:
    found = problems(params)
    assert len(found) == 1, found
    return found[0]


def written(params: Any) -> str:
    return parse_spec({"type": "t", "params": params}).params_json


def nested(depth: int, inner: Any = 1) -> Any:
    for _ in range(depth):
        inner = [inner]
    return inner


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(texts, values, max_size=4))
def test_any_json_object_comes_back_unchanged(params: dict[str, Any]) -> None:
    assert json.loads(written(params)) == params


@settings(deadline=None, max_examples=60)
@given(st.lists(st.dictionaries(st.text(), anything, max_size=2), max_size=2))
def test_a_value_is_accepted_exactly_if_it_can_be_written(value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        fits = not any("\0" in f"{key}{one}" for part in value for key, one in part.items())
    except (TypeError, ValueError):
        fits = False
    assert (json_problems(value, "v") == []) == fits


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, "is not a JSON number"),
        (math.inf, "is not a JSON number"),
        (-math.inf, "is not a JSON number"),
        ("a\0b", "must not hold a NUL character"),
        ("a\ud800b", "must not hold a lone surrogate"),
        ("\udfff", "must not hold a lone surrogate"),
        pytest.param(2**14_000, "is a whole number of more than 14000 bits", id="2^14000"),
        pytest.param(-(10**5000), "is a whole number of more than 14000 bits", id="-10^5000"),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_values_that_are_not_json(value: Any, why: str, deep: bool) -> None:
    found = problem({"a": [0, {"b": value}] if deep else value})
    assert (found.path, found.why) == ("params.a[1].b" if deep else "params.a", why)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "datetime.datetime"),
        (date(2026, 1, 1), "datetime.date"),
        (timedelta(1), "datetime.timedelta"),
        ({1, 2}, "builtins.set"),
        (frozenset(), "builtins.frozenset"),
        (b"bytes", "builtins.bytes"),
        (bytearray(b"x"), "builtins.bytearray"),
        (Decimal("1.5"), "decimal.Decimal"),
        (UUID(int=1), "uuid.UUID"),
        (PurePosixPath("/a"), "pathlib.PurePosixPath"),
        (1j, "builtins.complex"),
        (object(), "builtins.object"),
        (print, "builtins.builtin_function_or_method"),
        (range(3), "builtins.range"),
        (iter(()), "builtins.tuple_iterator"),
        (MappingProxyType({}), "builtins.mappingproxy"),
        (memoryview(b""), "builtins.memoryview"),
        (Unprintable(), f"{__name__}.Unprintable"),
    ],
)
def test_objects_are_refused_by_kind_and_path(value: Any, kind: str) -> None:
    why = f"is not JSON: a {kind} (pass an id or plain values instead)"
    assert problem({"user": {"rows": [1, value]}}) == Problem("params.user.rows[1]", why)


def test_connections_and_files_are_refused_by_kind_and_path() -> None:
    with socket.socket() as conn, open("/dev/null") as handle:
        found = problems({"user": {"conn": conn}, "out": [handle]})
    assert [str(one) for one in found] == [
        "params.user.conn: is not JSON: a socket.socket (pass an id or plain values instead)",
        "params.out[0]: is not JSON: a _io.TextIOWrapper (pass an id or plain values instead)",
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (1, Problem("params.a[1]", "has a key that is not text")),
        (None, Problem("params.a[None]", "has a key that is not text")),
        (True, Problem("params.a[True]", "has a key that is not text")),
        ((1, 2), Problem("params.a[(1, 2)]", "has a key that is not text")),
        (b"k", Problem("params.a[b'k']", "has a key that is not text")),
        ("k\0", Problem("params.a.'k\\x00'", "has a key with a NUL character")),
        ("k\udc80", Problem("params.a.'k\\udc80'", "has a key with a lone surrogate")),
    ],
)
def test_keys_that_are_not_json(key: Any, expected: Problem) -> None:
    assert problem({"a": {key: 1}}) == expected


def test_a_key_whose_repr_raises() -> None:
    found = problem({Unprintable(): 1})
    assert found.path == "params[<Unprintable, its repr raised RuntimeError>]"


@pytest.mark.parametrize("value", [None, [], "x", 3, [["a", 1]], Unprintable()])
def test_params_must_be_an_object(value: Any) -> None:
    expected = Problem("params", "must be an object of named values", shorten(value))
    assert problem(value) == expected


@pytest.mark.parametrize("value", [MappingProxyType({"a": 1}), OrderedDict(a=1)])
def test_any_mapping_will_do_as_params(value: Any) -> None:
    assert written(value) == '{"a":1}'


def test_the_largest_whole_number_is_accepted() -> None:
    assert json.loads(written({"n": 2**14_000 - 1})) == {"n": 2**14_000 - 1}


def test_tuples_become_lists() -> None:
    assert written({"a": (1, (2,))}) == '{"a":[1,[2]]}'


def test_the_deepest_nesting_allowed() -> None:
    deepest = nested(PARAMS_MAX_DEPTH - 1)  # the object itself is the first level
    assert json.loads(written({"a": deepest})) == {"a": deepest}


def test_one_level_deeper_is_refused() -> None:
    found = problem({"a": nested(PARAMS_MAX_DEPTH)})
    assert found == Problem("params.a" + "[0]" * 63, "is nested deeper than 64 levels")


def test_a_value_that_holds_itself_is_refused() -> None:
    params: dict[str, Any] = {}
    params["me"] = params
    assert problem(params).path == "params" + ".me" * 64


@pytest.mark.parametrize("share", [0.9, 1.0])
@pytest.mark.parametrize("letter", ["x", "é", "漢", "🦊"])
def test_up_to_the_cap_is_accepted(letter: str, share: float) -> None:
    room = int(PARAMS_MAX_BYTES * share) - len('{"a":""}')
    size = len(letter.encode())
    text = letter * (room // size) + "x" * (room % size)
    assert len(written({"a": text}).encode()) == room + len('{"a":""}')


@pytest.mark.parametrize("over", [1, PARAMS_MAX_BYTES // 10])
@pytest.mark.parametrize("letter", ["x", "漢"])
def test_above_the_cap_is_refused_with_its_size(letter: str, over: int) -> None:
    room = PARAMS_MAX_BYTES + over - len('{"a":""}')
    size = len(letter.encode())
    text = letter * (room // size) + "x" * (room % size)
    assert problem({"a": text}) == Problem(
        "params",
        f"is {PARAMS_MAX_BYTES + over} bytes as JSON, the most is 262144: "
        "store the data elsewhere and pass its key",
    )


def test_an_error_stays_readable_whatever_was_passed() -> None:
    many = json_problems([float("nan")] * 100_000, "v")
    assert [problem.path for problem in many] == [f"v[{index}]" for index in range(100)]
    twice: list[object] = []
    twice += [twice, twice]
    assert len(json_problems(twice, "v")) == 100
    (long,) = json_problems({"k" * 100_000: float("nan")}, "v")
    assert len(long.path) < 100
