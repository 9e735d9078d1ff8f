"""The numbers that alerts compare with, and how they are put into expressions and sentences.

Secret kept here: the notation. `<name>` in an expression is the plain number of that threshold;
`<name:percent>`, `<name:duration>`, `<name:bytes>` in a sentence is what a person reads.
Called by the renderers of rules and runbooks, and by the command line that takes other numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from supervisor.errors import ConfigError

_PLACE = re.compile(r"<([a-z_0-9]+)(?::([a-z]+))?>")


def _is(default: float, prose: str) -> Any:
    return field(default=default, metadata={"prose": prose})


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds with the defaults of the specification; ratios are 0 to 1."""

    failed_rate: float = _is(0.05, "share of attempts that may fail or time out")
    canceled_rate: float = _is(0.30, "share of attempts that may be canceled")
    near_timeout_share: float = _is(0.01, "share of attempts past 80 % of their timeout")
    survival: float = _is(0.98, "share of the wanted workers that must be alive, over 5 minutes")
    mean_times_expected: float = _is(2, "mean run time over what the type expects")
    zombie_share: float = _is(0.05, "zombies among the running tasks")
    least_zombies: float = _is(2, "zombies below which their share says nothing")
    least_attempts: float = _is(20, "attempts below which a rate says nothing")
    queue_growth_share: float = _is(0.02, "growth of a queue over its drain rate")
    queue_floor: float = _is(20, "tasks below which a queue may grow as it likes")
    queue_wait_s: float = _is(600, "seconds that a due task may wait")
    outbox: float = _is(100, "tasks whose bell may be pending")
    stuck_timeouts: float = _is(1.2, "age of a running attempt over its timeout: nobody ended it")
    stall_s: float = _is(300, "seconds without progress of a task that has reported any")
    heartbeat_s: float = _is(90, "seconds after which a heartbeat is lost (3 of 30 s)")
    worker_memory_bytes: float = _is(2 * 1024**3, "resident memory of one worker")
    memory_limit_share: float = _is(0.9, "memory in use of what the type may use")
    worker_fds: float = _is(819, "open descriptors of one worker (80 % of the usual 1024)")
    clock_skew_s: float = _is(5, "seconds between the clock of a host and the store's")
    dependency_error_share: float = _is(0.10, "share of the calls of a service that may fail")
    dependency_mean_s: float = _is(1, "mean seconds of a call to a service")
    slo_error_budget: float = _is(0.01, "share of attempts that may fail over 30 days")

    def changed(self, values: Mapping[str, float]) -> Thresholds:
        """Return these thresholds with other numbers. Raises ConfigError for an unknown name."""
        known = {one.name for one in fields(self)}
        for name, value in values.items():
            if name not in known:
                raise ConfigError(
                    f"there is no threshold {name}", remedy="One of: " + ", ".join(sorted(known))
                )
            if not value > 0:
                raise ConfigError(f"threshold {name}: {value:g} is not above 0")
        return replace(self, **values)

    def fill(self, text: str) -> str:
        """Put the numbers into a text."""
        return _PLACE.sub(lambda found: _worded(getattr(self, found[1]), found[2] or ""), text)


def prose() -> Mapping[str, str]:
    """Return what each threshold is, by name."""
    return {one.name: one.metadata["prose"] for one in fields(Thresholds)}


def _worded(value: float, form: str) -> str:
    match form:
        case "":
            return _plain(value)
        case "percent":
            return f"{_plain(round(value * 100, 6))} %"
        case "duration":
            return _duration(value)
        case "bytes":
            return f"{_plain(round(value / 1024**3, 2))} GiB"
    raise ValueError(f"no way to write a number as {form!r}")


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _duration(seconds: float) -> str:
    for size, unit in ((3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {unit}" + ("s" if count != 1 else "")
    return f"{_plain(seconds)} seconds"
