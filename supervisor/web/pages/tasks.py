"""The list of tasks: asked for in the query language, a page at a time, as a table or as a file.

Invariants: the address is the whole view, so it can be kept and sent on; what cannot be read is
said beside the box, never ignored; a number that was not counted to its end is called "at least".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from flask import Response, request
from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.clock import stamp
from supervisor.errors import StoreUnavailable
from supervisor.model.access import Right
from supervisor.model.query import (
    QUALIFIERS,
    TEXT,
    VALUES_MAX,
    Query,
    QueryError,
    Term,
    parse,
    plain_pattern,
    render,
)
from supervisor.model.states import State
from supervisor.store import TaskFilter, TaskLine, TaskPage
from supervisor.store.listing import Listing
from supervisor.store.search import Counted
from supervisor.web import wording
from supervisor.web.chosen import VERBS
from supervisor.web.spreadsheet import as_csv
from supervisor.web.visit import Answer, Room, Route, Visit, argument, show
from supervisor.words.roll import roll_call
from supervisor.words.sentence import last_heard
from supervisor.words.veil import veiled_lines

PAGE = 50
QUERY_MAX = 2000
#: Rows of one file; it is made while it is sent.
FILE_ROWS_MOST = 100_000
#: Tasks that are looked at for it; a query that hardly anything fits would read all there are.
FILE_LOOKED_MOST = 1_000_000
#: Characters of a value that an address names.
VALUE_MAX = 200
_ID = re.compile(r"task_[0-9a-f]{32}\Z")
_COLUMNS = (
    "task_id", "state", "type", "queue", "priority", "attempts", "retries", "crashes",
    "quarantined", "submitted", "due", "ended", "submitted_by", "dedup_key", "tags", "reason",
    "verdict", "error_type", "error", "node_id", "worker_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class View:
    """A list that is asked for often."""

    label: LazyString
    query: str
    oldest_first: bool = False


VIEWS = (
    View(_l("All"), ""),
    View(_l("Running longest"), "state:running", oldest_first=True),
    View(_l("Running over 5 minutes"), "state:running ran:>5m"),
    View(_l("Waiting longest"), "state:pending due:now", oldest_first=True),
    View(_l("Due later"), "state:pending due:later"),
    View(_l("Failed today"), "state:failed,timeout ended:today"),
    View(_l("Killed after a verdict"), "verdict:*"),
    View(_l("Quarantined"), "state:failed,timeout quarantined:yes"),
    View(_l("Canceled today"), "state:canceled ended:today"),
)

#: What the older addresses of the list call what the query language has a word for.
_NAMES: Mapping[str, str] = MappingProxyType(
    {"state": "state", "type": "type", "queue": "queue", "tag": "tag", "find": TEXT}
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for: the text in the box, and what was read of it."""

    text: str
    query: Query = ()
    problem: QueryError | None = None
    oldest_first: bool = False
    before_id: str | None = None
    after_id: str | None = None

    @property
    def in_errors(self) -> str:
        """Return the query that looks for its words in the texts of errors; '' without any."""
        words = [replace(term, name="message") for term in self.query if term.name == TEXT]
        return render(tuple(words))

    @property
    def wanted(self) -> TaskFilter:
        return TaskFilter(
            terms=self.query,
            oldest_first=self.oldest_first,
            before_id=self.before_id,
            after_id=self.after_id,
            limit=PAGE,
        )

    @property
    def address(self) -> str:
        """The query of the address of this list, from its first page on."""
        return wording.query([("q", self.text), ("sort", "oldest" if self.oldest_first else "")])

    def beyond(self, name: str, task_id: str | None) -> str | None:
        """Return that of a page beside this one; None where there is none."""
        if task_id is None:
            return None
        return f"{self.address}&{wording.query([(name, task_id)])}".removeprefix("&")


def listing(visit: Visit) -> Answer:
    """Return one page of tasks."""
    asked, now = _asked(), visit.now()
    if asked.problem is not None:
        return _shown(visit, asked, now, TaskPage((), None), None), 400
    page = visit.reader.tasks(asked.wanted)
    return _shown(visit, asked, now, page, _count(visit, asked, page))


def _shown(visit: Visit, asked: Asked, now: datetime, page: TaskPage, count: Counted | None) -> str:
    forward, back = ("after", "before") if asked.oldest_first else ("before", "after")
    tasks = veiled_lines(visit.reader.store, page.tasks)
    return show(
        "tasks.html",
        visit,
        now=now,
        asked=asked,
        misread=None if asked.problem is None else asked.problem.said(_),
        tasks=tasks,
        heard=_heard(visit, tasks, now),
        count=count,
        looked=page.looked,
        unseen=_unseen(asked, page),
        next=asked.beyond(forward, page.next_id),
        prev=asked.beyond(back, page.prev_id),
        first=asked.address,
        is_first=not (asked.before_id or asked.after_id),
        turned=Asked(asked.text, oldest_first=not asked.oldest_first).address,
        views=[(one, Asked(one.query, oldest_first=one.oldest_first)) for one in VIEWS],
        states=[(state, f"state:{state.lower()}") for state in State],
        qualifiers=QUALIFIERS.values(),
        verbs=VERBS.values(),
        rows_most=FILE_ROWS_MOST,
    )


def _unseen(asked: Asked, page: TaskPage) -> str:
    """Return on which side of an empty page are tasks that were not looked at; '' for none."""
    back = asked.before_id if asked.oldest_first else asked.after_id
    if (page.next_id if back is None else page.prev_id) is None:
        return ""
    return "newer" if asked.oldest_first is (back is None) else "older"


def _count(visit: Visit, asked: Asked, page: TaskPage) -> Counted:
    is_whole = page.next_id is None and not (asked.before_id or asked.after_id)
    if is_whole:
        return Counted(len(page.tasks), is_all=True)
    return Listing(visit.reader.store).count(asked.wanted)


def _heard(visit: Visit, tasks: Sequence[TaskLine], now: datetime) -> dict[str, str]:
    """Return what was last heard of each task."""
    canceled = [task.task_id for task in tasks if task.state is State.CANCELED]
    trails = Listing(visit.reader.store).cancellations(canceled)
    roll = roll_call(visit.reader)
    return {
        task.task_id: _("its node is gone")
        if roll.gone_node(task)
        else last_heard(task, trails.get(task.task_id, ()), now)
        for task in tasks
    }


def _asked() -> Asked:
    """Read the address. What is no id is refused; a query that cannot be read keeps its text."""
    before, after = argument("before"), argument("after")
    for cursor in filter(None, (before, after)):
        if not _ID.match(cursor):
            raise BadRequest(_("A page continues after the id of a task."))
    if before and after:
        raise BadRequest(_("A page continues in one direction."))
    sort = argument("sort")
    if sort not in ("", "newest", "oldest"):
        raise BadRequest(_("Tasks are sorted newest or oldest first."))
    text = argument("q", QUERY_MAX + 1)
    asked = Asked(text, oldest_first=sort == "oldest", before_id=before or None,
                  after_id=after or None)  # fmt: skip
    try:
        query = (*parse(text), *_named())
    except QueryError as problem:
        return replace(asked, problem=problem)
    return replace(asked, query=query, text=render(query) if _named() else text)


def _named() -> list[Term]:
    """Return what older addresses ask for by names of their own."""
    found = []
    for name, called in _NAMES.items():
        given = request.args.getlist(name)[:VALUES_MAX]
        values = [value[:VALUE_MAX] for value in given if value.strip()]
        if name == "state":
            (term, *_) = parse(render([Term("state", tuple(values))])) if values else [None]
            values = [] if term is None else list(term.values)
        elif name in ("type", "queue"):
            values = [plain_pattern(value.strip()) for value in values]
        if values:
            found.append(Term(called, tuple(dict.fromkeys(value.strip() for value in values))))
    return found


def file(visit: Visit) -> Answer:
    """Send the tasks of a query as CSV, while they are read."""
    asked = _asked()
    if asked.problem is not None:
        raise BadRequest(" ".join(asked.problem.said(_)))
    store = visit.reader.store
    wanted = replace(asked.wanted, before_id=None, after_id=None)
    pages = (
        replace(page, tasks=veiled_lines(store, page.tasks))
        for page in Listing(store).pages(wanted, store.clock.now())
    )
    headers = {"Content-Disposition": "attachment; filename=tasks.csv"}
    return Response(as_csv(_COLUMNS, _rows(pages)), headers=headers, mimetype="text/csv")


def _until_lost(pages: Iterator[TaskPage]) -> Iterator[TaskPage | None]:
    """Return the pages; None in the place of one that could not be read."""
    try:
        yield from pages
    except StoreUnavailable:
        yield None


def _rows(pages: Iterator[TaskPage]) -> Iterator[list[object]]:
    """Return the rows of a file; one that is not whole says so at its end."""
    count = looked = 0
    for page in _until_lost(pages):
        if page is None:
            yield ["the task store did not answer: there may be more"]
            return
        looked += page.looked
        if looked > FILE_LOOKED_MOST:
            yield [f"only {FILE_LOOKED_MOST} tasks were looked at, there may be more"]
            return
        for task in page.tasks:
            if count == FILE_ROWS_MOST:
                yield [f"only the first {FILE_ROWS_MOST} are in this file, there are more"]
                return
            count += 1
            yield _cells(task)


def _cells(task: TaskLine) -> list[object]:
    return [
        task.task_id, task.state, task.type, task.queue, task.priority, task.attempt,
        task.retry_count, task.crash_count, "yes" if task.quarantined else "no",
        stamp(task.created_at), stamp(task.run_after),
        None if task.ended_at is None else stamp(task.ended_at),
        task.submitted_by, task.dedup_key, " ".join(task.tags), task.reason, task.verdict,
        task.error_type, task.error, task.node_id, task.worker_id,
    ]  # fmt: skip


ROOM = Room("tasks", _l("Tasks"), Right.TASKS, "t")
ROUTES = (
    Route("tasks", "/tasks", listing, Right.TASKS),
    Route("tasks_file", "/tasks.csv", file, Right.TASKS),
)
