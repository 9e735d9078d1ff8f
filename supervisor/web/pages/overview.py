"""The first page: the five numbers, by the definitions of the metrics, and what needs a person.

Secret kept here: what is worth a person's eye, and in which order. Each finding says what it is and
leads to where something can be done about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from flask_babel import lazy_gettext as _l

from supervisor.model.access import Right
from supervisor.model.states import State
from supervisor.monitoring.threshold import Thresholds
from supervisor.store.numbers import WINDOW_S, Ended, Live, Numbers
from supervisor.store.view import AutopsyFilter, TaskFilter
from supervisor.web.visit import Answer, Room, Route, Visit, show
from supervisor.web.wording import percent
from supervisor.words.roll import Roll, roll_call
from supervisor.words.sentence import diagnosis
from supervisor.words.text import span
from supervisor.words.waiting import paused

if TYPE_CHECKING:
    from supervisor.store import Reader, TaskLine

#: Running tasks that are looked at one by one; a page must not read them all.
RUNNING_MOST = 200
#: How old what all viewers share may be; endings are read of ten minutes, so that takes longer.
FRESH_S, ENDED_FRESH_S = 1.0, 5.0
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
    ended = visit.see("ended", ENDED_FRESH_S, _ended)
    scene = replace(visit.see("overview", FRESH_S, _scene), ended=ended)
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


def _ended(reader: Reader) -> Ended | None:
    found = Numbers(reader.store).ended(reader.store.clock.now())
    return None if found is None else found[0]


def _scene(reader: Reader) -> Scene:
    now = reader.store.clock.now()
    numbers = Numbers(reader.store)
    running = reader.tasks(TaskFilter(states=(State.RUNNING,), limit=RUNNING_MOST))
    return Scene(
        now=now,
        live=numbers.live(now),
        lost=numbers.lost(now),
        ended=None,
        roll=roll_call(reader),
        running=running.tasks,
        by_state=dict(reader.counts(now).by_state),
    )


def _figures(scene: Scene) -> Iterator[Figure]:
    window = f"of the last {WINDOW_S / 60:.0f} minutes"
    levels, ended = scene.live.levels, scene.ended
    oldest = min((one.oldest_due for one in levels if one.oldest_due), default=None)
    waits = "none waits" if oldest is None else f"the oldest for {_age(oldest, scene.now)}"
    queued = f"{sum(one.in_queue for one in levels):,}"
    yield Figure("In queue", queued, f"due now; {waits}", "/tasks?state=PENDING")
    if ended is None:
        for name in ("Run time, p99", "Failed", "Canceled"):
            yield Figure(name, "–", "more ended in the last minutes than can be counted here")
    else:
        yield from _rates(ended, window)
    yield Figure(
        "Zombies: lost",
        f"{scene.lost:,}",
        "their node is gone; those that stand still only nodes know",
        "/tasks?state=RUNNING",
        scene.lost > 0,
    )


def _rates(ended: Ended, window: str) -> Iterator[Figure]:
    executed = ended.success + ended.failed + ended.timeout
    limits = Thresholds()
    tells = executed + ended.canceled >= limits.least_attempts
    failed, canceled = ended.failed_rate, ended.canceled_rate
    yield Figure(
        "Run time, p99",
        "–" if ended.p99_s is None else span(ended.p99_s),
        f"nothing ran {window}" if ended.p99_s is None else f"of attempts {window}",
    )
    yield Figure(
        "Failed",
        percent(failed),
        f"or timed out, of {executed:,} attempts {window}",
        "/tasks?state=FAILED&state=TIMEOUT",
        tells and (failed or 0) > limits.failed_rate,
    )
    yield Figure(
        "Canceled",
        percent(canceled),
        f"of {executed + ended.canceled:,} that ended, {window}",
        "/tasks?state=CANCELED",
        tells and (canceled or 0) > limits.canceled_rate,
    )


def _findings(visit: Visit, scene: Scene) -> Iterator[Finding]:
    waiting = sum(one.in_queue for one in scene.live.levels)
    if not scene.roll.running:
        what = f"{waiting:,} tasks are due and wait" if waiting else "no task would run"
        what = "1 task is due and waits" if waiting == 1 else what
        yield Finding(f"No node runs: {what}. Start one with `supervisor run`.")
    for one in visit.reader.every_pause():
        yield Finding(f"{paused(one)}.", f"/tasks?state=PENDING&queue={quote(one.queue)}")
    yield from _of_running(scene)
    for state, what in ((State.FAILED, "failed"), (State.TIMEOUT, "timed out")):
        if count := scene.by_state[state]:
            tasks_, them = ("task", "it") if count == 1 else ("tasks", "them")
            text = f"{count:,} {tasks_} {what} for good: rerun {them}, or leave {them}."
            yield Finding(text, f"/tasks?state={state}")


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


ROOM = Room("overview", _l("Overview"), Right.TASKS, "o")
ROUTES = (Route("overview", "/", page, Right.TASKS),)
