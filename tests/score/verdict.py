"""What an answer is worth, and the totals of many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

#: From here on an answer counts as sure of itself: being wrong with it is a fault of its own.
SURE = 0.8
#: What part of the first answers must be right.
BOUND_RATIO = 0.9


class Verdict(StrEnum):
    """What the first answer is."""

    RIGHT = "right"
    WRONG = "wrong"
    SURELY_WRONG = "confident wrong"
    NOT_RUN = "cannot run here"


@dataclass(frozen=True, slots=True)
class Row:
    """One program examined once; `rank` counts from 1, 0 where no answer was right."""

    case: str
    expected: tuple[str, ...]
    control: bool
    first: str
    confidence: float
    rank: int
    ms: float
    verdict: Verdict
    evidence: tuple[str, ...] = ()


def judged(
    case: str,
    expected: Sequence[str],
    control: bool,
    answers: Sequence[tuple[str, float, Sequence[str]]],
    ms: float,
) -> Row:
    """Return the row of a case whose answers are these: code, confidence, evidence."""
    first, confidence, evidence = answers[0] if answers else ("(none)", 0.0, ())
    codes = [code for code, _, _ in answers]
    rank = next((place for place, code in enumerate(codes, 1) if code in expected), 0)
    verdict = Verdict.RIGHT if rank == 1 else Verdict.WRONG
    if verdict is Verdict.WRONG and confidence >= SURE:
        verdict = Verdict.SURELY_WRONG
    return Row(
        case, tuple(expected), control, first, confidence, rank, ms, verdict, tuple(evidence)
    )


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a score; times in milliseconds, of the captures that answered."""

    rows: int
    right: int
    surely_wrong: int
    controls: int
    controls_healthy: int
    not_run: int
    p50_ms: float
    p95_ms: float
    max_ms: float

    @property
    def right_ratio(self) -> float:
        """Return what part of the first answers was right."""
        return self.right / self.rows if self.rows else 0.0

    @property
    def is_good(self) -> bool:
        """Say whether the score is what is asked for."""
        enough = self.right_ratio >= BOUND_RATIO
        return enough and not self.surely_wrong and self.controls == self.controls_healthy


def totals(rows: Sequence[Row]) -> Totals:
    """Add up the rows; what cannot run here is left out."""
    run = [row for row in rows if row.verdict is not Verdict.NOT_RUN]
    controls = [row for row in run if row.control]
    times = sorted(row.ms for row in run if row.ms)
    return Totals(
        rows=len(run),
        right=sum(row.verdict is Verdict.RIGHT for row in run),
        surely_wrong=sum(row.verdict is Verdict.SURELY_WRONG for row in run),
        controls=len(controls),
        controls_healthy=sum(row.first.startswith("none.") for row in controls),
        not_run=len(rows) - len(run),
        p50_ms=_quantile(times, 0.5),
        p95_ms=_quantile(times, 0.95),
        max_ms=times[-1] if times else 0.0,
    )


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else 0.0
