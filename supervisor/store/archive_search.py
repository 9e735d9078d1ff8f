"""Looking into cold files: one task in full, ids by a part of them, and a search over all files.

Invariants: writes nothing; a file that cannot be read is left out and named in `damaged`; a task
that several files hold is one task, the file written last counts. By id only heads are read, and
the indexes of the files whose ids go around it; by text everything is. The command line uses it.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from supervisor.errors import ArchiveBroken
from supervisor.model.states import State
from supervisor.store.archive_file import (
    SUFFIX,
    ColdFile,
    Entry,
    Head,
    decode_body,
)
from supervisor.store.archive_rows import ColdTask, cold_task, history_lines
from supervisor.store.view import HistoryLine

T = TypeVar("T")

#: Sorts after every id that begins like this: ids are hex digits behind `task_`.
_AFTER = "g"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdFilter:
    """What to find. Empty means any; `part` is the beginning or the end of an id.

    A task is of a time if it lived then: from its submission to its end.
    """

    part: str = ""
    types: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ColdLine:
    """A record that was found, and its file. `kind` is audit where only rows of the trail are."""

    task_id: str | None
    kind: str
    type: str | None
    state: str | None
    created_at: datetime
    ended_at: datetime
    file: Path


class ArchiveReader:
    """The cold files of one directory, which need not exist."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.damaged: list[ArchiveBroken] = []

    def task(self, task_id: str, own: Sequence[HistoryLine] = ()) -> ColdTask | None:
        """Return a task as it was archived; `own` is what the store still has of its trail."""
        files, bodies = self._records_of(task_id)
        return cold_task(bodies, files, own)

    def history(
        self, task_id: str, own: Sequence[HistoryLine] = ()
    ) -> tuple[list[HistoryLine], list[Path]]:
        """Return a task's trail from store and files, and the files that have any of it."""
        files, bodies = self._records_of(task_id)
        return history_lines(bodies, own), files

    def ids_beginning(self, digits: str, limit: int) -> list[str]:
        """Return the ids of archived tasks that begin like this, a few if they are many."""
        low = f"task_{digits}"
        found = {
            entry.task_id
            for file in self._files_with(low, low + _AFTER)
            for entry in self._tried(file.entries) or ()
            if entry.kind == "task" and entry.task_id and entry.task_id.startswith(low)
        }
        return sorted(found)[:limit]

    def ids_ending(self, digits: str, limit: int) -> list[str]:
        """Return the ids of archived tasks that end like this; reads every index."""
        found = {
            entry.task_id
            for _, file in self._files()
            for entry in self._tried(file.entries) or ()
            if entry.kind == "task" and entry.task_id and entry.task_id.endswith(digits)
        }
        return sorted(found)[:limit]

    def search(self, wanted: ColdFilter) -> list[ColdLine]:
        """Return what was found, newest first, each task once."""
        return heapq.nlargest(wanted.limit, self._matches(wanted), key=_age)

    # -- files

    def _files(self) -> list[tuple[Head, ColdFile]]:
        """Return the files that can be read with their heads, those written last first."""
        files = map(ColdFile, self._directory.glob("*" + SUFFIX))  # `.moving` ends like this too
        heads = ((self._tried(file.head), file) for file in files)
        found = [(head, file) for head, file in heads if head is not None]
        return sorted(found, key=lambda one: (one[0].written_at, one[1].path.name), reverse=True)

    def _files_with(self, low: str, high: str) -> list[ColdFile]:
        """Return those of them that hold ids from here to there."""
        return [
            file for head, file in self._files() if head.first_id < high and head.last_id >= low
        ]

    def _tried(self, ask: Callable[[], T]) -> T | None:
        """Ask a file; one that cannot be read is named once, and left out."""
        try:
            return ask()
        except ArchiveBroken as error:
            if error.facts not in [one.facts for one in self.damaged]:
                self.damaged.append(error)
        return None

    # -- records

    def _records_of(self, task_id: str) -> tuple[list[Path], list[dict[str, Any]]]:
        """Return every record of a task with its file, those written first first."""
        files: list[Path] = []
        bodies: list[dict[str, Any]] = []
        for file in reversed(self._files_with(task_id, task_id + "\0")):
            lines = self._tried(partial(_bodies_of, file, task_id)) or []
            bodies += [decode_body(line) for line in lines]
            files += [file.path] * bool(lines)
        return files, bodies

    def _matches(self, wanted: ColdFilter) -> Iterator[ColdLine]:
        seen: set[str] = set()
        for whole in (True, False):  # a task is told by its record, not by rows of its trail
            for _, file in self._files():
                for entry in self._tried(partial(_matching, file, wanted, whole=whole)) or ():
                    if entry.task_id is not None:
                        if entry.task_id in seen:
                            continue
                        seen.add(entry.task_id)
                    yield _line(entry, file.path)


def _bodies_of(file: ColdFile, task_id: str) -> list[bytes]:
    its_own = [entry for entry in file.entries() if entry.task_id == task_id]
    return [line for _, line in file.bodies(its_own)]


def _matching(file: ColdFile, wanted: ColdFilter, *, whole: bool) -> list[Entry]:
    found = [
        entry
        for entry in file.entries()
        if (entry.kind == "task") is whole and _matches_entry(entry, wanted)
    ]
    if not wanted.text:
        return found
    needle = json.dumps(wanted.text, ensure_ascii=False)[1:-1].casefold()
    return [entry for entry, line in file.bodies(found) if needle in line.decode().casefold()]


def _matches_entry(entry: Entry, wanted: ColdFilter) -> bool:
    part = wanted.part.removeprefix("task_")
    return (
        (not part or _is_called(entry.task_id or "", part))
        and (not wanted.types or entry.type in wanted.types)
        and (not wanted.states or entry.state in wanted.states)
        and (wanted.since is None or entry.ended_at >= wanted.since)
        and (wanted.until is None or entry.created_at <= wanted.until)
    )


def _is_called(task_id: str, part: str) -> bool:
    return task_id.startswith(f"task_{part}") or task_id.endswith(part)


def _line(entry: Entry, path: Path) -> ColdLine:
    return ColdLine(
        entry.task_id,
        entry.kind,
        entry.type,
        entry.state,
        entry.created_at,
        entry.ended_at,
        path,
    )


def _age(line: ColdLine) -> tuple[str, datetime]:
    return line.task_id or "", line.created_at
