"""`supervisor list`: tasks, newest first, a page at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from supervisor.cli.call import Call, command, fields_of
from supervisor.cli.cold import archive
from supervisor.cli.text import cell, columns, state_text
from supervisor.model.states import State
from supervisor.words.roll import Roll, roll_call
from supervisor.words.sentence import ending_mark, last_heard
from supervisor.words.text import ago, plain

if TYPE_CHECKING:
    from supervisor.store import Reader, TaskLine
    from supervisor.store.archive_search import ColdLine

LIMIT_MAX = 500
_PART = re.compile(r"(?:task_)?[0-9a-f]{6,32}\Z")
_ID = re.compile(r"task_[0-9a-f]{32}\Z")


@command(name="list", example="supervisor list --state FAILED --state TIMEOUT --limit 20")
@click.option(
    "states",
    "--state",
    multiple=True,
    type=click.Choice(list(State), False),
    help="May be repeated.",
)
@click.option("types", "--type", multiple=True, metavar="TYPE", help="May be repeated.")
@click.option("queues", "--queue", multiple=True, metavar="QUEUE", help="May be repeated.")
@click.option("--tag", default="", help="Only tasks with this tag.")
@click.option("text", "--find", default="", help="Part of an id, type, dedup key or submitter.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=50,
    show_default=True,
    help="Tasks of a page.",
)
@click.option(
    "before",
    "--before",
    metavar="ID",
    callback=lambda _, parameter, value: _an_id(parameter, value),
    help="Continue after a page that ended here.",
)
def list_tasks(
    call: Call,
    states: tuple[str, ...],
    types: tuple[str, ...],
    queues: tuple[str, ...],
    tag: str,
    text: str,
    limit: int,
    before: str | None,
) -> None:
    """List tasks, newest first.

    A page that is not the last names the id to continue with: --before ID. An id that is no longer
    in the store is looked for in cold files; see `archive search` for all else in them.
    """
    from supervisor.store import TaskFilter

    wanted = TaskFilter(
        states=tuple(State(state) for state in states),
        types=types,
        queues=queues,
        tag=tag,
        text=text,
        limit=limit,
        before_id=before,
    )
    reader = call.client().reader
    page = reader.tasks(wanted)
    archived = [] if page.tasks or page.next_id else _archived(call, text)
    roll = roll_call(reader)
    now = reader.store.clock.now()

    def lines() -> Iterator[str]:
        rows = [_row(task, reader, roll, now) for task in page.tasks]
        head = ("TASK", "STATE", "TYPE", "QUEUE", "PRIO", "ATTEMPT", "AGE", "LAST")
        yield from columns(head, rows) if rows else ["no tasks"]
        for one in archived:
            yield f"archived: {cell(one.task_id)}  {state_text(one.state)}  {plain(one.file)}"
        if page.next_id is not None:
            yield f"more: --before {page.next_id}"

    tasks = [
        {**fields_of(task), "node_gone": roll.gone_node(task) is not None} for task in page.tasks
    ]
    call.answer({"tasks": tasks, "next": page.next_id, "archived": archived}, lines)


def _archived(call: Call, text: str) -> list[ColdLine]:
    """Return the archived tasks whose ids begin or end like this, if it is a part of one."""
    from supervisor.store.archive_search import ColdFilter

    if not _PART.match(text):
        return []
    with archive(call) as cold:
        found = cold.search(ColdFilter(part=text))
    return [one for one in found if one.kind == "task"]


def _an_id(parameter: click.Parameter, given: str | None) -> str | None:
    if given is not None and not _ID.match(given):
        raise click.BadParameter(
            f"{given!r} is not the id of a task; give the one a page named", param=parameter
        )
    return given


def _row(task: TaskLine, reader: Reader, roll: Roll, now: datetime) -> tuple[str, ...]:
    return (
        cell(task.task_id),
        state_text(task.state) + (" (assigned)" if task.assigned else ending_mark(task)),
        cell(task.type, 40),
        cell(task.queue, 20),
        str(task.priority),
        str(task.attempt),
        ago(task.created_at, now),
        cell(_last(task, reader, roll, now)),
    )


def _last(task: TaskLine, reader: Reader, roll: Roll, now: datetime) -> str:
    if roll.gone_node(task) is not None:
        return "node gone"
    trail = reader.history(task.task_id) if task.state is State.CANCELED else ()
    return last_heard(task, trail, now)
