"""The page of queues: what waits at each level, which types nobody knows, and who paused what.

Invariants: a pause or resume goes through the client, with the name of who asks and a reason; a
resume ends only the pause that its form showed, so that two people never undo each other unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from flask import flash, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.clock import stamp
from supervisor.errors import Refused
from supervisor.model.access import Right
from supervisor.store import Reader
from supervisor.store.levels import Gate, QueueLevel, gates, levels, oldest
from supervisor.web.attention import unknown_type
from supervisor.web.visit import Answer, Room, Route, Visit, go, show
from supervisor.web.watch import Note, is_fresh, told_of, watch
from supervisor.web.wording import line
from supervisor.words.retold import retold
from supervisor.words.roll import roll_call
from supervisor.words.waiting import known_types

#: How old what all viewers share may be.
FRESH_S = 1.0
#: Rows of each table; a store has a dozen queues.
QUEUES_MOST, TYPES_MOST = 200, 200
#: Points of a line beside a queue.
POINTS = 60


@dataclass(frozen=True, slots=True)
class Scene:
    """What the store shows at one moment; `known` are the types that a node which runs knows."""

    now: datetime
    levels: tuple[QueueLevel, ...]
    gates: tuple[Gate, ...]
    known: frozenset[str]
    node_runs: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A queue (`priority` is None) or one of its priorities, as a row of the table.

    `held` is the pause of the whole queue where this is a priority of a paused one.
    """

    queue: str
    priority: int | None
    in_queue: int
    scheduled: int
    running: int
    oldest_due: datetime | None
    gate: Gate | None
    held: bool = False
    trend: Sequence[int] = ()

    @property
    def is_paused(self) -> bool:
        """Whether this very row is paused."""
        return self.gate is not None and self.gate.paused


@dataclass(frozen=True, slots=True)
class TypeLine:
    """The live tasks of a type in a queue, and whether a node that runs knows it."""

    queue: str
    type: str
    in_queue: int
    scheduled: int
    running: int
    is_known: bool


def page(visit: Visit) -> Answer:
    """Return the page."""
    scene, notes = visit.see("queues", FRESH_S, _scene), watch().notes()
    fresh = notes if is_fresh(notes, scene.now) else ()
    lines = list(_lines(scene.levels, scene.gates, fresh))
    types = list(_types(scene.levels, scene.known))
    return show(
        "queues.html",
        visit,
        now=scene.now,
        lines=lines[:QUEUES_MOST],
        left_out=max(0, len(lines) - QUEUES_MOST),
        types=types[:TYPES_MOST],
        types_left_out=max(0, len(types) - TYPES_MOST),
        unknown=[*_unknown(types)] if scene.node_runs else [],
        no_node=not scene.node_runs,
        noted=told_of(notes, scene.now),
    )


def _scene(reader: Reader) -> Scene:
    now = reader.store.clock.now()
    with reader.store.reading() as connection:
        found, doors = levels(connection, now), gates(connection)
    roll = roll_call(reader)
    return Scene(now, found, doors, known_types(reader, roll), bool(roll.running))


def _lines(
    found: Sequence[QueueLevel], doors: Sequence[Gate], notes: Sequence[Note]
) -> Iterator[Line]:
    by_place = {(one.queue, one.priority): one for one in doors}
    names = sorted({one.queue for one in found} | {one.queue for one in doors})
    for name in names:
        own = [one for one in found if one.queue == name]
        whole = by_place.get((name, None))
        yield _line(name, None, own, whole, trend=_trend(name, notes))
        priorities = {one.priority for one in own}
        priorities |= {
            one.priority for one in doors if one.queue == name and one.priority is not None
        }
        if len(priorities) == 1 and not any((name, one) in by_place for one in priorities):
            continue  # it would be the same line again
        for priority in sorted(priorities, reverse=True):
            at = [one for one in own if one.priority == priority]
            held = whole is not None and whole.paused
            yield _line(name, priority, at, by_place.get((name, priority)), held=held)


def _line(
    queue: str,
    priority: int | None,
    some: Sequence[QueueLevel],
    gate: Gate | None,
    *,
    held: bool = False,
    trend: Sequence[int] = (),
) -> Line:
    return Line(
        queue=queue,
        priority=priority,
        in_queue=sum(one.in_queue for one in some),
        scheduled=sum(one.scheduled for one in some),
        running=sum(one.running for one in some),
        oldest_due=oldest(some),
        gate=gate if gate is not None and gate.by else None,
        held=held,
        trend=trend,
    )


def _trend(queue: str, notes: Sequence[Note]) -> list[int]:
    """Return how many were due, at some of the moments that were noted and at the last."""
    step = -(-len(notes) // POINTS) or 1
    return [note.in_queue.get(queue, 0) for note in notes[::-step]][::-1]


def _types(found: Iterable[QueueLevel], known: frozenset[str]) -> Iterator[TypeLine]:
    by_name: dict[tuple[str, str], list[QueueLevel]] = {}
    for one in found:
        by_name.setdefault((one.queue, one.type), []).append(one)
    for (queue, kind), some in sorted(by_name.items()):
        yield TypeLine(
            queue,
            kind,
            sum(one.in_queue for one in some),
            sum(one.scheduled for one in some),
            sum(one.running for one in some),
            kind in known,
        )


def _unknown(types: Iterable[TypeLine]) -> Iterator[tuple[str, str]]:
    """Yield a sentence for each type that waits for a node that knows it, and the type."""
    waits: dict[str, int] = {}
    for one in types:
        if not one.is_known:
            waits[one.type] = waits.get(one.type, 0) + one.in_queue + one.scheduled
    for kind, count in sorted(waits.items(), key=lambda item: -item[1]):
        if count:
            yield unknown_type(kind, count), kind


def act(visit: Visit, verb: str) -> Answer:
    """Pause a queue or a priority of it, or end that pause, and show what became of it."""
    queue, priority = _place()
    reason = request.form.get("reason", "").strip()
    who, what = visit.person.name, _named(queue, priority)
    if not reason:
        flash(_("Nothing was done: say why, it stands in the audit trail."), "problem")
        return go("/queues")
    try:
        if verb == "pause":
            done = visit.client.pause(queue, priority, by=who, reason=reason)
        else:
            done = visit.client.resume(queue, priority, by=who, reason=reason, seen_at=_seen())
    except Refused as refused:
        flash(_("Nothing was done: %(why)s.", why=line(retold(refused.message))), "problem")
        return go("/queues")
    if done:
        is_paused = _("%(what)s is paused.", what=what)
        flash(is_paused if verb == "pause" else _("%(what)s goes on.", what=what), "done")
    else:
        flash(_("Nothing was done: %(now)s", now=_now(visit, queue, priority, what)), "problem")
    return go("/queues")


def _place() -> tuple[str, int | None]:
    queue = request.form.get("queue", "").strip()
    given = request.form.get("priority", "")
    if not queue or len(queue) > 200 or not queue.isprintable():
        raise BadRequest(_("A queue has a name of 1 to 200 characters."))
    if given and given not in tuple("0123456789"):
        raise BadRequest(_("Priorities go from 0 to 9."))
    return queue, int(given) if given else None


def _seen() -> datetime | None:
    """Return when the pause began that the form showed."""
    given = request.form.get("seen", "")
    try:
        return datetime.fromisoformat(given) if given else None
    except ValueError:
        raise BadRequest(_("This form was not made by this page.")) from None


def _named(queue: str, priority: int | None) -> str:
    name = line(queue)
    if priority is None:
        return str(_("Queue %(queue)s", queue=name))
    return str(_("Queue %(queue)s, priority %(priority)s", queue=name, priority=priority))


def _now(visit: Visit, queue: str, priority: int | None, what: str) -> str:
    """Say how it is, where somebody else was first."""
    with visit.reader.store.reading() as connection:
        doors = gates(connection)
    one = next((one for one in doors if (one.queue, one.priority) == (queue, priority)), None)
    if one is None or not one.by:
        return str(_("%(what)s is not paused.", what=what))
    facts = {"what": what, "by": line(one.by), "at": stamp(one.at), "why": line(one.reason)}
    if one.paused:
        return str(_("%(what)s is paused by %(by)s since %(at)s: %(why)s", **facts))
    return str(_("%(what)s was resumed by %(by)s at %(at)s: %(why)s", **facts))


ROOM = Room("queues", _l("Queues"), Right.TASKS, "q")
ROUTES = (
    Route("queues", "/queues", page, Right.TASKS),
    Route("queue_act", "/queues/<any(pause, resume):verb>", act, Right.ACT, "POST"),
)
