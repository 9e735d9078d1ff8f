"""Who of a store's nodes is still there.

Invariants: a node is only called gone when its end is written down or proven on this host, or its
lease is over, by which it has ended what it ran; any other of another host or container counts as
running. A pid is only looked at where it means something: on this boot, in this pid namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from supervisor.model.states import State
from supervisor.words.text import span
from supervisor.words.tongue import say
from supervisor.worker.presence import is_gone, own_place

if TYPE_CHECKING:
    from supervisor.store import Reader, Store, TaskLine
    from supervisor.store.view import NodeView
    from supervisor.store.vitals import VitalsBook

#: A node says something of itself every five seconds; what is older than this says nothing of now.
SAID = timedelta(seconds=20)
NO_NODE = "no node runs: it takes effect when one starts"


@dataclass(frozen=True, slots=True)
class Roll:
    """The nodes of a store: those that run for all we know, and the latest that do not, by id.

    `here` are those whose processes have pids of this host. `every` has them all, unended first.
    """

    every: tuple[NodeView, ...]
    running: tuple[NodeView, ...]
    gone: Mapping[str, NodeView]
    here: frozenset[str]

    def gone_node(self, task: TaskLine) -> NodeView | None:
        """Return the node of a RUNNING task if it is gone: the state is then its last word."""
        if task.state is not State.RUNNING or task.node_id is None:
            return None
        return self.gone.get(task.node_id)

    def far_host(self, task: TaskLine) -> str | None:
        """Return the host that a RUNNING task runs on if that is another one."""
        if task.state is not State.RUNNING or self.runs_here(task):
            return None
        return next((one.node_name for one in self.running if one.node_id == task.node_id), None)

    def runs_here(self, task: TaskLine) -> bool:
        """Say whether the node of a task is one of this host."""
        return task.node_id in self.here

    @property
    def judged(self) -> str:
        """How the tasks of a node that is gone will be judged."""
        if self.running:
            return say("the node that runs will judge it soon")
        return say("start a node and it will be judged")


def roll_call(reader: Reader) -> Roll:
    """Look at the nodes of a store."""
    here = own_place()
    nodes = reader.nodes()
    gone = {
        node.node_id: node
        for node in nodes
        if node.ended_at is not None or is_silent(node) or is_gone(node.process, here)
    }
    return Roll(
        every=tuple(nodes),
        running=tuple(node for node in nodes if node.node_id not in gone),
        gone=gone,
        here=frozenset(
            node.node_id
            for node in nodes
            if (node.boot_id, node.pid_ns) == (here.boot_id, here.pid_ns)
        ),
    )


def left_out(store: Store, roll: Roll) -> int:
    """Return how many nodes have ended that are not on the roll."""
    from supervisor.store.muster import count_ended

    return count_ended(store) - sum(node.ended_at is not None for node in roll.every)


def stages(roll: Roll, book: VitalsBook, now: datetime) -> dict[str, str]:
    """Return what nodes that run say they do, by id: of those that have said so lately."""
    latest = book.latest_of(node.node_id for node in roll.running)
    return {name: str(one.node["stage"]) for name, one in latest.items() if now - one.at <= SAID}


def is_silent(node: NodeView) -> bool:
    """Say whether a node whose end nobody has written down has let its lease run out."""
    return node.ended_at is None and node.lease_left_s is not None and node.lease_left_s < 0


def last_word(node: NodeView) -> str:
    """Say how a node is gone, for the state that it wrote last."""
    if is_silent(node):
        silent_s = -(node.lease_left_s or 0.0)
        return say(
            "gone (host %(host)s, its lease is over since %(span)s)",
            host=node.node_name,
            span=span(silent_s),
        )
    if node.lease_left_s is None:
        return say("gone (pid %(pid)s)", pid=node.pid)
    return say("gone (host %(host)s, pid %(pid)s)", host=node.node_name, pid=node.pid)
