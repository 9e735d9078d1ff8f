"""Any sequence of verbs keeps the promises: legal moves only, an audit that replays to the row,
one ending for each attempt, one holder for each dedup key, one event for each PENDING task."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from ledger_scene import POLICY, Scene, emptied

from supervisor.model import outcome as ended
from supervisor.model.outcome import Outcome
from supervisor.model.record import Answer, Claim, Ending
from supervisor.model.spec import TaskSpec
from supervisor.model.states import Reason, State, is_legal
from supervisor.store import Store, open_store
from supervisor.store.schema import attempts, audit_log, outbox, tasks

OUTCOMES = st.sampled_from(
    [
        ended.returned("1"),
        ended.raised("E", "no", ""),
        ended.raised("E", "never", "", retryable=False),
        ended.soft_timed_out(),
        ended.killed(State.TIMEOUT, Reason.TIMEOUT, "killed"),
        ended.killed(State.FAILED, Reason.MEMORY, "killed"),
        ended.canceled(),
        ended.canceled(forced=True),
        ended.crashed("SIGSEGV"),
        ended.never_started("taken back"),
        ended.shut_down(),
        ended.node_lost("gone", ""),
    ]
)
KEYS = st.sampled_from([None, None, "a", "b"])
SECONDS = st.integers(0, 100)


class LedgerLife(RuleBasedStateMachine):
    """Clients, nodes and operators at work on one store, in any order."""

    opened: Callable[[], AbstractContextManager[Store]]

    ids = Bundle("ids")
    claims = Bundle("claims")

    @initialize()
    def open(self) -> None:
        self.stack = ExitStack()
        self.scene = Scene(self.stack.enter_context(type(self).opened()))
        self.ended: Counter[tuple[str, int]] = Counter()
        self.told: dict[tuple[str, int], tuple[object, ...]] = {}
        self.written: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()

    @rule(target=ids, key=KEYS, delay=SECONDS, ttl=st.sampled_from([None, 30.0]))
    def submit(self, key: str | None, delay: int, ttl: float | None) -> str:
        due = self.scene.now + timedelta(seconds=delay)
        spec = TaskSpec(type="greet", dedup_key=key, dedup_ttl=ttl, run_after=due)
        with self.scene.ledger.transaction() as tx:
            (answer,) = tx.submit([spec], self.scene.now)
        assert answer.created is (answer.task_id not in self.written)
        self.written.add(answer.task_id)
        return answer.task_id

    @rule(target=claims, count=st.integers(1, 4))
    def claim(self, count: int) -> Any:
        claims = self.scene.claim(count)
        for claim in claims:
            assert claim.run_after <= self.scene.now
        return _several(claims)

    @rule(batch=st.lists(st.tuples(claims, OUTCOMES), min_size=1, max_size=4))
    def finish(self, batch: list[tuple[Any, Outcome]]) -> None:
        endings = [
            Ending(
                task_id=claim.task_id,
                attempt=claim.attempt,
                outcome=outcome,
                policy=POLICY,
                ended_at=self.scene.now,
            )
            for some, outcome in batch
            for claim in some
        ]
        with self.scene.ledger.transaction() as tx:
            settlements = tx.finish(endings, chance=lambda: 0.0)
        for ending, settlement in zip(endings, settlements, strict=True):
            if settlement is None:
                continue
            which = ending.task_id, ending.attempt
            told = ending.ended_at, ending.outcome.result_json, ending.outcome.error
            if self.ended[which]:  # the very same ending, sent again, is answered as before
                assert self.told[which] == told
            else:
                self.ended[which] += 1
                self.told[which] = told

    @rule(chosen=st.lists(ids, min_size=1, max_size=3))
    def cancel(self, chosen: list[str]) -> None:
        before = [self.scene.state(task_id) for task_id in dict.fromkeys(chosen)]
        answers = self.scene.cancel(*dict.fromkeys(chosen))
        for state, acted in zip(before, answers, strict=True):
            expected = {
                State.PENDING: {Answer.CANCELED},
                State.RUNNING: {Answer.REQUESTED, Answer.ALREADY_REQUESTED},
            }
            assert acted.answer in expected.get(state, {Answer.ALREADY_ENDED})

    @rule(chosen=ids)
    def fail(self, chosen: str) -> None:
        self.scene.fail(chosen)

    @rule(chosen=st.lists(ids, min_size=1, max_size=3))
    def rerun(self, chosen: list[str]) -> None:
        for acted in self.scene.rerun(*chosen):
            assert acted.answer in {Answer.RERUN, Answer.NOT_RERUNNABLE, Answer.DEDUP_TAKEN}

    @rule(claim=claims)
    def checkpoint(self, claim: Any) -> None:
        for each in claim:
            with self.scene.ledger.transaction() as tx:
                kept = tx.checkpoint(each.task_id, each.attempt, "{}", self.scene.now)
            assert kept is (not self.ended[each.task_id, each.attempt])

    @rule(claim=consumes(claims))
    def lose_a_node(self, claim: Any) -> None:
        """The sweeper ends what a dead node held; its own report may still come, and is late."""
        for each in claim:
            which, outcome = (each.task_id, each.attempt), ended.node_lost("gone", "")
            told = self.scene.now, outcome.result_json, outcome.error
            settlement = self.scene.finish(each, outcome)
            if self.ended[which]:
                assert (settlement is None) is (self.told[which] != told)
            else:
                assert settlement is not None
                self.ended[which], self.told[which] = 1, told

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: int) -> None:
        self.scene.pass_time(seconds)

    @rule()
    def publish(self) -> None:
        with self.scene.ledger.transaction() as tx:
            tx.publish(1, self.scene.now)

    @invariant()
    def the_audit_replays_to_the_row(self) -> None:
        states: dict[str, str | None] = {}
        moves = self.scene.rows(audit_log, "task_id", "from_state", "to_state")
        for task_id, from_state, to_state in moves:
            if to_state is not None:
                assert states.get(task_id) == from_state
                assert from_state is None or is_legal(State(from_state), State(to_state))
                states[task_id] = to_state
        assert states == dict(self.scene.rows(tasks, "task_id", "state"))

    @invariant()
    def each_attempt_ends_once(self) -> None:
        assert set(self.ended.values()) <= {0, 1}
        rows = self.scene.rows(attempts, "task_id", "attempt", "ended_at", "outcome")
        for task_id, attempt, ended_at, outcome in rows:
            assert self.ended[task_id, attempt] == (ended_at is not None) == (outcome is not None)
        running = self.scene.rows(tasks, "task_id", "attempt", "state")
        open_attempts = {row[:2] for row in rows if row[2] is None}
        assert open_attempts == {row[:2] for row in running if row[2] == "RUNNING"}

    @invariant()
    def a_key_has_one_holder_and_live_tasks_hold_theirs(self) -> None:
        rows = self.scene.rows(tasks, "dedup_key", "dedup_held", "state")
        holders = Counter(key for key, held, _ in rows if held)
        assert set(holders.values()) <= {1}
        for key, held, state in rows:
            if state in {"PENDING", "RUNNING"}:
                assert held is (key is not None)
            if state in {"FAILED", "TIMEOUT", "CANCELED"}:
                assert not held

    @invariant()
    def only_a_running_task_is_marked_and_only_a_pending_one_is_announced(self) -> None:
        rows = self.scene.rows(tasks, "task_id", "state", "mark_kind", "ended_at", "attempt")
        for _, state, mark, ended_at, _ in rows:
            assert mark is None or state == "RUNNING"
            assert (ended_at is None) is (state in {"PENDING", "RUNNING"})
        pending = {(task_id, attempt) for task_id, state, *_, attempt in rows if state == "PENDING"}
        assert set(self.scene.rows(outbox, "task_id", "event_id")) <= pending


def _several(claims: list[Claim]) -> tuple[Claim, ...]:
    return tuple(claims)


@contextmanager
def _in_a_file(empty: Path) -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.db"
        shutil.copy(empty, path)
        with closing(open_store(f"sqlite:///{path}", create=False)) as store:
            yield store


def _life(examples: int, opened: Callable[[], AbstractContextManager[Store]]) -> None:
    LedgerLife.opened = staticmethod(opened)
    run_state_machine_as_test(
        LedgerLife,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_no_sequence_of_verbs_breaks_a_promise(empty_store_file: Path) -> None:
    _life(60, lambda: _in_a_file(empty_store_file))


def test_no_sequence_of_verbs_breaks_a_promise_on_a_server(database_url: str) -> None:
    with closing(open_store(database_url, create=False)) as store:
        _life(20, lambda: nullcontext(emptied(store)))
