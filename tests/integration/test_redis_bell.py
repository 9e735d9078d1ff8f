"""The doorbell against a Redis that fails in every way it can, and comes back.

Each fault is a real one. What is asked of it: `away` says what is wrong, ringing costs nothing, and
about a second after the end of the fault everything is as before.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
import servers
from harness import eventually

from supervisor.model.record import Due
from supervisor.queue import Heard
from supervisor.queue.examine import Fact, examine
from supervisor.queue.redis import Keys, RedisListener, member, redis_bell, strike_empty
from supervisor.queue.redis_link import Link
from supervisor.queue.ringer import Ringer

#: What noticing and recovering may take on a busy host; on a quiet one both are done in 1.3 s.
SOON_S = 4
LEVEL = ("default", 5, "send")


@pytest.fixture
def server() -> Iterator[servers.Redis]:
    """A Redis of the test's own, which it may break."""
    try:
        one = servers.start_redis()
    except servers.ServerMissing as exc:
        pytest.skip(str(exc))
    yield one
    one.stop()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what the test has opened."""
    with ExitStack() as one:
        yield one
    assert [one.name for one in threading.enumerate() if one.name.startswith("bell")] == []


class Pair:
    """A bell and a listener at one address, and what is asked of them."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.identity = uuid.uuid4().hex[:16]
        self.keys = Keys(self.identity)
        self.bell: Ringer = stack.enter_context(redis_bell(url, self.identity))
        self.listener = stack.enter_context(RedisListener(url, self.identity))
        self.listener.serve(None, frozenset({"send"}))
        self.listener.want(100)
        self._count = 0

    def hears(self) -> Pair:
        eventually(lambda: not self.listener.away, SOON_S, "the listener hears")
        return self

    def is_away(self, *words: str) -> str:
        """Wait until `away` says something that holds all these words."""

        def says() -> str:
            away = self.listener.away
            return away if all(word in away for word in words) else ""

        return eventually(says, SOON_S, f"away says {words}: {self.listener.away}")

    def ring(self) -> str:
        """Ring for a new id, which takes no time whatever the server does."""
        self._count += 1
        task_id = f"task_{self._count}"
        began = time.perf_counter()
        self.bell.ring("due", [Due(LEVEL, task_id, 1.0)])
        assert time.perf_counter() - began < 0.6  # three quarters if it waited for an answer
        return task_id

    def passes_on(self) -> None:
        """Ring until one is heard: the pause that the bell makes may not be over yet."""
        rung: set[str] = set()

        def heard() -> bool:
            rung.add(self.ring())
            select.select([self.listener], [], [], 0.1)
            return bool(rung.intersection(self.listener.heard().tips))

        eventually(heard, SOON_S, "an id is heard")


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about a listener, in order."""
    told = [record.getMessage() for record in caplog.records if record.name == "supervisor"]
    return [name for name in told if name in ("bell.lost", "bell.recovered", "bell.endangered")]


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "supervisor")


def command(server: servers.Redis, *words: Any) -> Any:
    with redis.Redis(port=server.port) as client:
        return client.execute_command(*words)


class TestFaults:
    @pytest.fixture
    def pair(self, server: servers.Redis, stack: ExitStack) -> Pair:
        made = Pair(server.url, stack).hears()
        made.passes_on()
        made.listener.heard()
        return made

    def test_a_restart(
        self, server: servers.Redis, pair: Pair, caplog: pytest.LogCaptureFixture
    ) -> None:
        server.crash()
        assert f"redis://127.0.0.1:{server.port}/0" in pair.is_away("127.0.0.1")
        eventually(lambda: pair.ring() and pair.bell.trouble, SOON_S)
        pair.listener.heard()
        server.start_again()
        pair.hears()
        assert pair.listener.heard().kinds == {"due", "cancel"}  # all that may have been rung
        pair.passes_on()
        assert events(caplog) == ["bell.lost", "bell.recovered"]

    def test_a_long_absence_is_recovered_from_as_fast(
        self, server: servers.Redis, pair: Pair
    ) -> None:
        server.crash()
        pair.is_away("127.0.0.1")
        time.sleep(2)
        server.start_again()
        pair.hears()
        pair.passes_on()

    def test_flushall(self, server: servers.Redis, pair: Pair) -> None:
        pair.listener.want(0)
        pair.ring()
        eventually(lambda: command(server, "ZCARD", pair.keys.due(LEVEL)) > 0)
        command(server, "FLUSHALL")
        pair.listener.want(100)
        assert pair.listener.away == ""
        pair.passes_on()
        members = command(server, "SMEMBERS", pair.keys.levels)
        assert members == {b"5/default/send"}  # known again to nodes that start now

    def test_a_read_only_replica(self, server: servers.Redis, pair: Pair) -> None:
        command(server, "REPLICAOF", "127.0.0.1", "1")
        pair.is_away("read only replica", "must name the primary")
        command(server, "REPLICAOF", "NO", "ONE")
        pair.hears()
        pair.passes_on()

    def test_memory_is_used_up_and_nothing_is_evicted(
        self, server: servers.Redis, pair: Pair
    ) -> None:
        command(server, "CONFIG", "SET", "maxmemory", "1")
        pair.is_away("used memory > 'maxmemory'", "raise its maxmemory")
        pair.listener.heard()
        pair.ring()
        # No room for the id; that there is something due is passed on all the same.
        assert eventually(lambda: pair.listener.heard().kinds, SOON_S) == {"due"}
        pair.bell.ring("cancel")
        assert eventually(lambda: pair.listener.heard().kinds, SOON_S) == {"cancel"}
        command(server, "CONFIG", "SET", "maxmemory", "0")
        pair.hears()
        pair.passes_on()

    def test_a_server_that_stands_still(self, server: servers.Redis, pair: Pair) -> None:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            pair.is_away("127.0.0.1")
            for _ in range(20):
                pair.ring()
            began = time.monotonic()
            pair.bell.close()
            assert time.monotonic() - began < 1.1  # half a second for the last rings
        finally:
            os.kill(server.pid, signal.SIGCONT)
        pair.hears()

    def test_a_line_of_which_each_connection_is_cut(
        self, server: servers.Redis, pair: Pair
    ) -> None:
        for _ in range(10):
            command(server, "CLIENT", "KILL", "TYPE", "normal")
            command(server, "CLIENT", "KILL", "TYPE", "pubsub")
            time.sleep(0.05)
        pair.hears()
        pair.passes_on()

    def test_a_password_that_is_changed(self, server: servers.Redis, pair: Pair) -> None:
        with redis.Redis(port=server.port) as client:
            client.config_set("requirepass", "new")
            client.client_kill_filter(_type="pubsub")
            client.client_kill_filter(_type="normal", skipme=True)
            pair.is_away("Authentication required", "give the password")
            client.config_set("requirepass", "")
        pair.hears()
        pair.passes_on()


def test_a_line_that_swallows_everything(server: servers.Redis, stack: ExitStack) -> None:
    swallow = threading.Event()
    with servers.proxy(server.port, swallow) as port:
        pair = Pair(f"redis://127.0.0.1:{port}/0", stack).hears()
        pair.passes_on()
        swallow.set()
        pair.is_away("127.0.0.1")
        for _ in range(20):
            pair.ring()
        swallow.clear()
        pair.hears()
        pair.passes_on()
        pair.listener.close()
        pair.bell.close()


def test_the_end_is_quick_on_a_line_that_swallows_everything(
    server: servers.Redis, stack: ExitStack
) -> None:
    swallow = threading.Event()
    with servers.proxy(server.port, swallow) as port:
        pair = Pair(f"redis://127.0.0.1:{port}/0", stack).hears()
        pair.passes_on()
        swallow.set()
        pair.ring()
        began = time.monotonic()
        pair.listener.close()
        assert time.monotonic() - began < 2.5  # 1.2 s for its thread
        pair.bell.close()
        eventually(lambda: not any(t.name.startswith("bell") for t in threading.enumerate()), 5)


def start(*options: str) -> servers.Redis:
    try:
        return servers.start_redis(*options)
    except servers.ServerMissing as exc:
        pytest.skip(str(exc))


@pytest.mark.parametrize(
    ("options", "url", "words"),
    [
        (
            ("--requirepass", "right"),
            "redis://:wrong@127.0.0.1:{port}/0",
            ("***@127.0.0.1", "invalid username-password pair", "give the right user"),
        ),
        (("--requirepass", "right"), "redis://127.0.0.1:{port}/0", ("give the password",)),
        (("--rename-command", "BZMPOP", ""), "redis://127.0.0.1:{port}/0", ("Redis 7.0 or newer",)),
        (("--databases", "1"), "redis://127.0.0.1:{port}/3", ("index is out of range",)),
        ((), "redis://no-such-host.invalid:{port}/0", ("no-such-host.invalid", "not known")),
        ((), "redis://127.0.0.1:1/0", ("refused",)),
    ],
    ids=["wrong password", "no password", "before 7.0", "no such database", "no name", "no port"],
)
def test_an_address_that_never_works_is_told_and_costs_nothing(
    options: tuple[str, ...],
    url: str,
    words: tuple[str, ...],
    stack: ExitStack,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = start(*options)
    stack.callback(server.stop)
    pair = Pair(url.format(port=server.port), stack)
    away = pair.is_away(*words)
    assert "wrong" not in away
    for _ in range(100):
        pair.ring()
    assert pair.listener.heard() == Heard()
    time.sleep(0.6)
    assert pair.listener.away
    assert events(caplog) == ["bell.lost"]  # said once, however often it is tried


def test_a_server_that_reads_its_data_in(stack: ExitStack) -> None:
    server = start("--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024")
    stack.callback(server.stop)
    with redis.Redis(port=server.port) as client:
        pipeline = client.pipeline()
        for number in range(2000):
            pipeline.set(f"filling:{number}", "x" * 200)
        pipeline.execute()
        client.save()
    server.crash()
    server.start_again()
    pair = Pair(server.url, stack)
    pair.is_away("reads its data in")
    eventually(lambda: not pair.listener.away, 30, "the data is read in")
    pair.passes_on()


class TestExamine:
    @pytest.mark.parametrize(
        ("options", "levels", "words"),
        [
            ((), ["ok"], "reachable and writable"),
            (("--maxmemory-policy", "allkeys-lru"), ["ok", "warn"], "drops ids of due tasks"),
            (("--maxmemory-policy", "volatile-lru"), ["ok"], "reachable and writable"),
            (("--rename-command", "BZMPOP", ""), ["fail"], "it lacks BZMPOP"),
            (("--replicaof", "127.0.0.1", "1"), ["fail"], "a replica that only reads"),
            (("--maxmemory", "1"), ["fail"], "refuses"),
        ],
    )
    def test_facts(self, options: tuple[str, ...], levels: list[str], words: str) -> None:
        server = start(*options)
        try:
            facts = examine(server.url)
        finally:
            server.stop()
        assert [fact.level for fact in facts] == levels
        assert words in facts[-1].text
        assert all(bool(fact.remedy) == (fact.level != "ok") for fact in facts)

    def test_it_writes_nothing(self, server: servers.Redis) -> None:
        version = command(server, "INFO", "server")["redis_version"]
        text = f"{server.url} is a Redis {version}, reachable and writable"
        assert examine(server.url) == [Fact("ok", text)]
        assert command(server, "DBSIZE") == 0

    def test_no_redis_no_facts(self) -> None:
        assert examine("none") == []


def test_an_eviction_policy_that_loses_ids_is_warned_of_once(
    server: servers.Redis, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    command(server, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    pair = Pair(server.url, stack).hears()
    command(server, "CLIENT", "KILL", "TYPE", "pubsub")
    pair.passes_on()
    pair.hears()
    assert events(caplog).count("bell.endangered") == 1


def test_rings_of_others_come_while_it_subscribes(
    server: servers.Redis, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    """Between its two subscriptions it may be told already: no answer is then taken for a ring."""
    over, identity = threading.Event(), uuid.uuid4().hex[:16]

    def ring() -> None:
        with redis.Redis.from_url(server.url) as client:
            while not over.is_set():
                client.publish(Keys(identity).control, "cancel")

    others = threading.Thread(target=ring)
    others.start()
    try:
        for _ in range(20):
            with RedisListener(server.url, identity) as listener:
                eventually(lambda one=listener: not one.away, SOON_S, "the listener hears")
    finally:
        over.set()
        others.join()
    assert [record for record in caplog.records if "loop.failed" in record.getMessage()] == []


def test_an_account_with_little_more_than_its_keys(server: servers.Redis, stack: ExitStack) -> None:
    rules = ("~supervisor:*", "&supervisor:*", "+@all", "-@dangerous", "-@admin")
    command(server, "ACL", "SETUSER", "bell", "on", ">secret", *rules)
    pair = Pair(f"redis://bell:secret@127.0.0.1:{server.port}/0", stack).hears()
    pair.passes_on()
    (fact,) = examine(f"redis://bell:secret@127.0.0.1:{server.port}/0")
    assert fact.level == "ok"


def test_over_a_socket_file(server: servers.Redis, stack: ExitStack) -> None:
    Pair(f"unix://{server.socket_path}", stack).hears().passes_on()


def test_what_is_left_behind_is_what_is_due(server: servers.Redis, stack: ExitStack) -> None:
    pair = Pair(server.url, stack).hears()
    pair.ring()
    eventually(lambda: pair.listener.heard().tips, SOON_S)
    pair.bell.ring("due", [Due(("default", 5, "paint"), "task_9", 7.5)])
    eventually(lambda: command(server, "ZCARD", pair.keys.due(("default", 5, "paint"))) == 1)
    pair.listener.close()

    def keys() -> dict[bytes, int]:
        with redis.Redis(port=server.port) as client:
            return {key: client.ttl(key) for key in client.keys()}  # noqa: SIM118 - a client is no dict

    root = f"supervisor:{pair.identity}"
    lasting = {key for key, ttl_s in keys().items() if ttl_s < 0}
    assert lasting == {f"{root}:due:5/default/paint".encode(), f"{root}:levels".encode()}


def test_a_thousand_levels(server: servers.Redis, stack: ExitStack) -> None:
    pair = Pair(server.url, stack).hears()
    pair.bell.ring(
        "due", [Due((f"queue_{n}", n % 10, "send"), f"task_{n}", 1.0) for n in range(1000)]
    )
    heard: list[str] = []

    def all_heard() -> bool:
        pair.listener.want(100)
        heard.extend(pair.listener.heard().tips)
        return len(heard) == 1000

    eventually(all_heard, 20)
    assert len(set(heard)) == 1000


def test_levels_that_are_out_of_use_are_forgotten_until_they_are_rung_again(
    server: servers.Redis, stack: ExitStack
) -> None:
    keys = Keys("abc")
    levels = [(f"queue_{n}", 5, "send") for n in range(8)]
    with Link(server.url) as link:
        for level in levels:
            link.ask(("SADD", keys.levels, member(level)))
        link.ask(*keys.adding([Due(levels[0], "task_1", 1.0), Due(levels[1], "task_2", 1.0)]))
        strike_empty(link, keys, [member(level) for level in levels])
        (left,) = link.ask(("SMEMBERS", keys.levels))
        assert sorted(left) == [member(level) for level in levels[:2]]
        strike_empty(link, keys, left)
        assert link.ask(("SCARD", keys.levels)) == [2]
    bell = stack.enter_context(redis_bell(server.url, "abc"))
    listener = stack.enter_context(RedisListener(server.url, "abc"))
    listener.serve(None, frozenset({"send"}))
    listener.want(9)
    heard: set[str] = set()

    def both() -> bool:
        heard.update(listener.heard().tips)
        return heard == {"task_1", "task_2"}

    eventually(both, SOON_S)
    bell.ring("due", [Due(levels[7], "task_3", 1.0)])
    eventually(lambda: listener.heard().tips == ("task_3",), SOON_S)
