"""Time, as a value that can be handed in: the only place that asks the machine what time it is.

`now()` is aware UTC for people and rows; `mono()` is monotonic seconds for every deadline on one
host (it does not move when the wall clock is set); `boot()` also counts suspended time and is used
for leases. Anything that takes a Clock can live through a day in a test without waiting.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the product knows about time."""

    def now(self) -> datetime:
        """Return the wall clock as an aware UTC datetime."""

    def mono(self) -> float:
        """Return monotonic seconds (CLOCK_MONOTONIC): comparable between processes of a host."""

    def boot(self) -> float:
        """Return seconds since boot, suspended time included (CLOCK_BOOTTIME)."""

    def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def mono(self) -> float:
        return time.monotonic()

    def boot(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def stamp(moment: datetime) -> str:
    """Write a time as people read it everywhere: UTC, to the millisecond."""
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def mono_ns() -> int:
    """Return monotonic nanoseconds: what the worker writes into its vital signs."""
    return time.monotonic_ns()
