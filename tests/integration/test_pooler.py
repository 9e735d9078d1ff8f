"""A node and a client reach PostgreSQL through PgBouncer, which lends a session per transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import servers
import stores
from harness import (
    CANCELED,
    LONGER_LEASE,
    RUNNING,
    SUCCESS,
    NodeUnderTest,
    Start,
    begun,
    eventually,
)

from supervisor.model.states import State

#: Fewer sessions than the node and its clients have connections.
SESSIONS = 2


@pytest.fixture
def pooled(postgresql: servers.PostgreSQL) -> Iterator[stores.Database]:
    """A database that is reached through a pooler with few sessions."""
    try:
        pooler = servers.start_pgbouncer(postgresql, default_pool_size=SESSIONS)
    except servers.ServerMissing as exc:
        pytest.skip(str(exc))
    try:
        yield stores.Database(postgresql, through=pooler)
    finally:
        pooler.stop()


def start(place: stores.Database, start_node: Start) -> NodeUnderTest:
    return start_node(place=place, workers=3, **LONGER_LEASE)


def test_tasks_of_every_kind(pooled: stores.Database, start_node: Start) -> None:
    node = start(pooled, start_node)
    plain = node.submit("ok", value=7)
    canceled = node.submit("wait")
    node.started(canceled)
    canceled.cancel(by="anna", reason="enough")
    assert plain.wait(10).state is State.SUCCESS
    assert node.moves(plain.task_id) == [*begun(), (RUNNING, SUCCESS, "node", "returned")]
    assert canceled.wait(10).state is State.CANCELED
    assert node.endings(canceled.task_id) == [(CANCELED, "canceled", "reported", False)]
    handles = node.app.submit_many([{"type": "ok", "params": {"value": n}} for n in range(300)])
    states = {view.state for view in node.app.wait([h.task_id for h in handles], 30)}
    assert states == {State.SUCCESS}
    assert len(pooled.sessions()) <= SESSIONS
    for name in ("store.lost", "loop.failed", "node.fenced"):
        assert node.events(name) == []


def test_commands(pooled: stores.Database, start_node: Start, tmp_path: Path) -> None:
    """Each is a program of its own, and all of them get by with the sessions there are."""
    node = start(pooled, start_node)
    (tmp_path / "specs.json").write_text('[{"type": "ok"}, {"type": "ok"}]')
    node.cli("submit", str(tmp_path / "specs.json"))
    eventually(lambda: len(node.cli_json("list")["tasks"]) == 2, 10)
    assert [one["node_name"] for one in node.cli_json("nodes")["nodes"]] == [node.name]


def test_its_sessions_are_ended(pooled: stores.Database, start_node: Start) -> None:
    """What the pooler had to give away is gone: the node goes on with what it gets next."""
    node = start(pooled, start_node)
    running = [node.submit("sleep", s=s) for s in (0.5, 1.0, 1.5)]
    for handle in running:
        node.started(handle)
    for _ in range(5):
        eventually(pooled.end_sessions, 5, "somebody is served again")
    for handle in running:
        assert handle.wait(15).state is State.SUCCESS
        *before, last = node.endings(handle.task_id)
        assert last == (SUCCESS, "returned", "reported", False)
        assert {reason for _, reason, _, _ in before} <= {"never_started"}
