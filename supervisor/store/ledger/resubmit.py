"""A copy of a task under a new id, with the same params and limits, that is due at once.

Invariants: the copy holds no dedup key (that is the first one's to give away), and both trails name
the other task; the same copy is not written twice. Called through `Transaction`.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import bindparam, select

from supervisor.errors import UnknownTask
from supervisor.model.record import Submitted
from supervisor.model.spec import TaskSpec
from supervisor.store.ledger.audit import NoteReason, write_note
from supervisor.store.ledger.intervene import Act
from supervisor.store.ledger.submit import submit
from supervisor.store.schema import tasks
from supervisor.store.session import Ordered, Session, ordered

_COPIED = (
    "type", "params", "queue", "priority", "timeout", "soft_timeout", "max_retries", "tags",
    "parent_id",
)  # fmt: skip


def resubmit(session: Session, task_id: str, act: Act, copy_id: str | None) -> Submitted:
    """Submit a copy of a task; `copy_id` is its id, if it was chosen before.

    Raises: UnknownTask; Refused when another task has that id.
    """
    row = session.row(_select_spec, task_id)
    if row is None:
        raise UnknownTask(f"no task {task_id}", remedy="Check the id and the store.")
    spec = _spec(dict(zip(_COPIED, row, strict=True)), act.by, copy_id)
    (submitted,) = submit(session, [spec], act.now)
    if submitted.created:
        copy = submitted.task_id
        _note(session, act, copy, NoteReason.RESUBMITTED_FROM, f"a copy of {task_id}: {act.reason}")
        _note(session, act, task_id, NoteReason.RESUBMITTED_AS, f"its copy is {copy}: {act.reason}")
    return submitted


def _spec(row: dict[str, Any], by: str, copy_id: str | None) -> TaskSpec:
    params, tags = row.pop("params"), row.pop("tags")
    return TaskSpec(
        **row,
        params_json=params,
        tags=tuple(json.loads(tags)) if tags else (),
        task_id=copy_id,
        submitted_by=by,
    )


def _note(session: Session, act: Act, task_id: str, reason: NoteReason, told: str) -> None:
    write_note(
        session, act.now,
        task_id=task_id, attempt=None, operator=act.by, reason=reason, text=told,
    )  # fmt: skip


def _select_spec() -> Ordered:
    columns = (tasks.c[name] for name in _COPIED)
    return ordered(select(*columns).where(tasks.c.task_id == bindparam("the_task")), "the_task")
