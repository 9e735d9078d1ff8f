"""`supervisor node drain|undrain|stop|capture`: ask something of a node through the store.

Invariant: it goes as any order does, so it reaches nodes on every host; what is printed is the
answer of the node, or that there is none yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from supervisor.cli.call import Call, command, os_user, signed
from supervisor.cli.group import EXIT_REFUSED
from supervisor.cli.ids import full_id
from supervisor.cli.text import cell, columns
from supervisor.clock import SystemClock
from supervisor.errors import Refused
from supervisor.model.order import UNANSWERED, OrderKind
from supervisor.words.asked import is_open, standing, wish
from supervisor.words.roll import roll_call

if TYPE_CHECKING:
    from supervisor.model.order import Order

POLL_S = 0.2
_WAIT = click.option(
    "--wait", type=click.FloatRange(0), default=15.0, show_default=True, metavar="SECONDS",
    help="How long to wait for the answer; it comes later all the same.",
)  # fmt: skip


@click.group()
def node() -> None:
    """Ask a node to take no more tasks, to take them again, to stop, or for evidence."""


@command(example='supervisor node drain host-1 --reason "new kernel"', group=node)
@click.argument("node_id", metavar="NODE")
@signed()
@_WAIT
def drain(call: Call, node_id: str, reason: str, by: str | None, wait: float) -> int:
    """Let a node take no more tasks; what it runs goes on.

    NODE is an id of `supervisor nodes`, or a host's name if one node runs there.
    """
    return _ask_node(call, node_id, OrderKind.DRAIN, reason, by, wait)


@command(example='supervisor node undrain host-1 --reason "kernel is fine"', group=node)
@click.argument("node_id", metavar="NODE")
@signed()
@_WAIT
def undrain(call: Call, node_id: str, reason: str, by: str | None, wait: float) -> int:
    """Let a drained node take tasks again."""
    return _ask_node(call, node_id, OrderKind.UNDRAIN, reason, by, wait)


@command(example='supervisor node stop host-1 --reason "moved to host-2"', group=node)
@click.argument("node_id", metavar="NODE")
@signed()
@_WAIT
def stop(call: Call, node_id: str, reason: str, by: str | None, wait: float) -> int:
    """Stop a node in order, as SIGTERM does: running tasks may finish for drain_grace."""
    return _ask_node(call, node_id, OrderKind.STOP, reason, by, wait)


@command(example='supervisor node capture 8823134a --reason "hangs since noon"', group=node)
@click.argument("task_id", metavar="TASK_ID")
@signed()
@_WAIT
def capture(call: Call, task_id: str, reason: str, by: str | None, wait: float) -> int:
    """Let the node of a running task take evidence of it, on whatever host; it runs on."""
    client = call.client()
    task = client.view(full_id(call, task_id))
    order_id = client.orders.ask(
        None,
        OrderKind.CAPTURE,
        task_id=task.task_id,
        attempt=task.attempt,
        by=by or os_user(),
        reason=reason,
    )
    return _answered(call, order_id, wait)


def _ask_node(
    call: Call, given: str, kind: OrderKind, reason: str, by: str | None, wait: float
) -> int:
    node_id = _find(call, given)
    order_id = call.client().orders.ask(node_id, kind, by=by or os_user(), reason=reason)
    return _answered(call, order_id, wait)


def _find(call: Call, given: str) -> str:
    """Return the id of a node that runs, by its id or its name."""
    roll = roll_call(call.client().reader)
    if given in roll.gone:
        raise Refused(
            f"node {given} is gone", remedy="`supervisor nodes` lists those that run.", node=given
        )
    named = [one.node_id for one in roll.running if given in (one.node_id, one.node_name)]
    if len(named) == 1:
        return named[0]
    why = f"no node {given} runs" if not named else f"several nodes run on {given}"
    raise Refused(why, remedy="Give an id that `supervisor nodes` lists.", nodes=named)


def _answered(call: Call, order_id: str, wait: float) -> int:
    """Wait for the answer and print it; refused when there is none, or it was not done."""
    client, clock = call.client(), SystemClock()
    deadline = clock.mono() + wait
    while True:
        order = client.orders.order(order_id)
        assert order is not None
        gone = roll_call(client.reader).gone
        if not is_open(order, gone) or clock.mono() >= deadline:
            break
        clock.sleep(POLL_S)
    answer = standing(order, gone)
    row = (cell(order.node_id), cell(wish(order)), cell(answer, 200))
    head = ("NODE", "ASKED TO", "ANSWER")
    call.answer({"order": {**_document(order), "answer": answer}}, lambda: columns(head, [row]))
    return 0 if _is_good(order) else EXIT_REFUSED


def _document(order: Order) -> dict[str, object]:
    return {
        "order_id": order.order_id,
        "node_id": order.node_id,
        "kind": order.kind,
        "task_id": order.task_id,
        "attempt": order.attempt,
        "answered": order.answer is not None,
    }


def _is_good(order: Order) -> bool:
    refused = ("not taken", "not done", "failed", UNANSWERED)
    return order.answer is not None and not order.answer.startswith(refused)
