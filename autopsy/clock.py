"""The only place in `autopsy` that asks the machine what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def mono() -> float:
    """Return monotonic seconds; every deadline here is in this clock."""
    return time.monotonic()


def ms_since(started_mono: float) -> float:
    """Return milliseconds since a moment of `mono`, to a tenth."""
    return round((mono() - started_mono) * 1000, 1)


def now() -> datetime:
    """Return the wall clock as an aware UTC datetime."""
    return datetime.now(UTC)


def sleep(seconds: float) -> None:
    """Let that many seconds pass; zero or less returns at once."""
    if seconds > 0:
        time.sleep(seconds)
