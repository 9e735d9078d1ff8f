"""What an attempt printed: live where its node is on this host, else what is kept of it.

Invariant: what is shown is without what is secret of the task; where nothing is shown it is said
why. Foreign text: the template escapes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from flask_babel import gettext as _

from supervisor.errors import Refused
from supervisor.model.states import State
from supervisor.store import Reader, TaskView
from supervisor.words.living import live_output, living_worker
from supervisor.words.retold import retold
from supervisor.words.veil import Veil

#: Bytes of the end of a live output.
TAIL_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Output:
    """The end of what was printed; `why` says why there is nothing, or where to look."""

    text: str | None
    is_live: bool
    why: str = ""


def output_of(reader: Reader, task: TaskView, veil: Veil) -> Output:
    """Return what can be shown of what a task printed."""
    if task.state is State.RUNNING and not task.assigned:
        try:
            text = _live(reader, task)
        except Refused as refused:
            kept = veil.text(reader.log(task.task_id))
            return Output(kept, False, _away(refused))
        return Output(veil.text(text) or None, True, "" if text else _("It has printed nothing."))
    kept = veil.text(reader.log(task.task_id))
    if kept:
        return Output(kept, False)
    if task.state is State.SUCCESS:
        return Output(None, False, _("Nothing is kept of what an attempt printed that succeeded."))
    return Output(None, False, _("Nothing was printed, or nothing of it is kept."))


def _away(refused: Refused) -> str:
    if host := refused.facts.get("node_name"):
        told = _(
            "It runs on host %(host)s; its output is shown here when it has ended, and there by "
            "`supervisor logs --follow`.",
            host=host,
        )
        return str(told)
    return str(_("Its output cannot be read now: %(why)s.", why=retold(refused.message)))


def _live(reader: Reader, task: TaskView) -> str:
    """Read the end of a running output. Raises: Refused."""
    worker = living_worker(reader, task, "logs")
    with live_output(reader.store, worker, task, TAIL_BYTES) as output:
        pieces = list(iter(output.read, b""))
    return b"".join(pieces).lstrip(b"\0").decode("utf-8", "replace")
