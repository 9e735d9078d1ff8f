"""No secret passes; what is not one stays; redacting twice changes nothing."""

from __future__ import annotations

import time

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
    ("login pin=c4n4 ok", "login pin=[redacted] ok"),
    ("{'token': 'c4n4ry', 'n': 1}", "{'token': [redacted], 'n': 1}"),
    ("{'password': b'c4n4ry'}", "{'password': [redacted]}"),
    ("accessToken=c4n4ry", "accessToken=[redacted]"),
    ("[('X-Api-Key', 'c4n4ry'), ('Accept', '*')]", "[('X-Api-Key', [redacted]), ('Accept', '*')]"),
    ("(b'authorization', b'c4n4ry')", "(b'authorization', [redacted])"),
    (r'"{\"password\": \"c4n4ry\", \"a\": 1}"', r'"{\"password\": [redacted], \"a\": 1}"'),
    ("credentials: {'user': 'c4n4ry', 'k': 1} sent", "credentials: [redacted] sent"),
    ("cut off: password='c4n4ry and mo", "cut off: password=[redacted]"),
    ("password=c4n4,c4n4ry&user=bob", "password=[redacted]&user=bob"),
    ("host=db password='c4n4 ry' user=app", "host=db password=[redacted] user=app"),
    ("DRIVER={PG};UID=app;PWD=c4n4ry;DATABASE=x", "DRIVER={PG};UID=app;PWD=[redacted];DATABASE=x"),
    ("AccountKey=c4n4ry==;EndpointSuffix=x", "AccountKey=[redacted];EndpointSuffix=x"),
    ("redis://:c4n/4ry@cache:6379/0", "redis://:[redacted]@cache:6379/0"),
    ("https://c4n4ryc4n4ryc4n4ryc4n4ry@host/x.git", "https://[redacted]@host/x.git"),
    ("run tool --api-key c4n4ry --fast", "run tool --api-key [redacted] --fast"),
    ("ran mysql -u app -pc4n4ry shop", "ran mysql -u app -p[redacted] shop"),
    ("ALTER ROLE app PASSWORD 'c4n4''ry';", "ALTER ROLE app PASSWORD [redacted];"),
    ("c4n4ryc4n4ryc4n4ry\nc4n4ryc=\n-----END RSA PRIVATE KEY-----\nafter", "[redacted]\nafter"),
    ("hooks.slack.com/services/T0/B0/c4n4ry", "hooks.slack.com/services/[redacted]"),
    ("npm_c4n4ryc4n4ryc4n4ryc4n4ryc4n4ryc4n4ry", "[redacted]"),
]


@pytest.mark.parametrize(("given_text", "expected"), CANARIES)
def test_values_with_the_shape_of_a_secret_are_removed(given_text: str, expected: str) -> None:
    assert redact.text(given_text) == expected


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("FERNET_KEY=c4n4ry", "FERNET_KEY=[redacted]"),
        ("db_pass: c4n4ry", "db_pass: [redacted]"),
        ("DB_PW=c4n4ry", "DB_PW=[redacted]"),
        ("password='''c4n4ry'''", "password=[redacted]"),
        ('CREATE USER x IDENTIFIED BY "c4n4ry"', "CREATE USER x IDENTIFIED BY [redacted]"),
        ("ALTER ROLE x PASSWORD E'c4n4ry'", "ALTER ROLE x PASSWORD E[redacted]"),
        ("postgresql://u:a#c4n4ry@h/d", "postgresql://u:[redacted]@h/d"),
        ("sh -c 'curl -s -u bob:c4n4ry http://h'", "sh -c 'curl -s -u [redacted] http://h'"),
        ("redis-cli -h x -a c4n4ry ping", "redis-cli -h x -a [redacted] ping"),
        ("glsa_c4n4ryc4n4ryc4n4ryc4n4ry", "[redacted]"),
    ],
)
def test_secrets_in_the_words_of_shells_and_servers(given_text: str, expected: str) -> None:
    assert redact.text(given_text) == expected
    assert redact.text(expected) == expected


@pytest.mark.parametrize(
    "harmless",
    [
        "task 3fa85f64 of author bob took 12 s",
        "http://localhost:8080/path?page=2",
        "SigCgt: 0000000180004a02",
        "4111 1111 1111 1112 is no card: its check digit is wrong",
        "1700000000.123456 INFO ready",
        "def authenticate(user): ...",
        "3 passed, 1 failed; pass: all of them",
        "the password must be given",
        "author: bob, monkey: 3, tokenizer: fast",
        "SELECT id FROM account WHERE key > 3",
        "http://host:80/path?mail=a@b.example",
        "spinning=True mapping: 3",
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


@pytest.mark.parametrize(
    ("given_line", "expected"),
    [
        ("mysql -uapp -pc4n4ry shop", "mysql -uapp -p[redacted] shop"),
        ("/usr/bin/redis-cli -a c4n4ry ping", "/usr/bin/redis-cli -a [redacted] ping"),
        ("sshpass -pc4n4ry ssh host", "sshpass -p[redacted] ssh host"),
        ("curl -u bob:c4n4ry http://host", "curl -u [redacted] http://host"),
        ("openssl -passin pass:c4n4ry", "openssl -passin [redacted]"),
        ("env PGPASSWORD=c4n4ry psql", "env PGPASSWORD=[redacted] psql"),
        ("curl --user bob:c4n4ry http://host", "curl --user [redacted] http://host"),
        ("sudo -u db mysql -pc4n4ry", "sudo -u db mysql -p[redacted]"),
        ("app --dbpass c4n4ry --bypass proxy", "app --dbpass [redacted] --bypass proxy"),
        ("mkdir -p /srv/data", "mkdir -p /srv/data"),
        ("python -m app --workers 4", "python -m app --workers 4"),
    ],
)
def test_options_of_one_letter_that_are_secrets(given_line: str, expected: str) -> None:
    assert redact.arguments(given_line.split()) == expected.split()


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("API_TOKEN", True), ("SECRET_KEY_BASE", True), ("TOKEN_2", True), ("dbPassword", True),
        ("STRIPE_KEY", True), ("DBPASS", True), ("PUBLIC_KEY", False), ("CACHE_KEY", False),
        ("COOKIE_DOMAIN", False), ("TOKEN_URL", False), ("PASSWORD_FILE", False), ("PATH", False),
    ],
)  # fmt: skip
def test_a_name_about_a_secret_is_not_that_of_one(name: str, secret: bool) -> None:
    assert redact.is_secret_itself(name) is secret


@pytest.mark.parametrize(
    "repeated",
    ["a_", "a.", "password ", "token=a,", "x://", "://", "\\", '"', "4111 ", "mysql -", "--a-", "(",
     "-----END PRIVATE KEY-----\n", "token={", "'a', ", "cookie:"],
)  # fmt: skip
@pytest.mark.parametrize("before", ["", "password=", 'token: "', "x://a:"])
def test_no_text_takes_long(repeated: str, before: str) -> None:
    text = before + repeated * (65536 // len(repeated))
    begun = time.process_time()
    redact.text(text)
    assert time.process_time() - begun < 1


def test_only_allowed_variables_are_kept() -> None:
    block = "PATH=/bin\0HOME_SECRET=c4n4ry\0AWS_ACCESS_KEY_ID=c4n4ry\0PYTHONPATH=/x\0\0"
    assert redact.environment(block) == {"PATH": "/bin", "PYTHONPATH": "/x"}


@given(st.lists(st.sampled_from([text for text, _ in CANARIES]) | st.text(max_size=20)))
def test_redacting_twice_changes_nothing_and_no_canary_survives(parts: list[str]) -> None:
    once = redact.text("\n".join(part for part in parts))
    assert redact.text(once) == once
    assert "c4n4ry" not in once.lower()
