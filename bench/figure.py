"""One figure with its budget, and how the list of them is shown and kept."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

OUT = Path(__file__).parent / "out" / "latest.json"
#: A benchmark of a few seconds runs so often and tells the median.
REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value. `floor` is the budget: a least value, or a most when `at_most`.

    `peer` names what was measured beside it in the same run; `ratio` is ours to theirs.
    `peer_there` is what that gave on the machine for which the budget was set: where it does worse
    now, the machine is slower now, and the same ratio is enough.
    """

    name: str
    value: float
    unit: str
    floor: float
    at_most: bool = False
    peer: str | None = None
    peer_value: float | None = None
    peer_there: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the budget is kept, as it stands or as this machine goes."""
        return self.kept or self.kept_by_ratio

    @property
    def kept(self) -> bool:
        """Whether the budget is kept as it stands."""
        return self.value <= self.floor if self.at_most else self.value >= self.floor

    @property
    def kept_by_ratio(self) -> bool:
        """Whether it would be, were this machine as fast as the one it was set for."""
        if not (self.peer_value and self.peer_there):
            return False
        ours, there = self.value / self.peer_value, self.floor / self.peer_there
        return ours <= there if self.at_most else ours >= there

    @property
    def ratio(self) -> float | None:
        """Our value divided by the peer's."""
        return None if not self.peer_value else round(self.value / self.peer_value, 3)

    def words(self) -> str:
        """Return value, budget and what was beside it, for a cell."""
        sign = "≤" if self.at_most else "≥"
        parts = [f"{_shown(self.value)} {self.unit}, {sign} {_shown(self.floor)}"]
        if not self.kept:
            parts.append("kept by ratio" if self.ok else "**missed**")
        if self.ratio is not None:
            parts.append(f"{self.ratio:.2f} × {self.peer}")
        return ", ".join(parts)

    def as_row(self) -> dict[str, object]:
        """Return the figure as it stands in the file."""
        return {**asdict(self), "ok": self.ok, "ratio": self.ratio}


def at_most(
    name: str,
    value: float,
    unit: str,
    budget: float,
    *,
    peer: str | None = None,
    peer_value: float | None = None,
    peer_there: float | None = None,
) -> Figure:
    """Return a figure that must not be larger than its budget."""
    return Figure(
        name=name,
        value=value,
        unit=unit,
        floor=budget,
        at_most=True,
        peer=peer,
        peer_value=peer_value,
        peer_there=peer_there,
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of them lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def machine() -> str:
    """Return what the figures were measured on, and who else was at work there."""
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{now}; {os.cpu_count()} CPUs, {platform.platform()}; load {load}"


def keep(figures: Sequence[Figure], out: Path = OUT) -> Path:
    """Write the list where the other tools look for it."""
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps([figure.as_row() for figure in figures], indent=1) + "\n")
    return out


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as aligned text."""
    rows = [("figure", "value", "budget", "", "beside it", "ratio")]
    for f in figures:
        sign = "≤" if f.at_most else "≥"
        beside = f"{f.peer}: {_shown(f.peer_value)}" if f.peer and f.peer_value else ""
        rows.append(
            (
                f.name,
                f"{_shown(f.value)} {f.unit}",
                f"{sign} {_shown(f.floor)}",
                "ok" if f.kept else "ok by ratio" if f.ok else "MISSED",
                beside,
                "" if f.ratio is None else f"{f.ratio:.2f} ×",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _shown(value: float) -> str:
    """Return a number with the digits that say something."""
    if float(value).is_integer() and abs(value) >= 1:
        return f"{value:,.0f}"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 3
    return f"{value:,.{digits}f}"
