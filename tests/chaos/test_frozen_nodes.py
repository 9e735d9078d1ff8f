"""Three nodes on one store, of which one after the other stands still for two leases.

First its supervisor alone, as a debugger does it: its workers are ended for it in time. Then all of
it at once, as a paused machine: what was at work goes on for a blink when it is let go, no longer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from harness import SHORT_LEASE, NodeUnderTest, Start, eventually, on_servers
from invariants import spans
from storm import APP, SETTINGS, live
from test_partition import LEASE_S, Traffic, boottime, works_again

NODES, WORKERS = 3, 2
STILL_S = 2 * LEASE_S
NODE_SETTINGS = {**SETTINGS, **SHORT_LEASE, "workers": WORKERS, "requeue_safety": 0.5}
#: A node that is let go looks at the clock before anything else, and kills.
BLINK_S = 1.0


def start_all(start_node: Start) -> list[NodeUnderTest]:
    first = start_node(APP, run=False, node_name="node0", **NODE_SETTINGS)
    others = [
        start_node(APP, run=False, shares=first, node_name=f"node{n}", **NODE_SETTINGS)
        for n in range(1, NODES)
    ]
    nodes = [first, *others]
    for node in nodes:
        node.start(wait=False)
    for node in nodes:
        node.wait_ready()
    return nodes


def supervisor_of(node: NodeUnderTest) -> Sequence[int]:
    return [node.pid]


def all_of(node: NodeUnderTest) -> Sequence[int]:
    return node.processes()


@contextlib.contextmanager
def frozen(pids: Sequence[int]) -> Iterator[None]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def stand_still(
    traffic: Traffic, node: NodeUnderTest, whole: Callable[[NodeUnderTest], Sequence[int]]
) -> tuple[float, float]:
    """Stop part of a busy node for two leases under traffic; return from when to when."""
    other = next(one for one in traffic.nodes if one is not node)
    traffic.add(30)
    eventually(lambda: len(traffic.running_on(node)) == WORKERS, 15, "it is at work")
    with frozen(whole(node)):
        began = boottime()
        while boottime() < began + STILL_S:
            if live(other) < 20:
                traffic.add(5)
            time.sleep(0.05)
        assert traffic.running_on(node) == set(), "what it ran was taken from it"
    ended = boottime()
    works_again(traffic, node, ended)
    return began, ended


@pytest.mark.parametrize("whole", [supervisor_of, all_of])
@on_servers
def test_a_node_stands_still(
    start_node: Start, tmp_path: Path, whole: Callable[[NodeUnderTest], Sequence[int]]
) -> None:
    nodes = start_all(start_node)
    traffic = Traffic(nodes, tmp_path / "runs")
    still = {node.name: stand_still(traffic, node, whole) for node in nodes[:2]}
    eventually(lambda: live(nodes[2]) == 0, 60, "all tasks have ended")
    for node in nodes[:2]:
        assert len(node.events("node.fenced")) == len(node.events("node.unfenced")) >= 1
        began, ended = still[node.name]
        begun = [s for s in spans(traffic.runs) if s.node == node.name and s.first < ended]
        # Not one beat after the lease; of a machine that stood still, one when it is let go.
        over = began + LEASE_S if whole is supervisor_of else ended + BLINK_S
        assert [s for s in begun if s.last > over] == []
    found = traffic.violations()
    if whole is all_of:
        found = [one for one in found if not one.startswith("overlap:")]  # for that blink
    assert found == []
