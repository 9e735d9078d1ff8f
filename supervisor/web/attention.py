"""What needs a person now: each thing in a sentence, the most urgent first, with where to go.

Secret kept here: what is worth a person's eye, and in which order. Nothing is asked of the store
here; what is found is found in what the first page has read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from itertools import islice
from urllib.parse import quote

from flask_babel import gettext as _
from flask_babel import ngettext

from supervisor.model.states import State
from supervisor.monitoring.threshold import Thresholds
from supervisor.store.alerts import AlertView
from supervisor.store.levels import QueueLevel, oldest
from supervisor.store.numbers import Ended
from supervisor.store.roster import AtWork
from supervisor.store.view import PauseView
from supervisor.web.survey import Survey
from supervisor.web.wording import line, percent
from supervisor.words.roll import Roll
from supervisor.words.text import span
from supervisor.words.waiting import paused

#: A stop request that is older than this should have been carried out: the usual grace and capture.
STOP_OVERDUE_S = 30.0
#: Of one kind so many are told one by one.
EACH_MOST = 5


class Urgency(IntEnum):
    """How soon somebody should look."""

    NOW = 0
    SOON = 1
    KNOWN = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that waits for a person; `path` is where to go about it."""

    urgency: Urgency
    text: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the store shows at one moment; `known` are the types that a node which runs knows."""

    now: datetime
    levels: tuple[QueueLevel, ...]
    pauses: Sequence[PauseView]
    lost: int
    ended: Ended | None
    roll: Roll
    survey: Survey
    at_work: tuple[AtWork, ...]
    known: frozenset[str]
    by_state: Mapping[State, int]
    firing: Sequence[AlertView]

    @property
    def in_queue(self) -> int:
        """The tasks that are due."""
        return sum(one.in_queue for one in self.levels)


def findings(scene: Scene) -> list[Finding]:
    """Return what needs a person, the most urgent first."""
    found = [
        *_nodes(scene),
        *_running(scene),
        *_still(scene),
        *_alerts(scene),
        *_rates(scene),
        *_waiting(scene),
        *_pauses(scene),
        *_dead(scene),
    ]
    return sorted(found, key=lambda one: one.urgency)  # what is found first stays first


def _nodes(scene: Scene) -> Iterator[Finding]:
    if not scene.roll.running:
        count = scene.in_queue
        what = ngettext("%(num)s task is due and waits", "%(num)s tasks are due and wait", count)
        what = what if count else _("no task would run")
        text = _("No node runs: %(what)s. Start one with `supervisor run`.", what=what)
        yield Finding(Urgency.NOW, text, "/nodes")
    survival, limit = scene.survey.survival, Thresholds().survival
    if survival is not None and survival.tells and survival.share < limit:
        text = _(
            "Node %(node)s had %(share)s of the workers it wants, in the mean of 5 minutes.",
            node=line(survival.node_name),
            share=percent(survival.share),
        )
        yield Finding(Urgency.NOW, text, "/nodes")
    for node in scene.roll.running:
        if abs(node.skew_s) > Thresholds().clock_skew_s:
            text = _(
                "The clock of %(node)s is %(skew)+.1f s off the store's.",
                node=line(node.node_name),
                skew=node.skew_s,
            )
            yield Finding(Urgency.SOON, text, "/nodes")


def _running(scene: Scene) -> Iterator[Finding]:
    """Yield what runs on nodes that are gone, and what was to stop and runs on."""
    there = {node.node_id for node in scene.roll.running}
    lost = [one for one in scene.at_work if one.node_id not in there]
    for one in lost[:EACH_MOST]:
        text = _(
            "%(type)s %(id)s runs on a node that is gone: %(judged)s.",
            type=line(one.type),
            id=line(one.task_id),
            judged=scene.roll.judged,
        )
        yield Finding(Urgency.NOW, text, f"/tasks/{one.task_id}")
    if more := max(len(lost), scene.lost) - min(len(lost), EACH_MOST):
        text = ngettext("%(num)s more is lost like this.", "%(num)s more are lost like this.", more)
        yield Finding(Urgency.NOW, text, _RUNNING)
    for one in islice(_overdue(scene), EACH_MOST):
        asked = span((scene.now - (one.mark_at or scene.now)).total_seconds())
        facts = {"type": line(one.type), "id": line(one.task_id), "age": asked}
        text = _("%(type)s %(id)s was to stop %(age)s ago and runs on.", **facts)
        yield Finding(Urgency.NOW, text, f"/tasks/{one.task_id}")


_RUNNING = "/tasks?state=RUNNING"


def _overdue(scene: Scene) -> Iterator[AtWork]:
    for one in scene.at_work:
        is_old = one.mark_at and (scene.now - one.mark_at).total_seconds() > STOP_OVERDUE_S
        if is_old and any(node.node_id == one.node_id for node in scene.roll.running):
            yield one


def _still(scene: Scene) -> Iterator[Finding]:
    """Yield what its node found standing still."""
    by_attempt = {(one.task_id, one.attempt): one for one in scene.at_work}
    told = 0
    for view in scene.survey.readings.values():
        for worker in view.workers:
            one = by_attempt.get((worker.get("task_id"), worker.get("attempt")))  # type: ignore[arg-type]
            if one is None or not worker.get("verdict") or told >= EACH_MOST:
                continue
            told += 1
            facts = {"type": line(one.type), "id": line(one.task_id)}
            text = _("%(type)s %(id)s: %(verdict)s.", verdict=line(worker["verdict"]), **facts)
            yield Finding(Urgency.NOW, text, f"/tasks/{one.task_id}")
    if count := scene.survey.zombies.get("orphan", 0):
        text = ngettext(
            "%(num)s process of an ended attempt runs on.",
            "%(num)s processes of ended attempts run on.",
            count,
        )
        yield Finding(Urgency.NOW, text, "/nodes")


def _alerts(scene: Scene) -> Iterator[Finding]:
    names = sorted({one.name for one in scene.firing})
    if names:
        shown = ", ".join(line(name) for name in names[:EACH_MOST])
        text = ngettext("%(num)s alert fires: %(names)s.", "%(num)s alerts fire: %(names)s.",
                        len(names), names=shown)  # fmt: skip
        yield Finding(Urgency.NOW, text, "/alerts")


def _rates(scene: Scene) -> Iterator[Finding]:
    ended, limits = scene.ended, Thresholds()
    if ended is None:
        return
    executed = ended.success + ended.failed + ended.timeout
    if executed + ended.canceled < limits.least_attempts:
        return
    if (ended.failed_rate or 0) > limits.failed_rate:
        text = _(
            "%(share)s of the attempts of 10 minutes failed or timed out; %(limit)s is usual.",
            share=percent(ended.failed_rate),
            limit=_most(limits.failed_rate),
        )
        yield Finding(Urgency.SOON, text, "/tasks?state=FAILED&state=TIMEOUT")
    if (ended.canceled_rate or 0) > limits.canceled_rate:
        text = _(
            "%(share)s of what ended in 10 minutes was canceled; %(limit)s is usual.",
            share=percent(ended.canceled_rate),
            limit=_most(limits.canceled_rate),
        )
        yield Finding(Urgency.SOON, text, "/tasks?state=CANCELED")


def _most(limit: float) -> str:
    return str(_("at most %(share)s", share=percent(limit)))


def _waiting(scene: Scene) -> Iterator[Finding]:
    if not scene.roll.running:
        return
    unknown: dict[str, int] = {}
    for one in scene.levels:
        if one.type not in scene.known and (count := one.in_queue + one.scheduled):
            unknown[one.type] = unknown.get(one.type, 0) + count
    for kind, count in sorted(unknown.items(), key=lambda item: -item[1])[:EACH_MOST]:
        yield Finding(Urgency.SOON, unknown_type(kind, count), "/queues")
    held = {one.queue for one in scene.pauses}
    served = [one for one in scene.levels if one.queue not in held and one.type in scene.known]
    due = oldest(served)
    if (
        due is not None
        and (waited := (scene.now - due).total_seconds()) > Thresholds().queue_wait_s
    ):
        text = _("A task is due for %(age)s, and its queue is not paused.", age=span(waited))
        yield Finding(Urgency.SOON, text, "/queues")


def unknown_type(kind: str, count: int) -> str:
    """Say that tasks wait for a node that knows their type."""
    return str(
        ngettext(
            "No node that runs knows the type %(type)s: %(num)s task waits.",
            "No node that runs knows the type %(type)s: %(num)s tasks wait.",
            count,
            type=line(kind),
        )
    )


def _pauses(scene: Scene) -> Iterator[Finding]:
    for one in scene.pauses:
        path = f"/tasks?state=PENDING&queue={quote(one.queue)}"
        yield Finding(Urgency.KNOWN, f"{paused(one)}.", path)


def _dead(scene: Scene) -> Iterator[Finding]:
    if count := scene.by_state.get(State.FAILED, 0):
        text = ngettext(
            "%(num)s task failed for good: rerun it, or leave it.",
            "%(num)s tasks failed for good: rerun them, or leave them.",
            count,
        )
        yield Finding(Urgency.KNOWN, text, "/tasks?state=FAILED")
    if count := scene.by_state.get(State.TIMEOUT, 0):
        text = ngettext(
            "%(num)s task timed out for good: rerun it, or leave it.",
            "%(num)s tasks timed out for good: rerun them, or leave them.",
            count,
        )
        yield Finding(Urgency.KNOWN, text, "/tasks?state=TIMEOUT")
