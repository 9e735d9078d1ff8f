"""The pages of all evidence: the list, the newest of a kind, and groups that share one wait.

Invariant: an act on the tasks of a group names each task as it was seen, and is answered for each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from flask import flash, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.model.access import Right
from supervisor.model.record import Answer as Outcome
from supervisor.store.view import AutopsyFilter
from supervisor.web import wording
from supervisor.web.chosen import CHOSEN_MAX, VERBS, counted
from supervisor.web.chosen import act as act_on
from supervisor.web.group import grouped, tasks_of
from supervisor.web.visit import Answer, Room, Route, Visit, a_moment, argument, go, missing, show
from supervisor.words.sentence import diagnosis

PAGE = 50
_KEY = re.compile(r"[0-9a-f]{16}\Z")
WHEN = _l(
    "One is taken before a kill, after a crash, on suspicion (at most one of an attempt every two "
    "minutes), or by `supervisor autopsy capture`; old ones are removed after autopsy_keep_days."
)


def listing(visit: Visit) -> Answer:
    """Return one page of bundles, newest first."""
    wanted = _wanted()
    found = visit.reader.find_autopsies(wanted)
    return show(
        "autopsies.html",
        visit,
        now=visit.now(),
        given=_given(),
        nodes={node.node_id: node.node_name for node in visit.reader.nodes()},
        autopsies=found.autopsies,
        cause=diagnosis,
        more=_address(found.next_id) if found.next_id else None,
        first=_address(None) if wanted.before_id else None,
        filtered=any(_given().values()),
        same=_address(None),
        when=WHEN,
    )


def latest(visit: Visit) -> Answer:
    """Lead to the newest bundle of a type and verdict: what alerts link to."""
    wanted = AutopsyFilter(type=argument("type"), verdict=argument("verdict"), limit=1)
    found = visit.reader.find_autopsies(wanted).autopsies
    if found:
        return go(f"/autopsies/{found[0][0].autopsy_id}")
    what = " ".join(
        filter(
            None,
            (
                "No autopsy",
                wanted.type and f"of type {wording.line(wanted.type)}",
                wanted.verdict and f"with the verdict {wording.line(wanted.verdict)}",
            ),
        )
    )
    runs = wording.query([("state", "RUNNING"), ("type", wanted.type)])
    alike = {"autopsies": wording.query([("type", wanted.type)])} if wanted.type else {}
    return missing(visit, f"{what} yet", str(WHEN), tasks=runs, **alike)


def groups(visit: Visit) -> Answer:
    """Return the attempts that wait for the same, the largest groups first."""
    found = grouped(visit.reader, _wanted())
    return show(
        "autopsy_groups.html",
        visit,
        now=visit.now(),
        given=_given(),
        groups=found.groups,
        counted=found.counted,
        is_all=found.is_all,
        same=_address(None),
        filtered=any(_given().values()),
        when=WHEN,
    )


def group(visit: Visit, key: str) -> Answer:
    """Return one group: its bundles, and its tasks as they are now."""
    found = grouped(visit.reader, _wanted()).of(key)
    if found is None:
        why = _("Its bundles were removed, or newer ones have taken their place among those seen.")
        return missing(visit, _("No such group"), why, autopsies=_address(None))
    return show(
        "autopsy_group.html",
        visit,
        now=visit.now(),
        group=found,
        tasks=tasks_of(visit.reader, found.task_ids[:CHOSEN_MAX]),
        left_out=max(0, len(found.task_ids) - CHOSEN_MAX),
        cause=diagnosis,
        same=_address(None),
        labels={name: verb.label for name, verb in VERBS.items()},
    )


def act(visit: Visit, key: str) -> Answer:
    """Do one thing to the chosen tasks of a group; each is answered for itself."""
    back = f"/autopsies/groups/{key}" if _KEY.match(key) else "/autopsies/groups"
    verb, reason = request.form.get("verb", ""), request.form.get("reason", "").strip()
    chosen = request.form.getlist("task")
    if verb not in VERBS:
        raise BadRequest(_("This form is not one of ours."))
    if not reason or not chosen:
        flash(_("Nothing was done: choose tasks, and say why; it stands in the audit trail."),
              "problem")  # fmt: skip
        return go(back)
    acted = act_on(visit, VERBS[verb], chosen, reason)
    done = [one for one in acted if one.answer != Outcome.CHANGED]
    others = [one for one in acted if one.answer == Outcome.CHANGED]
    flash(counted(VERBS[verb], done), "done" if any(one.done for one in done) else "problem")
    if others:
        told = ", ".join(f"{wording.short(one.task_id)} {one.state}" for one in others[:20])
        flash(_("Left alone, since they changed meanwhile: %(which)s", which=told), "problem")
    return go(back)


def _given() -> Mapping[str, str]:
    """Return what the address asks for, as it stands there."""
    names = ("type", "verdict", "diagnosis", "node", "since", "until")
    return {name: argument(name) for name in names}


def _wanted() -> AutopsyFilter:
    """Read the filter from the address. Raises: BadRequest for what is no time."""
    given = _given()
    return AutopsyFilter(
        type=given["type"],
        verdict=given["verdict"],
        diagnosis=given["diagnosis"],
        node_id=given["node"],
        since=a_moment(given["since"]),
        until=a_moment(given["until"]),
        before_id=argument("before") or None,
        limit=PAGE,
    )


def _address(before: str | None) -> str:
    return wording.query([*_given().items(), ("before", before or "")])


ROOM = Room("autopsies", _l("Autopsies"), Right.AUTOPSIES, "a")
ROUTES = (
    Route("autopsies", "/autopsies", listing, Right.AUTOPSIES),
    Route("latest", "/autopsies/latest", latest, Right.AUTOPSIES),
    Route("autopsy_groups", "/autopsies/groups", groups, Right.AUTOPSIES),
    Route("autopsy_group", "/autopsies/groups/<key>", group, Right.AUTOPSIES),
    Route("autopsy_group_act", "/autopsies/groups/<key>", act, Right.ACT, "POST"),
)
