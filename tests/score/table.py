"""The score as lines of text, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence

from score.verdict import Row, Totals, Verdict, totals


def line(row: Row) -> str:
    """Return one case as a line of a terminal."""
    rank = str(row.rank) if row.rank else "-"
    return (
        f"{row.case:36} {'|'.join(row.expected):34} {row.first:26} {row.confidence:4.2f}"
        f" {rank:>4} {row.ms:7.0f}  {row.verdict}"
    )


HEAD = f"{'case':36} {'expected':34} {'first answer':26} {'conf':4} {'rank':>4} {'ms':>7}  verdict"


def summary(rows: Sequence[Row]) -> list[str]:
    """Return the totals, and the evidence of what was not right."""
    wrong = [row for row in rows if row.verdict is not Verdict.RIGHT]
    lines = [f"  {row.case}: {text}" for row in wrong for text in row.evidence[:4]]
    return [*lines, "", *sentences(totals(rows))]


def sentences(of: Totals) -> list[str]:
    """Return the totals in words."""
    return [
        f"first right: {of.right} of {of.rows} ({100 * of.right_ratio:.1f} %)",
        f"confident wrong: {of.surely_wrong}",
        f"controls called healthy: {of.controls_healthy} of {of.controls}",
        f"capture: p50 {of.p50_ms:.0f} ms, p95 {of.p95_ms:.0f} ms, max {of.max_ms:.0f} ms",
        f"cannot run here: {of.not_run}",
    ]
