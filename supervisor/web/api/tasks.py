"""Looking at tasks: the list, one in full, its history and its output."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from supervisor.model.access import Right
from supervisor.model.query import TEXT_MAX, VALUES_MAX, Query, QueryError, parse
from supervisor.model.states import State
from supervisor.store import TaskFilter, TaskView
from supervisor.store.listing import Listing
from supervisor.store.reader import ATTEMPTS_SHOWN, HISTORY_SHOWN
from supervisor.store.trail import TrailFilter
from supervisor.web.api.endpoint import READ, Endpoint, Nothing, Trouble
from supervisor.web.api.reading import bad_query
from supervisor.web.api.task_shape import (
    AutopsyOfTask,
    HistoryEntry,
    LadderStep,
    Task,
    TaskInList,
    attempt_of,
    line_of,
    task_of,
)
from supervisor.web.visit import Visit
from supervisor.words.ladder import ladder
from supervisor.words.roll import roll_call
from supervisor.words.sentence import checkpoint_document
from supervisor.words.veil import veil_of, veiled_lines
from supervisor.words.waiting import waits_for

PAGE_MAX = 500
Text = Annotated[str, Meta(max_length=200)]
TaskId = Annotated[str, Meta(pattern=r"^task_[0-9a-f]{32}$(?!\n)")]


class TasksWanted(msgspec.Struct, kw_only=True):
    """Which tasks to list; what is left out means any."""

    q: Annotated[
        str,
        Meta(
            max_length=TEXT_MAX,
            description="As in the box above the list: `state:failed type:report.* ran:>5m`.",
        ),
    ] = ""
    state: Annotated[
        list[State],
        Meta(max_length=VALUES_MAX, description="Any of these states; may be repeated."),
    ] = []
    type: Annotated[
        list[Text],
        Meta(max_length=VALUES_MAX, description="Any of these types; may be repeated."),
    ] = []
    queue: Annotated[
        list[Text],
        Meta(max_length=VALUES_MAX, description="Any of these queues; may be repeated."),
    ] = []
    tag: Annotated[Text, Meta(description="It has this tag.")] = ""
    find: Annotated[
        Text, Meta(description="In the id (an end of it), type, dedup key or submitter.")
    ] = ""
    before: (
        Annotated[TaskId, Meta(description="`next` of the page before; left out for the first.")]
        | None
    ) = None
    order: Annotated[Literal["newest", "oldest"], Meta(description="What comes first.")] = "newest"
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX, description="Tasks of a page, at most.")] = 50


class CountWanted(msgspec.Struct):
    """Which tasks to count."""

    q: Annotated[str, Meta(max_length=TEXT_MAX, description="As in the list.")] = ""


class Count(msgspec.Struct):
    """How many tasks there are; at least so many where they were not counted to the end."""

    count: int
    is_all: bool


class Tasks(msgspec.Struct):
    """One page of tasks. `next` is the `before` of the next page, null at the end.

    A page may hold fewer tasks than its limit, even none, and still have a next one: a search reads
    a bounded number of rows at a time.
    """

    tasks: list[TaskInList]
    next: str | None


class HistoryWanted(msgspec.Struct):
    """Which lines of it."""

    before: (
        Annotated[int, Meta(ge=1, le=2**63 - 1, description="`next` of the page before.")] | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX, description="Lines of a page, at most.")] = 100


class History(msgspec.Struct):
    """One page of the audit trail of a task, newest first; `next` is null at its beginning."""

    history: list[HistoryEntry]
    next: int | None


class LogWanted(msgspec.Struct):
    """Whose output."""

    attempt: (
        Annotated[int, Meta(ge=1, le=2**31 - 1, description="Left out: the latest that has any.")]
        | None
    ) = None


class Log(msgspec.Struct):
    """The end of what an attempt logged and printed; null when nothing was kept."""

    log: str | None


def list_tasks(visit: Visit, query: TasksWanted, _: None) -> Tasks:
    """List tasks, newest first, a page at a time."""
    is_newest_first = query.order == "newest"
    wanted = TaskFilter(
        terms=_terms(query.q),
        oldest_first=not is_newest_first,
        before_id=query.before if is_newest_first else None,
        after_id=None if is_newest_first else query.before,
        states=tuple(dict.fromkeys(query.state)),
        types=tuple(filter(None, query.type)),
        queues=tuple(filter(None, query.queue)),
        text=query.find.strip(),
        tag=query.tag.strip(),
        limit=query.limit,
    )
    page = visit.reader.tasks(wanted)
    tasks = veiled_lines(visit.reader.store, page.tasks)
    return Tasks([line_of(task) for task in tasks], page.next_id)


def count_tasks(visit: Visit, query: CountWanted, _: None) -> Count:
    """Count the tasks of a query, as far as that is cheap."""
    found = Listing(visit.reader.store).count(TaskFilter(terms=_terms(query.q)))
    return Count(found.count, found.is_all)


def _terms(text: str) -> Query:
    try:
        return parse(text)
    except QueryError as exc:
        raise bad_query("q", exc) from exc


def get_task(visit: Visit, _query: Nothing, _body: None, task_id: str) -> Task:
    """Show one task: attempts, params, result, the steps of a stop request, what it waits for."""
    found = find(visit, task_id)
    reader, veil = visit.reader, veil_of(visit.reader, found)
    attempts = veil.attempts(reader.attempts(task_id, ATTEMPTS_SHOWN))
    trail = veil.history(reader.history(task_id, HISTORY_SHOWN))
    roll = roll_call(reader)
    return task_of(
        veil.task(found),
        node_gone=roll.gone_node(found) is not None,
        waits=waits_for(reader, found, roll),
        attempts=[attempt_of(attempt) for attempt in attempts],
        stop=[
            msgspec.convert(step, LadderStep, from_attributes=True)
            for step in ladder(found, trail, attempts)
        ],
        checkpoint=checkpoint_document(veil.checkpoint(reader.checkpoint(task_id))),
        autopsies=_autopsies(visit, task_id),
    )


def get_history(visit: Visit, query: HistoryWanted, _: None, task_id: str) -> History:
    """Show the audit trail of a task: every move with who, why and when, newest first."""
    veil = veil_of(visit.reader, find(visit, task_id))
    found = visit.client.trail.find(
        TrailFilter(
            task_id=task_id,
            before_id=query.before,
            limit=query.limit,
            with_access=visit.may(Right.MANAGE),
        )
    )
    lines = [
        msgspec.convert(line, HistoryEntry, from_attributes=True)
        for line in veil.history(found.lines)
    ]
    return History(lines, found.next_id)


def get_log(visit: Visit, query: LogWanted, _: None, task_id: str) -> Log:
    """Show the output that was kept of a task."""
    veil = veil_of(visit.reader, find(visit, task_id))
    return Log(veil.text(visit.reader.log(task_id, query.attempt)))


def find(visit: Visit, task_id: str) -> TaskView:
    """Return a task by its whole id. Raises: Trouble when no task has it."""
    found = visit.reader.task(task_id)
    if found is None:
        raise Trouble(404, f"No task {task_id} is in the store. If it ended long ago it may be in "
                      "the archive: `supervisor show ID` on its host finds it.")  # fmt: skip
    return found


def _autopsies(visit: Visit, task_id: str) -> list[AutopsyOfTask]:
    if not visit.may(Right.AUTOPSIES):
        return []
    records = visit.reader.autopsies(task_id)
    return [msgspec.convert(one, AutopsyOfTask, from_attributes=True) for one in records]


ENDPOINTS = (
    Endpoint(
        method=READ, rule="/tasks", function=list_tasks, needs=Right.TASKS,
        query=TasksWanted, answer=Tasks,
    ),
    Endpoint(
        method=READ, rule="/tasks/count", function=count_tasks, needs=Right.TASKS,
        query=CountWanted, answer=Count,
    ),
    Endpoint(
        method=READ, rule="/tasks/<task_id>", function=get_task, needs=Right.TASKS,
        answer=Task, errors=(404,),
    ),
    Endpoint(
        method=READ, rule="/tasks/<task_id>/history", function=get_history, needs=Right.TASKS,
        query=HistoryWanted, answer=History, errors=(404,),
    ),
    Endpoint(
        method=READ, rule="/tasks/<task_id>/log", function=get_log, needs=Right.TASKS,
        query=LogWanted, answer=Log, errors=(404,),
    ),
)  # fmt: skip
