"""`supervisor list`: tasks of a query, a page at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from supervisor.cli.call import Call, command, fields_of
from supervisor.cli.cold import archive
from supervisor.cli.text import cell, columns, state_text
from supervisor.model.query import TEXT, Query, QueryError, parse
from supervisor.model.states import State
from supervisor.words.roll import Roll, roll_call
from supervisor.words.sentence import ending_mark, last_heard
from supervisor.words.text import ago, plain

if TYPE_CHECKING:
    from supervisor.store import HistoryLine, TaskFilter, TaskLine, TaskPage
    from supervisor.store.archive_search import ColdLine

LIMIT_MAX = 500
_PART = re.compile(r"(?:task_)?[0-9a-f]{6,32}\Z")
_ID = re.compile(r"task_[0-9a-f]{32}\Z")


@command(name="list", example="supervisor list 'state:failed,timeout ended:today type:report.*'")
@click.argument(
    "query",
    nargs=-1,
    metavar="[QUERY]",
    callback=lambda _, parameter, value: _a_query(parameter, value),
)
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
@click.option("oldest_first", "--oldest", is_flag=True, help="Oldest first; continue by --after.")
@click.option(
    "after",
    "--after",
    metavar="ID",
    callback=lambda _, parameter, value: _an_id(parameter, value),
    help="Only what was submitted later than this one.",
)
def list_tasks(
    call: Call,
    query: Query,
    states: tuple[str, ...],
    types: tuple[str, ...],
    queues: tuple[str, ...],
    tag: str,
    text: str,
    limit: int,
    before: str | None,
    oldest_first: bool,
    after: str | None,
) -> None:
    """List the tasks that QUERY finds, newest first.

    QUERY is what the pages have in their box: state:failed type:report.* -by:ann ran:>5m. Put it in
    quotes, behind -- if it begins with a minus; options narrow it down.

    A page that is not the last names the id to continue with: --before ID. An id that is no longer
    in the store is looked for in cold files; see `archive search` for all else in them.
    """
    if before and after:
        raise click.UsageError("--before and --after are two directions; give one of them.")
    from supervisor.store import TaskFilter

    wanted = TaskFilter(
        terms=query,
        states=tuple(State(state) for state in states),
        types=types,
        queues=queues,
        tag=tag,
        text=text,
        limit=limit,
        before_id=before,
        after_id=after,
        oldest_first=oldest_first,
    )
    _answer(call, wanted, text or _only_text(query))


def _answer(call: Call, wanted: TaskFilter, text: str) -> None:
    """Print a page; `text` is looked for in cold files if there is none."""
    from supervisor.store.listing import Listing
    from supervisor.words.veil import veiled_lines

    reader = call.client().reader
    page = reader.tasks(wanted)
    found = veiled_lines(reader.store, page.tasks)
    archived = [] if page.tasks or page.next_id else _archived(call, text)
    roll = roll_call(reader)
    now = reader.store.clock.now()

    def lines() -> Iterator[str]:
        trails = Listing(reader.store).cancellations(
            [task.task_id for task in page.tasks if task.state is State.CANCELED]
        )
        rows = [_row(task, trails.get(task.task_id, ()), roll, now) for task in found]
        head = ("TASK", "STATE", "TYPE", "QUEUE", "PRIO", "ATTEMPT", "AGE", "LAST")
        yield from columns(head, rows) if rows else [_none(page)]
        for one in archived:
            yield f"archived: {cell(one.task_id)}  {state_text(one.state)}  {plain(one.file)}"
        if page.next_id is not None:
            yield f"more: {'--after' if wanted.oldest_first else '--before'} {page.next_id}"

    tasks = [{**fields_of(task), "node_gone": roll.gone_node(task) is not None} for task in found]
    call.answer({"tasks": tasks, "next": page.next_id, "archived": archived}, lines)


def _archived(call: Call, text: str) -> list[ColdLine]:
    """Return the archived tasks whose ids begin or end like this, if it is a part of one."""
    from supervisor.store.archive_search import ColdFilter

    if not _PART.match(text):
        return []
    with archive(call) as cold:
        found = cold.search(ColdFilter(part=text))
    return [one for one in found if one.kind == "task"]


def _none(page: TaskPage) -> str:
    """Say that there are none, or none among those looked at."""
    if page.next_id is None:
        return "no tasks"
    return f"none among the {page.looked} looked at; others were not looked at yet"


def _only_text(query: Query) -> str:
    """Return the text that is all of a query; '' when it asks for more."""
    return query[0].values[0] if len(query) == 1 and query[0].name == TEXT else ""


def _a_query(parameter: click.Parameter, given: tuple[str, ...]) -> Query:
    text = " ".join(given)
    try:
        return parse(text)
    except QueryError as wrong:
        place = f"\n  {text}\n  {' ' * wrong.position}{'^' * min(wrong.length, len(text))}\n"
        told = plain(f"{place if text.isprintable() else ''}{wrong.message} {wrong.remedy}")
        raise click.BadParameter(told, param=parameter) from wrong


def _an_id(parameter: click.Parameter, given: str | None) -> str | None:
    if given is not None and not _ID.match(given):
        raise click.BadParameter(
            f"{given!r} is not the id of a task; give the one a page named", param=parameter
        )
    return given


def _row(
    task: TaskLine, trail: Sequence[HistoryLine], roll: Roll, now: datetime
) -> tuple[str, ...]:
    return (
        cell(task.task_id),
        state_text(task.state) + (" (assigned)" if task.assigned else ending_mark(task)),
        cell(task.type, 40),
        cell(task.queue, 20),
        str(task.priority),
        str(task.attempt),
        ago(task.created_at, now),
        cell("node gone" if roll.gone_node(task) is not None else last_heard(task, trail, now)),
    )
