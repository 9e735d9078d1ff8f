"""The doorbell of a PostgreSQL alone, when the server or the way to it fails."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
import servers
from harness import eventually

from supervisor.queue import Heard
from supervisor.queue.notify import NotifyListener, notify_bell

#: A dead line is noticed within three seconds; the bell carries no ids, and the node polls.
SOON_S = 6


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what the test has opened."""
    with ExitStack() as one:
        yield one
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("bell")], 5)


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "supervisor")


class Pair:
    """A bell and a listener at one address."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        identity = uuid.uuid4().hex[:16]
        url = url.replace("postgresql://", "postgresql+psycopg://")
        self.bell = stack.enter_context(notify_bell(url, identity))
        self.listener = stack.enter_context(NotifyListener(url, identity))

    def hears(self) -> Pair:
        eventually(lambda: not self.listener.away, SOON_S, "the listener hears")
        self.listener.heard()
        return self

    def is_away(self, *words: str) -> str:
        def says() -> str:
            away = self.listener.away
            return away if all(word in away for word in words) else ""

        return eventually(says, SOON_S, f"away says {words}: {self.listener.away}")

    def passes_on(self) -> None:
        def heard() -> bool:
            began = time.perf_counter()
            self.bell.ring("cancel")
            assert time.perf_counter() - began < 0.8  # a second if it waited for an answer
            time.sleep(0.05)
            return "cancel" in self.listener.heard().kinds

        eventually(heard, SOON_S, "a ring is heard")


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records if record.name == "supervisor"]
    return [name for name in told if name in ("bell.lost", "bell.recovered")]


def test_backends_that_are_ended(
    postgresql: servers.PostgreSQL, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair(postgresql.url, stack).hears()
    pair.passes_on()
    with psycopg.connect(postgresql.dsn, autocommit=True) as server:
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'supervisor bell'"
        )
    eventually(lambda: events(caplog) == ["bell.lost", "bell.recovered"], SOON_S)
    assert pair.listener.heard().kinds >= {"due", "cancel"}
    pair.passes_on()


def test_a_restart_and_a_server_that_stands_still(stack: ExitStack) -> None:
    try:
        server = servers.start_postgresql()
    except servers.ServerMissing as exc:
        pytest.skip(str(exc))
    stack.callback(server.stop)
    pair = Pair(server.url, stack).hears()
    pair.passes_on()
    server.crash()
    assert f"postgres@127.0.0.1:{server.port}" in pair.is_away("127.0.0.1")
    server.start_again()
    pair.hears().passes_on()
    stopped = [server.pid, *_children(server.pid)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        pair.is_away()
        pair.bell.ring("due")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    pair.hears().passes_on()


def test_a_line_that_swallows_everything(postgresql: servers.PostgreSQL, stack: ExitStack) -> None:
    swallow = threading.Event()
    with servers.proxy(postgresql.port, swallow) as port:
        pair = Pair(f"postgresql://postgres@127.0.0.1:{port}/postgres", stack).hears()
        pair.passes_on()
        swallow.set()
        pair.is_away()
        began = time.monotonic()
        pair.bell.ring("cancel")
        pair.bell.close()
        assert time.monotonic() - began < 1.3  # half a second for the last rings
        swallow.clear()
        pair.hears()
        pair.listener.close()


def test_behind_a_pooler_it_says_that_nothing_is_heard(
    postgresql: servers.PostgreSQL, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        pooler = servers.start_pgbouncer(postgresql)
    except servers.ServerMissing as exc:
        pytest.skip(str(exc))
    stack.callback(pooler.stop)
    pair = Pair(pooler.url("postgres"), stack)
    pair.is_away("behind a pooler", "let the setting queue name a Redis")
    for _ in range(5):
        pair.bell.ring("due")
    time.sleep(0.3)
    assert pair.bell.trouble == ""  # it can be rung through, for nodes that are not behind it
    assert pair.listener.heard() == Heard()
    assert events(caplog) == ["bell.lost"]


def test_a_password_that_is_wrong_is_told_and_not_shown(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        server = servers.start_postgresql(password="right")
    except servers.ServerMissing as exc:
        pytest.skip(str(exc))
    stack.callback(server.stop)
    pair = Pair(f"postgresql://postgres:wrong@127.0.0.1:{server.port}/postgres", stack)
    away = pair.is_away("password authentication failed")
    assert ":wrong" not in away
    time.sleep(0.5)
    assert events(caplog) == ["bell.lost"]


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(one) for one in file.read().split()]
