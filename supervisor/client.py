"""What a program does with tasks from outside: submit, look, wait, and step in.

Secret kept here: the store is opened when it is first needed (only a submit may create it), and the
doorbell rings after the commit and never before it. Used by the App and the command line; the node
has its own scribe. Safe to share between threads, not across a fork.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from supervisor.clock import Clock, SystemClock
from supervisor.errors import NoResult, StoreUnavailable, UnknownTask, WaitTimeout
from supervisor.model.record import Acted, Seen, Submitted
from supervisor.model.spec import TaskSpec
from supervisor.model.states import ENDED, State
from supervisor.queue import Bell, open_bell
from supervisor.settings import Settings
from supervisor.store import (
    AutopsyRecord,
    HistoryLine,
    Ledger,
    Reader,
    Store,
    TaskView,
    is_present,
    new_task_id,
    open_store,
)
from supervisor.store.access import AccessBook
from supervisor.store.alerts import AlertBook
from supervisor.store.bulk import BulkDesk
from supervisor.store.habit import Habits
from supervisor.store.ledger.access import Access
from supervisor.store.ledger.alerts import Telling
from supervisor.store.ledger.audit import NoteReason
from supervisor.store.orders import OrderDesk
from supervisor.store.trail import Trail
from supervisor.store.vitals import VitalsBook
from supervisor.telemetry.trace import Sender, Sending

__all__ = ["Acted", "Client", "Handle", "HistoryLine", "TaskView", "as_ids", "unknown_task"]

#: A wait looks soon, then less and less often: a short task is seen within its own time again.
POLL_FIRST_S, POLL_MOST_S, POLL_GROWTH = 0.002, 0.2, 1.5

T = TypeVar("T")


class Handle:
    """A task that was submitted or looked up. Every question asks the store anew."""

    __slots__ = ("_client", "created", "task_id")

    def __init__(self, client: Client, task_id: str, *, created: bool) -> None:
        self._client = client
        self.task_id = task_id
        self.created = created

    def __repr__(self) -> str:
        return f"<Handle {self.task_id}>"

    def view(self) -> TaskView:
        """Return the task as it is now. Raises: UnknownTask."""
        return self._client.view(self.task_id)

    def state(self) -> State:
        """Return the task's state now. Raises: UnknownTask."""
        return self.view().state

    def result(self) -> Any:
        """Return what the body returned.

        Raises: NoResult when the task has not ended with SUCCESS.
        """
        return self._client.result(self.task_id)

    def wait(self, timeout: float | None = None) -> TaskView:
        """Wait until the task has ended and return it.

        Units: `timeout` in seconds, None for ever. Raises: WaitTimeout, UnknownTask.
        """
        return self._client.wait(self.task_id, timeout)[0]

    def cancel(self, *, by: str, reason: str) -> Acted:
        """Ask the task to stop."""
        return self._client.cancel(self.task_id, by=by, reason=reason)[0]

    def history(self) -> list[HistoryLine]:
        """Return the audit trail, oldest first."""
        return self._client.history(self.task_id)


class Client:
    """The verbs on one store."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._store: Store | None = None
        self._bell: Bell | None = None
        self._opening = threading.Lock()
        self._traces = Sender()

    def close(self) -> None:
        """Close the store and the doorbell, if they were opened; send the last spans."""
        self._traces.close()
        if self._store is not None:
            self._store.close()
        if self._bell is not None:
            self._bell.close()
        self._store = self._bell = None

    # --- submit -------------------------------------------------------------------------------

    def submit(self, specs: Sequence[TaskSpec], connection: Any = None) -> list[Handle]:
        """Write all tasks in one transaction and ring; makes the store if there is none.

        With `connection` (SQLAlchemy, on the same store) it joins the caller's transaction and
        the bell rings when that commits. Raises: Refused, StoreUnavailable.
        """
        with self._traces.sending(specs) as sent:
            prepared = [self._prepared(spec, sent) for spec in specs]
            ledger = self._ledger(create=True)
            now = ledger.clock.now()
            if connection is None:
                answers = _submit(ledger, prepared, now)
                self._ring(answers)
            else:
                answers = ledger.joined(connection).submit(prepared, now)
                self._ring_after_commit(connection, answers)
            sent.reached(answers)
        return [Handle(self, answer.task_id, created=answer.created) for answer in answers]

    def _prepared(self, spec: TaskSpec, sent: Sending) -> TaskSpec:
        ttl, place = spec.dedup_ttl, sent.of(spec)
        if spec.dedup_key is not None and ttl is None:
            ttl = self.settings.dedup_ttl
        if ttl == spec.dedup_ttl and place == spec.traceparent:
            return spec
        return replace(spec, dedup_ttl=ttl, traceparent=place)

    def _ring(self, answers: Sequence[Submitted]) -> None:
        now = self._opened(create=False).clock.now().timestamp()
        dues = [answer.due for answer in answers if answer.due and answer.due.at <= now]
        if dues:
            self._doorbell().ring("due", dues)

    def _ring_after_commit(self, connection: Any, answers: Sequence[Submitted]) -> None:
        from sqlalchemy import event

        def ring(_: Any) -> None:
            self._ring(answers)

        event.listen(connection, "commit", ring, once=True)

    # --- look and wait ------------------------------------------------------------------------

    @property
    def reader(self) -> Reader:
        """What people look through. Raises: StoreUnavailable when there is no store."""
        return Reader(self._opened(create=False))

    def get(self, task_id: str) -> Handle:
        """Return the handle of a task, found by its id or the beginning of it.

        Raises: UnknownTask; Refused when several begin like this.
        """
        return Handle(self, self.view(task_id).task_id, created=False)

    def view(self, task_id: str) -> TaskView:
        """Return a task as it is now. Raises: UnknownTask."""
        found = self.reader.task(task_id)
        if found is None:
            raise unknown_task(task_id)
        return found

    def result(self, task_id: str) -> Any:
        """Return what the body returned. Raises: NoResult, UnknownTask."""
        view = self.view(task_id)
        if view.state is not State.SUCCESS:
            raise NoResult(
                f"{task_id} is {view.state}: it has no result",
                remedy=_way_to_a_result(task_id, view.state),
                task_id=task_id,
                state=view.state,
            )
        return json.loads(view.result_json or "null")

    def history(self, task_id: str) -> list[HistoryLine]:
        """Return the audit trail of a task, oldest first. Raises: UnknownTask."""
        return self.reader.history(self.view(task_id).task_id)

    def wait(self, task_ids: str | Iterable[str], timeout: float | None = None) -> list[TaskView]:
        """Wait until all these tasks have ended and return them in the order given.

        Raises: WaitTimeout naming the first that has not ended, UnknownTask.
        """
        deadline = None if timeout is None else self._clock.mono() + timeout
        return [self._wait_one(task_id, timeout, deadline) for task_id in as_ids(task_ids)]

    def _wait_one(self, task_id: str, timeout: float | None, deadline: float | None) -> TaskView:
        pause = POLL_FIRST_S
        while True:
            view = self.view(task_id)
            if view.state in ENDED:
                return view
            left = None if deadline is None else deadline - self._clock.mono()
            if left is not None and left <= 0:
                raise WaitTimeout(
                    f"{task_id} is still {view.state} after {timeout:g} s",
                    remedy=f"Wait longer, or see what it does: `supervisor show {task_id}`.",
                    task_id=task_id,
                    state=view.state,
                )
            self._clock.sleep(pause if left is None else min(pause, left))
            pause = min(pause * POLL_GROWTH, POLL_MOST_S)

    # --- step in ------------------------------------------------------------------------------

    def cancel(
        self, task_ids: str | Iterable[str], *, by: str, reason: str, seen: Seen | None = None
    ) -> list[Acted]:
        """Ask tasks to stop; each id is answered on its own, in the order given."""
        return self._act("cancel", task_ids, by=by, reason=reason, seen=seen)

    def fail(
        self, task_ids: str | Iterable[str], *, by: str, reason: str, seen: Seen | None = None
    ) -> list[Acted]:
        """End stuck tasks as FAILED; each id is answered on its own."""
        return self._act("fail", task_ids, by=by, reason=reason, seen=seen)

    def rerun(
        self, task_ids: str | Iterable[str], *, by: str, reason: str, seen: Seen | None = None
    ) -> list[Acted]:
        """Put FAILED and TIMEOUT tasks back to PENDING; each id is answered on its own."""
        return self._act("rerun", task_ids, by=by, reason=reason, seen=seen)

    def _act(self, verb: str, task_ids: str | Iterable[str], **why: Any) -> list[Acted]:
        ids, ledger = as_ids(task_ids), self._ledger(create=False)
        now = ledger.clock.now()
        answers: list[Acted] = ledger.run(lambda tx: getattr(tx, verb)(ids, now=now, **why))
        if any(answer.done for answer in answers):
            self._doorbell().ring("due" if verb == "rerun" else "cancel")
        return answers

    def resubmit(self, task_id: str, *, by: str, reason: str, copy_id: str | None = None) -> Handle:
        """Submit a copy of a task, due at once; with `copy_id` the same call makes but one."""
        ledger = self._ledger(create=False)
        made, now = copy_id or new_task_id(), ledger.clock.now()
        answer = ledger.run(
            lambda tx: tx.resubmit(task_id, by=by, reason=reason, now=now, copy_id=made)
        )
        self._ring([answer])
        return Handle(self, answer.task_id, created=answer.created)

    def pause(self, queue: str, priority: int | None = None, *, by: str, reason: str) -> bool:
        """Let no more tasks of a queue (or one priority) start; False if it was paused already."""
        ledger = self._ledger(create=False)
        now = ledger.clock.now()
        changed = ledger.run(lambda tx: tx.pause(queue, priority, by=by, reason=reason, now=now))
        self._doorbell().ring("due")
        return changed

    def resume(
        self,
        queue: str,
        priority: int | None = None,
        *,
        by: str,
        reason: str,
        seen_at: datetime | None = None,
    ) -> bool:
        """Let tasks of a paused queue start again; False if it was not paused.

        Raises: Refused when the pause is another one than that which began at `seen_at`.
        """
        ledger = self._ledger(create=False)
        why, now = {"by": by, "reason": reason}, ledger.clock.now()
        changed = ledger.run(lambda tx: tx.resume(queue, priority, **why, now=now, seen_at=seen_at))
        self._doorbell().ring("due")
        return changed

    def record_autopsy(self, record: AutopsyRecord) -> None:
        """Write down a bundle that was taken by hand."""
        self._ledger(create=False).run(lambda tx: tx.record_autopsy(record))

    # --- nodes --------------------------------------------------------------------------------

    @property
    def orders(self) -> OrderDesk:
        """What nodes are asked, and answer. Raises: StoreUnavailable when there is no store."""
        return OrderDesk(self._opened(create=False), lambda: self._doorbell().ring("cancel"))

    @property
    def bulk(self) -> BulkDesk:
        """Acts on all tasks of a query. Raises: StoreUnavailable when there is no store."""
        return BulkDesk(
            self._opened(create=False),
            lambda verb: self._doorbell().ring("due" if verb == "rerun" else "cancel"),
        )

    @property
    def vitals(self) -> VitalsBook:
        """What nodes see of themselves. Raises: StoreUnavailable when there is no store."""
        return VitalsBook(self._opened(create=False))

    # --- the pages' door -----------------------------------------------------------------------

    @property
    def access(self) -> AccessBook:
        """Who may sign in at the pages. Raises: StoreUnavailable when there is no store."""
        return AccessBook(self._opened(create=False))

    def change_access(self, act: Callable[[Access, datetime], T]) -> T:
        """Do something about who may sign in, in a transaction of its own; it may be tried anew."""
        ledger = self._ledger(create=False)
        now = ledger.clock.now()
        return ledger.run(lambda tx: act(tx.access, now))

    @property
    def trail(self) -> Trail:
        """The audit trail as a whole. Raises: StoreUnavailable when there is no store."""
        return Trail(self._opened(create=False))

    @property
    def alerts(self) -> AlertBook:
        """What Alertmanager has told. Raises: StoreUnavailable when there is no store."""
        return AlertBook(self._opened(create=False))

    @property
    def habits(self) -> Habits:
        """What tasks of a type usually do. Raises: StoreUnavailable when there is no store."""
        return Habits(self._opened(create=False))

    def take_alerts(self, told: Sequence[Telling]) -> int:
        """Write down a delivery of Alertmanager; return how many alerts it changed."""
        ledger = self._ledger(create=False)
        now = ledger.clock.now()
        return ledger.run(lambda tx: tx.alerts.deliver(told, now))

    def note_download(self, record: AutopsyRecord, *, by: str) -> None:
        """Write down that somebody takes a bundle home."""
        ledger = self._ledger(create=False)
        now = ledger.clock.now()
        reason = NoteReason.AUTOPSY_DOWNLOADED
        ledger.run(
            lambda tx: tx.note(
                record.task_id,
                record.attempt,
                reason=reason,
                text=record.autopsy_id,
                now=now,
                operator=by,
            )
        )

    # --- opening ------------------------------------------------------------------------------

    def _ledger(self, *, create: bool) -> Ledger:
        return Ledger(self._opened(create=create))

    def _opened(self, *, create: bool) -> Store:
        with self._opening:
            if self._store is not None and self._store.file_changed():
                _leave(self._store)
                self._store = None
            if self._store is None:
                self._store = open_store(self.settings.store, create=create, clock=self._clock)
            return self._store

    def _doorbell(self) -> Bell:
        with self._opening:
            if self._bell is None:
                identity = "" if self._store is None else self._store.identity
                self._bell = open_bell(self.settings.queue, self.settings.store, identity)
            return self._bell


def _submit(ledger: Ledger, specs: Sequence[TaskSpec], now: datetime) -> list[Submitted]:
    """Write these tasks; if the link is lost at the commit, find out whether they were written."""
    if not ledger.store.is_shared:
        return ledger.run(lambda tx: tx.submit(specs, now))
    new_ids = [new_task_id() for _ in specs]
    try:
        return ledger.run(lambda tx: tx.submit(specs, now, new_ids))
    except StoreUnavailable as lost:
        if not lost.facts.get("unknown"):
            raise
        ours = [
            spec if spec.task_id else replace(spec, task_id=new_id)
            for spec, new_id in zip(specs, new_ids, strict=True)
        ]
        try:
            answers = ledger.run(lambda tx: tx.submit(ours, now))
        except StoreUnavailable:
            raise lost from None  # what was first sent may have been written all the same
    return [replace(one, created=one.created or one.task_id in new_ids) for one in answers]


def _leave(lost: Store) -> None:
    """Close a store whose file was replaced; what is written to a deleted one would be lost."""
    if lost.path is not None and not is_present(lost.path):
        raise StoreUnavailable(
            f"the store's file {lost.path} was deleted",
            remedy="Its node saves the data beside it (*.rescued): put that in its place.",
            path=str(lost.path),
        )
    lost.close()


def _way_to_a_result(task_id: str, state: State) -> str:
    """Say what to do about a task that has no result."""
    if state not in ENDED:
        return f"Wait for it: `handle.wait()`, or see what it does: `supervisor show {task_id}`."
    seen = f"`supervisor show {task_id}`"
    if state is State.CANCELED:
        return f"It will not run again; {seen} says who canceled it, and why. Submit a new one."
    return f"{seen} says why; `supervisor rerun` runs it again."


def as_ids(task_ids: str | Iterable[str]) -> list[str]:
    """Return one id or several as a list without repeats, in the order given."""
    return list(dict.fromkeys([task_ids] if isinstance(task_ids, str) else task_ids))


def unknown_task(task_id: str) -> UnknownTask:
    """Make the refusal of an id that no task has."""
    return UnknownTask(
        f"no task {task_id}",
        remedy="Check the id and the store: `supervisor list` shows what this store holds.",
        task_id=task_id,
    )
