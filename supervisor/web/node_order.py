"""Asking something of a node that is still as it was seen, for pages and API alike.

Invariant: nobody overtakes unseen what somebody else has asked of it a moment before: what a node
says of itself is some seconds old, so what was asked since then counts too.
"""

from __future__ import annotations

from supervisor.errors import Refused
from supervisor.web.visit import Visit
from supervisor.words.roll import SAID


def ask_node(visit: Visit, node_id: str, kind: str, reason: str, seen: str | None) -> str:
    """Ask something of a node that stands at a stage, None for any; return the order's id.

    A node that has said nothing lately is asked whatever was seen. Raises: Refused, with the
    `stage` where it stands if that is another.
    """
    seen_at = None
    view = None if seen is None else visit.client.vitals.latest(node_id)
    if view is not None and view.at >= visit.now() - SAID:
        stage = str(view.node.get("stage"))
        if stage != seen:
            raise Refused(
                f"the node is {stage} by now", remedy="Look at it again, then ask.", stage=stage
            )
        seen_at = view.at
    by = visit.person.name
    return visit.client.orders.ask(node_id, kind, by=by, reason=reason, seen_at=seen_at)
