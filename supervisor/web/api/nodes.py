"""Nodes: who runs what, their vital signs, and what people ask of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.model.order import Order, OrderKind
from supervisor.store.muster import name_of
from supervisor.store.view import NodeView
from supervisor.store.vitals import VitalsView
from supervisor.web.api.acts import Reason
from supervisor.web.api.endpoint import READ, WRITE, Endpoint, Moment, Nothing, Trouble
from supervisor.web.api.tasks import find
from supervisor.web.node_order import ask_node
from supervisor.web.visit import Visit
from supervisor.words.roll import Roll, left_out, roll_call, stages

WORKERS_MAX = 500


class Node(msgspec.Struct, kw_only=True):
    """One incarnation of a node. `gone`: it has ended, or is proven to be dead.

    `stage` is what it says it does (starting, running, draining, drained, stopping, fenced), null
    where it has said nothing lately.

    `running` counts the attempts it owns. `lease_left_s` is below 0 when its lease is over, null
    where there are no leases; `skew_s` is how far its clock is ahead of the store's.
    """

    node_id: str
    node_name: str
    pid: int
    version: str
    listen: str
    started_at: Moment
    ended_at: Moment | None
    note: str | None
    running: int
    lease_left_s: float | None
    skew_s: float
    types: list[str]
    gone: bool
    stage: str | None


class Nodes(msgspec.Struct):
    """The nodes: all that have not ended or still own attempts, then the latest that ended.

    `left_out` is how many more have ended.
    """

    nodes: list[Node]
    left_out: int


class Worker(msgspec.Struct):
    """One worker process; `exit` says how it ended once it has."""

    worker_id: str
    node_id: str
    pid: int
    started_at: Moment
    ended_at: Moment | None
    exit: str | None


class Workers(msgspec.Struct):
    """Workers, those that live first, then the latest born."""

    workers: list[Worker]


class WorkersWanted(msgspec.Struct):
    """Which workers to list."""

    limit: Annotated[int, Meta(ge=1, le=WORKERS_MAX)] = 100


class VitalsWanted(msgspec.Struct):
    """Which readings to show."""

    seconds: Annotated[
        int, Meta(ge=0, le=3600, description="Those of so long; 0 for the latest alone.")
    ] = 0


class Reading(msgspec.Struct):
    """What a node saw of itself and its workers at one moment."""

    at: Moment
    node: dict[str, Any]
    workers: list[dict[str, Any]]


class Vitals(msgspec.Struct):
    """Readings of a node, oldest first; none where it has told nothing."""

    readings: list[Reading]


class OrderView(msgspec.Struct, kw_only=True):
    """What was asked of a node; open as long as `answer` is null."""

    order_id: str
    node_id: str
    kind: OrderKind
    task_id: str | None
    attempt: int | None
    operator: str
    reason: str
    created_at: Moment
    answered_at: Moment | None
    answer: str | None


class Orders(msgspec.Struct):
    """Orders, newest first."""

    orders: list[OrderView]


class NodeOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a node is asked: to take no more tasks (drain), to take some again, to stop.

    `seen` is the `stage` at which it stood: if that is another by now, or somebody else has asked
    something else of it meanwhile, it is not asked (409).
    """

    kind: Literal["drain", "undrain", "stop"]
    reason: Reason
    seen: Annotated[str, Meta(max_length=40)] | None = None


class Capture(msgspec.Struct, forbid_unknown_fields=True):
    """Why evidence is to be taken, and of which attempt: another one is left alone (409)."""

    reason: Reason
    attempt: Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Ordered(msgspec.Struct):
    """The order that was given, or the one that was open already."""

    order_id: str


def list_nodes(visit: Visit, _query: Nothing, _body: None) -> Nodes:
    """List nodes: those that run, then the latest that ended."""
    roll = roll_call(visit.reader)
    said = stages(roll, visit.client.vitals, visit.now())
    found = [_node(one, roll, said.get(one.node_id)) for one in roll.every]
    return Nodes(found, left_out(visit.reader.store, roll))


def list_workers(visit: Visit, query: WorkersWanted, _: None, node_id: str) -> Workers:
    """List the workers of a node, living and ended."""
    _require_node(visit, node_id)
    found = visit.reader.workers(node_id, query.limit)
    return Workers([msgspec.convert(one, Worker, from_attributes=True) for one in found])


def get_vitals(visit: Visit, query: VitalsWanted, _: None, node_id: str) -> Vitals:
    """Show the vital signs of a node and of its workers, as it saw them itself."""
    _require_node(visit, node_id)
    if query.seconds:
        since = visit.now() - timedelta(seconds=query.seconds)
        return Vitals([_reading(one) for one in visit.client.vitals.since(node_id, since)])
    latest = visit.client.vitals.latest(node_id)
    return Vitals([] if latest is None else [_reading(latest)])


def list_orders(visit: Visit, _query: Nothing, _body: None, node_id: str) -> Orders:
    """List what was asked of a node and what it answered, newest first."""
    _require_node(visit, node_id)
    return Orders([_order(one) for one in visit.client.orders.of_node(node_id)])


def order_node(visit: Visit, _: Nothing, body: NodeOrder, node_id: str) -> tuple[Ordered, int]:
    """Ask a node to drain, to take tasks again, or to stop; it answers in the order itself."""
    _require_node(visit, node_id)
    given = ask_node(visit, node_id, body.kind, body.reason.strip(), body.seen)
    return Ordered(given), 202


def capture_task(visit: Visit, _: Nothing, body: Capture, task_id: str) -> tuple[Ordered, int]:
    """Ask the node of a running task to take evidence of it now."""
    find(visit, task_id)
    given = visit.client.orders.ask(
        None,
        OrderKind.CAPTURE,
        task_id=task_id,
        attempt=body.attempt,
        by=visit.person.name,
        reason=body.reason.strip(),
    )
    return Ordered(given), 202


def get_order(visit: Visit, _query: Nothing, _body: None, order_id: str) -> OrderView:
    """Show one order and its answer."""
    found = visit.client.orders.order(order_id)
    if found is None:
        raise Trouble(404, "No order has this id.")
    return _order(found)


def orders_of_task(visit: Visit, _query: Nothing, _body: None, task_id: str) -> Orders:
    """List what was asked about a task, newest first."""
    find(visit, task_id)
    return Orders([_order(one) for one in visit.client.orders.of_task(task_id)])


def _require_node(visit: Visit, node_id: str) -> None:
    if name_of(visit.reader.store, node_id) is None:
        raise Trouble(404, "No node has this id.")


def _node(one: NodeView, roll: Roll, stage: str | None) -> Node:
    own = {name: getattr(one, name) for name in Node.__struct_fields__ if hasattr(one, name)}
    return msgspec.convert({**own, "gone": one.node_id in roll.gone, "stage": stage}, Node)


def _reading(one: VitalsView) -> Reading:
    return Reading(one.at, one.node, list(one.workers))


def _order(one: Order) -> OrderView:
    return msgspec.convert(one, OrderView, from_attributes=True)


ENDPOINTS = (
    Endpoint(method=READ, rule="/nodes", function=list_nodes, needs=Right.TASKS, answer=Nodes),
    Endpoint(
        method=READ, rule="/nodes/<node_id>/workers", function=list_workers, needs=Right.TASKS,
        query=WorkersWanted, answer=Workers, errors=(404,),
    ),
    Endpoint(
        method=READ, rule="/nodes/<node_id>/vitals", function=get_vitals, needs=Right.TASKS,
        query=VitalsWanted, answer=Vitals, errors=(404,),
    ),
    Endpoint(
        method=READ, rule="/nodes/<node_id>/orders", function=list_orders, needs=Right.TASKS,
        answer=Orders, errors=(404,),
    ),
    Endpoint(
        method=WRITE, rule="/nodes/<node_id>/orders", function=order_node, needs=Right.ACT,
        body=NodeOrder, answer=Ordered, codes=(202,), errors=(404, 409),
    ),
    Endpoint(
        method=READ, rule="/orders/<order_id>", function=get_order, needs=Right.TASKS,
        answer=OrderView, errors=(404,),
    ),
    Endpoint(
        method=READ, rule="/tasks/<task_id>/orders", function=orders_of_task, needs=Right.TASKS,
        answer=Orders, errors=(404,),
    ),
    Endpoint(
        method=WRITE, rule="/tasks/<task_id>/capture", function=capture_task, needs=Right.ACT,
        body=Capture, answer=Ordered, codes=(202,), errors=(404, 409),
    ),
)  # fmt: skip
