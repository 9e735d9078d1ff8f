"""Why a task that is due does not run: told from pauses, nodes, their types and their workers.

Says nothing where nothing stands in the way: its turn has not come, or comes in a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.model.states import State
from supervisor.words.text import clock
from supervisor.words.tongue import say

if TYPE_CHECKING:
    from supervisor.store import Reader, TaskView
    from supervisor.store.view import PauseView
    from supervisor.words.roll import Roll


def waits_for(reader: Reader, task: TaskView, roll: Roll) -> list[str]:
    """Return what a task that is due waits for, empty when nothing is known to hold it back."""
    if task.state is not State.PENDING or task.run_after > reader.store.clock.now():
        return []
    return [
        *map(paused, reader.pauses(task.queue, task.priority)),
        *_unclaimed(reader, task, roll),
    ]


def paused(pause: PauseView) -> str:
    """Return a pause in one line."""
    told = {"queue": pause.queue, "by": pause.by, "at": clock(pause.at), "why": pause.reason}
    if pause.priority is None:
        return say("queue %(queue)s is paused by %(by)s since %(at)s: %(why)s", **told)
    return say(
        "queue %(queue)s, priority %(priority)s is paused by %(by)s since %(at)s: %(why)s",
        priority=pause.priority,
        **told,
    )


def _unclaimed(reader: Reader, task: TaskView, roll: Roll) -> list[str]:
    if not roll.running:
        return [say("no node runs: start one with `supervisor run`")]
    if task.type not in known_types(reader, roll):
        return [say("no running node has announced the type %(type)s", type=task.type)]
    return _busy(reader, task, roll)


def _busy(reader: Reader, task: TaskView, roll: Roll) -> list[str]:
    """Say so when each node that could take a task has as many as it has workers."""
    from supervisor.store.vitals import VitalsBook

    takers = [node for node in roll.running if not node.types or task.type in node.types]
    latest = VitalsBook(reader.store).latest_of(node.node_id for node in takers)
    workers = 0
    for node in takers:
        said = latest.get(node.node_id)
        places = 0 if said is None else int(said.node["workers_desired"])
        if node.running < places or not places:
            return []
        workers += places
    if not workers:
        return []
    return [say("no worker is free, %(n)s of %(n)s are busy: see what runs longest", n=workers)]


def known_types(reader: Reader, roll: Roll) -> frozenset[str]:
    """Return the types that a node which runs has announced."""
    running = {node.node_id for node in roll.running}
    known = {name for node in roll.running for name in node.types}
    return frozenset(known | {view.type for view in reader.types() if view.node_id in running})
