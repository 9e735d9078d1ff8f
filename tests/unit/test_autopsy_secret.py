"""A value that is known to be secret goes, in whatever writing; nothing else does."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopsy.redact import MARK
from autopsy.secret import Secrets, in_arguments, in_environment, in_params, leaves

VALUE = 'blue/horse "7" é\\staple\nbattery'


@pytest.mark.parametrize(
    "written",
    [
        VALUE,
        json.dumps(VALUE),
        json.dumps(VALUE, ensure_ascii=False),
        repr(VALUE),
        repr(VALUE.encode()),
        quote(VALUE, safe=""),
        quote(VALUE),
        quote_plus(VALUE),
        base64.b64encode(VALUE.encode()).decode(),
    ],
)
def test_a_value_goes_in_every_writing(written: str) -> None:
    told = Secrets([VALUE]).text(f"before {written} after")
    assert "horse" not in told
    assert "staple" not in told
    assert told.startswith("before ")
    assert told.rstrip("=").endswith(" after")


def test_a_tree_loses_values_numbers_and_keys() -> None:
    secrets = Secrets(["bluehorse", "1234567", "4711"])
    tree = {"pid": 4711, "card": 1234567, "bluehorse": ["x bluehorse", 7, None, True, 4711.5]}
    assert secrets.tree(tree) == {
        "pid": 4711,
        "card": MARK,
        MARK: ["x [redacted]", 7, None, True, 4711.5],
    }


def test_short_values_stand_alone_and_the_shortest_are_not_searched() -> None:
    secrets = Secrets(["main", "abc", "7"])
    assert (
        secrets.text("main domain mainly abc 7 (main)")
        == "[redacted] domain mainly abc 7 ([redacted])"
    )


def test_what_a_cut_left_of_a_value_goes_too() -> None:
    secrets = Secrets(["correct-horse-battery"])
    assert secrets.text("query was correct-horse-b") == "query was [redacted]"
    assert secrets.text("rse-battery came first") == "[redacted] came first"
    assert secrets.text("a correct-horse-drawn carriage") == "a correct-horse-drawn carriage"


def test_what_a_cut_left_goes_behind_the_word_that_it_was_cut() -> None:
    dropped = "[… 4096 bytes of earlier output dropped …]\n"
    secrets = Secrets(["correct-hörse-battery", "0123456789" * 15])
    cut = "correct-hörse-battery\nok".encode()[10:].decode("utf-8", "replace")  # within the ö
    assert secrets.text(cut) == "\ufffd[redacted]\nok"
    assert secrets.text(dropped + cut) == f"{dropped}\ufffd[redacted]\nok"
    assert secrets.text(f"{dropped}{'0123456789' * 4}\nok") == f"{dropped}[redacted]\nok"


@pytest.mark.parametrize("length", [101, 130, 215, 250, 1000])
def test_of_a_long_value_nothing_is_left_wherever_it_was_cut(length: int) -> None:
    value = hashlib.shake_256(b"key").hexdigest(length)[:length]
    secrets = Secrets([value])
    for at in range(8, length, 7):
        shown = (f"{value[at:]} it began" if length - at >= 8 else "", f"it ended {value[:at]}")
        for told in (*shown, f"it was {value[: max(at, 100)]}… here"):
            clean = secrets.text(told)
            assert not [n for n in range(length - 8) if value[n : n + 8] in clean], (at, clean)
            assert clean in ("", "[redacted] it began", "it ended [redacted]",
                             "it was [redacted]… here")  # fmt: skip


def test_lines_of_a_long_value_go_one_by_one() -> None:
    key = "\n".join(f"line{number}-of-a-long-key" for number in range(3))
    assert Secrets([key]).text("INFO line1-of-a-long-key") == "INFO [redacted]"


def test_params_that_are_marked_or_named_so_are_secret_however_deep() -> None:
    params = {
        "password": "a1", "customer": {"pan": ["b2", 3], "api_key": {"x": "c4"}, "name": "free"},
        "ref": "d5", "rows": [{"token": 6.5}], "flag": True,
    }  # fmt: skip
    assert list(in_params(params, ["pan", "ref"])) == ["a1", "b2", "3", "c4", "d5", "6.5"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(JSON)
def test_without_known_values_only_shapes_count(value: Any) -> None:
    from autopsy import redact

    assert Secrets().tree(value) == redact.tree(value)


@given(
    st.lists(st.text("abcäß\"'\\ \n/", min_size=8, max_size=30), min_size=1), st.text(max_size=9)
)
def test_no_value_survives(values: list[str], between: str) -> None:
    secrets = Secrets(values)
    told = secrets.tree({"text": between.join(values), "rows": values, "json": json.dumps(values)})
    assert not [one for one in values if any(one in leaf for leaf in leaves(told))]
    assert secrets.tree(told) == told


def test_a_key_of_the_data_is_never_cut() -> None:
    secrets = Secrets(["postgresql-of-nobody"])
    tree = {"postgresql": {"postgresql-of-nobody": 1}, "text": "postgresql"}
    assert secrets.tree(tree) == {"postgresql": {MARK: 1}, "text": "postgresql"}


def test_what_is_secret_in_an_environment() -> None:
    block = (
        "PATH=/bin\0PWD=/srv/secret\0DATABASE_URL=postgresql://app:t0psecret@db/x\0"
        "API_TOKEN=abcdef1\0TOKEN_URL=https://host/t\0PASSWORD=short\0SECRET=password\0"
    )
    assert list(in_environment(block)) == ["t0psecret", "abcdef1"]


def test_what_is_secret_in_a_command_line() -> None:
    argv = ["mysql", "-pt0psecret", "--password", "an0ther", "--token='th1rd-one'", "--fast", "x"]
    assert list(in_arguments(argv)) == ["t0psecret", "an0ther", "th1rd-one"]


def test_a_value_of_any_length_goes_and_quickly() -> None:
    value = "".join(chr(97 + number * 7 % 26) for number in range(3000)) + "\nthe end of the value"
    secrets = Secrets([value, *(f"value-number-{number}" for number in range(400))])
    begun = time.process_time()
    told = secrets.tree({f"row {n}": f"{n} {value} {json.dumps(value)[:2000]}" for n in range(50)})
    assert time.process_time() - begun < 2
    assert not [one for one in leaves(told) if value[500:600] in one or "the end of" in one]
