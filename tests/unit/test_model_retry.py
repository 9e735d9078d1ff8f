"""The back-off is S1's formula, its jitter is bounded, and no count makes it overflow."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.model.retry import RetryPolicy, backoff_s

policies = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 100),
    base_s=st.floats(0.001, 3600),
    max_s=st.floats(0.001, 30 * 86400),
)
chances = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("used", "seconds"),
    [(0, 10), (1, 20), (2, 40), (3, 80), (8, 2560), (9, 3600), (10, 3600), (99, 3600)],
)
def test_the_default_delays(used: int, seconds: float) -> None:
    assert backoff_s(RetryPolicy(), used, 0.0) == seconds


def test_the_defaults_are_those_of_the_specification() -> None:
    assert RetryPolicy() == RetryPolicy(max_retries=3, base_s=10.0, max_s=3600.0, max_crashes=3)


def test_the_first_delay_is_the_base_plus_at_most_a_fifth() -> None:
    assert backoff_s(RetryPolicy(), 0, 0.5) == pytest.approx(11.0)
    assert backoff_s(RetryPolicy(), 0, 1.0) == pytest.approx(12.0)


def test_the_jitter_comes_on_top_of_the_maximum() -> None:
    assert backoff_s(RetryPolicy(), 50, 1.0) == pytest.approx(3600 * 1.2)


def test_a_maximum_below_the_base_wins() -> None:
    assert backoff_s(RetryPolicy(base_s=10, max_s=4), 0, 0.0) == 4


@settings(deadline=None, max_examples=50)
@given(policies, st.integers(0, 10**9), chances)
def test_every_delay_is_the_formula_within_its_jitter(
    policy: RetryPolicy, used: int, chance: float
) -> None:
    delay = backoff_s(policy, used, chance)
    plain = policy.max_s if used > 62 else min(policy.max_s, policy.base_s * 2**used)
    assert math.isfinite(delay)
    assert plain <= delay <= plain * 1.2 * (1 + 1e-12)
    assert delay == pytest.approx(plain * (1 + 0.2 * chance))


@settings(deadline=None, max_examples=50)
@given(policies, st.integers(0, 200), chances)
def test_a_later_retry_never_waits_less(policy: RetryPolicy, used: int, chance: float) -> None:
    assert backoff_s(policy, used, chance) <= backoff_s(policy, used + 1, chance)
