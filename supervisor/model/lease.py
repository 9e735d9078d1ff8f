"""The times of a lease: when it is renewed, and when its holder ends what it may soon not own.

    renewed                                 fenced                     killed       over
      ├──────┬──────┬──────┬─ … ──────────────┼──── grace, evidence ─────┼── slack ───┤
      0   every ninth of it            lease − needed              lease − slack   lease

Secret kept here: how the lease is shared out. Pure. All times are seconds since the last renewal
that was granted *began*, so that nothing that happened to its answer makes the lease look longer.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Renewals in the time of a lease: several may fail before anything is in danger.
RENEWALS = 9
#: What the ends of whole trees, a late turn and a drifting clock may take.
SLACK_S = 5.0
#: The same of a short lease, as a part of it.
SLACK_RATIO = 0.2


@dataclass(frozen=True, slots=True)
class LeasePlan:
    """When what is due, in seconds since the last good renewal was sent."""

    lease_s: float
    renew_every_s: float
    fence_after_s: float
    kill_after_s: float


def slack_s(lease_s: float) -> float:
    """Return how long before its end everything that the lease covers must be over."""
    return min(SLACK_S, SLACK_RATIO * lease_s)


def needed_s(lease_s: float, cancel_grace: float, autopsy_budget: float) -> float:
    """Return how much of a lease a fenced node needs to end its attempts in order."""
    return cancel_grace + autopsy_budget + slack_s(lease_s)


def plan(lease_s: float, cancel_grace: float, autopsy_budget: float) -> LeasePlan:
    """Share a lease out; where it is too short for grace and evidence, those are cut short."""
    needed = needed_s(lease_s, cancel_grace, autopsy_budget)
    return LeasePlan(
        lease_s=lease_s,
        renew_every_s=lease_s / RENEWALS,
        fence_after_s=max(lease_s - needed, lease_s / 2),
        kill_after_s=lease_s - slack_s(lease_s),
    )
