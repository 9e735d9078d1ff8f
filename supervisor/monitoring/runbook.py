"""The page of an alert: what to do first, then what it means, when to ignore it, and the rule.

Secret kept here: the order, which is that of a person woken at 3 a.m. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from supervisor.monitoring.rule import Alert, Severity, expression
from supervisor.monitoring.threshold import Thresholds

NOTICE = "<!-- Generated from supervisor/monitoring/alerts: change the runbook there. -->"
_TOLD = {
    Severity.CRITICAL: "critical: pages",
    Severity.WARNING: "warning: chat, by day",
    Severity.INFO: "info: shown, nobody is told",
    Severity.NONE: "none: for the dead man's switch",
}


def page(alerts: Sequence[Alert], thresholds: Thresholds) -> str:
    """Return the Markdown of the alerts of one name (several: the windows of one budget)."""
    return "\n".join(_lines(alerts, thresholds)) + "\n"


def _lines(alerts: Sequence[Alert], thresholds: Thresholds) -> Iterator[str]:
    first = alerts[0]
    book = first.runbook
    yield from (f"# {first.name}", "", NOTICE, "")
    yield from (f"**{generic(thresholds.fill(first.summary))}**", "", "## Do this now", "")
    for number, step in enumerate(book.steps, start=1):
        yield f"{number}. {step}"
    yield from ("", "## What it means", "", thresholds.fill(book.means))
    yield from ("", "## When to ignore it", "", thresholds.fill(book.ignore))
    yield from ("", "## The rule", "")
    for alert in alerts:
        yield from (_told(alert), "", "```promql", expression(alert, thresholds), "```", "")
    yield "[All alerts](../alerts.md)"


def generic(summary: str) -> str:
    """Write the labels of one alert as what they stand for."""
    text = summary
    for label in ("queue", "type", "service", "slot", "instance", "kind", "verdict", "reason",
                  "collector", "label"):  # fmt: skip
        text = text.replace(f"{{{{ $labels.{label} }}}}", label.upper())
    return text.replace("{{ $value | humanizeDuration }}", "some time")


def _told(alert: Alert) -> str:
    text = _TOLD[alert.severity]
    if "notify" in alert.labels:
        text += f", and {alert.labels['notify'].upper()}"
    if "route" in alert.labels:
        text = f"{alert.severity}: told to {alert.labels['route']}"
    held = f"true for {alert.hold}" if alert.hold else "at once"
    return f"{text[0].upper()}{text[1:]}; fires when {held}."
