"""The first page: the five numbers, by the definitions of the metrics, and what needs a person.

Secret kept here: what is worth a person's eye, and in which order. Each finding says what it is and
leads to where something can be done about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from supervisor.model.access import Right
from supervisor.model.states import State
from supervisor.store.numbers import WINDOW_S, Ended, Live, Numbers
from supervisor.store.view import AutopsyFilter, TaskFilter
from supervisor.web.visit import Answer, Visit, show
from supervisor.words.roll import Roll, roll_call
from supervisor.words.sentence import diagnosis
from supervisor.words.text import span
from supervisor.words.waiting import paused

if TYPE_CHECKING:
    from supervisor.store import TaskLine

#: Running tasks that are looked at one by one; a page must not read them all.
RUNNING_MOST = 200
AUTOPSIES_SHOWN = 5
#: A stop request that is older than this should have been carried out: the usual grace and capture.
STOP_OVERDUE_S = 30.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the first page."""

    name: str
    value: str
    hint: str
    path: str | None = None
    is_alarming: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that waits for a person; `path` is where to go about it."""

    text: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """What the store shows at one moment."""

    now: datetime
    live: Live
    lost: int
    ended: Ended | None
    roll: Roll
    running: tuple[TaskLine, ...]
    by_state: dict[State, int]


def page(visit: Visit) -> Answer:
    """Return the first page."""
    scene = _scene(visit)
    newest = (
        visit.reader.find_autopsies(AutopsyFilter(limit=AUTOPSIES_SHOWN)).autopsies
        if visit.may(Right.AUTOPSIES)
        else ()
    )
    return show(
        "overview.html",
        visit,
        now=scene.now,
        figures=list(_figures(scene)),
        findings=[*_findings(visit, scene)],
        by_state=scene.by_state,
        live=scene.live,
        nodes=scene.roll.running,
        newest=newest,
        cause=diagnosis,
    )


def _scene(visit: Visit) -> Scene:
    reader, now = visit.reader, visit.now()
    numbers = Numbers(reader.store)
    ended = numbers.ended(now)
    running = reader.tasks(TaskFilter(states=(State.RUNNING,), limit=RUNNING_MOST))
    return Scene(
        now=now,
        live=numbers.live(now),
        lost=numbers.lost(now),
        ended=None if ended is None else ended[0],
        roll=roll_call(reader),
        running=running.tasks,
        by_state=dict(reader.counts(now).by_state),
    )


def _figures(scene: Scene) -> Iterator[Figure]:
    window = f"of the last {WINDOW_S / 60:.0f} minutes"
    levels = scene.live.levels
    oldest = min((one.oldest_due for one in levels if one.oldest_due), default=None)
    waits = "none waits" if oldest is None else f"the oldest for {_age(oldest, scene.now)}"
    yield Figure("In queue", f"{sum(one.in_queue for one in levels):,}", f"due now; {waits}",
                 "/tasks?state=PENDING")  # fmt: skip
    ended = scene.ended
    none = "too many endings to count" if ended is None else f"nothing ended {window}"
    p99 = None if ended is None else ended.p99_s
    yield Figure("Running time, p99", "–" if p99 is None else span(p99),
                 f"of attempts {window}" if p99 is not None else none)  # fmt: skip
    failed = None if ended is None else ended.failed_rate
    yield Figure("Failed", _share(failed), f"with time-outs, {window}" if failed is not None
                 else none, "/tasks?state=FAILED&state=TIMEOUT", bool(failed))  # fmt: skip
    canceled = None if ended is None else ended.canceled_rate
    yield Figure("Canceled", _share(canceled), f"of all endings {window}" if canceled is not None
                 else none, "/tasks?state=CANCELED")  # fmt: skip
    yield Figure("Lost", f"{scene.lost:,}", "running, with no node that could know; nodes tell of "
                 "those that stand still", "/tasks?state=RUNNING", scene.lost > 0)  # fmt: skip


def _share(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"


def _findings(visit: Visit, scene: Scene) -> Iterator[Finding]:
    waiting = sum(one.in_queue for one in scene.live.levels)
    if not scene.roll.running:
        what = f"{waiting:,} tasks are due and wait" if waiting else "no task would run"
        yield Finding(f"No node runs: {what}. Start one with `supervisor run`.")
    for one in visit.reader.every_pause():
        yield Finding(f"{paused(one)}.", f"/tasks?state=PENDING&queue={quote(one.queue)}")
    yield from _of_running(scene)
    for state, what in ((State.FAILED, "failed"), (State.TIMEOUT, "timed out")):
        if count := scene.by_state[state]:
            text = f"{count:,} {'task' if count == 1 else 'tasks'} {what} for good"
            yield Finding(f"{text}: rerun them, or leave them.", f"/tasks?state={state}")


def _of_running(scene: Scene) -> Iterator[Finding]:
    for task in scene.running:
        path = f"/tasks/{task.task_id}"
        if scene.roll.gone_node(task) is not None:
            yield Finding(
                f"{task.type} {task.task_id} runs on a node that is gone: {scene.roll.judged}.",
                path,
            )
        elif task.mark and (scene.now - task.mark.at).total_seconds() > STOP_OVERDUE_S:
            asked = _age(task.mark.at, scene.now)
            yield Finding(f"{task.type} {task.task_id} was to stop {asked} ago and runs on.", path)


def _age(moment: datetime, now: datetime) -> str:
    return span(max(0.0, (now - moment).total_seconds()))
