"""What people ask of a node by way of the store: take evidence, take no more tasks, stop.

Invariant: an order names one incarnation of a node and, where it is about a task, one attempt; it
is answered once, in words. Pure values; the ledger writes them, the node carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class OrderKind(StrEnum):
    """What may be asked (a closed set)."""

    CAPTURE = "capture"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    STOP = "stop"


#: The answer to what a node had not answered when its end was written down.
UNANSWERED = "its node is gone: it ended before it answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order; open as long as it has no answer. Its kind may be one of a later version."""

    order_id: str
    node_id: str
    kind: str
    task_id: str | None
    attempt: int | None
    operator: str
    reason: str
    created_at: datetime
    answered_at: datetime | None = None
    answer: str | None = None
