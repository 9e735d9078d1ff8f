"""A clock moved by hand: a test lives through a day without waiting for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that moves only when told to; wall and monotonic time move together by default."""

    def __init__(self, at: datetime = START) -> None:
        self._wall = at
        self._mono = 1000.0
        self._suspended = 0.0

    def now(self) -> datetime:
        return self._wall

    def mono(self) -> float:
        return self._mono

    def boot(self) -> float:
        return self._mono + self._suspended

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def suspend(self, seconds: float) -> None:
        """Let the host sleep: monotonic time stands still meanwhile."""
        self._suspended += seconds
        self._wall += timedelta(seconds=seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._mono += seconds
        self._wall += timedelta(seconds=seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or a time server would."""
        self._wall += timedelta(seconds=seconds)
