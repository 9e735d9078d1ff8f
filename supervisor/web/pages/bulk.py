"""Acts on many tasks: on those that were chosen at once, on all of a query as an act of its own.

Invariants: every act has an operator and a reason; nothing is begun on all of a query before a page
has said what that is; a task that is no longer as the list showed it is left alone and told.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from flask import flash, request
from flask_babel import gettext as _
from werkzeug.exceptions import BadRequest, NotFound

from supervisor.model.access import Right
from supervisor.model.bulk import MEANT_FOR, BulkAct, frozen
from supervisor.model.query import QueryError, parse, render
from supervisor.model.record import Acted
from supervisor.store import TaskFilter
from supervisor.store.listing import Listing
from supervisor.web.chosen import VERBS, Verb, counted
from supervisor.web.chosen import act as act_on
from supervisor.web.visit import Answer, Route, Visit, a_moment, go, own_path, show
from supervisor.words.retold import retold
from supervisor.words.roll import NO_NODE, roll_call

#: A web process that works takes an act within this.
TAKEN_WITHIN = timedelta(seconds=5)


def act(visit: Visit) -> Answer:
    """Act on the tasks that were chosen, or ask whether all of a query are meant."""
    verb, back = _verb(), own_path(request.form.get("back"))
    reason = request.form.get("reason", "").strip()
    is_all = request.form.get("scope") == "all"
    if is_all and request.form.get("confirmed") != "yes":
        return _asked(visit, verb, reason, back)
    if not reason:
        flash(_("Nothing was done: say why, it stands in the audit trail."), "problem")
        return go(back)
    if is_all:
        return _begun(visit, verb, reason)
    chosen = request.form.getlist("chosen")
    if not chosen:
        flash(_("Nothing was done: no task was chosen."), "problem")
        return go(back)
    acted = act_on(visit, verb, chosen, reason)
    is_done = any(one.done for one in acted)
    flash(_told(visit, verb, acted), "done" if is_done else "problem")
    return go(back)


def _verb() -> Verb:
    found = VERBS.get(request.form.get("verb", ""))
    if found is None:
        raise BadRequest(_("There is no such act."))
    return found


def _told(visit: Visit, verb: Verb, acted: Sequence[Acted]) -> str:
    """Say how many got which answer, and why the first one was refused that was."""
    text = counted(verb, acted)
    refused = next((one for one in acted if not one.done and one.detail), None)
    if refused is not None:
        text += f" (…{refused.task_id[-8:]}: {retold(refused.detail)})"
    if any(one.answer == "requested" for one in acted) and not roll_call(visit.reader).running:
        text += f"; {retold(NO_NODE)}"
    return text


def _asked(visit: Visit, verb: Verb, reason: str, back: str) -> Answer:
    """Say what acting on all of a query is, and ask whether that is meant."""
    text, seen_at = _what(visit)
    try:
        meant = frozen(parse(text), verb.name, seen_at)
        parse(render(meant))
    except QueryError as problem:
        raise BadRequest(" ".join(problem.said(_))) from problem
    count = Listing(visit.reader.store).count(TaskFilter(terms=meant, as_of=seen_at))
    return show(
        "bulk_confirm.html", visit, now=visit.now(), verb=verb, reason=reason, back=back, text=text,
        meant=render(meant), count=count, seen=seen_at, states=MEANT_FOR[verb.name],
    )  # fmt: skip


def _begun(visit: Visit, verb: Verb, reason: str) -> Answer:
    """Begin an act on all of a query."""
    text, seen_at = _what(visit)
    try:
        begun = visit.client.bulk.begin(
            verb.name, text, by=visit.person.name, reason=reason, seen_at=seen_at
        )
    except QueryError as problem:
        raise BadRequest(" ".join(problem.said(_))) from problem
    return go(f"/bulk/{begun.bulk_id}")


def _what(visit: Visit) -> tuple[str, datetime]:
    """Return the query of the form, and when what it finds was seen."""
    now = visit.now()
    return request.form.get("q", ""), min(a_moment(request.form.get("seen", "")) or now, now)


def listing(visit: Visit) -> Answer:
    """Return the acts that were begun last."""
    acts = visit.client.bulk.latest()
    return show("bulks.html", visit, now=visit.now(), acts=acts, label_of=_label_of)


def page(visit: Visit, bulk_id: str) -> Answer:
    """Return one act: how far it is, and which answers its tasks got."""
    found = visit.client.bulk.get(bulk_id)
    if found is None:
        raise NotFound(_("There is no such act on many tasks."))
    label = _label_of(found)
    return show("bulk.html", visit, now=visit.now(), act=found, label=label, grace=TAKEN_WITHIN)


def _label_of(act: BulkAct) -> str:
    """Return what an act is called; one of a later version by its own word."""
    verb = VERBS.get(act.verb)
    return act.verb if verb is None else str(verb.label)


def stop(visit: Visit, bulk_id: str) -> Answer:
    """Stop an act before its end."""
    reason = request.form.get("reason", "").strip()
    if not reason:
        flash(_("Nothing was done: say why, it stands in the audit trail."), "problem")
    elif visit.client.bulk.stop(bulk_id, by=visit.person.name, reason=reason):
        flash(_("It is stopped; what is done stays done."), "done")
    else:
        flash(_("It is over already."), "problem")
    return go(f"/bulk/{bulk_id}")


ROUTES = (
    Route("bulks", "/bulk", listing, Right.TASKS),
    Route("bulk_act", "/bulk", act, Right.ACT, "POST"),
    Route("bulk", "/bulk/<bulk_id>", page, Right.TASKS),
    Route("bulk_stop", "/bulk/<bulk_id>/stop", stop, Right.ACT, "POST"),
)
