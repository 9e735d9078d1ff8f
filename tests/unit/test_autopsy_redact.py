"""No secret passes; what is not one stays; redacting twice changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopsy import redact

CANARIES = [
    ("postgresql://app:c4n4ry@db/x", "postgresql://app:[redacted]@db/x"),
    ("redis://:c4n4ry@cache:6379/0", "redis://:[redacted]@cache:6379/0"),
    ("Authorization: Bearer c4n4ryc4n4ry", "Authorization: [redacted]"),
    ("sent bearer c4n4ryc4n4ry.x to it", "sent bearer [redacted] to it"),
    ("Cookie: a=c4n4ry; b=c4n4ry", "Cookie: [redacted]"),
    ("password=c4n4ry next", "password=[redacted] next"),
    ("DB_PASSWORD: 'c4n4 ry', x", "DB_PASSWORD: [redacted], x"),
    ('{"api_key": "c4n4ry", "a": 1}', '{"api_key": [redacted], "a": 1}'),
    ("apikey = c4n4ry", "apikey = [redacted]"),
    ("client-secret=>c4n4ry;", "client-secret=>[redacted];"),
    ("jwt eyJhbGciOi.eyJzdWIiOi.c4n4ry_sig end", "jwt [redacted] end"),
    ("key AKIAC4N4RYC4N4RYC4N4 used", "key [redacted] used"),
    ("ghp_c4n4ryc4n4ryc4n4ryc4n4ry", "[redacted]"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nc4n4ry\n-----END RSA PRIVATE KEY-----\nafter",
        "[redacted]\nafter",
    ),
    ("-----BEGIN PRIVATE KEY-----\nc4n4ry cut off", "[redacted]"),
    ("card 4111 1111 1111 1111 charged", "card [redacted] charged"),
]


@pytest.mark.parametrize(("given_text", "expected"), CANARIES)
def test_values_with_the_shape_of_a_secret_are_removed(given_text: str, expected: str) -> None:
    assert redact.text(given_text) == expected


@pytest.mark.parametrize(
    "harmless",
    [
        "task 3fa85f64 of author bob took 12 s",
        "http://localhost:8080/path?page=2",
        "SigCgt: 0000000180004a02",
        "4111 1111 1111 1112 is no card: its check digit is wrong",
        "1700000000.123456 INFO ready",
        "def authenticate(user): ...",
    ],
)
def test_harmless_text_is_left_alone(harmless: str) -> None:
    assert redact.text(harmless) == harmless


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("password", True),
        ("dbPassword", True),
        ("X-Api-Key", True),
        ("api_key", True),
        ("accessToken", True),
        ("SENTRY_DSN", True),
        ("DATABASE_URL", True),
        ("author", False),
        ("dedup_key", False),
        ("task_id", False),
        ("url", False),
    ],
)
def test_names_tell_whether_a_value_is_secret(name: str, secret: bool) -> None:
    assert redact.looks_secret(name) is secret


def test_a_tree_keeps_its_shape_and_loses_its_secrets() -> None:
    facts = {
        "task": "t1",
        "attempt": 2,
        "args": ["postgresql://u:c4n4ry@h/d", {"token": "c4n4ry", "page": 3}],
        "auth": {"user": "c4n4ry"},
        "password": None,
        "has_secret": True,
    }
    assert redact.tree(facts) == {
        "task": "t1",
        "attempt": 2,
        "args": ["postgresql://u:[redacted]@h/d", {"token": "[redacted]", "page": 3}],
        "auth": "[redacted]",
        "password": None,
        "has_secret": True,
    }


def test_a_command_line_loses_the_values_of_secret_options() -> None:
    argv = ["tool", "--password", "c4n4ry", "--api-key=c4n4ry", "--token", "--verbose", "file"]
    assert redact.arguments(argv) == [
        "tool",
        "--password",
        "[redacted]",
        "--api-key=[redacted]",
        "--token",
        "--verbose",
        "file",
    ]


def test_only_allowed_variables_are_kept() -> None:
    block = "PATH=/bin\0HOME_SECRET=c4n4ry\0AWS_ACCESS_KEY_ID=c4n4ry\0PYTHONPATH=/x\0\0"
    assert redact.environment(block) == {"PATH": "/bin", "PYTHONPATH": "/x"}


@given(st.lists(st.sampled_from([text for text, _ in CANARIES]) | st.text(max_size=20)))
def test_redacting_twice_changes_nothing_and_no_canary_survives(parts: list[str]) -> None:
    once = redact.text("\n".join(part for part in parts))
    assert redact.text(once) == once
    assert "c4n4ry" not in once.lower()
