"""From what a person gives of an id to the whole of it.

Secret kept here: which parts will do. Ids begin with the time (all of one minute with the same
digits) and end in chance, so the end is what people tell them apart by. Only commands look for it:
no index knows the ends of ids. What the store does not know is looked for in cold files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from supervisor.cli.call import Call
from supervisor.cli.cold import archive
from supervisor.errors import Refused
from supervisor.words.sentence import END_DIGITS

BEGINNING_DIGITS, ALL_DIGITS = 8, 32
MATCHES = 5
ENOUGH = f"give at least {END_DIGITS} digits of its end or {BEGINNING_DIGITS} of its beginning"
_PART = re.compile(r"(task_|…)?([0-9a-f]+)\Z")


def full_id(call: Call, given: str) -> str:
    """Return the id that begins or ends like this; one that no task has comes back as it is.

    Raises: Refused when it is too short, or when several tasks are called like this.
    """
    part = _PART.match(given)
    if part is None or len(part[2]) >= ALL_DIGITS:
        return given
    mark, digits = part[1], part[2]
    if len(digits) < (BEGINNING_DIGITS if mark == "task_" else END_DIGITS):
        raise Refused(
            f"{given} is too short for the id of a task", remedy=f"{ENOUGH.capitalize()}."
        )
    found = [] if mark == "…" else _beginning(call, digits)
    if not found and mark != "task_":
        found = call.client().reader.ids_ending(digits)
    if not found:
        found = _archived(call, mark, digits)
    if len(found) > 1:
        raise _ambiguous(given, found)
    return found[0] if found else given


def _beginning(call: Call, digits: str) -> list[str]:
    if len(digits) < BEGINNING_DIGITS:
        return []
    try:
        view = call.client().reader.task(digits)
    except Refused as exc:
        matches = exc.facts["matches"]
        assert isinstance(matches, list)
        return matches
    return [] if view is None else [view.task_id]


def _archived(call: Call, mark: str | None, digits: str) -> list[str]:
    with archive(call) as cold:
        found: list[str] = []
        if mark != "…" and len(digits) >= BEGINNING_DIGITS:
            found = cold.ids_beginning(digits, MATCHES)
        if not found and mark != "task_":
            found = cold.ids_ending(digits, MATCHES)
        return found


def _ambiguous(given: str, found: Sequence[str]) -> Refused:
    return Refused(
        f"{given} may be any of several tasks, among them {', '.join(found)}",
        remedy=f"Give the end of the one you mean, like {found[0][-8:]}.",
        matches=list(found),
    )
