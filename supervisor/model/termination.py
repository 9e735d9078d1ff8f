"""How a worker is taken out of service: phases with a budget each, remembered, never slept.

    drain ──▶ checkpoint ──▶ release ──▶ exit ──▶ capture ──▶ kill ──▶ (reaped)
    no new     the body is   hooks and   SIGTERM  evidence    SIGKILL
    work       told to save  atexit               first       of the tree
                    │ still in its body: stuck        ▲
                    └──────────────────▶ exit ────────┘        a forced kill starts at capture

Pure: `Farewell.next` says whether it is time for the next phase. Source: S2 §3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum


class Phase(StrEnum):
    """Where a worker is on its way out."""

    DRAIN = "drain"
    CHECKPOINT = "checkpoint"
    RELEASE = "release"
    EXIT = "exit"
    CAPTURE = "capture"
    KILL = "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Seconds each phase may take at most."""

    drain: float = 1.0
    checkpoint: float = 30.0
    release: float = 15.0
    exit: float = 10.0
    capture: float = 10.0

    def of(self, phase: Phase) -> float:
        """Return the budget of a phase; a sent SIGKILL is waited for without end."""
        return float("inf") if phase is Phase.KILL else float(getattr(self, phase.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Farewell:
    """One worker's way out: the phase it is in since when, and how long the earlier ones took."""

    phase: Phase
    since: float
    spent: tuple[tuple[Phase, float], ...] = field(default=())

    def enter(self, phase: Phase, now: float) -> Farewell:
        """Go on to a phase, noting what the one before took."""
        return replace(
            self,
            phase=phase,
            since=now,
            spent=(*self.spent, (self.phase, max(0.0, now - self.since))),
        )

    def shifted(self, gap_s: float) -> Farewell:
        """Move the clock by a time in which nobody could look."""
        return replace(self, since=self.since + gap_s)

    def next(self, budgets: Budgets, now: float, *, unread: bool, in_body: bool) -> Phase | None:
        """Return the phase it is time for, None to stay.

        `unread`: assignments are still in its queue; `in_body`: an attempt is running.
        """
        late = now - self.since >= budgets.of(self.phase)
        match self.phase:
            case Phase.DRAIN if late or not unread:
                return Phase.CHECKPOINT if in_body else Phase.RELEASE
            case Phase.CHECKPOINT if not in_body:
                return Phase.RELEASE
            case Phase.CHECKPOINT | Phase.RELEASE if late:
                return Phase.EXIT
            case Phase.EXIT if late:
                return Phase.CAPTURE
            case Phase.CAPTURE if late:
                return Phase.KILL
        return None

    def times(self, now: float) -> str:
        """Return the phases with their seconds, for the audit."""
        phases = (*self.spent, (self.phase, max(0.0, now - self.since)))
        return ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in phases)
