"""The list of tasks: filtered, and a page at a time."""

from __future__ import annotations

import re

from flask import request
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.model.access import Right
from supervisor.model.states import State
from supervisor.store import HistoryLine, TaskFilter
from supervisor.web import wording
from supervisor.web.visit import Answer, Room, Route, Visit, argument, show
from supervisor.words.roll import roll_call
from supervisor.words.sentence import last_heard

PAGE = 50
_ID = re.compile(r"task_[0-9a-f]{32}\Z")


def listing(visit: Visit) -> Answer:
    """Return one page of tasks, newest first."""
    wanted = _wanted()
    page_ = visit.reader.tasks(wanted)
    roll, now = roll_call(visit.reader), visit.now()
    heard = {
        task.task_id: "its node is gone"
        if roll.gone_node(task)
        else last_heard(task, _trail(visit, task.task_id, task.state), now)
        for task in page_.tasks
    }
    return show(
        "tasks.html",
        visit,
        now=now,
        wanted=wanted,
        tasks=page_.tasks,
        heard=heard,
        states=list(State),
        more=_address(wanted, page_.next_id) if page_.next_id else None,
        first=_address(wanted, None) if wanted.before_id else None,
        filtered=bool(wanted.states or wanted.types or wanted.queues or wanted.text or wanted.tag),
    )


def _wanted() -> TaskFilter:
    """Read the filter from the address. What is no state or no id is refused, not ignored."""
    names = [name.upper() for name in request.args.getlist("state") if name]
    if unknown := sorted(set(names) - set(State)):
        raise BadRequest(f"{wording.line(unknown[0])} is no state of a task.")
    before = argument("before")
    if before and not _ID.match(before):
        raise BadRequest("A page continues after the id of a task.")
    return TaskFilter(
        states=tuple(State(name) for name in dict.fromkeys(names)),
        types=tuple(filter(None, [argument("type")])),
        queues=tuple(filter(None, [argument("queue")])),
        text=argument("find"),
        tag=argument("tag"),
        before_id=before or None,
        limit=PAGE,
    )


def _address(wanted: TaskFilter, before: str | None) -> str:
    """Return the query of a page of this list."""
    parts = [("state", str(state)) for state in wanted.states]
    parts += [("type", name) for name in wanted.types] + [("queue", q) for q in wanted.queues]
    parts += [("find", wanted.text), ("tag", wanted.tag), ("before", before or "")]
    return wording.query(parts)


def _trail(visit: Visit, task_id: str, state: State) -> list[HistoryLine]:
    return visit.reader.history(task_id) if state is State.CANCELED else []


ROOM = Room("tasks", _l("Tasks"), Right.TASKS, "t")
ROUTES = (Route("tasks", "/tasks", listing, Right.TASKS),)
