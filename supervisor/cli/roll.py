"""Who of a store's nodes is still there.

Invariant: a node is only called gone when its end is written down or proven on this host; one of
another host or container counts as running until a node says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from supervisor.model.states import State
from supervisor.worker.presence import is_gone, own_place

if TYPE_CHECKING:
    from supervisor.store import Reader, TaskLine
    from supervisor.store.view import NodeView

NO_NODE = "no node runs: it takes effect when one starts"


@dataclass(frozen=True, slots=True)
class Roll:
    """The nodes of a store: those that run for all we know, and the latest that do not, by id."""

    running: tuple[NodeView, ...]
    gone: Mapping[str, NodeView]

    def gone_node(self, task: TaskLine) -> NodeView | None:
        """Return the node of a RUNNING task if it is gone: the state is then its last word."""
        if task.state is not State.RUNNING or task.node_id is None:
            return None
        return self.gone.get(task.node_id)

    @property
    def judged(self) -> str:
        """How the tasks of a node that is gone will be judged."""
        if self.running:
            return "the node that runs will judge it soon"
        return "start a node and it will be judged"


def roll_call(reader: Reader) -> Roll:
    """Look at the nodes of a store."""
    here = own_place()
    nodes = reader.nodes()
    gone = {
        node.node_id: node
        for node in nodes
        if node.ended_at is not None or is_gone(node.process, here)
    }
    return Roll(tuple(node for node in nodes if node.node_id not in gone), gone)
