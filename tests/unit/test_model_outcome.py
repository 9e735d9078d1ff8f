"""What becomes of a task is a legal walk from RUNNING, whatever ended, whoever asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.model import outcome as ended
from supervisor.model.outcome import (
    ERROR_TEXT_MAX,
    TRACEBACK_MAX,
    Outcome,
    Settlement,
    StopMark,
    TaskFacts,
    cut,
    settle,
)
from supervisor.model.retry import RetryPolicy, backoff_s
from supervisor.model.states import REQUEUE_REASONS, Reason, State, is_legal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CANCEL = StopMark("cancel", "ann", "changed my mind", NOW)
FAIL = StopMark("fail", "bob", "it is stuck", NOW)

RETURNED = ended.returned('{"rows":3}')
RAISED = ended.raised("ValueError", "no", "Traceback …")
HOPELESS = ended.raised("ValueError", "no", "Traceback …", retryable=False)
SOFT = ended.soft_timed_out()
TIMEOUT = ended.killed(State.TIMEOUT, Reason.TIMEOUT, "ran past its limit", verdict="timeout")
STALLED = ended.killed(State.FAILED, Reason.STALLED, "no progress", verdict="stalled")
CRASHED = ended.crashed("killed by signal 11 (SIGSEGV)")
LOST = ended.node_lost("lease", "expired")
UNSTARTED = ended.never_started("taken back")
SHUT_DOWN = ended.shut_down()
PREEMPTED = ended.preempted("its lease was not renewed")
CANCELED = ended.canceled()
REFUSED = ended.result_refused(Reason.RESULT_INVALID, "result: is not JSON")

#: Every way an attempt can end, by the constructor that says so.
outcomes = st.one_of(
    st.builds(ended.returned, st.just("null"), detail=st.none() | st.just("late")),
    st.builds(ended.raised, st.just("E"), st.text(), st.text(), retryable=st.booleans()),
    st.builds(
        ended.result_refused,
        st.sampled_from([Reason.RESULT_INVALID, Reason.RESULT_TOO_LARGE]),
        st.text(),
    ),
    st.builds(ended.soft_timed_out),
    st.builds(
        ended.killed,
        st.sampled_from([State.FAILED, State.TIMEOUT]),
        st.sampled_from(
            [Reason.TIMEOUT, Reason.MEMORY, Reason.STALLED, Reason.HEARTBEAT_LOST, Reason.CPU_SPIN]
        ),
        st.text(),
        verdict=st.none() | st.just("timeout"),
    ),
    st.builds(ended.canceled, forced=st.booleans()),
    st.builds(ended.crashed, st.text()),
    st.builds(ended.never_started, st.text()),
    st.builds(ended.shut_down, forced=st.booleans()),
    st.builds(ended.node_lost, st.sampled_from(["gone", "lease"]), st.text()),
)
policies = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 5),
    base_s=st.floats(0.1, 100),
    max_s=st.floats(0.1, 10_000),
    max_crashes=st.integers(1, 5),
)
facts = st.builds(
    TaskFacts,
    retry_count=st.integers(0, 8),
    crash_count=st.integers(0, 8),
    mark=st.none() | st.sampled_from([CANCEL, FAIL]),
)
chances = st.floats(0, 1, exclude_max=True)


def settled(
    outcome: Outcome,
    *,
    retries: int = 0,
    crashes: int = 0,
    mark: StopMark | None = None,
    policy: RetryPolicy | None = None,
) -> Settlement:
    known = TaskFacts(retry_count=retries, crash_count=crashes, mark=mark)
    return settle(known, outcome, policy or RetryPolicy(), NOW, 0.0)


class TestConstructors:
    def test_what_each_says(self) -> None:
        assert (
            Outcome(state=State.SUCCESS, reason=Reason.RETURNED, result_json='{"rows":3}')
            == RETURNED
        )
        assert (
            Outcome(
                state=State.FAILED,
                reason=Reason.RAISED,
                error_type="ValueError",
                error="no",
                traceback="Traceback …",
                retryable=False,
            )
            == HOPELESS
        )
        assert (
            Outcome(
                state=State.FAILED,
                reason=Reason.RESULT_INVALID,
                error="result: is not JSON",
                retryable=False,
            )
            == REFUSED
        )
        assert (
            Outcome(
                state=State.TIMEOUT,
                reason=Reason.TIMEOUT,
                error="ran past its limit",
                proof="exited",
                effects_unknown=True,
                verdict="timeout",
            )
            == TIMEOUT
        )
        assert (
            Outcome(
                state=State.FAILED,
                reason=Reason.CRASHED,
                error_type="WorkerCrashed",
                error="killed by signal 11 (SIGSEGV)",
                proof="exited",
                crashed=True,
                effects_unknown=True,
            )
            == CRASHED
        )

    @pytest.mark.parametrize(
        ("outcome", "proof", "unknown"),
        [
            (RETURNED, "reported", False),
            (SOFT, "reported", False),
            (CANCELED, "reported", False),
            (ended.canceled(forced=True), "exited", True),
            (SHUT_DOWN, "reported", False),
            (ended.shut_down(forced=True), "exited", True),
            (UNSTARTED, "taken_back", False),
            (LOST, "lease", True),
        ],
    )
    def test_proof_and_side_effects(self, outcome: Outcome, proof: str, unknown: bool) -> None:
        assert (outcome.proof, outcome.effects_unknown) == (proof, unknown)

    def test_long_texts_are_cut(self) -> None:
        huge = ended.raised("E", "m" * 5_000_000, "t" * 5_000_000)
        assert len(huge.error or "") <= ERROR_TEXT_MAX
        assert len(huge.traceback or "") <= TRACEBACK_MAX


class TestWithoutWish:
    def test_success_keeps_the_counts(self) -> None:
        assert settled(RETURNED, retries=2, crashes=1) == Settlement(
            path=(State.RUNNING, State.SUCCESS),
            reason=Reason.RETURNED,
            retry_count=2,
            crash_count=1,
        )

    @pytest.mark.parametrize("outcome", [RAISED, SOFT, TIMEOUT, STALLED, LOST])
    def test_with_a_retry_left_it_goes_back_in_one_go(self, outcome: Outcome) -> None:
        assert settled(outcome, retries=2) == Settlement(
            path=(State.RUNNING, outcome.state, State.PENDING),
            reason=outcome.reason,
            next_reason=Reason.RETRY,
            note=outcome.error,
            run_after=NOW + timedelta(seconds=40),
            retry_count=3,
        )

    @pytest.mark.parametrize("outcome", [RAISED, SOFT, TIMEOUT, STALLED, LOST])
    def test_without_a_retry_left_it_is_a_dead_letter(self, outcome: Outcome) -> None:
        dead = settled(outcome, retries=3)
        assert dead == Settlement(
            path=(State.RUNNING, outcome.state),
            reason=outcome.reason,
            note=outcome.error,
            retry_count=3,
        )
        assert dead.final
        assert dead.releases_dedup

    @pytest.mark.parametrize("outcome", [HOPELESS, REFUSED])
    def test_what_would_not_help_is_not_tried_again(self, outcome: Outcome) -> None:
        assert settled(outcome) == Settlement(
            path=(State.RUNNING, State.FAILED), reason=outcome.reason, note=outcome.error
        )

    @pytest.mark.parametrize("outcome", [UNSTARTED, SHUT_DOWN, ended.shut_down(forced=True)])
    def test_a_requeue_uses_no_retry_and_does_not_wait(self, outcome: Outcome) -> None:
        assert settled(outcome, retries=3, crashes=2) == Settlement(
            path=(State.RUNNING, State.FAILED, State.PENDING),
            reason=outcome.reason,
            next_reason=Reason.REQUEUED,
            note=outcome.error,
            run_after=NOW,
            retry_count=3,
            crash_count=2,
        )

    @pytest.mark.parametrize("outcome", [SHUT_DOWN, ended.shut_down(forced=True), PREEMPTED])
    def test_a_task_without_retries_that_has_begun_never_runs_twice_by_itself(
        self, outcome: Outcome
    ) -> None:
        once = RetryPolicy(max_retries=0, base_s=10, max_s=3600, max_crashes=3)
        facts = TaskFacts(retry_count=0, crash_count=0)
        assert settle(facts, outcome, once, NOW, 0.5).path == (State.RUNNING, State.FAILED)
        unstarted = settle(facts, UNSTARTED, once, NOW, 0.5)
        assert unstarted.path == (State.RUNNING, State.FAILED, State.PENDING)

    def test_a_crash_is_retried_and_counted_apart(self) -> None:
        again = settled(CRASHED, crashes=1)
        assert (again.path[-1], again.retry_count, again.crash_count) == (State.PENDING, 1, 2)

    def test_the_third_crash_quarantines_though_retries_are_left(self) -> None:
        assert settled(CRASHED, crashes=2) == Settlement(
            path=(State.RUNNING, State.FAILED),
            reason=Reason.CRASHED,
            note="quarantined after 3 crashes",
            crash_count=3,
            quarantined=True,
        )


class TestWish:
    def test_too_late_is_said(self) -> None:
        assert settled(RETURNED, mark=CANCEL) == Settlement(
            path=(State.RUNNING, State.SUCCESS),
            reason=Reason.RETURNED,
            note="cancel by ann came too late: the body had returned",
        )

    @pytest.mark.parametrize(
        "outcome", [RAISED, HOPELESS, SOFT, TIMEOUT, STALLED, LOST, UNSTARTED, SHUT_DOWN, CANCELED]
    )
    def test_cancel_wins_over_every_other_ending(self, outcome: Outcome) -> None:
        assert settled(outcome, retries=1, mark=CANCEL) == Settlement(
            path=(State.RUNNING, State.CANCELED),
            reason=Reason.CANCELED,
            operator="ann",
            note="changed my mind",
            retry_count=1,
        )

    @pytest.mark.parametrize("outcome", [RAISED, SOFT, TIMEOUT, LOST, UNSTARTED, CANCELED])
    def test_force_fail_ends_failed_by_its_operator(self, outcome: Outcome) -> None:
        assert settled(outcome, mark=FAIL) == Settlement(
            path=(State.RUNNING, State.FAILED),
            reason=Reason.FORCED,
            operator="bob",
            note="it is stuck",
        )

    def test_a_crash_of_a_canceled_task_is_counted(self) -> None:
        stopped = settled(CRASHED, crashes=2, mark=CANCEL)
        assert (stopped.state, stopped.crash_count) == (State.CANCELED, 3)
        assert not stopped.quarantined


@settings(deadline=None, max_examples=60)
@given(facts, outcomes, policies, chances)
def test_every_settlement_keeps_the_rules(
    known: TaskFacts, outcome: Outcome, policy: RetryPolicy, chance: float
) -> None:
    result = settle(known, outcome, policy, NOW, chance)
    path = result.path
    assert path[0] is State.RUNNING
    assert len(path) == len(set(path)) in (2, 3)
    assert all(is_legal(before, after) for before, after in pairwise(path))

    assert (State.SUCCESS in path) == (outcome.reason is Reason.RETURNED)
    assert result.final == (result.state is not State.PENDING)
    assert result.releases_dedup == (result.state not in (State.PENDING, State.SUCCESS))
    assert (result.run_after is None) == result.final == (result.next_reason is None)

    assert result.crash_count - known.crash_count == outcome.crashed
    assert result.retry_count - known.retry_count == (result.next_reason is Reason.RETRY)
    assert result.retry_count <= max(policy.max_retries, known.retry_count)


@settings(deadline=None, max_examples=60)
@given(facts, outcomes, policies, chances)
def test_every_settlement_obeys_whoever_asked(
    known: TaskFacts, outcome: Outcome, policy: RetryPolicy, chance: float
) -> None:
    result = settle(known, outcome, policy, NOW, chance)
    if known.mark is not None and outcome.state is not State.SUCCESS:
        wanted = State.FAILED if known.mark.kind == "fail" else State.CANCELED
        assert result.path == (State.RUNNING, wanted)
        assert (result.operator, result.note) == (known.mark.by, known.mark.reason)
        return
    assert result.operator == "supervisor"
    if known.mark is None and outcome.reason in REQUEUE_REASONS:
        assert (result.state, result.run_after) == (State.PENDING, NOW)
    elif known.mark is None and outcome.crashed and result.crash_count >= policy.max_crashes:
        assert (result.state, result.quarantined) == (State.FAILED, True)
    elif result.run_after is not None:
        delay = backoff_s(policy, known.retry_count, chance)
        assert result.run_after == NOW + timedelta(seconds=delay)
        assert known.retry_count < policy.max_retries
    assert result.quarantined is (result.note or "").startswith("quarantined after ")


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 8), st.lists(outcomes, min_size=1, max_size=40), chances)
def test_a_life_uses_no_more_retries_and_crashes_than_it_has(
    max_crashes: int, endings: list[Outcome], chance: float
) -> None:
    policy = RetryPolicy(max_retries=3, max_crashes=max_crashes)
    known = TaskFacts(retry_count=0, crash_count=0)
    runs = 0
    for outcome in endings:
        result = settle(known, outcome, policy, NOW, chance)
        runs += outcome.reason not in REQUEUE_REASONS
        if result.final:
            break
        known = TaskFacts(retry_count=result.retry_count, crash_count=result.crash_count)
    assert runs <= policy.max_retries + 1
    assert known.retry_count <= policy.max_retries
    assert known.crash_count < max_crashes


class TestCut:
    def test_a_short_text_is_left_alone(self) -> None:
        assert cut("abc", 3) == "abc"

    def test_head_tail_and_what_is_missing(self) -> None:
        text = "H" * 100 + "m" * 1000 + "T" * 100
        assert cut(text, 240) == "H" * 100 + "\n… 1000 characters cut …\n" + "T" * 100

    @settings(deadline=None, max_examples=40)
    @given(st.text(min_size=1, max_size=300), st.integers(1, 60), st.integers(0, 400))
    def test_it_keeps_the_ends_within_the_limit(self, piece: str, times: int, limit: int) -> None:
        text = piece * times
        short = cut(text, limit)
        if len(text) <= limit:
            assert short == text
            return
        kept = max(0, limit - 40) // 2
        assert len(short) <= max(limit, 40)
        assert short.startswith(text[:kept] + "\n… ")
        assert short.endswith(" …\n" + text[len(text) - kept :])
        assert f"… {len(text) - 2 * kept} characters cut …" in short
