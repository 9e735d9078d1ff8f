"""The page of one task: all that is known of it, and what can be done to it.

Invariants: an act goes through the client, with the name of who asks and a reason, as on the
command line; its answer is told on the page that then shows the new state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from flask import flash, request
from werkzeug.exceptions import BadRequest, NotFound

from supervisor.errors import Refused
from supervisor.model.access import Right
from supervisor.model.record import Acted
from supervisor.model.record import Answer as Outcome
from supervisor.model.states import State
from supervisor.store import AutopsyRecord, TaskView
from supervisor.web import wording
from supervisor.web.visit import Answer, Route, Visit, go, missing, show
from supervisor.words.ladder import ladder
from supervisor.words.roll import NO_NODE, last_word, roll_call
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
    label: str
    states: frozenset[State]
    hint: str


VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        verb.name: verb
        for verb in (
            Verb(
                "cancel",
                "Cancel",
                frozenset({State.PENDING, State.RUNNING}),
                "A running task is told first, and killed after its grace.",
            ),
            Verb(
                "fail",
                "End as FAILED",
                frozenset({State.RUNNING}),
                "It is told first, killed after its grace, and not retried.",
            ),
            Verb(
                "rerun",
                "Run again",
                frozenset({State.FAILED, State.TIMEOUT}),
                "With fresh retries.",
            ),
        )
    }
)
_FOR_A_NODE = frozenset({Outcome.REQUESTED, Outcome.ALREADY_REQUESTED})


def page(visit: Visit, task_id: str) -> Answer:
    """Return one task in full."""
    found = _find(visit, task_id)
    if found is None:
        return missing(
            visit,
            f"No task {wording.line(task_id)}",
            "Ids are whole, or at least 8 digits of their beginning. A task that ended long ago "
            "may be in the archive: `supervisor show ID` on its host finds it there.",
        )
    if found.task_id != task_id:
        return go(f"/tasks/{found.task_id}")
    reader, veil = visit.reader, veil_of(visit.reader, found)
    found = veil.task(found)
    attempts = veil.attempts(reader.attempts(found.task_id))
    trail = veil.history(reader.history(found.task_id))
    roll = roll_call(reader)
    gone = roll.gone_node(found)
    return show(
        "task.html",
        visit,
        now=visit.now(),
        task=found,
        attempts=list(reversed(attempts)),
        trail=trail,
        steps=ladder(found, trail, attempts),
        waits=waits_for(reader, found, roll),
        gone=None if gone is None else f"{last_word(gone)}; {roll.judged}",
        limits=limits(found, attempts),
        ended=for_good(found, "it runs again only when a person says so"),
        checkpoint=checkpoint_document(veil.checkpoint(reader.checkpoint(found.task_id))),
        log=veil.text(reader.log(found.task_id)),
        autopsies=_autopsies(visit, found.task_id),
        cause=diagnosis,
        verbs=[verb for verb in VERBS.values() if found.state in verb.states],
        words=_Words,
    )


def _autopsies(visit: Visit, task_id: str) -> list[tuple[AutopsyRecord, None]]:
    if not visit.may(Right.AUTOPSIES):
        return []
    return [(record, None) for record in visit.reader.autopsies(task_id)]


class _Words:
    """Sentences about an attempt, for the template."""

    usage = staticmethod(usage)
    note = staticmethod(note)
    progress = staticmethod(last_progress)
    naming_limit = staticmethod(naming_limit)


def act(visit: Visit, task_id: str, verb: str) -> Answer:
    """Do something to a task and show what became of it."""
    if verb not in VERBS:
        raise NotFound("There is no such act.")
    found = _find(visit, task_id)
    if found is None or found.task_id != task_id:
        raise NotFound("No task has this id.")
    reason = request.form.get("reason", "").strip()
    if not reason:
        flash("Nothing was done: say why, it stands in the audit trail.", "problem")
        return go(f"/tasks/{task_id}")
    (done,) = getattr(visit.client, verb)(task_id, by=visit.person.name, reason=reason)
    flash(_answer(visit, VERBS[verb], done), "done" if done.done else "problem")
    return go(f"/tasks/{task_id}")


def _find(visit: Visit, task_id: str) -> TaskView | None:
    try:
        return visit.reader.task(task_id)
    except Refused as several:
        raise BadRequest(several.message) from several


def _answer(visit: Visit, verb: Verb, done: Acted) -> str:
    text = f"{verb.label}: {done.answer.replace('_', ' ')}"
    if done.detail:
        text += f" ({done.detail})"
    if done.answer in _FOR_A_NODE and not roll_call(visit.reader).running:
        text += f"; {NO_NODE}"
    return text


ROUTES = (
    Route("task", "/tasks/<task_id>", page, Right.TASKS),
    Route("act", "/tasks/<task_id>/<verb>", act, Right.ACT, "POST"),
)
