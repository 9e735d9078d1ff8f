"""One task wherever it is: in the store, or in the cold files it was moved to.

Invariants: what the store has is shown, never a copy of it; a trail is one, with its oldest rows
from the files they were moved to. A file that cannot be read is told on stderr. Nobody who asks for
what the store has in full waits for cold files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.call import Call
from supervisor.words.text import plain

if TYPE_CHECKING:
    from supervisor.store import AutopsyRecord, HistoryLine, TaskView
    from supervisor.store.archive_search import ArchiveReader
    from supervisor.store.view import AttemptView, CheckpointView

_WHOLE = re.compile(r"(?:task_)?([0-9a-f]{32})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A task in full; `files` are the cold ones that any of it comes from.

    `is_archived` says that the store has no more of it.
    """

    view: TaskView
    attempts: Sequence[AttemptView]
    history: Sequence[HistoryLine]
    autopsies: Sequence[AutopsyRecord]
    checkpoint: CheckpointView | None
    log: Callable[[int], str | None]
    files: Sequence[Path]
    is_archived: bool


def subject(call: Call, task_id: str) -> Subject:
    """Return a task by its whole id. Raises: UnknownTask."""
    reader = call.client().reader
    view = reader.task(task_id)
    if view is None:
        return _archived(call, task_id)
    task_id = view.task_id
    trail, files = trail_of(call, task_id)
    return Subject(
        view=view,
        attempts=reader.attempts(task_id),
        history=trail,
        autopsies=reader.autopsies(task_id),
        checkpoint=reader.checkpoint(task_id),
        log=lambda attempt: reader.log(task_id, attempt),
        files=files,
        is_archived=False,
    )


def _archived(call: Call, given: str) -> Subject:
    from supervisor.client import unknown_task

    match = _WHOLE.match(given)
    if match is None:
        raise unknown_task(given)
    task_id = f"task_{match[1]}"
    own = call.client().reader.history(task_id)
    with archive(call) as cold:
        found = cold.task(task_id, own)
    if found is None:
        raise unknown_task(given)
    return Subject(
        view=found.view,
        attempts=found.attempts,
        history=found.history,
        autopsies=found.autopsies,
        checkpoint=found.checkpoint,
        log=found.logs.get,
        files=found.files,
        is_archived=True,
    )


def trail_of(call: Call, task_id: str) -> tuple[Sequence[HistoryLine], Sequence[Path]]:
    """Return the audit trail of a task, and the cold files that part of it comes from."""
    own = call.client().reader.history(task_id)
    if own and own[0].from_state is None and own[0].to_state is not None:
        return own, ()  # it begins with the submission: nothing of it was moved
    with archive(call) as cold:
        return cold.history(task_id, own)


@contextmanager
def archive(call: Call) -> Iterator[ArchiveReader]:
    """Look into the cold files of this command's settings; tell of those that are damaged."""
    from supervisor.store.archive_search import ArchiveReader

    cold = ArchiveReader(Path(call.settings.archive_dir))
    yield cold
    for damage in cold.damaged:
        click.echo(f"note: {plain(damage.message)}; it is left out", err=True)


def source_lines(found: Subject) -> Iterator[str]:
    """Say which cold files a task comes from."""
    what = "archived" if found.is_archived else "trail"
    for file in found.files:
        yield f"  {what:<10} {plain(file, keep='')}"
