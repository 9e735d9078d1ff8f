"""How long to wait before a task runs again.

Source: S1 §3.3, min(max, base · 2^n) plus a uniform jitter of up to 20 %, with n = retries already
used, so the first delay is the base.
"""

from __future__ import annotations

from dataclasses import dataclass

JITTER_RATIO = 0.2


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The effective retry rules of one task (task > type > queue > global).

    `least_s` is waited in any case: a death that is inferred leaves a doubt for so long.
    """

    max_retries: int = 3
    base_s: float = 10.0
    max_s: float = 3600.0
    max_crashes: int = 3
    least_s: float = 0.0


def backoff_s(policy: RetryPolicy, retries_used: int, chance: float) -> float:
    """Return the delay in seconds before the next run; `chance` is uniform in [0, 1)."""
    exponent = min(retries_used, 62)  # 2^62 s is past any maximum, and keeps the float finite
    delay: float = min(policy.max_s, policy.base_s * 2.0**exponent)
    return max(policy.least_s, delay + delay * JITTER_RATIO * chance)
