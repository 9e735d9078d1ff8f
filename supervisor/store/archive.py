"""Moving what has long ended from the store to cold files, and losing or doubling nothing.

Invariants: rows are deleted only after they were read back from a file whose checksum is right; a
run that is killed leaves either an unnamed part of a file (removed by the next) or a file called
`.moving` (the next deletes what it holds, then renames it); the write lock is held for a few
milliseconds at a time. Live tasks and held dedup keys are never touched. The command line runs it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeVar

from supervisor.errors import DependencyAway, Refused, StoreUnavailable
from supervisor.model.states import LIVE, State
from supervisor.store.archive_file import (
    MOVING_SUFFIX,
    PARTIAL_SUFFIX,
    SUFFIX,
    ColdFile,
    ColdWriter,
    Entry,
    Record,
    decode_body,
)
from supervisor.store.archive_rows import (
    Ended,
    audit_ids,
    audit_page,
    audit_records,
    count_audit,
    ended_page,
    load_tasks,
    newest_audit,
    retired,
)
from supervisor.store.engine import Store
from supervisor.store.ledger import Ledger, Transaction
from supervisor.store.ledger.audit import NoteReason

T = TypeVar("T")

#: A file is closed when it holds so many records or bytes.
FILE_RECORDS, FILE_BYTES = 10_000, 64 * 2**20
#: Tasks whose rows are read in one transaction.
LOAD = 100
#: Tasks deleted in one transaction grow or shrink so that it takes about so long.
HOLD_S = (0.004, 0.01)
BATCH_MAX = 500
#: Audit rows deleted in place of one task.
ROWS_PER_TASK = 5
#: The writers of the store are left at least this much time between two of ours.
PAUSE_S = 0.001
#: On a shared store, how long others wait for a run that was killed.
LEASE_S = 60.0

WELL = (State.SUCCESS, State.CANCELED)
DEAD_LETTERS = (State.FAILED, State.TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to move `now`. Tasks that ended, and audit rows written, before these times.

    `dead_letters`: FAILED and TIMEOUT tasks too. `held_keys`: also tasks whose dedup key is held
    for as long as their row exists; it is free afterwards. `tasks_max` ends the run early.
    """

    now: datetime
    ended_before: datetime
    audit_before: datetime
    dead_letters: bool = False
    held_keys: bool = False
    tasks_max: int | None = None


class Kept(Enum):
    """Why a task stays in the store."""

    LIVE = auto()
    YOUNG = auto()
    DEAD_LETTER = auto()
    KEY = auto()


def why_kept(task: Ended, wanted: Wanted) -> Kept | None:
    """Say why a task stays; None for one that goes."""
    if task.state in LIVE:
        return Kept.LIVE
    if task.ended_at is None or task.ended_at >= wanted.ended_before:
        return Kept.YOUNG
    if task.state in DEAD_LETTERS and not wanted.dead_letters:
        return Kept.DEAD_LETTER
    for_good = task.dedup_until is None and wanted.held_keys
    over = task.dedup_until is not None and task.dedup_until <= wanted.now
    return Kept.KEY if task.dedup_held and not (for_good or over) else None


@dataclass(slots=True)
class Moved:
    """What a run did, or would do; kept up to date while it goes on."""

    tasks: int = 0
    audit_rows: int = 0
    files: list[str] = field(default_factory=list)
    bytes: int = 0
    finished_files: list[str] = field(default_factory=list)
    changed_meanwhile: int = 0
    kept_dead_letters: int = 0
    kept_keys: int = 0
    deleted_tasks: int = 0
    longest_transaction_ms: float = 0.0
    limit_reached: bool = False


class Archive:
    """The cold files of one store in one directory, as their only writer."""

    def __init__(self, ledger: Ledger, directory: Path, *, by: str) -> None:
        self._store: Store = ledger.store
        self._ledger = ledger
        self._directory = directory
        self._by = by
        self._lead_as = ""
        self._lead_until = 0.0
        self._clock = ledger.store.clock
        self._batch = 20
        self.moved = Moved()

    def plan(self, wanted: Wanted) -> Moved:
        """Count what `move` would move; nothing is written."""
        newest, its_task = self._newest()
        for ids in self._old_tasks(wanted, its_task):
            with self._store.reading() as connection:
                self.moved.audit_rows += count_audit(connection, ids)
            self.moved.tasks += len(ids)
        if not self.moved.limit_reached:
            for record in self._old_audit(wanted, newest):
                self._count(record)
        return self.moved

    def move(self, wanted: Wanted, told: Callable[[Moved], None] = lambda _: None) -> Moved:
        """Move it all, file by file, and tell of each step.

        Raises: Refused when another run has the directory; DependencyAway when it cannot be
        written; ArchiveBroken when a file does not read back as it was written; StoreUnavailable.
        """
        with self._only_one(), _plain_errors(self._directory):
            self._write_all(wanted, told)
            if self.moved.files:
                self._note()
        return self.moved

    def _write_all(self, wanted: Wanted, told: Callable[[Moved], None]) -> None:
        self._finish_earlier(told)
        writer: ColdWriter | None = None
        try:
            for record in self._records(wanted):
                if writer is None:
                    writer = self._writer()
                writer.add(record)
                self._count(record)
                if len(writer.entries) >= FILE_RECORDS or writer.size >= FILE_BYTES:
                    self._settle(writer, told)
                    writer = None
            if writer is not None:
                self._settle(writer, told)
        except BaseException:
            if writer is not None:
                writer.drop()
            raise

    def _note(self) -> None:
        done = self.moved
        text = f"{done.tasks} tasks and {done.audit_rows} audit rows moved to {self._directory}"
        self._ledger.run(
            lambda tx: tx.note(
                None,
                None,
                reason=NoteReason.ARCHIVED,
                text=text,
                now=self._clock.now(),
                operator=self._by,
            )
        )

    # -- what is to be moved

    def _records(self, wanted: Wanted) -> Iterator[Record]:
        newest, its_task = self._newest()
        for ids in self._old_tasks(wanted, its_task):
            with self._store.reading() as connection:
                records = load_tasks(connection, ids)
            yield from records
        if not self.moved.limit_reached:
            yield from self._old_audit(wanted, newest)

    def _newest(self) -> tuple[int, str | None]:
        with self._store.reading() as connection:
            return newest_audit(connection)

    def _old_tasks(self, wanted: Wanted, but: str | None) -> Iterator[list[str]]:
        """Yield the ids of old tasks, some at a time: state by state, and then by their ids."""
        for state in (*WELL, *DEAD_LETTERS):
            after = ""
            while not self.moved.limit_reached:
                with self._store.reading() as connection:
                    page = ended_page(connection, state, after)
                if not page:
                    break
                after = page[-1].task_id
                old = [task.task_id for task in page if self._goes(task, wanted)]
                yield from self._within_limit([one for one in old if one != but], wanted)

    def _goes(self, task: Ended, wanted: Wanted) -> bool:
        """Say whether a task goes; count why another stays."""
        why = why_kept(task, wanted)
        self.moved.kept_dead_letters += why is Kept.DEAD_LETTER
        self.moved.kept_keys += why is Kept.KEY
        return why is None

    def _within_limit(self, ids: list[str], wanted: Wanted) -> Iterator[list[str]]:
        for start in range(0, len(ids), LOAD):
            some = ids[start : start + LOAD]
            if wanted.tasks_max is not None:
                left = max(0, wanted.tasks_max - self.moved.tasks)
                self.moved.limit_reached |= left < len(some)
                some = some[:left]
            if some:
                yield some

    def _old_audit(self, wanted: Wanted, newest: int) -> Iterator[Record]:
        """Yield the old audit rows of ended tasks that stay, and of no task."""
        after = 0

        def moves(task: Ended) -> bool:
            return why_kept(task, wanted) is None

        while True:
            with self._store.reading() as connection:
                page = audit_page(connection, after, newest)
                old = [row for row in page if row.at < wanted.audit_before]
                records = audit_records(connection, old, moves)
            yield from records
            if not old:
                return  # rows are in the order in which they were written, but for moments
            after = page[-1].id

    def _count(self, record: Record) -> None:
        self.moved.tasks += record.kind == "task"
        self.moved.audit_rows += len(record.body["audit"])

    # -- one file

    def _writer(self) -> ColdWriter:
        stamp = self._clock.now().strftime("%Y%m%dT%H%M%S")
        name = f"{stamp}-{secrets.token_hex(4)}{PARTIAL_SUFFIX}"
        return ColdWriter(self._directory / name, store_name(self._store))

    def _settle(self, writer: ColdWriter, told: Callable[[Moved], None]) -> None:
        """Bring a file to the disk, read it back, delete what it holds, give it its name."""
        writer.finish(self._clock.now())
        ColdFile(writer.path).verify()
        stem = writer.path.name.removesuffix(PARTIAL_SUFFIX)
        moving = self._named(writer.path, stem + MOVING_SUFFIX)
        told(self.moved)
        path = self._empty_store_of(moving, told)
        self.moved.files.append(str(path))
        self.moved.bytes += path.stat().st_size
        told(self.moved)

    def _finish_earlier(self, told: Callable[[Moved], None]) -> None:
        """Do what an earlier run that was killed has left to do."""
        for part in self._directory.glob("*" + PARTIAL_SUFFIX):
            part.unlink()
        for path in sorted(self._directory.glob("*" + MOVING_SUFFIX)):
            if ColdFile(path).verify().store == store_name(self._store):
                self.moved.finished_files.append(str(self._empty_store_of(path, told, again=True)))

    def _empty_store_of(
        self, moving: Path, told: Callable[[Moved], None], *, again: bool = False
    ) -> Path:
        file = ColdFile(moving)
        tasks: list[dict[str, Any]] = []
        rows: list[int] = []
        for entry, line in file.bodies(file.entries()):
            body = decode_body(line)
            if _is_whole(entry):
                tasks.append(body)
            else:
                rows += audit_ids(body)
            if len(tasks) >= self._batch:
                self._forget(tasks, again=again)
                tasks.clear()
                told(self.moved)
            if len(rows) >= self._batch * ROWS_PER_TASK:
                self._forget_audit(rows)
                rows.clear()
                told(self.moved)
        self._forget(tasks, again=again)
        self._forget_audit(rows)
        return self._named(moving, moving.name.removesuffix(MOVING_SUFFIX) + SUFFIX)

    def _forget(self, bodies: Sequence[dict[str, Any]], *, again: bool) -> None:
        if not bodies:
            return
        copies = [retired(body) for body in bodies]
        gone = self._held(lambda tx: tx.forget(copies))
        self.moved.deleted_tasks += len(gone)
        if not again:  # else most of them were deleted by the run that was killed
            self.moved.changed_meanwhile += len(copies) - len(gone)

    def _forget_audit(self, ids: Sequence[int]) -> None:
        if ids:
            self._held(lambda tx: tx.forget_audit(ids))

    def _held(self, act: Callable[[Transaction], T]) -> T:
        """Do it in a transaction that takes about as long as one may, and give others a turn."""
        began = 0.0

        def timed(tx: Transaction) -> T:
            nonlocal began
            began = self._clock.mono()  # the turn of writing is got by now
            return act(tx)

        answer = self._ledger.run(timed)
        took = self._clock.mono() - began
        self.moved.longest_transaction_ms = max(
            self.moved.longest_transaction_ms, round(took * 1000, 1)
        )
        if took < HOLD_S[0]:
            self._batch = min(self._batch * 2, BATCH_MAX)
        elif took > HOLD_S[1]:
            self._batch = max(self._batch // 2, 1)
        self._clock.sleep(max(PAUSE_S, took))
        self._lead()
        return answer

    def _named(self, path: Path, name: str) -> Path:
        target = path.with_name(name)
        path.rename(target)
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return target

    @contextmanager
    def _only_one(self) -> Iterator[None]:
        """Hold the directory, and on a store that hosts share the role, against other runs."""
        with _plain_errors(self._directory):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(
                self._directory / "archive.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise _another(f"writes to {self._directory}") from error
            self._lead_as = _name_in(lock)
            self._lead()
            try:
                yield
            finally:
                with suppress(StoreUnavailable):  # it is over by itself after a while
                    self._lead(0.0)
        finally:
            os.close(lock)

    def _lead(self, lease_s: float = LEASE_S) -> None:
        """Take or keep the role; a lease of no length gives it back."""
        if not self._store.is_shared or (lease_s and self._clock.boot() < self._lead_until):
            return
        until = self._clock.boot() + lease_s / 3
        if self._ledger.run(lambda tx: tx.lead("archive", self._lead_as, lease_s)) is None:
            raise _another("runs on this store")
        self._lead_until = until


def _name_in(lock: int) -> str:
    """Return the directory's own name, made when it is first used.

    So the run that follows one that was killed leads at once, since it holds the lock.
    """
    name = os.pread(lock, 64, 0).decode()
    if not name:
        name = f"archive_{secrets.token_hex(8)}"
        os.pwrite(lock, name.encode(), 0)
    return name


def _another(what: str) -> Refused:
    return Refused(
        f"another `supervisor archive` {what}",
        remedy="Wait for it, or stop it: what it has begun is finished by the next.",
    )


def store_name(store: Store) -> str:
    """Return what tells one store's files from those of another."""
    return store.identity or store.name


def old(now: datetime, days: float) -> datetime:
    """Return the time that was so many days ago."""
    return now - timedelta(days=days)


def _is_whole(entry: Entry) -> bool:
    return entry.kind == "task"


@contextmanager
def _plain_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DependencyAway(
            f"cannot write to the archive {directory}: {error.strerror or error}",
            remedy="Make room, or choose a place you may write to with --archive-dir. What was "
            "not copied in full is still in the store.",
            path=str(directory),
        ) from error
