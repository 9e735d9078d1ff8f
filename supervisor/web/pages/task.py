"""The page of one task: all that is known of it, and what can be done to it.

Invariants: an act goes through the client, with the name of who asks and a reason, as on the
command line; it says how the task looked, and is refused when that has changed; its answer is told
on the page that then shows the new state. What is secret of a task is shown to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flask import flash, request
from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest, NotFound

from supervisor.errors import Refused
from supervisor.model.access import Right
from supervisor.model.bulk import MEANT_FOR, BulkVerb
from supervisor.model.order import OrderKind
from supervisor.model.record import Acted, Seen
from supervisor.model.record import Answer as Outcome
from supervisor.model.states import ENDED, State
from supervisor.store import AutopsyRecord, HistoryLine, TaskView, new_task_id
from supervisor.store.kin import ROWS_MAX, children_of
from supervisor.store.ledger.audit import ACCESS_REASONS
from supervisor.store.reader import ATTEMPTS_SHOWN, HISTORY_SHOWN
from supervisor.web import course, wording
from supervisor.web.output import output_of
from supervisor.web.probe import WINDOW, Probe, probe_of
from supervisor.web.visit import Answer, Route, Visit, go, missing, show
from supervisor.words.asked import is_open, standing, wish
from supervisor.words.ladder import ladder, to_come
from supervisor.words.retold import retold
from supervisor.words.roll import NO_NODE, Roll, last_word, roll_call
from supervisor.words.sentence import (
    checkpoint_document,
    diagnosis,
    for_good,
    last_progress,
    limits,
    naming_limit,
    note,
    usage,
)
from supervisor.words.veil import veil_of
from supervisor.words.waiting import waits_for


@dataclass(frozen=True, slots=True)
class Verb:
    """Something that can be done to a task, and in which states it means something."""

    name: str
    label: LazyString
    states: Collection[State]
    hint: LazyString
    needs: Right = Right.ACT


CAPTURE, RESUBMIT = "capture", "resubmit"
VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        verb.name: verb
        for verb in (
            Verb(
                BulkVerb.CANCEL,
                _l("Cancel"),
                MEANT_FOR[BulkVerb.CANCEL],
                _l("a running task is told first, and killed after its grace."),
            ),
            Verb(
                BulkVerb.FAIL,
                _l("End as FAILED"),
                MEANT_FOR[BulkVerb.FAIL],
                _l("it is told first, killed after its grace, and not retried."),
            ),
            Verb(
                BulkVerb.RERUN,
                _l("Run again"),
                MEANT_FOR[BulkVerb.RERUN],
                _l("with fresh retries."),
            ),
            Verb(
                CAPTURE,
                _l("Capture autopsy now"),
                frozenset({State.RUNNING}),
                _l("its node takes evidence and lets it run on."),
            ),
            Verb(
                RESUBMIT,
                _l("Submit a copy"),
                ENDED,
                _l("a new task with the same params and limits, due at once, without dedup key."),
                Right.SUBMIT,
            ),
        )
    }
)
#: What each step of a stop request is called.
STEPS: Mapping[str, LazyString] = MappingProxyType(
    {
        "cancel_requested": _l("requested"),
        "fail_requested": _l("requested: to end as FAILED"),
        "cancel_delivered": _l("delivered"),
        "cancel_acknowledged": _l("acknowledged"),
        "cancel_forced": _l("forced"),
        "cancel_stopped": _l("stopped"),
        "cancel_verified": _l("verified gone"),
        "cancel_too_late": _l("too late"),
        "ended": _l("ended"),
    }
)
_FOR_A_NODE = frozenset({Outcome.REQUESTED, Outcome.ALREADY_REQUESTED})
#: Seconds between two refreshings: while somebody waits for an answer, while it lives, and after.
_AWAITED_EVERY, _LIVE_EVERY, _ENDED_EVERY = 2, 3, 10
_COPY = re.compile(r"task_[0-9a-f]{32}")
_NUMBER = re.compile(r"[0-9]{1,9}\Z")


def page(visit: Visit, task_id: str) -> Answer:
    """Return one task in full."""
    found = _find(visit, task_id)
    if found is None:
        return _absent(visit, task_id)
    if found.task_id != task_id:
        return go(f"/tasks/{found.task_id}")
    return show("task.html", visit, **_all_of(visit, found))


def _absent(visit: Visit, task_id: str) -> Answer:
    return missing(
        visit,
        _("No task %(id)s", id=wording.line(task_id)),
        _(
            "Ids are whole, or at least 8 digits of their beginning. A task that ended long "
            "ago may be in the archive: `supervisor show ID` on its host finds it there."
        ),
    )


def _history(visit: Visit, task_id: str) -> tuple[list[HistoryLine], bool]:
    """Return the end of its trail, and whether there is more of it; who took evidence home is for
    those who manage people."""
    found = visit.reader.history(task_id, HISTORY_SHOWN + 1)
    trail, is_cut = found[-HISTORY_SHOWN:], len(found) > HISTORY_SHOWN
    if visit.may(Right.MANAGE):
        return trail, is_cut
    return [line for line in trail if line.reason not in ACCESS_REASONS], is_cut


def _all_of(visit: Visit, found: TaskView) -> dict[str, Any]:
    """Return what the page shows."""
    reader, now, veil = visit.reader, visit.now(), veil_of(visit.reader, found)
    task = veil.task(found)
    attempts = veil.attempts(reader.attempts(found.task_id, ATTEMPTS_SHOWN))
    rows, is_cut = _history(visit, found.task_id)
    trail = veil.history(rows)
    roll = roll_call(reader)
    gone = roll.gone_node(found)
    steps = ladder(task, trail, attempts)
    orders = _orders(visit, found, roll)
    children = children_of(reader.store, found.task_id, ROWS_MAX + 1)
    return {
        "now": now,
        "task": task,
        "every": _every(found, orders),
        "attempts": list(reversed(attempts)),
        "trail": trail,
        "rows_shown": HISTORY_SHOWN if is_cut else None,
        "course": _Drawing(course.course_of(trail, now)),
        "steps": steps,
        "to_come": to_come(steps) if found.state is State.RUNNING else (),
        "step_names": STEPS,
        "waits": waits_for(reader, found, roll),
        "gone": None if gone is None else f"{last_word(gone)}; {roll.judged}",
        "limits": limits(task, attempts),
        "ended": for_good(task, _("it runs again only when a person says so")),
        "checkpoint": checkpoint_document(veil.checkpoint(reader.checkpoint(found.task_id))),
        "output": output_of(reader, found, veil),
        "autopsies": _autopsies(visit, found.task_id),
        "cause": diagnosis,
        "verbs": [v for v in VERBS.values() if found.state in v.states and visit.may(v.needs)],
        "copy_id": new_task_id(),
        "children": children[:ROWS_MAX],
        "more_children": len(children) > ROWS_MAX,
        "copies": _copies(trail),
        "orders": orders,
        "wish": wish,
        "words": _Words,
        **_probe(visit, found, roll),
    }


def _every(task: TaskView, orders: list[tuple[Any, str, bool]]) -> int:
    """Return after how many seconds the page is worth another look."""
    if task.state in ENDED:
        return _ENDED_EVERY
    awaited = task.mark is not None or any(is_open for _, _, is_open in orders)
    return _AWAITED_EVERY if awaited else _LIVE_EVERY


def _autopsies(visit: Visit, task_id: str) -> list[tuple[AutopsyRecord, None]]:
    if not visit.may(Right.AUTOPSIES):
        return []
    return [(record, None) for record in visit.reader.autopsies(task_id)]


def _orders(visit: Visit, task: TaskView, roll: Roll) -> list[tuple[Any, str, bool]]:
    """Return what was asked of nodes about this task, with how each stands."""
    orders = visit.client.orders.of_task(task.task_id)
    return [(one, standing(one, roll.gone), is_open(one, roll.gone)) for one in orders]


def _copies(trail: list[HistoryLine]) -> list[tuple[str, str]]:
    """Return the tasks that this one is a copy of, or that are copies of it."""
    told = {"resubmitted_from": _("a copy of"), "resubmitted_as": _("its copy is")}
    return [
        (told[line.reason], copy[0])
        for line in trail
        if line.reason in told and (copy := _COPY.search(line.note or ""))
    ]


def _probe(visit: Visit, task: TaskView, roll: Roll) -> dict[str, Any]:
    """Return what is seen of the attempt that runs, or why nothing is."""
    probe: Probe | None = None
    why = ""
    if task.state is State.RUNNING and task.node_id is not None:
        now = visit.now()
        readings = visit.client.vitals.since(task.node_id, now - WINDOW)
        probe = probe_of(readings, task.task_id, task.attempt, now)
        if roll.gone_node(task) is not None:
            probe, why = None, _("No reading: its node is gone.")
        elif not readings:
            why = _("No reading: its node has said nothing for two minutes.")
        else:
            why = _("No reading yet: its node says something every 5 s.")
    return {"probe": probe, "why_no_probe": why}


class _Drawing:
    """A course with the measures of its drawing, for the template."""

    width, height = course.WIDTH, course.HEIGHT
    box_width, box_height = course.BOX_WIDTH, course.BOX_HEIGHT

    def __init__(self, drawn: course.Course) -> None:
        self.drawn = drawn


class _Words:
    """Sentences about an attempt, for the template."""

    usage = staticmethod(usage)
    note = staticmethod(note)
    progress = staticmethod(last_progress)
    naming_limit = staticmethod(naming_limit)


def act(visit: Visit, task_id: str, verb: str) -> Answer:
    """Do something to a task and show what became of it."""
    if verb not in VERBS:
        raise NotFound(_("There is no such act."))
    found = _find(visit, task_id)
    if found is None or found.task_id != task_id:
        return _absent(visit, task_id)
    reason = request.form.get("reason", "").strip()
    if not reason:
        flash(_("Nothing was done: say why, it stands in the audit trail."), "problem")
        return go(f"/tasks/{task_id}")
    if verb == CAPTURE:
        return _capture(visit, task_id, reason)
    if verb == RESUBMIT:
        return _resubmit(visit, task_id, reason)
    why = {"by": visit.person.name, "reason": reason}
    (done,) = getattr(visit.client, verb)(task_id, **why, seen=_seen())
    flash(_answer(visit, VERBS[verb], done), "done" if done.done else "problem")
    return go(f"/tasks/{task_id}")


def _capture(visit: Visit, task_id: str, reason: str) -> Answer:
    """Ask the node of a task for evidence; its answer is shown when it comes."""
    seen = _seen()
    try:
        visit.client.orders.ask(
            None,
            OrderKind.CAPTURE,
            task_id=task_id,
            attempt=None if seen is None else seen.attempt,
            by=visit.person.name,
            reason=reason,
        )
    except Refused as refused:
        flash(_("Nothing was done: %(why)s.", why=retold(refused.message)), "problem")
    else:
        flash(_("Asked of its node: the answer is shown below when it comes."), "done")
    return go(f"/tasks/{task_id}")


def _resubmit(visit: Visit, task_id: str, reason: str) -> Answer:
    """Submit a copy of a task and go there; the same form sent twice makes one."""
    if not visit.may(Right.SUBMIT):
        flash(_("Nothing was done: you may not submit tasks."), "problem")
        return go(f"/tasks/{task_id}")
    copy_id = request.form.get("copy_id", "")
    handle = visit.client.resubmit(
        task_id,
        by=visit.person.name,
        reason=reason,
        copy_id=copy_id if _COPY.fullmatch(copy_id) else None,
    )
    flash(_("This is the copy: it is due now."), "done")
    return go(f"/tasks/{handle.task_id}")


def _seen() -> Seen | None:
    """Return how the task looked to who acts; None for a form that does not say."""
    state, attempt = request.form.get("seen_state"), request.form.get("seen_attempt", "")
    if state is None:
        return None
    if state not in tuple(State) or not _NUMBER.match(attempt):
        raise BadRequest(_("This form does not say how the task looked."))
    return Seen(State(state), int(attempt))


def _find(visit: Visit, task_id: str) -> TaskView | None:
    try:
        return visit.reader.task(task_id)
    except Refused as several:
        raise BadRequest(retold(several.message)) from several


def _answer(visit: Visit, verb: Verb, done: Acted) -> str:
    text = f"{verb.label}: {retold(done.answer)}"
    if done.detail:
        text += f" ({retold(done.detail)})"
    if done.answer in _FOR_A_NODE and not roll_call(visit.reader).running:
        text += f"; {retold(NO_NODE)}"
    return text


ROUTES = (
    Route("task", "/tasks/<task_id>", page, Right.TASKS),
    Route("act", "/tasks/<task_id>/<verb>", act, Right.ACT, "POST"),
)
