"""The times of a lease: in time, in order, and over before it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.lease import LeasePlan, needed_s, plan


def test_the_default_lease() -> None:
    assert plan(90.0, cancel_grace=10.0, autopsy_budget=10.0) == LeasePlan(
        lease_s=90.0, renew_every_s=10.0, fence_after_s=65.0, kill_after_s=85.0
    )


def test_a_lease_of_three_seconds() -> None:
    made = plan(3.0, cancel_grace=0.5, autopsy_budget=0.5)
    assert (made.fence_after_s, made.kill_after_s) == (1.5, 2.4)  # never before half of it


def test_a_grace_longer_than_the_lease_is_cut_short() -> None:
    made = plan(60.0, cancel_grace=600.0, autopsy_budget=10.0)
    assert (made.fence_after_s, made.kill_after_s) == (30.0, 55.0)


def test_what_is_needed_is_grace_evidence_and_slack() -> None:
    assert needed_s(90.0, 10.0, 10.0) == 25.0
    assert needed_s(3.0, 0.5, 0.5) == 1.6


@given(
    st.floats(1, 3600),
    st.floats(0, 3600),
    st.floats(0.5, 300),
)
def test_the_order_holds_for_every_lease(lease: float, grace: float, budget: float) -> None:
    made = plan(lease, grace, budget)
    assert 4 * made.renew_every_s < made.fence_after_s < made.kill_after_s < lease
    assert lease - made.kill_after_s >= min(5.0, lease / 5) - 1e-9
