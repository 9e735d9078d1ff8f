"""What a query finds is what plain Python finds, on every store, from page to page, both ways."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_scene import START, Scene

from supervisor.model import outcome as ended
from supervisor.model.bound import number_of, span_of, when_of
from supervisor.model.pattern import pattern_of
from supervisor.model.query import Term, parse, pieces, render
from supervisor.model.record import Started
from supervisor.model.states import Reason, State
from supervisor.store import Store, TaskFilter, search
from supervisor.store.listing import Listing
from supervisor.store.search import Counted
from supervisor.store.view import AttemptView, TaskView

NOW = START + timedelta(hours=3)
ODD = 'a*b[c]?"%_\\é'


class Made(NamedTuple):
    """A task, and its latest attempt if there is one."""

    task: TaskView
    latest: AttemptView | None

    @property
    def task_id(self) -> str:
        return self.task.task_id


def fill(scene: Scene) -> list[Made]:
    """Make tasks of every state and return them as their pages show them, newest first."""
    for index in range(24):
        scene.pass_time(300)
        scene.submit(
            type=("greet", "part")[index % 3 == 0],
            queue=("mail", "mail.eu", ODD)[index % 3],
            priority=index % 5,
            tags=((), ("eu",), ("eu", ODD), ("eu50%",))[index % 4],
            submitted_by=(None, "ann", "Änn", ODD)[index % 4],
            dedup_key=(None, f"order.{index}", f"{ODD}{index}")[index % 3],
            max_retries=0,
            run_after=scene.now + timedelta(hours=index % 4),
        )
    scene.pass_time(1200)
    claims = scene.claim(10)
    scene.pass_time(90)
    endings = [
        ended.returned("1"),
        ended.raised("ConnectionError", f"to host 7 {ODD}: refused", ""),
        ended.raised("app.ConnectionError", "to host 12: refused\nagain", ""),
        ended.killed(State.TIMEOUT, Reason.TIMEOUT, "too long", verdict="timeout"),
        ended.killed(State.FAILED, Reason.STALLED, "no progress", verdict="stalled"),
    ]
    for claim, outcome in zip(claims[:5], endings, strict=True):
        with scene.ledger.transaction() as tx:
            tx.started(_starts(claim.task_id, scene.now - timedelta(seconds=60)))
        scene.finish(claim, outcome, started_at=scene.now - timedelta(seconds=60))
    with scene.ledger.transaction() as tx:
        tx.started(_starts(claims[5].task_id, scene.now - timedelta(seconds=30)))
    waiting = [one.task_id for one in scene.reader.tasks().tasks if one.state is State.PENDING]
    scene.cancel(*waiting[:4])
    views = [scene.reader.task(one.task_id) for one in scene.reader.tasks().tasks]
    latest = [[None, *scene.reader.attempts(view.task_id)][-1] for view in views if view]
    return [Made(view, last) for view, last in zip(views, latest, strict=True) if view]


def _starts(task_id: str, at: datetime) -> list[Started]:
    return [Started(task_id=task_id, attempt=1, started_at=at, timeout=9, soft_timeout=None)]


# --- what a term means, said a second time ----------------------------------------------------


def holds(made: Made, term: Term) -> bool:
    return any(_value_holds(*made, term.name, value) for value in term.values) != term.negated


def _value_holds(task: TaskView, latest: AttemptView | None, name: str, value: str) -> bool:
    if name == "text":
        folded = value.translate({code: code + 32 for code in range(65, 91)})
        names = (task.type, task.dedup_key, task.submitted_by)
        in_id = task.task_id.startswith((folded, f"task_{folded}")) or task.task_id.endswith(folded)
        return in_id or any(folded in _ascii_lower(one) for one in names if one)
    if name == "tag":
        return bool(task.tags) if value == "*" else value in task.tags
    if name == "ran":
        if latest is None or latest.started_at is None:
            return False
        took = ((latest.ended_at or NOW) - latest.started_at) // timedelta(microseconds=1)
        return _in_range(took, span_of(value))
    text: dict[str, Callable[[], str | None]] = {
        "state": lambda: task.state, "type": lambda: task.type, "queue": lambda: task.queue,
        "by": lambda: task.submitted_by, "reason": lambda: task.reason,
        "verdict": lambda: task.verdict, "error": lambda: task.error_type,
        "message": lambda: task.error, "key": lambda: task.dedup_key,
        "parent": lambda: task.parent_id, "node": lambda: task.node_id,
        "quarantined": lambda: "yes" if task.quarantined else "no",
    }  # fmt: skip
    if name == "pattern":
        return pattern_of(task.error or "") == value
    if name in text:
        return _is_like(text[name](), value, part=name == "message")
    numbers = {"priority": task.priority, "attempts": task.attempt, "retries": task.retry_count}
    if name in numbers:
        return _in_range(numbers[name], number_of(value))
    moment = {
        "submitted": task.created_at, "due": task.run_after, "ended": task.ended_at,
        "claimed": latest.claimed_at if latest else None,
    }[name]  # fmt: skip
    bound = when_of(value)
    assert bound is not None
    between = bound(NOW)
    return (
        moment is not None
        and (between.low is None or moment >= between.low)
        and (between.high is None or moment < between.high)
    )


def _ascii_lower(text: str) -> str:
    return re.sub("[A-Z]", lambda found: found[0].lower(), text)


def _is_like(found: str | None, pattern: str, *, part: bool) -> bool:
    parts = pieces(pattern)
    if found is None:
        return False
    if part and len(parts) == 1:
        return parts[0] in found
    return re.fullmatch(".*".join(map(re.escape, parts)), found, re.DOTALL) is not None


def _in_range(value: int, found: object) -> bool:
    assert found is not None
    low, high = found.low, found.high  # type: ignore[attr-defined]
    return (low is None or value >= low) and (high is None or value <= high)


# --- and what the stores say ------------------------------------------------------------------

SOME = [
    "state:failed", "-state:success", "state:pending,running,failed", "state:failed state:timeout",
    "type:greet", "type:greet state:failed,timeout", "type:part state:pending,canceled",
    "type:gr* -type:part", "type:greet,part", "queue:mail", "queue:mail*", r'queue:"a\\*b*"',
    "tag:eu", "tag:*", "-tag:*", "tag:eu50%", "by:ann", "by:*nn", "-by:*", "-by:ann",
    "reason:timeout", "reason:submitted", "verdict:*", "-verdict:*", "verdict:stalled,timeout",
    "error:ConnectionError", "error:*ConnectionError", "message:refused", "message:*refused",
    'message:"to host * refused*"', "-message:refused", 'pattern:"to host *: refused*"',
    'pattern:"to host *: refused*",""', '-pattern:""', "-pattern:* reason:raised",
    "node:*", "-node:node_a", "parent:*",
    "submitted:>2h", "submitted:<2h", "submitted:2026-05-20", "submitted:<2026-05-20", "due:later",
    "due:now", "claimed:<1h", "-claimed:>1h", "claimed:2026-05-20",
    "ended:today", "-ended:today", "ended:<1h", "ran:>30s", "ran:<=1m", "ran:>=1m",
    "-ran:>0s", "ran:>2d", "priority:>2", "priority:3", "attempts:0", "attempts:>=1", "retries:0",
    "quarantined:no", "quarantined:yes", "key:order.*", "-key:*", "greet", "GREET", "ann", "ORDER.",
    "-greet", "0", "task_0", '"50%"', "é", "Ä", "ä",
]  # fmt: skip


@pytest.fixture
def filled(scene: Scene) -> tuple[Scene, list[Made]]:
    return scene, fill(scene)


def _all(scene: Scene, query: tuple[Term, ...], **how: object) -> list[str]:
    """Return the ids of all pages, and see that the way back has the same."""
    oldest = bool(how.get("oldest_first"))
    pages, cursor = [], None
    forward, backward = ("after_id", "before_id") if oldest else ("before_id", "after_id")
    page = scene.reader.tasks(TaskFilter(terms=query, as_of=NOW, **how))  # type: ignore[arg-type]
    assert page.prev_id is None
    while True:
        pages.append([one.task_id for one in page.tasks])
        cursor = page.next_id
        if cursor is None:
            break
        wanted = TaskFilter(terms=query, as_of=NOW, **how, **{forward: cursor})  # type: ignore[arg-type]
        page = scene.reader.tasks(wanted)
    found = [task_id for one in pages for task_id in one]
    back: list[str] = []
    prev_id = page.prev_id
    while prev_id is not None:
        wanted = TaskFilter(terms=query, as_of=NOW, **how, **{backward: prev_id})  # type: ignore[arg-type]
        page = scene.reader.tasks(wanted)
        back = [one.task_id for one in page.tasks] + back
        prev_id = page.prev_id
    if pages[-1]:
        assert back + pages[-1] == found
    return found


def test_a_query_finds_what_python_finds(filled: tuple[Scene, list[Made]]) -> None:
    scene, tasks = filled
    for text in SOME:
        query = parse(text)
        expected = [one.task_id for one in tasks if all(holds(one, t) for t in query)]
        assert _all(scene, query) == expected, text
        counted = Listing(scene.store).count(TaskFilter(terms=query, as_of=NOW))
        assert counted == Counted(len(expected), is_all=True), text


def test_terms_are_joined_on_every_store(filled: tuple[Scene, list[Made]]) -> None:
    scene, tasks = filled
    known = {text: {t.task_id for t in tasks if holds(t, parse(text)[0])}
             for text in SOME if len(parse(text)) == 1}  # fmt: skip

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.sampled_from(sorted(known)), min_size=2, max_size=4), st.booleans())
    def joined(texts: list[str], oldest_first: bool) -> None:
        query = parse(render(parse(" ".join(texts))))
        left = set.intersection(*(known[text] for text in texts))
        expected = [one.task_id for one in tasks if one.task_id in left]
        found = _all(scene, query, oldest_first=oldest_first, limit=5)
        assert found == (expected[::-1] if oldest_first else expected)

    joined()


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize(
    "text", ["", "greet", "type:greet,part -by:ann", "-error:*", "-state:running", '-pattern:""']
)
def test_small_windows_lose_nothing_either_way(
    filled: tuple[Scene, list[Made]],
    text: str,
    oldest_first: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, tasks = filled
    monkeypatch.setattr(search, "WINDOW", 5)
    monkeypatch.setattr(search, "WINDOW_OF_ATTEMPTS", 3)
    query = parse(text)
    expected = [one.task_id for one in tasks if all(holds(one, term) for term in query)]
    found = _all(scene, query, oldest_first=oldest_first, limit=4)
    assert found == (expected[::-1] if oldest_first else expected)


def test_what_was_not_looked_at_is_said(
    filled: tuple[Scene, list[Made]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, tasks = filled
    monkeypatch.setattr(search, "WINDOW", 5)
    nothing = TaskFilter(terms=parse("by:nobody"))
    page = scene.reader.tasks(nothing)
    assert (page.tasks, page.next_id, page.looked) == ((), tasks[4].task_id, 5)
    assert Listing(scene.store).count(nothing) == Counted(0, is_all=False)
    back = TaskFilter(terms=parse("by:nobody"), after_id=tasks[-1].task_id)
    page = scene.reader.tasks(back)
    assert (page.tasks, page.prev_id, page.looked) == ((), tasks[-6].task_id, 5)
    assert page.next_id == page.prev_id
    both = TaskFilter(terms=parse("type:greet,part by:nobody"))
    assert scene.reader.tasks(both).looked == 4  # what may be tested is shared by both types
    every = Listing(scene.store).count(TaskFilter(), most=7)
    assert every == Counted(7, is_all=False)


def test_who_canceled_is_asked_once(store: Store, scene: Scene) -> None:
    ids = [scene.submit() for _ in range(3)]
    scene.cancel(*ids[:2])
    found = Listing(store).cancellations(ids)
    assert {task_id: [(x.operator, x.note) for x in lines] for task_id, lines in found.items()} == {
        task_id: [("anna", "not needed")] for task_id in ids[:2]
    }
    assert Listing(store).cancellations([]) == {}
