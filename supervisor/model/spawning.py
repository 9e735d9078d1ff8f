"""When a worker may be born, and how much may be handed to it ahead: pure.

`Intensity` is the answer to a crash loop: births that follow too many early deaths wait, each time
longer, and an open breaker is an alarm, not a silent retry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

#: A worker that lived this long did not die of its start.
STABLE_AFTER_S = 10.0
#: The first wait of an open breaker and the longest one, seconds.
FIRST_HALT_S, LONGEST_HALT_S = 2.0, 60.0
#: Work handed ahead must be done within this time (it can still be taken back meanwhile).
LOOK_AHEAD_S = 0.05
#: Enough to keep a worker busy with no-ops while the next claim is written.
LOOK_AHEAD_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Intensity:
    """Early deaths within a window; more than `deaths` in `window_s` halt the births."""

    deaths: int = 5
    window_s: float = 60.0
    recent: tuple[float, ...] = field(default=())
    halted_until: float | None = None
    halts: int = 0

    def died(self, lived_s: float, now: float) -> Intensity:
        """Note a death; a worker that had been stable closes the breaker instead."""
        if lived_s >= STABLE_AFTER_S:
            return replace(self, recent=(), halts=0, halted_until=None)
        recent = (*(t for t in self.recent if now - t < self.window_s), now)
        if len(recent) <= self.deaths:
            return replace(self, recent=recent)
        halts = 0 if self._was_calm(now) else self.halts
        exponent = min(halts, 62)  # far past the longest halt, and keeps the float finite
        wait = min(LONGEST_HALT_S, FIRST_HALT_S * 2.0**exponent)
        return replace(self, recent=(), halts=halts + 1, halted_until=now + wait)

    def _was_calm(self, now: float) -> bool:
        return self.halted_until is not None and now - self.halted_until >= 2 * self.window_s

    def is_halted(self, now: float) -> bool:
        """Say whether births wait at this moment."""
        return self.halted_until is not None and now < self.halted_until


def is_short(mean_duration_s: float) -> bool:
    """Say whether attempts of this mean duration may wait behind one another on a worker."""
    return mean_duration_s <= LOOK_AHEAD_S / 2


def look_ahead(mean_durations_s: Sequence[float]) -> int:
    """Return how many attempts of short types one worker may hold, from their mean durations."""
    slowest = max(mean_durations_s, default=LOOK_AHEAD_S)
    return max(1, min(LOOK_AHEAD_MAX, int(LOOK_AHEAD_S / max(slowest, 1e-6))))
