"""The scribe: the one thread of a node that talks to the store, in group commits.

Secret kept here: batching, pacing and what happens while the store is away. Everything asked for
since the last commit goes into the next one. Endings, notes and the like are *durable* requests:
they are kept, in order, until they are written; claims and questions are simply not answered then.
Back-to-back commits would starve other writers of a SQLite file, so there is a pause between them.
A commit whose answer was lost is sent again: the ledger knows what it has written. The lease goes
first, in a transaction of its own, and counts from before it was asked for.
"""

from __future__ import annotations

import json
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from supervisor.clock import Clock
from supervisor.errors import IllegalTransition, StoreUnavailable, SupervisorError
from supervisor.model.spec import parse_spec
from supervisor.model.trace import Trace
from supervisor.node import port
from supervisor.node.answering import Answering
from supervisor.node.hiding import without_secrets
from supervisor.queue import Bell
from supervisor.store import Ledger, Store, new_task_id
from supervisor.store.ledger.transaction import Transaction
from supervisor.store.record import AutopsyRecord, WorkerRecord
from supervisor.telemetry.events import emit
from supervisor.telemetry.metrics import Metrics

#: Other writers get their turn in this pause (they retry BEGIN within a millisecond).
PAUSE_S = 0.001
#: A commit that took this long is one of many under load: its answers come after the pause, and
#: the node's time to hand out what was claimed lengthens the gap for other writers.
LOADED_S = 0.003
#: An idle scribe looks at the store's file this often.
IDLE_S = 0.5
#: Who wrote an event has rung for it by then: to ring again for what is being claimed is in vain.
RUNG_BY_THEN = timedelta(seconds=1)
FIRST_RETRY_S, LONGEST_RETRY_S = 0.05, 2.0

_QUESTIONS = (
    port.ClaimFor,
    port.ReadMarks,
    port.ReadOrders,
    port.VitalsNote,
    port.ReadCounts,
    port.ReadOrphans,
    port.ReadOwn,
    port.Renew,
)


class StoreScribe:
    """See `node.port.Scribe` for the verbs; `start` before use, `stop` at the end."""

    def __init__(
        self,
        store: Store,
        node_id: str,
        clock: Clock,
        metrics: Metrics,
        wake: Callable[[], None],
        bell: Bell | None = None,
        longest_retry_s: float = LONGEST_RETRY_S,
        trace: Trace | None = None,
    ) -> None:
        self._store = store
        self._ledger = Ledger(store, clock)
        self._answering = Answering(self._ledger, node_id, clock)
        self._bell = bell
        self._longest_retry_s = longest_retry_s
        self._trace = trace
        self._node_id = node_id
        self._clock = clock
        self._metrics = metrics
        self._wake = wake
        self._asked: deque[port.Request] = deque()
        self._kept: list[port.Request] = []
        self._replies: deque[port.Reply] = deque()
        self._awake = threading.Condition()
        self._stopping = False
        self._away = ""
        self._failures = 0
        self._gone = False
        self._child_ids: dict[port.SubmitFor, str] = {}
        self._pause_s = 0.0
        self._turn_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="scribe", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def ask(self, *requests: port.Request) -> None:
        """Hand in requests that go into one commit."""
        with self._awake:
            self._asked.extend(requests)
            self._awake.notify()

    def replies(self) -> list[port.Reply]:
        """Return what was answered since the last call."""
        heard = []
        while self._replies:
            heard.append(self._replies.popleft())
        return heard

    def waited_s(self) -> float:
        since = self._turn_since
        return 0.0 if since is None else self._clock.mono() - since

    def unwritten(self) -> int:
        """Return how many durable requests wait."""
        return len(self._kept) + sum(not isinstance(r, _QUESTIONS) for r in tuple(self._asked))

    def stop(self, timeout_s: float) -> bool:
        """Write what is left and end; False if the store did not take it in time."""
        with self._awake:
            self._stopping = True
            self._awake.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._awake:
                self._awake.wait_for(lambda: self._asked or self._stopping, self._idle_s())
                batch, self._asked = list(self._asked), deque()
                done = self._stopping and not batch and not self._kept
            if done:
                return
            self._turn_since = self._clock.mono()
            self._turn(batch)
            self._turn_since = None
            if self._pause_s:
                self._clock.sleep(self._pause_s)
                self._pause_s = 0.0

    def _idle_s(self) -> float:
        return PAUSE_S if self._kept else IDLE_S

    def _turn(self, batch: Sequence[port.Request]) -> None:
        """Write one batch (with what is kept from before) and answer it."""
        self._kept += [r for r in batch if not isinstance(r, _QUESTIONS)]
        talks = bool(batch or self._kept)
        claims = [r for r in batch if isinstance(r, port.ClaimFor)]
        try:
            self._require_file()
            self._renew(batch)
            self._kept = [_fit_to_write(request) for request in self._kept]
            if self._kept or claims:
                self._post(self._commit(claims))
                claims = []
            self._post(self._answering.answer(batch))
        except Exception as exc:  # the thread must live: whatever it is, the store is away
            if not isinstance(exc, StoreUnavailable):
                emit("loop.failed", step="scribe", error=repr(exc), exc_info=True)
            self._store_away(exc, claims)
        else:
            if talks:  # else nobody has asked it anything
                self._store_back()

    def _renew(self, batch: Sequence[port.Request]) -> None:
        request = next((r for r in reversed(batch) if isinstance(r, port.Renew)), None)
        if request is None:
            return
        lease_s, skew_s, sent_boot = request.lease_s, self._store.skew_s, self._clock.boot()
        held = self._ledger.run(lambda tx: tx.renew(self._node_id, lease_s, skew_s))
        self._post([port.LeaseRenewed(sent_boot, skew_s) if held else port.LeaseLost()])

    def _commit(self, claims: Sequence[port.ClaimFor]) -> list[port.Reply]:
        quiet = [] if self._kept else self._nothing_due(claims)
        if quiet:
            return quiet
        began = self._clock.mono()
        try:
            answers = self._write(self._kept, claims)
            self._kept = []
        except StoreUnavailable:
            raise
        except Exception as exc:
            emit("loop.failed", step="scribe", error=repr(exc))
            self._metrics.inc("loop_errors_total")
            answers = [*self._one_by_one(), *self._looked_at(claims)]
        self._child_ids.clear()
        took_s = self._clock.mono() - began
        self._metrics.observe("store_commit_duration_seconds", took_s)
        if self._store.is_shared:
            return answers  # its writers wait for rows, not for each other's turn
        if took_s >= LOADED_S:
            self._clock.sleep(PAUSE_S)
        else:
            self._pause_s = PAUSE_S  # once the answers are out: nobody waits for it
        return answers

    def _write(
        self, writes: Sequence[port.Request], claims: Sequence[port.ClaimFor]
    ) -> list[port.Reply]:
        """Write all in one transaction, again while others stand in the way."""
        sent_boot = self._clock.boot()  # of the first try: a lease counts from no later

        def act(tx: Transaction) -> tuple[list[port.Reply], list[Callable[[], port.Reply]]]:
            answers = self._put_all(tx, writes, sent_boot)
            return answers, [self._claim(tx, claim) for claim in claims]

        answers, claimed = self._ledger.run(act, conflicted=self._conflicted)
        return [*answers, *(answer() for answer in claimed)]

    def _conflicted(self) -> None:
        self._metrics.inc("store_conflicts_total")

    def _put_all(
        self, tx: Transaction, writes: Sequence[port.Request], sent_boot: float
    ) -> list[port.Reply]:
        answers: list[port.Reply] = []
        finishes = [r for r in writes if isinstance(r, port.Finish)]
        for request in writes:
            if not isinstance(request, port.Finish):
                answers += self._put(tx, request)
        if finishes:
            answers.append(self._finish(tx, finishes))
        for request in [r for r in writes if isinstance(r, port.Revive)][-1:]:
            known = tx.revive(self._node_id, request.lease_s, self._store.skew_s)
            renewed = port.LeaseRenewed(sent_boot, self._store.skew_s)
            answers.append(renewed if known else port.StoreGone())
        return answers

    def _one_by_one(self) -> list[port.Reply]:
        """Write each request alone, so that one that cannot be written takes no other with it."""
        answers: list[port.Reply] = []
        while self._kept:
            request = self._kept[0]
            try:
                answers += self._write([request], [])
            except StoreUnavailable:
                self._post(answers)
                raise
            except Exception as exc:
                if isinstance(request, port.Finish) and len(request.endings) > 1:
                    self._kept[:1] = [port.Finish((ending,)) for ending in request.endings]
                    continue
                self._post(answers)
                self._unwritable(request, exc)
                answers = []
            self._kept.pop(0)
        return answers

    def _unwritable(self, request: port.Request, exc: Exception) -> None:
        """A request that fails by itself: an ending is never dropped, anything else is."""
        if isinstance(exc, IllegalTransition):
            self._metrics.inc("illegal_transitions_total")
            emit("transition.refused", error=str(exc))
        emit("loop.failed", step=f"scribe:{type(request).__name__}", error=repr(exc))
        if isinstance(request, port.Finish | port.Revive):
            what = "an ending" if isinstance(request, port.Finish) else "the lease"
            raise StoreUnavailable(f"{what} cannot be written: {exc!r}") from exc

    def _put(self, tx: Transaction, request: port.Request) -> list[port.Reply]:
        now = self._clock.now()
        match request:
            case port.Begin():
                tx.started(request.started)
            case port.SaveCheckpoint():
                tx.checkpoint(request.task_id, request.attempt, request.value_json, now)
            case port.Note() | port.AnswerOrder() | port.NodeEnded():
                self._tell(tx, request)
            case port.WorkerNote():
                tx.record_workers([self._worker_record(request)])
            case port.TypesNote():
                tx.record_types(request.types, self._node_id, now, request.secrets)
            case port.AutopsyNote():
                tx.record_autopsy(self._autopsy_record(request.captured))
            case port.SubmitFor():
                return [self._submit(tx, request)]
            case port.ClockSet():
                tx.clock_set(request.step_s, now)
            case port.Publish():
                self._publish(tx, request)
        return []

    def _tell(
        self, tx: Transaction, request: port.Note | port.AnswerOrder | port.NodeEnded
    ) -> None:
        now = self._clock.now()
        if isinstance(request, port.NodeEnded):
            tx.end_node(self._node_id, now, request.why)
            return
        if isinstance(request, port.AnswerOrder):
            tx.orders.answer(request.order_id, request.answer, now)
            return
        tx.note(
            request.task_id, request.attempt,
            reason=request.reason, text=request.text, now=now, operator=request.operator,
        )  # fmt: skip

    def _publish(self, tx: Transaction, request: port.Publish) -> None:
        """Ring for what waits, before the commit: rung twice is harmless, never rung costs a poll.

        Where the node looks at the table itself, the events have been delivered by being there.
        """
        moment = self._clock.now()
        dues = tx.publish(request.limit, moment - RUNG_BY_THEN)
        if self._bell is None or not dues:
            return
        now = moment.timestamp()
        self._bell.ring("due", [due for due in dues if due.at <= now])
        if len(dues) > request.limit // 2:
            self.ask(request)  # there may be more

    def _finish(self, tx: Transaction, requests: Sequence[port.Finish]) -> port.EndingsWritten:
        endings = [ending for request in requests for ending in request.endings]
        settlements = tx.finish(endings, now=self._clock.now())
        return port.EndingsWritten(tuple(zip(endings, settlements, strict=True)))

    def _submit(self, tx: Transaction, request: port.SubmitFor) -> port.ChildAnswer:
        try:
            raw = json.loads(request.spec_json)
            raw = {"submitted_by": request.parent_id, **raw, "parent_id": request.parent_id}
            if raw.get("task_id") is None:  # the same again, if this has to be written twice
                raw["task_id"] = self._child_ids.setdefault(request, new_task_id())
            submitted = tx.submit([parse_spec(raw)], self._clock.now())[0]
        except StoreUnavailable:
            raise
        except SupervisorError as exc:
            return port.ChildAnswer(request.worker_id, request.request, None, str(exc))
        return port.ChildAnswer(request.worker_id, request.request, submitted)

    def _worker_record(self, note: port.WorkerNote) -> WorkerRecord:
        now = self._clock.now()
        return WorkerRecord(
            worker_id=note.worker_id,
            node_id=self._node_id,
            pid=note.pid,
            start_ticks=note.start_ticks,
            started_at=note.started_at,
            ended_at=now if note.exit is not None else None,
            exit=note.exit,
        )

    def _autopsy_record(self, captured: port.Captured) -> AutopsyRecord:
        facts = captured.facts.values
        first = captured.diagnosis[0] if captured.diagnosis else {}
        return AutopsyRecord(
            autopsy_id=str(facts["name"]),
            task_id=facts.get("task_id"),
            attempt=facts.get("attempt"),
            node_id=self._node_id,
            pid=int(facts["pid"]),
            path=captured.path,
            status=captured.status,
            verdict=str(facts["verdict"]),
            diagnosis=first.get("code"),
            diagnosis_json=json.dumps(captured.diagnosis, ensure_ascii=False),
            created_at=self._clock.now(),
            bytes=captured.size_bytes,
            ms=round(captured.ms),
        )

    def _nothing_due(self, claims: Sequence[port.ClaimFor]) -> list[port.Reply]:
        """Look without the write lock, and once: an idle node does nothing else.

        Returns the answers when nothing is due, none when there is something to claim.
        """
        if self._store.is_shared or any(claim.tips for claim in claims):
            return []  # on a server to claim nothing costs no more than to look
        now = self._clock.now()
        looked = self._looked_at(claims)
        due = any(one.next_due is not None and one.next_due <= now for one in looked)
        return [] if due else [*looked]

    def _looked_at(self, claims: Sequence[port.ClaimFor]) -> list[port.Claimed]:
        """Answer these claims with what is to be seen, and no task."""
        with self._ledger.looking() as look:
            seen = [look.outlook(claim.queues, claim.types)() for claim in claims]
        return [
            port.Claimed(claim.places, (), one.next_due, scanned=claim.scan, paused=one.paused)
            for claim, one in zip(claims, seen, strict=True)
        ]

    def _claim(self, tx: Transaction, claim: port.ClaimFor) -> Callable[[], port.Claimed]:
        """Claim, and return what gives the answer once the transaction is over."""
        got = tuple(
            tx.claim(
                claim.places,
                node_id=self._node_id,
                queues=claim.queues,
                types=claim.types,
                only=claim.ahead_types,
                free=len(claim.owners),
                tips=claim.tips,
                scan=claim.scan,
                trace=self._trace,
                now=self._clock.now(),
            )
        )
        if not claim.scan:
            return lambda: port.Claimed(claim.places, got, scanned=False)
        full = len(got) == len(claim.places)
        outlook = tx.outlook(claim.queues, claim.types, levels=not full)

        def answer() -> port.Claimed:
            seen = outlook()
            return port.Claimed(claim.places, got, seen.next_due, paused=seen.paused)

        return answer

    def _post(self, replies: Sequence[port.Reply]) -> None:
        if replies:
            self._replies.extend(replies)
            self._wake()

    def _store_away(self, error: Exception, claims: Sequence[port.ClaimFor]) -> None:
        self._metrics.inc("store_errors_total")
        replies: list[port.Reply] = [port.Claimed(claim.places, ()) for claim in claims]
        if str(error) != self._away:
            self._away = str(error)
            replies.append(port.StoreAway(self._away))
        self._post(replies)
        delay = min(self._longest_retry_s, FIRST_RETRY_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._clock.sleep(delay * random.uniform(0.5, 1.0))

    def _store_back(self) -> None:
        if self._away:
            self._away, self._failures = "", 0
            self._post([port.StoreBack()])

    def _require_file(self) -> None:
        """Notice a store file that was deleted or replaced under us, and save what is in it."""
        if self._gone or not self._store.file_changed():
            return
        stamp = self._clock.now().strftime("%Y%m%dT%H%M%S%f")
        target = Path(f"{self._store.path}.{stamp}.rescued")
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # it may be gone as a whole
        saved = self._store.rescue(target)
        self._gone = True
        self._post([port.StoreGone(str(saved))])


def _fit_to_write(request: port.Request) -> port.Request:
    """Return a request without the secrets that endings may hold; done again it changes nothing."""
    if not isinstance(request, port.Finish):
        return request
    endings = tuple(without_secrets(ending) for ending in request.endings)
    return request if endings == request.endings else port.Finish(endings)
