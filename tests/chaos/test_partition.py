"""Three nodes on three hosts of a network, one of them cut off for two leases and healed.

Its packets vanish without an answer. All tasks say by a clock that the hosts share when they are at
work, so it is proven, not concluded, that none was on two nodes at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import servers
import stores
from harness import SHORT_LEASE, NodeUnderTest, Start, eventually
from invariants import Account, Span, spans
from netns import Network, NetworkMissing
from storm import APP, SETTINGS, allowed_ends, live, persistently, retries_of

HOSTS, WORKERS = 3, 2
LEASE_S = float(str(SHORT_LEASE["lease"]))
CUT_S = 2 * LEASE_S
NODE_SETTINGS = {**SETTINGS, **SHORT_LEASE, "workers": WORKERS, "requeue_safety": 0.5}
#: `drums` hear nothing: a node that is to end them has to kill.
KINDS, WEIGHTS = ("beats", "drums", "ok"), (6, 2, 2)


@dataclass
class Lan:
    """A network with PostgreSQL and Redis on it, and the store that its nodes share."""

    network: Network
    place: stores.Database


@pytest.fixture
def lan() -> Iterator[Lan]:
    try:
        network = Network(HOSTS)
    except NetworkMissing as exc:
        pytest.skip(str(exc))
    with network:
        address = network.address
        postgresql = servers.start_postgresql(address=address, network=network.range)
        redis = servers.start_redis(address=address)
        try:
            yield Lan(network, stores.Database(postgresql, redis, host=address))
        finally:
            redis.stop()
            postgresql.stop()


@dataclass
class Traffic:
    """Tasks that are at work for a while, submitted from outside, and when that was."""

    nodes: Sequence[NodeUnderTest]
    runs: Path
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    kinds: dict[str, str] = field(default_factory=dict)

    def add(self, tasks: int) -> list[str]:
        kinds = self.rng.choices(KINDS, WEIGHTS, k=tasks)
        specs = [
            {
                "type": kind,
                "params": {"path": str(self.runs), "s": round(self.rng.uniform(0.2, 2.5), 2)},
                "dedup_key": f"traffic {len(self.kinds) + number}",
                "dedup_ttl": 3600,
                **retries_of(kind),
            }
            for number, kind in enumerate(kinds)
        ]
        ids = [one.task_id for one in persistently(lambda: self.nodes[0].app.submit_many(specs))]
        self.kinds.update(zip(ids, kinds, strict=True))
        return ids

    def running_on(self, node: NodeUnderTest) -> set[str]:
        """Return the tasks that a node runs, as the store has it."""
        rows = node.query(
            "SELECT a.task_id FROM attempts AS a JOIN nodes AS n ON n.node_id = a.node_id"
            " WHERE n.node_name = ? AND a.outcome IS NULL AND a.started_at IS NOT NULL",
            node.name,
        )
        return {task_id for (task_id,) in rows}

    def violations(self) -> list[str]:
        expected = {one: allowed_ends(kind, canceled=False) for one, kind in self.kinds.items()}
        account = Account(self.nodes[0].query, expected, self.runs, len(self.nodes))
        told = [f"{n.name}: {e}" for n in self.nodes for e in n.events("transition.refused")]
        failed = [f"{n.name}: {e}" for n in self.nodes for e in n.events("loop.failed")]
        return [*account.violations(), *told, *failed]


def start_all(lan: Lan, start_node: Start, lease_s: float = LEASE_S) -> list[NodeUnderTest]:
    nodes = [
        start_node(
            APP,
            run=False,
            place=lan.place,
            prefix=lan.network.prefix(host),
            node_name=f"host{host}",
            metrics_listen=f"{lan.network.host_address(host)}:0",
            **{**NODE_SETTINGS, "lease": lease_s},
        )
        for host in range(HOSTS)
    ]
    for node in nodes:
        node.start(wait=False)
    for node in nodes:
        node.wait_ready()
    return nodes


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def works_again(traffic: Traffic, node: NodeUnderTest, since: float) -> list[Span]:
    """Submit until a node has begun something after a moment."""

    def begun() -> list[Span]:
        if live(node) < 2 * HOSTS * WORKERS:
            traffic.add(HOSTS)
        return [one for one in spans(traffic.runs) if one.node == node.name and one.first > since]

    return eventually(begun, 30, f"{node.name} takes tasks again")


def test_a_host_is_cut_off_and_healed(lan: Lan, start_node: Start, tmp_path: Path) -> None:
    nodes = start_all(lan, start_node)
    lost = nodes[0]
    traffic = Traffic(nodes, tmp_path / "runs")
    traffic.add(60)
    eventually(lambda: len(traffic.running_on(lost)) == WORKERS, 15, "all are at work")
    lan.network.cut(0)
    cut_at = boottime()
    while boottime() < cut_at + CUT_S:
        if live(nodes[1]) < 30:
            traffic.add(10)
        time.sleep(0.05)
    caught = traffic.running_on(lost)
    lan.network.heal(0)
    healed_at = boottime()
    works_again(traffic, lost, healed_at)
    eventually(lambda: live(nodes[1]) == 0, 60, "all tasks have ended")

    assert traffic.violations() == []
    assert caught == set(), "what it ran was taken from it before it was healed"
    seen = spans(traffic.runs)
    # The lease that it had when it was cut off was over within LEASE_S; not one beat is later.
    silent = [s for s in seen if s.node == lost.name and cut_at + LEASE_S < s.last < healed_at]
    assert silent == []
    twice = {s.task_id for s in seen if s.attempt > 1}
    assert [s for s in seen if s.task_id in twice and s.node == lost.name], "it lost something"
    assert len(lost.events("node.fenced")) == len(lost.events("node.unfenced")) >= 1
    for other in nodes[1:]:
        # On a busy host a lease of 3 s may be renewed late, too: then it must have come back.
        assert len(other.events("node.fenced")) == len(other.events("node.unfenced"))


def test_a_host_that_only_hears_late(lan: Lan, start_node: Start, tmp_path: Path) -> None:
    """Cut off for less than a lease: nobody takes anything from it, and nothing runs again."""
    nodes = start_all(lan, start_node, 3 * LEASE_S)
    traffic = Traffic(nodes, tmp_path / "runs")
    traffic.add(30)
    eventually(lambda: len(traffic.running_on(nodes[0])) == WORKERS, 15, "all are at work")
    lan.network.cut(0)
    time.sleep(LEASE_S / 2)
    lan.network.heal(0)
    eventually(lambda: live(nodes[1]) == 0, 60, "all tasks have ended")
    assert traffic.violations() == []
    assert [s for s in spans(traffic.runs) if s.attempt > 1] == []
    assert [e for node in nodes for e in node.events("node.fenced")] == []


def test_what_ended_meanwhile_comes_too_late(lan: Lan, start_node: Start, tmp_path: Path) -> None:
    """The body was done before anybody doubted it; its result meets the second run and is told."""
    nodes = start_all(lan, start_node)
    traffic = Traffic(nodes, tmp_path / "runs")
    everywhere = HOSTS * WORKERS
    specs = [{"type": "ok", "params": {"path": str(traffic.runs), "s": 1.0}}] * everywhere
    ids = [one.task_id for one in nodes[0].app.submit_many(specs)]
    traffic.kinds.update(dict.fromkeys(ids, "ok"))
    eventually(lambda: traffic.running_on(nodes[0]), 10, "it runs some of them")
    lan.network.cut(0)
    caught = traffic.running_on(nodes[0])
    assert caught
    eventually(lambda: live(nodes[1]) == 0, 30, "others have run them")
    lan.network.heal(0)
    for task_id in caught:
        eventually(lambda t=task_id: "late_result" in nodes[1].notes(t), 30, "it is told")
        first, second = nodes[1].endings(task_id)
        assert first[:2] == ("TIMEOUT", "node_lost")
        assert (first[2] or "").startswith("lease")
        assert second == ("SUCCESS", "returned", "reported", False)
    assert traffic.violations() == []


def test_leftover() -> None:
    """Hosts and bridge are gone with their network."""
    with Network(1) as network:
        device = Path(f"/sys/class/net/{network._ours}")
        assert device.exists()
    assert not device.exists()
