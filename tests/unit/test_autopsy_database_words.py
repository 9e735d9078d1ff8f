"""Databases, the pure part: addresses taken apart, statements without literals, who blocks whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopsy.collect.database import credential, sqlite
from autopsy.collect.database.address import POSTGRESQL, REDIS, Access, found_in, of_variables
from autopsy.collect.database.postgresql import around
from autopsy.collect.database.server import Line, Server, told_servers
from autopsy.collect.database.statement import without_literals

Parts = tuple[str, str, int, str, str, str]


def parts(one: Access) -> Parts:
    return one.kind, one.host, one.port, one.user, one.password, one.database


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "postgresql+psycopg://u:p%40w@db.example:6543/app?sslmode=require&x=y",
            [(POSTGRESQL, "db.example", 6543, "u", "p@w", "app")],
        ),
        (
            "postgres://a@h1:1,h2:2/x",
            [(POSTGRESQL, "h1", 1, "a", "", "x"), (POSTGRESQL, "h2", 2, "a", "", "x")],
        ),
        ("postgresql:///app?host=/tmp&port=5", [(POSTGRESQL, "/tmp", 5, "", "", "app")]),
        ("postgresql://%2Fvar%2Frun/app", [(POSTGRESQL, "/var/run", 0, "", "", "app")]),
        ("postgresql://[::1]:5433/app", [(POSTGRESQL, "::1", 5433, "", "", "app")]),
        (
            "host=127.0.0.1 port=55432 user=clerk dbname=app",
            [(POSTGRESQL, "127.0.0.1", 55432, "clerk", "", "app")],
        ),
        (
            r"host='/tmp/x' dbname=app password='a b\'c'",
            [(POSTGRESQL, "/tmp/x", 0, "", "a b'c", "app")],
        ),
        ('{"url": "postgresql://u:p@h/db"}', [(POSTGRESQL, "h", 0, "u", "p", "db")]),
        ("redis://:secret@[::1]:6380/0", [(REDIS, "::1", 6380, "", "secret", "")]),
        ("rediss://u:p@cache", [(REDIS, "cache", 0, "u", "p", "")]),
        ("unix:///tmp/redis.sock?db=1", [(REDIS, "/tmp/redis.sock", 0, "", "", "")]),
        ("http://u:p@h/db", []),
        ("postgresql://[broken", []),
        ("a=b host=1", []),
        ("PATH=/bin", []),
        ("", []),
    ],
)
def test_addresses_in_a_text(text: str, expected: list[Parts]) -> None:
    assert [parts(one) for one in found_in(text)] == expected


def test_an_address_does_not_show_itself() -> None:
    [one] = found_in("postgresql://u:correct-horse@h/db")
    assert "correct-horse" not in f"{one!r} {one} {[one]}"


@given(st.text(max_size=200))
def test_any_text_may_be_looked_at(text: str) -> None:
    found_in(text)
    found_in(f"postgresql://{text}")
    found_in(f"host={text}")


def test_variables_of_libpq() -> None:
    assert of_variables({"HOME": "/root", "PGAPPNAME": "x"}) is None
    found = of_variables({"PGHOST": "db,other", "PGPORT": "1,2", "PGUSER": "u", "PGPASSWORD": "p"})
    assert found is not None
    assert parts(found) == (POSTGRESQL, "db", 1, "u", "p", "")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("update t set n=n+1 where id=$1", "update t set n=n+? where id=$1"),
        (
            "select * from cards where n = '4111 1111' -- for Ann\n and y in (1,2, 3)",
            "select * from cards where n = ? and y in (?, …)",
        ),
        ("insert into t2 values (1,'a'),(2,'b'),(3,'it''s')", "insert into t2 values (?, …), …"),
        (r"select E'a\'b', U&'d', x'1F', 0x1F, .5, 1e-3", "select ?, …"),
        ('select $$a \'b$$, $t$ body $t$, "col 1", t2.c3', 'select ?, …, "col 1", t2.c3'),
        ("select /* pw=abc */ a1::numeric(10,2)", "select a1::numeric(?, …)"),
        ("select 'cut off in the midd", "select ?"),
        ("select %(name)s, %s", "select %(name)s, %s"),
    ],
)
def test_a_statement_without_its_literals(statement: str, expected: str) -> None:
    assert without_literals(statement) == expected


@given(st.lists(st.text(alphabet="abcxyz", min_size=1), min_size=1, max_size=5))
def test_no_string_is_left_in_a_statement(words: list[str]) -> None:
    quoted = ", ".join(f"'Q{word}Q'" for word in words)
    assert "Q" not in without_literals(f"insert into t values ({quoted})")


def test_a_long_statement_is_cut() -> None:
    shown = without_literals("select " + ", ".join(f"column_{chr(97 + n % 26)}" for n in range(99)))
    assert (len(shown), shown[-1]) == (300, "…")


def test_who_blocks_whom_both_ways() -> None:
    waits = {1: [2, 3], 2: [4], 7: [1], 8: [7], 9: [99]}
    assert around([1], waits) == {1: 0, 2: 1, 3: 1, 4: 2, 7: -1, 8: -2}
    assert around([1, 2], {1: [2], 2: [1]}) == {1: 0, 2: 0}
    chain = {pid: [pid + 1] for pid in range(20)}
    assert around([0], chain) == {pid: pid for pid in range(6)}
    assert around([], waits) == {}


def test_servers_we_were_told_of_and_it_is_not_connected_to() -> None:
    told = found_in("postgresql://a@db/x") + found_in("postgresql://b@db/y redis://cache")
    listed = told_servers(told, [])
    assert [(one.kind, one.host, one.port) for one in listed] == [(POSTGRESQL, "db", 5432)]
    assert told_servers(told, listed) == []


def test_two_servers_on_one_host_are_two() -> None:
    told = found_in("postgresql://a@db:5432/x postgresql://a@db:6543/x")
    assert [one.port for one in told_servers(told, [])] == [5432, 6543]


def ways(server: Server, told: str, patients: str = "") -> list[Parts]:
    found = credential.ways_into(server, found_in(told), found_in(patients))
    return [parts(one) for one in found]


def postgresql_at(host: str, path: str = "", title: str = "") -> Server:
    line = Line(1, 3, 4, "127.0.0.1:40000", 5, 5, title)
    return Server(POSTGRESQL, host, 5432, path, (line,))


def test_ways_into_a_server_best_first() -> None:
    title = "postgres: clerk app 127.0.0.1(40000) idle"
    found = ways(
        postgresql_at("127.0.0.1", title=title),
        "postgresql://boss:1@localhost/admin",
        "postgresql://clerk:2@127.0.0.1",
    )
    assert found == [
        (POSTGRESQL, "localhost", 0, "boss", "1", "admin"),
        (POSTGRESQL, "127.0.0.1", 0, "clerk", "2", "app"),
        (POSTGRESQL, "", 0, "clerk", "", "app"),
        (POSTGRESQL, "", 0, "postgres", "", "app"),
    ]


def test_variables_that_belong_together() -> None:
    environment = {
        "APP_DB_HOST": "db", "APP_DB_PORT": "6000", "APP_DB_USER": "clerk", "APP_DB_NAME": "app",
        "APP_DB_PASSWORD": "1", "REDIS_HOST": "cache", "REDIS_PASSWORD": "2",
        "SMTP_HOST": "mail", "SMTP_USER": "m", "SMTP_PASSWORD": "3", "DB_PASSWORD": "4",
        "DB_USER": "nowhere",
    }  # fmt: skip
    assert [parts(one) for one in credential._of_families(environment)] == [
        (POSTGRESQL, "db", 6000, "clerk", "1", "app"),
        (REDIS, "cache", 0, "", "2", ""),
    ]


def test_no_way_is_guessed_into_a_server_elsewhere() -> None:
    assert ways(postgresql_at("192.0.2.7"), "postgresql://boss:1@192.0.2.8") == [
        (POSTGRESQL, "", 0, "", "", "")
    ]


def test_ways_through_a_unix_domain_socket() -> None:
    server = postgresql_at("", "/tmp/.s.PGSQL.5432")
    given = "host=/tmp user=a password=1 dbname=x"
    other = "host=/run user=b password=2 dbname=x"
    anywhere = "user=c password=3 dbname=x"
    named = [one for text in (given, other, anywhere) for one in found_in(text)]
    found = [parts(one) for one in credential.ways_into(server, named, [])]
    assert [(one[3], one[4]) for one in found] == [("a", "1"), ("c", "3"), ("postgres", "")]
    [first, *_] = credential.ways_into(server, named, [])
    assert parts(credential.located(first, server))[1:3] == ("/tmp", 5432)


@pytest.mark.parametrize(
    ("is_write", "first", "last", "expected"),
    [
        (False, 0x40000002, 0x400001FF, "shared"),
        (True, 0x40000001, 0x40000001, "reserved"),
        (True, 0x40000000, 0x40000001, "pending"),
        (True, 0x40000000, 0x400001FF, "exclusive"),
        (True, 0, 99, ""),
    ],
)
def test_locks_of_a_database_file(is_write: bool, first: int, last: int, expected: str) -> None:
    assert sqlite._kind_in_file(is_write, first, last) == expected


@pytest.mark.parametrize(
    ("is_write", "first", "last", "expected"),
    [
        (True, 120, 120, "writing to the log"),
        (True, 121, 121, "checkpoint"),
        (False, 124, 124, "reading the log"),
        (False, 128, 128, ""),
    ],
)
def test_locks_of_a_log(is_write: bool, first: int, last: int, expected: str) -> None:
    assert sqlite._kind_in_log(is_write, first, last) == expected
