"""The first page: the numbers as the metrics define them, the last hour, what needs a person.

Invariant: each number is asked where the metrics ask, or is what the nodes have said of themselves;
what nobody knows is a dash with the reason, never a nought.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext

from supervisor.model.access import Right
from supervisor.monitoring.threshold import Thresholds
from supervisor.store.levels import oldest
from supervisor.store.numbers import WINDOW_S, Ended
from supervisor.store.trend import Hour, Minute
from supervisor.store.view import AutopsyFilter
from supervisor.web import census
from supervisor.web.attention import Scene, findings
from supervisor.web.scene import scene_of
from supervisor.web.survey import KINDS
from supervisor.web.visit import Answer, Room, Route, Visit, show
from supervisor.web.watch import Note, is_fresh, told_of, watch
from supervisor.web.wording import line, percent
from supervisor.words.sentence import diagnosis
from supervisor.words.text import span

AUTOPSIES_SHOWN, NODES_SHOWN = 5, 50
#: Points of the line in a figure.
POINTS = 60


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the first page."""

    name: str
    value: str
    hint: str
    path: str | None = None
    is_alarming: bool = False
    trend: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the last hour, as the script of the pages draws it."""

    id: str
    title: str
    data: dict[str, Any]
    hint: str = ""


def page(visit: Visit) -> Answer:
    """Return the first page."""
    notes = watch().notes()
    hour, hour_s = census.hour(visit)
    states, states_s = census.states(visit)
    endings, endings_s = census.endings(visit)
    scene = scene_of(visit, states, endings)
    newest = (
        visit.reader.find_autopsies(AutopsyFilter(limit=AUTOPSIES_SHOWN)).autopsies
        if visit.may(Right.AUTOPSIES)
        else ()
    )
    return show(
        "overview.html",
        visit,
        now=scene.now,
        figures=list(_figures(scene, notes if is_fresh(notes, scene.now) else ())),
        findings=findings(scene),
        charts=_charts(hour, notes, told_of(notes, scene.now)),
        by_state=states.by_state,
        ages={"hour": hour_s, "states": states_s, "endings": endings_s},
        nodes=scene.roll.running[:NODES_SHOWN],
        nodes_left_out=max(0, len(scene.roll.running) - NODES_SHOWN),
        newest=newest,
        cause=diagnosis,
    )


# --- figures ----------------------------------------------------------------------------------


def _figures(scene: Scene, notes: Sequence[Note]) -> Iterator[Figure]:
    yield _oldest(scene)
    yield _zombies(scene)
    yield _in_queue(scene, notes)
    yield from _rates(scene.ended)
    yield _survival(scene)


def _oldest(scene: Scene) -> Figure:
    name = _("Oldest running")
    first = next((one for one in scene.at_work if one.started_at), None)
    if first is None:
        return Figure(name, "–", _("nothing runs"), "/tasks?state=RUNNING")
    what = line(first.type)
    if first.node_id in scene.roll.gone:
        what = _("%(type)s, on a node that is gone", type=what)
    hint = ngettext(
        "%(what)s; %(num)s runs", "%(what)s; %(num)s run", len(scene.at_work), what=what
    )
    return Figure(name, _age(first.started_at, scene.now), hint, f"/tasks/{first.task_id}")


def _zombies(scene: Scene) -> Figure:
    known, silent = scene.survey.zombies, scene.survey.silent
    words = {
        "stalled": _("stalled"), "heartbeat_lost": _("heartbeat lost"), "orphan": _("orphans"),
    }  # fmt: skip
    parts = [_("lost %(n)s", n=scene.lost)]
    parts += [f"{words[kind]} {known[kind]}" for kind in KINDS if known]
    if not known:
        parts.append(_("of those that stand still, nodes have not said"))
    elif silent:
        parts.append(ngettext("%(num)s node has not said", "%(num)s nodes have not said", silent))
    total = scene.lost + sum(known.values())
    hint = " · ".join(map(str, parts))
    return Figure(_("Zombies"), f"{total:,}", hint, "/tasks?state=RUNNING", total > 0)


def _in_queue(scene: Scene, notes: Sequence[Note]) -> Figure:
    since = oldest(scene.levels)
    waits = (
        _("none waits")
        if since is None
        else _("the oldest for %(age)s", age=_age(since, scene.now))
    )
    step = -(-len(notes) // POINTS) or 1
    trend = [sum(note.in_queue.values()) for note in notes[::-step]][::-1]
    hint = _("due now; %(waits)s", waits=waits)
    return Figure(_("In queue"), f"{scene.in_queue:,}", hint, "/queues", trend=trend)


def _rates(ended: Ended | None) -> Iterator[Figure]:
    minutes = f"{WINDOW_S / 60:.0f}"
    if ended is None:
        why = _("more ended in the last minutes than can be counted here")
        for name in (_("Run time, p99"), _("Failed"), _("Canceled")):
            yield Figure(name, "–", why)
        return
    executed = ended.success + ended.failed + ended.timeout
    limits = Thresholds()
    tells = executed + ended.canceled >= limits.least_attempts
    failed, canceled = ended.failed_rate, ended.canceled_rate
    yield Figure(
        _("Run time, p99"),
        "–" if ended.p99_s is None else span(ended.p99_s),
        _("nothing ran in the last %(minutes)s minutes", minutes=minutes)
        if ended.p99_s is None
        else _("of attempts of the last %(minutes)s minutes", minutes=minutes),
    )
    yield Figure(
        _("Failed"),
        percent(failed),
        _("or timed out, of %(n)s attempts of the last %(minutes)s minutes",
          n=format(executed, ","), minutes=minutes),
        "/tasks?state=FAILED&state=TIMEOUT",
        tells and (failed or 0) > limits.failed_rate,
    )  # fmt: skip
    yield Figure(
        _("Canceled"),
        percent(canceled),
        _("of %(n)s attempts that ended in the last %(minutes)s minutes",
          n=format(executed + ended.canceled, ","), minutes=minutes),
        "/tasks?state=CANCELED",
        tells and (canceled or 0) > limits.canceled_rate,
    )  # fmt: skip


def _survival(scene: Scene) -> Figure:
    found, name = scene.survey.survival, _("Survival")
    if found is None:
        why = _("nodes have not said") if scene.roll.running else _("no node runs")
        return Figure(name, "–", _("workers alive of those wanted; %(why)s", why=why), "/nodes")
    hint = _(
        "workers alive of those wanted, mean of 5 minutes, of the node that has least: %(node)s",
        node=line(found.node_name),
    )
    is_low = found.tells and found.share < Thresholds().survival
    return Figure(name, percent(found.share), hint, "/nodes", is_low)


def _age(moment: datetime | None, now: datetime) -> str:
    return span(max(0.0, (now - (moment or now)).total_seconds()))


# --- charts -----------------------------------------------------------------------------------


def _charts(hour: Hour, notes: Sequence[Note], noted: str) -> list[Chart]:
    over = hour.minutes[:-1]  # the last minute is not over: it would always look like a fall
    x = [_end(one) for one in over]
    endings = [
        _series(_("succeeded"), [one.success for one in over], "good"),
        _series(_("failed"), [one.failed for one in over], "hot"),
        _series(_("timed out"), [one.timeout for one in over], "new"),
        _series(_("canceled"), [one.canceled for one in over], "dim"),
    ]
    flow = [
        _series(_("submitted"), [one.submitted for one in over], "live"),
        _series(_("claimed"), [one.started for one in over], "good"),
    ]
    waits = [_series(_("waiting, due or not"), [one.waiting for one in over], "live")]
    due = _due(over, notes)
    if any(one is not None for one in due):
        waits.append(_series(_("in queue (due)"), due, "new"))
    later = "" if hour.is_whole else _("More happened in this hour than can be counted here.")
    ended, moved = _("Attempts ended, per minute"), _("Tasks submitted and claimed, per minute")
    waited = _("Tasks that wait, at the end of each minute")
    return [
        Chart("endings", ended, {"x": x, "series": endings}, later),
        Chart("flow", moved, {"x": x, "series": flow}, later),
        Chart("waiting", waited, {"x": x, "series": waits}, noted),
    ]


def _series(label: str, values: Sequence[int | None], tone: str) -> dict[str, Any]:
    return {"label": str(label), "values": list(values), "tone": tone}


def _end(minute: Minute) -> int:
    return int(minute.at.timestamp()) + 60


def _due(minutes: Sequence[Minute], notes: Sequence[Note]) -> list[int | None]:
    """Return how many were due at the end of each minute, as far as somebody has noted it."""
    noted = {int(note.at.timestamp()) // 60: sum(note.in_queue.values()) for note in notes}
    return [noted.get(_end(one) // 60 - 1) for one in minutes]


ROOM = Room("overview", _l("Overview"), Right.TASKS, "o")
ROUTES = (Route("overview", "/", page, Right.TASKS),)
