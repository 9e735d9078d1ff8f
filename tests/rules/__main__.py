"""`make early-alerts`: replay the incidents and quiet days, and write docs/early-alerts.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rules import incidents
from rules.incidents import INCIDENTS, QUIET, Lead

PAGE = Path(__file__).parents[2] / "docs" / "early-alerts.md"
SEEDS = range(1, 11)


def lines() -> Iterator[str]:
    """Return the page."""
    notice = "<!-- Written by `make early-alerts`, in half a minute. -->"
    yield from ("# Early alerts", "", notice, "")
    yield "How long before its hard limit a trend is told. The incidents are made by a generator"
    yield "(tests/rules/incidents.py), each after 90 quiet minutes and with noise; the rules as"
    yield "they are exported are run over them by promtool, minute by minute, with their `for:`."
    yield "Minutes count from the beginning of the trouble."
    yield from ("", "| incident | early alert | after | hard alert | after | lead |")
    yield "|---|---|---|---|---|---|"
    leads = [incidents.lead(incident) for incident in INCIDENTS]
    yield from (_row(lead) for lead in leads)
    known = sorted(lead.minutes for lead in leads if lead.minutes is not None)
    yield from ("", f"Median {known[len(known) // 2]} minutes. What is bad at once has no trend:")
    yield "there the hard alert is first, which is why both are there."
    yield from ("", "## Quiet days", "", "How often each fires although nothing is wrong, on")
    yield f"{len(SEEDS)} days of 24 hours with the tides of a day, bursts each hour, recycled"
    yield "workers and hiccups:"
    yield from ("", "| early alert | false alarms | days |", "|---|---|---|")
    total = 0
    for alert in QUIET:
        count = sum(incidents.false_alarms(alert, seed=seed) for seed in SEEDS)
        total += count
        yield f"| [{alert}](runbooks/{alert}.md) | {count} | {len(SEEDS)} |"
    yield from ("", f"All together {total} in {len(SEEDS) * len(QUIET)} days of an alert.")


def _row(lead: Lead) -> str:
    one = lead.incident
    early = f"[{one.early}](runbooks/{one.early}.md)"
    cells = (f"{one.name}: {one.story}", early, _min(lead.early), one.hard, _min(lead.hard))
    return "| " + " | ".join((*cells, f"**{_min(lead.minutes)}**")) + " |"


def _min(value: int | None) -> str:
    return "–" if value is None else f"{value} min"


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", "utf-8")
    print(PAGE.read_text("utf-8"))
    sys.exit(0)
