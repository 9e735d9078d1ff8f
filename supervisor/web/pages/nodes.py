"""The page of nodes and their workers: who is there, what each does, and what nodes are asked.

Invariants: what a node has not said of itself is a dash; a node is called gone only where the roll
does. An order goes through the client with who asks and why, and only when the node still stands
where the form showed it, so that two people do not send one node both ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from flask import flash, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.errors import Refused
from supervisor.model.access import Right
from supervisor.model.order import Order, OrderKind
from supervisor.store import Reader, WorkerRecord
from supervisor.store.roster import AtWork, Roster
from supervisor.store.view import NodeView
from supervisor.store.vitals import VitalsBook, VitalsView
from supervisor.web.node_order import ask_node
from supervisor.web.visit import Answer, Room, Route, Visit, go, show
from supervisor.web.wording import line
from supervisor.words.retold import retold
from supervisor.words.roll import SAID, Roll, last_word, left_out, roll_call

#: How old what all viewers share may be; the lines of an hour change by the minute.
FRESH_S, LINES_FRESH_S = 1.0, 20.0
#: Nodes that are shown with their workers, nodes that are gone, workers that ended.
NODES_MOST, GONE_MOST, ENDED_MOST = 50, 20, 40
ORDERS_SHOWN = 5
HOUR = timedelta(hours=1)

#: The stage of a node that has said nothing lately.
NOT_SAID = "not said"
#: What may be asked of a node that stands at a stage; of any other it may be stopped.
MAY: Mapping[str, tuple[OrderKind, ...]] = MappingProxyType(
    {
        "running": (OrderKind.DRAIN, OrderKind.STOP),
        "draining": (OrderKind.UNDRAIN, OrderKind.STOP),
        "drained": (OrderKind.UNDRAIN, OrderKind.STOP),
        "stopping": (),
    }
)


@dataclass(frozen=True, slots=True)
class Lines:
    """The last hour by the minute: shares of a core and bytes, None where nobody has said."""

    cpu: tuple[float | None, ...] = ()
    rss: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """A worker as its row shows it: by the last reading, or only by the store (`said` is empty)."""

    worker_id: str
    pid: int
    said: Mapping[str, Any]
    task: AtWork | None
    cpu: float | None
    lines: Lines

    @property
    def state(self) -> str | None:
        """What it is at, as the store has it by now: the reading is some seconds older."""
        state = self.said.get("state")
        if state in ("idle", "busy"):
            return "busy" if self.task else "idle"
        return state

    @property
    def said_of_task(self) -> Mapping[str, Any]:
        """What was said of the task that it runs; nothing where that was of another one."""
        is_same = self.task is not None and self.said.get("task_id") == self.task.task_id
        return self.said if is_same else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A node that runs. `stage` is what it says of itself, NOT_SAID where it says nothing."""

    node: NodeView
    stage: str
    reading: VitalsView | None
    cpu: float | None
    lines: Lines
    workers: tuple[WorkerLine, ...]
    orders: tuple[Order, ...]

    @property
    def may(self) -> tuple[OrderKind, ...]:
        """What may be asked of it now."""
        return MAY.get(self.stage, (OrderKind.STOP,))


@dataclass(frozen=True, slots=True)
class Scene:
    """What the store shows at one moment; `readings` are the last two of each node that runs.

    `living` are all workers where one of these says nothing, `over` those of a reading that ended.
    """

    now: datetime
    roll: Roll
    at_work: tuple[AtWork, ...]
    readings: Mapping[str, Sequence[VitalsView]]
    living: Sequence[WorkerRecord]
    over: frozenset[str]
    orders: Mapping[str, Sequence[Order]]
    ended: Sequence[WorkerRecord]
    gone_before: int


def page(visit: Visit) -> Answer:
    """Return the page."""
    scene = visit.see("nodes", FRESH_S, lambda reader: _scene(visit, reader))
    hour, _age_s = visit.see_dear("node-lines", LINES_FRESH_S, _hour)  # it goes by the minute
    roll = scene.roll
    gone = list(roll.gone.values())
    return show(
        "nodes.html",
        visit,
        now=scene.now,
        cards=[_card(scene, node, hour) for node in roll.running[:NODES_MOST]],
        left_out=max(0, len(roll.running) - NODES_MOST),
        versions={node.version for node in roll.running},
        gone=[(node, _last(node)) for node in gone[:GONE_MOST]],
        gone_left_out=scene.gone_before + max(0, len(gone) - GONE_MOST),
        judged=roll.judged,
        ended=scene.ended,
        names={node.node_id: node.node_name for node in roll.every},
        verbs=_VERBS,
    )


def _scene(visit: Visit, reader: Reader) -> Scene:
    store, now = reader.store, reader.store.clock.now()
    roll, book, roster = roll_call(reader), VitalsBook(store), Roster(store)
    ids = [node.node_id for node in roll.running[:NODES_MOST]]
    recent = book.all_since(now - SAID)
    said = [one["worker_id"] for node_id in ids for one in _last_of(recent, node_id)]
    return Scene(
        now=now,
        roll=roll,
        at_work=roster.at_work(),
        readings={node_id: recent.get(node_id, [])[-2:] for node_id in ids},
        living=() if recent.keys() >= set(ids) else roster.living(),
        over=roster.over(said),
        orders={node_id: visit.client.orders.of_node(node_id)[:ORDERS_SHOWN] for node_id in ids},
        ended=roster.ended_workers(ENDED_MOST),
        gone_before=left_out(store, roll),
    )


def _last_of(
    readings: Mapping[str, Sequence[VitalsView]], node_id: str
) -> Sequence[Mapping[str, Any]]:
    """Return the workers that a node named last."""
    found = readings.get(node_id)
    return found[-1].workers if found else ()


def _hour(reader: Reader) -> dict[str, list[VitalsView]]:
    book, now = VitalsBook(reader.store), reader.store.clock.now()
    running = roll_call(reader).running[:NODES_MOST]
    return {node.node_id: book.by_minute(node.node_id, now - HOUR) for node in running}


def _last(node: NodeView) -> str:
    """Say how a node is gone."""
    return (node.note or "") if node.ended_at is not None else last_word(node)


# --- cards ------------------------------------------------------------------------------------


def _card(scene: Scene, node: NodeView, hour: Mapping[str, Sequence[VitalsView]]) -> Card:
    pair = scene.readings.get(node.node_id, ())
    latest = pair[-1] if pair else None
    past = hour.get(node.node_id, ())
    stage = NOT_SAID if latest is None else str(latest.node.get("stage", NOT_SAID))
    return Card(
        node=node,
        stage=stage,
        reading=latest,
        cpu=_share([view.node for view in pair], pair),
        lines=_lines([view.node for view in past], past),
        workers=tuple(_workers(scene, node, pair, past)),
        orders=tuple(scene.orders.get(node.node_id, ())),
    )


def _workers(
    scene: Scene, node: NodeView, pair: Sequence[VitalsView], past: Sequence[VitalsView]
) -> Iterator[WorkerLine]:
    tasks = {one.worker_id: one for one in reversed(scene.at_work)}
    if not pair:
        for record in scene.living:
            if record.node_id == node.node_id:
                task = tasks.get(record.worker_id)
                yield WorkerLine(record.worker_id, record.pid, {}, task, None, Lines())
        return
    for said in pair[-1].workers:
        name = said["worker_id"]
        if name in scene.over:
            continue  # it stands among those that ended lately
        yield WorkerLine(
            worker_id=name,
            pid=said["pid"],
            said=said,
            task=tasks.get(name),
            cpu=_share([_of(view, name) for view in pair], pair),
            lines=_lines([_of(view, name) for view in past], past),
        )


def _of(view: VitalsView, worker_id: str) -> Mapping[str, Any]:
    return next((one for one in view.workers if one["worker_id"] == worker_id), {})


def _share(said: Sequence[Mapping[str, Any]], views: Sequence[VitalsView]) -> float | None:
    """Return the share of a core that was used between the last two readings."""
    if len(views) < 2:
        return None
    before, after = said[-2].get("cpu_s"), said[-1].get("cpu_s")
    passed = (views[-1].at - views[-2].at).total_seconds()
    if before is None or after is None or passed <= 0:
        return None
    return max(0.0, float(after - before) / passed)


def _lines(said: Sequence[Mapping[str, Any]], views: Sequence[VitalsView]) -> Lines:
    """Return both lines, from the first reading that there is of it."""
    first = next((at for at, one in enumerate(said) if one), len(said))
    own, moments = said[first:], views[first:]
    cpu = [_share(own[at : at + 2], moments[at : at + 2]) for at in range(len(own) - 1)]
    return Lines(tuple(cpu), tuple(one.get("rss") for one in own))


# --- orders -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verb:
    """What may be asked of a node, and what it means."""

    label: Any
    hint: Any


_VERBS: Mapping[OrderKind, Verb] = MappingProxyType(
    {
        OrderKind.DRAIN: Verb(
            _l("Drain"), _l("It takes no more tasks; what runs goes on, and its workers stay.")
        ),
        OrderKind.UNDRAIN: Verb(_l("Take tasks again"), _l("It claims tasks as before.")),
        OrderKind.STOP: Verb(
            _l("Stop"),
            _l("It drains, then ends. Whoever runs it may start it again, as systemd does."),
        ),
    }
)


def act(visit: Visit, kind: str) -> Answer:
    """Ask something of a node, and show that it was asked."""
    node_id = request.form.get("node", "")[:64]
    reason = request.form.get("reason", "").strip()
    node = next((one for one in visit.reader.nodes() if one.node_id == node_id), None)
    if node is None:
        raise BadRequest(_("There is no such node."))
    if not reason:
        flash(_("Nothing was done: say why, it stands in the audit trail."), "problem")
        return go("/nodes")
    name, seen = line(node.node_name), request.form.get("seen", "")
    try:
        ask_node(visit, node_id, kind, reason, seen)
    except Refused as refused:
        why = _("Nothing was done: %(why)s.", why=line(retold(refused.message)))
        if stage := refused.facts.get("stage"):
            why = _("Nothing was done: %(node)s is %(stage)s by now.", node=name, stage=stage)
        flash(why, "problem")
    else:
        label = _VERBS[OrderKind(kind)].label
        flash(_("%(order)s: asked of %(node)s; its answer will stand below.",
                order=label, node=name), "done")  # fmt: skip
    return go("/nodes")


ROOM = Room("nodes", _l("Nodes"), Right.TASKS, "n")
ROUTES = (
    Route("nodes", "/nodes", page, Right.TASKS),
    Route("node_order", "/nodes/<any(drain, undrain, stop):kind>", act, Right.ACT, "POST"),
)
