"""Tasks that were chosen on a page, each with how it looked there; an act on them goes by that.

Secret kept here: how a form names them. Whatever has changed meanwhile the ledger leaves alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from werkzeug.exceptions import BadRequest

from supervisor.client import Client
from supervisor.model.bulk import BulkVerb
from supervisor.model.record import Acted, Seen
from supervisor.model.states import State
from supervisor.store import TaskLine
from supervisor.web.visit import Visit
from supervisor.words.retold import retold


@dataclass(frozen=True, slots=True)
class Verb:
    """What can be done to many tasks."""

    name: BulkVerb
    carry_out: Callable[..., list[Acted]]
    label: LazyString
    hint: LazyString


VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        verb.name: verb
        for verb in (
            Verb(BulkVerb.CANCEL, Client.cancel, _l("Cancel"),
                 _l("What waits is canceled at once; what runs is told first, and killed after "
                    "its grace.")),
            Verb(BulkVerb.FAIL, Client.fail, _l("End as FAILED"),
                 _l("What runs is told first, killed after its grace, and not retried.")),
            Verb(BulkVerb.RERUN, Client.rerun, _l("Run again"),
                 _l("What ended FAILED or TIMEOUT runs again with fresh retries.")),
        )
    }
)  # fmt: skip

#: What one form may choose: a page of a list, with room.
CHOSEN_MAX = 200
_CHOSEN = re.compile(rf"(task_[0-9a-f]{{32}})\.({'|'.join(State)})\.([0-9]{{1,9}})\Z")


def as_seen(task: TaskLine) -> str:
    """Return what a form says of a task that can be chosen."""
    return f"{task.task_id}.{task.state}.{task.attempt}"


def act(visit: Visit, verb: Verb, chosen: Sequence[str], reason: str) -> list[Acted]:
    """Act on those tasks that still are as they were seen; each is answered for itself.

    Raises: BadRequest for what `as_seen` did not make, or too much of it.
    """
    found = [_CHOSEN.match(one) for one in dict.fromkeys(chosen[:CHOSEN_MAX])]
    if not all(found) or len(chosen) > CHOSEN_MAX:
        raise BadRequest(_("These are no tasks of a list."))
    tasks = {one[1]: Seen(State(one[2]), int(one[3])) for one in filter(None, found)}
    return act_on(visit, verb, tasks, reason)


def act_on(visit: Visit, verb: Verb, tasks: Mapping[str, Seen | None], reason: str) -> list[Acted]:
    """Act on tasks, by their whole ids; answered in their order. None: however it looks now."""
    alike: dict[Seen | None, list[str]] = {}
    for task_id, seen in tasks.items():
        alike.setdefault(seen, []).append(task_id)
    by = visit.person.name
    acted = {
        one.task_id: one
        for seen, task_ids in alike.items()
        for one in verb.carry_out(visit.client, task_ids, by=by, reason=reason, seen=seen)
    }
    return [acted[task_id] for task_id in tasks]


def counted(verb: Verb, acted: Sequence[Acted]) -> str:
    """Say how many of the tasks got which answer."""
    counts = Counter(one.answer for one in acted)
    told = ", ".join(f"{count} {retold(answer)}" for answer, count in counts.most_common())
    return f"{verb.label}: {told or _('no task')}"
