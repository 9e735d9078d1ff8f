"""Tests of the alerts about services that tasks call, and about the budget of errors."""

from __future__ import annotations

from rules.case import Case, Check, Series, fires, series, silent
from rules.of_tasks import finished

PAY = {"service": "pay"}


def calls(outcome: str, values: str, **more: str) -> Series:
    """Return a counter of calls."""
    return series("calls_total", values, outcome=outcome, **PAY, **more)


def took(part: str, values: str, **more: str) -> Series:
    """Return the sum or count of the times of calls."""
    return series(f"call_duration_seconds_{part}", values, **PAY, **more)


def burns(at: str, *windows: str) -> list[tuple[Check, ...]]:
    """Expect the budget to burn in these windows."""
    return [fires("TaskSuccessBudgetBurn", at, window=window) for window in windows]


SERVICES = (
    Case(
        "15 % of the calls fail, on two nodes: fires after two minutes",
        [
            calls("ok", "0x5 0+9x40"),
            calls("error", "0x5 0+1x40"),
            calls("ok", "0x5 0+8x40", instance="b"),
            calls("error", "0x5 0+2x40", instance="b"),
        ],
        [
            silent("DependencyErrorsHigh", "6m"),
            fires("DependencyErrorsHigh", "9m", "30m", service="pay"),
        ],
    ),
    Case(
        "7 % fail: silent",
        [
            calls("ok", "0+93x40"),
            calls("error", "0+7x40"),
            calls("ok", "0+93x40", instance="b"),
            calls("error", "0+7x40", instance="b"),
        ],
        [silent("DependencyErrorsHigh", "30m")],
    ),
    Case(
        "one of three calls fails: too few",
        [calls("ok", "0+1x40"), calls("error", "0+0.5x40")],
        [silent("DependencyErrorsHigh", "20m", "30m")],
    ),
    Case(
        "15 calls in five minutes, a third of them fail: enough",
        [calls("ok", "0+2x40"), calls("error", "0+1x40")],
        [fires("DependencyErrorsHigh", "20m", service="pay")],
    ),
    Case(
        "it failed for long and is well again: over after five minutes",
        [
            calls("ok", "0+10x60"),
            calls("error", "0+10x30 300x30"),
            took("sum", "0+100x30 3000+2x30"),
            took("count", "0+20x60"),
        ],
        [
            fires("DependencyErrorsHigh", "30m", service="pay"),
            fires("DependencySlow", "30m", service="pay"),
            silent("DependencyErrorsHigh", "37m"),
            silent("DependencySlow", "37m"),
        ],
    ),
    Case(
        "a hiccup of a minute: over after five",
        [calls("ok", "0+10x40"), calls("error", "0x10 20x40")],
        [silent("DependencyErrorsHigh", "9m", "11m", "17m")],
    ),
    Case(
        "calls take 1.5 s",
        [
            took("sum", "0x5 0+7.5x40"),
            took("count", "0x5 0+5x40"),
            took("sum", "0x5 0+7.5x40", instance="b"),
            took("count", "0x5 0+5x40", instance="b"),
            calls("ok", "0x5 0+10x40"),
        ],
        [silent("DependencySlow", "6m"), fires("DependencySlow", "9m", "30m", service="pay")],
    ),
    Case(
        "calls take 0.7 s on each of two nodes: silent",
        [
            took("sum", "0+7x40"),
            took("count", "0+10x40"),
            took("sum", "0+7x40", instance="b"),
            took("count", "0+10x40", instance="b"),
            calls("ok", "0+10x40"),
        ],
        [silent("DependencySlow", "30m")],
    ),
    Case(
        "few slow calls: silent; enough of them: fires",
        [
            took("sum", "0+3x40"),
            took("count", "0+1x40"),
            calls("ok", "0+1x40"),
            series("call_duration_seconds_sum", "0+9x40", service="mail"),
            series("call_duration_seconds_count", "0+3x40", service="mail"),
            series("calls_total", "0+3x40", service="mail", outcome="ok"),
        ],
        [fires("DependencySlow", "20m", service="mail")],
    ),
    Case(
        "slow for a minute",
        [
            took("sum", "0x10 30x40"),
            took("count", "0+4x50"),
            calls("ok", "0+4x50"),
        ],
        [silent("DependencySlow", "11m", "17m")],
    ),
    Case(
        "calls do not come back",
        [
            series("call_in_flight", "0x10 3x40", **PAY),
            series("call_in_flight", "0x10 1x40", instance="b", **PAY),
            calls("ok", "0+10x10 100x40"),
            calls("error", "0x50"),
        ],
        [
            silent("DependencyHanging", "13m", "15m", "16m"),
            fires("DependencyHanging", "18m", "30m", service="pay"),
        ],
    ),
    Case(
        "long calls that end now and then; nothing in flight; a rest",
        [
            series("call_in_flight", "3x50", **PAY),
            calls("ok", "0x4 1x4 2x4 3x4 4x4 5x4 6x4 7x4"),
            series("call_in_flight", "0x50", service="mail"),
            series("calls_total", "7x50", service="mail", outcome="ok"),
            series("call_in_flight", "1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0", service="sms"),
            series("calls_total", "7x50", service="sms", outcome="ok"),
        ],
        [silent("DependencyHanging", "15m", "20m")],
    ),
)

SLO = (
    Case(
        "20 % of all fail: all windows burn, each after its time",
        [
            finished("success", "0+40x95"),
            finished("success", "0+40x95", instance="b"),
            finished("failed", "0+5x95"),
            finished("failed", "0+5x95", instance="b"),
            finished("timeout", "0+5x95"),
            finished("timeout", "0+5x95", instance="b"),
        ],
        [
            silent("TaskSuccessBudgetBurn", "2m"),
            *burns("5m", "1h"),
            *burns("40m", "1h", "6h"),
            *burns("90m", "1h", "6h", "1d"),
        ],
    ),
    Case(
        "10 % fail: six times the budget, not fourteen",
        [
            finished("success", "0+45x130"),
            finished("success", "0+45x130", instance="b"),
            finished("timeout", "0+5x130"),
            finished("timeout", "0+5x130", instance="b"),
        ],
        [*burns("40m", "6h"), *burns("120m", "6h", "1d")],
    ),
    Case(
        "4 % fail: three times the budget, not six",
        [finished("success", "0+96x130"), finished("failed", "0+4x130")],
        [silent("TaskSuccessBudgetBurn", "40m"), *burns("120m", "1d")],
    ),
    Case(
        "2 % fail: within what a day may use",
        [finished("success", "0+98x130"), finished("failed", "0+2x130")],
        [silent("TaskSuccessBudgetBurn", "40m", "120m")],
    ),
    Case(
        "canceled and requeued ones are no part of it",
        [
            finished("success", "0+98x130"),
            finished("canceled", "0+500x130"),
            finished("requeued", "0+500x130"),
            finished("failed", "0+25x130"),
        ],
        [*burns("90m", "1h", "6h", "1d")],
    ),
    Case(
        "it was bad and is good again: the short windows know",
        [finished("success", "0+80x60 4800+100x200"), finished("failed", "0+20x60 1200x200")],
        [
            *burns("59m", "1h", "6h"),
            *burns("100m", "1d"),
            silent("TaskSuccessBudgetBurn", "190m"),
        ],
    ),
    Case(
        "twenty bad minutes after good hours: an hour is not yet bad",
        [finished("success", "0+100x100 10070+70x25"), finished("failed", "0x100 30+30x25")],
        [silent("TaskSuccessBudgetBurn", "110m", "121m")],
    ),
    Case(
        "a bad hour, and now a tenth fails: it does not go on like that",
        [finished("success", "0+70x60 4290+90x12"), finished("failed", "0+30x60 1810+10x12")],
        [*burns("68m", "6h", "1d")],
    ),
    Case(
        "bad hours ago, good for an hour, bad again for ten minutes",
        [
            finished("success", "0+70x90 6400+100x65 12870+70x15"),
            finished("failed", "0+30x90 2700x65 2730+30x15"),
        ],
        [*burns("165m", "1d")],
    ),
    Case(
        "30 attempts an hour on two nodes, all of them fail",
        [
            finished("success", "0x80"),
            finished("failed", "0+0.25x80"),
            finished("failed", "0+0.25x80", instance="b"),
        ],
        [silent("TaskSuccessBudgetBurn", "30m"), *burns("62m", "1h", "6h")],
    ),
    Case(
        "12 attempts an hour fail, and many are canceled or requeued: too few",
        [
            finished("success", "0x90"),
            finished("failed", "0+0.2x90"),
            finished("canceled", "0+5x90"),
            finished("requeued", "0+5x90"),
        ],
        [silent("TaskSuccessBudgetBurn", "70m", "90m")],
    ),
    Case(
        "a single failure at night, of two attempts",
        [finished("success", "0x10 1x200"), finished("failed", "0x12 1x200")],
        [silent("TaskSuccessBudgetBurn", "16m", "60m", "100m")],
    ),
    Case(
        "two types of which one fails: all counts together",
        [
            finished("success", "0+85x130"),
            finished("failed", "0+15x130", type="resize"),
            finished("success", "0+900x130", instance="b"),
        ],
        [silent("TaskSuccessBudgetBurn", "40m", "120m")],
    ),
)
