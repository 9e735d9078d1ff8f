"""PostgreSQL and Redis fail under two nodes at work and a client that submits and cancels.

A client may have to repeat itself; a node repairs what an answer it never got has left behind. When
it is over nothing was lost, nothing ended twice, and every second execution is explained. A Redis
that fails costs not even time: the table is read instead.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
import servers
import stores
from harness import LONGER_LEASE, NodeUnderTest, Start, eventually
from storm import APP, SETTINGS, Feeder, Storm, chosen_seed, settle

WORKERS = 3
#: Of the kinds of a storm: what costs evidence, or time, is rare.
WEIGHTS = (70, 12, 6, 8, 3, 1, 0)
#: How long sessions are ended every second.
ENDING_S = 10 if os.environ.get("CI") == "true" else 30
#: Kept as they are promised to be: what was committed has been written.
DURABLE = ("synchronous_commit=on", "full_page_writes=on")


@pytest.fixture
def place() -> Iterator[stores.Database]:
    """A database and a Redis on servers of the test's own."""
    try:
        postgresql, bell = servers.start_postgresql(*DURABLE), servers.start_redis()
    except servers.ServerMissing as exc:
        pytest.skip(str(exc))
    try:
        yield stores.Database(postgresql, bell)
    finally:
        bell.stop()
        postgresql.stop()


def start_two(place: stores.Database, start_node: Start) -> list[NodeUnderTest]:
    settings = {**SETTINGS, **LONGER_LEASE, "workers": WORKERS}
    return [start_node(APP, place=place, node_name=f"node{n}", **settings) for n in range(2)]


def weather(nodes: list[NodeUnderTest], runs: Path, trouble: Callable[[], None]) -> Storm:
    """Let something happen under load; judge what is left when all tasks have ended."""
    seed = chosen_seed()
    print("STORM_SEED =", seed)
    storm = Storm(nodes, seed, runs, weights=WEIGHTS, mean_s=0.03, backlog=120)
    with Feeder(storm):
        eventually(lambda: len(storm.ids) >= storm.batch, 10, "tasks run")
        time.sleep(1.0)
        trouble()
        time.sleep(1.0)
    storm.end(60)
    for node in nodes:
        settle(node, WORKERS)
    assert storm.violations() == []
    assert len(storm.ends) == len(storm.ids)
    for node in nodes:
        assert node.events("node.fenced") == []
        assert node.get("/readyz")[0] == 200
    return storm


# -- PostgreSQL


def test_the_server_crashes(place: stores.Database, start_node: Start, tmp_path: Path) -> None:
    """As `pg_ctl stop -m immediate` ends it: no goodbye, and a recovery when it starts again."""
    nodes = start_two(place, start_node)

    def crash() -> None:
        for pause_s in (0.0, 0.3, 1.0):
            place.server.crash()
            time.sleep(pause_s)
            place.server.start_again()
            time.sleep(2.0)

    weather(nodes, tmp_path / "runs", crash)
    assert "redo done" in place.server.log
    for node in nodes:
        assert len(node.events("store.recovered")) >= 2
        assert len(node.events("store.lost")) >= len(node.events("store.recovered"))


def test_every_session_is_ended_every_second(
    place: stores.Database, start_node: Start, tmp_path: Path
) -> None:
    nodes = start_two(place, start_node)
    ended = 0

    def end() -> None:
        nonlocal ended
        for _ in range(ENDING_S):
            ended += place.end_sessions()
            time.sleep(1.0)

    weather(nodes, tmp_path / "runs", end)
    assert ended > 3 * ENDING_S, "those of two nodes and of a client, again and again"


# -- Redis


def restarted(bell: servers.Redis) -> None:
    for pause_s in (0.0, 1.0):
        bell.crash()
        time.sleep(pause_s)
        bell.start_again()
        time.sleep(1.0)


def emptied(bell: servers.Redis) -> None:
    with redis.Redis(port=bell.port) as line:
        for _ in range(20):
            line.flushall()
            time.sleep(0.2)


def turned_read_only(bell: servers.Redis) -> None:
    """It becomes the replica of somebody who is not there, and is made a primary again."""
    with redis.Redis(port=bell.port) as line:
        line.replicaof("127.0.0.1", 1)
        time.sleep(4.0)
        line.replicaof("NO", "ONE")


def stopped(bell: servers.Redis) -> None:
    """It holds its connections and says nothing."""
    os.kill(bell.pid, signal.SIGSTOP)
    time.sleep(5.0)
    os.kill(bell.pid, signal.SIGCONT)


@pytest.mark.parametrize("trouble", [restarted, emptied, turned_read_only, stopped])
def test_the_bell(
    place: stores.Database,
    start_node: Start,
    tmp_path: Path,
    trouble: Callable[[servers.Redis], None],
) -> None:
    nodes = start_two(place, start_node)
    bell = place.redis
    assert bell is not None
    done: list[int] = []

    def fail() -> None:
        done.append(ended(nodes[0]))
        trouble(bell)
        done.append(ended(nodes[0]))

    weather(nodes, tmp_path / "runs", fail)
    before, after = done
    assert after - before > 20, "tasks went on meanwhile"
    for node in nodes:
        assert node.events("store.lost") == []
    quick = nodes[0].submit("ok", path=str(tmp_path / "more"))
    assert quick.wait(5).reason == "returned"


def ended(node: NodeUnderTest) -> int:
    ((number,),) = node.query("SELECT count(*) FROM attempts WHERE outcome IS NOT NULL")
    return int(number)
