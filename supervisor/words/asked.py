"""Orders to nodes in words: what was asked, and how it stands.

Invariant: an order whose node is gone is never told to be waiting, whether or not somebody has
written that down.
"""

from __future__ import annotations

from collections.abc import Container

from supervisor.model.order import UNANSWERED, Order, OrderKind
from supervisor.words.retold import retold
from supervisor.words.tongue import say


def wish(order: Order) -> str:
    """Say what is asked of the node."""
    match order.kind:
        case OrderKind.CAPTURE:
            return say("take evidence of attempt %(attempt)s now", attempt=order.attempt)
        case OrderKind.DRAIN:
            return say("take no more tasks")
        case OrderKind.UNDRAIN:
            return say("take tasks again")
        case OrderKind.STOP:
            return say("stop")
    return order.kind  # of a later version


def standing(order: Order, gone: Container[str]) -> str:
    """Say what became of an order; `gone` are the nodes that are."""
    if order.answer == UNANSWERED or (order.answer is None and order.node_id in gone):
        return say("its node is gone: it ended before it answered")
    return retold(order.answer) if order.answer else say("its node has not answered yet")


def is_open(order: Order, gone: Container[str]) -> bool:
    """Say whether an answer may still come."""
    return order.answer is None and order.node_id not in gone
