"""Synthetic incidents and quiet days, and what the early alerts say about them.

Deterministic: the noise of each comes from its own seeded generator. An incident tells when it
begins; both alerts are asked every minute, with `for:` as promtool counts it. Nothing is tuned by
the test: a table of the same numbers is made by `python -m rules`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rules import files, promtool
from rules.case import Case, Check, Series, document, series
from supervisor.monitoring import alerts
from supervisor.monitoring import rule as rules_as

#: All incidents begin after so many quiet minutes.
BEGIN = 90
_EDGES = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
EXPORT = {"type": "export"}
PAY = {"service": "pay"}

#: From the minute to the level of the trouble: 0 quiet, 1 the worst.
Level = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident: its story, the early alert, and the hard one that would be heard without it."""

    name: str
    story: str
    early: str
    hard: str
    make: Callable[[random.Random, Level, int], list[Series]]
    level: Level


@dataclass(frozen=True, slots=True)
class Lead:
    """When both fired, in minutes after the beginning; None: never."""

    incident: Incident
    early: int | None
    hard: int | None

    @property
    def minutes(self) -> int | None:
        """How long before the hard alert the early one came."""
        return None if self.early is None or self.hard is None else self.hard - self.early


def ramp(minutes: int) -> Level:
    """Return trouble that grows evenly from the beginning for so many minutes."""
    return lambda at: min(max(at - BEGIN, 0) / minutes, 1.0)


def creeping(minutes: int) -> Level:
    """Return trouble that grows ever faster, as a disk or a table fills up."""
    return lambda at: (math.exp(2 * min(max(at - BEGIN, 0) / minutes, 1.0)) - 1) / (math.e**2 - 1)


def at_once(_: int) -> Level:
    """Return trouble that is all there from the beginning."""
    return lambda at: 1.0 if at >= BEGIN else 0.0


def quiet(_: int) -> float:
    """No trouble at all."""
    return 0.0


def _text(values: Sequence[float]) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def _counter(steps: Sequence[float]) -> str:
    total, values = 0.0, []
    for step in steps:
        total += step
        values.append(f"{total:.10g}")
    return " ".join(values)


def _day(at: int) -> float:
    """Return the traffic of an hour of the day, around 1."""
    return 1 + 0.5 * math.sin(2 * math.pi * at / 1440)


def _some(dice: random.Random, share: float, of: int) -> int:
    """Draw how many of so many fail."""
    return min(of, max(0, round(dice.gauss(share * of, math.sqrt(share * (1 - share) * of)))))


def failures(dice: random.Random, level: Level, minutes: int) -> list[Series]:
    """60 attempts a minute, 0.5 % of which fail on a good day and 15 % at the worst."""
    good, bad = [], []
    for at in range(minutes):
        count = round(60 * _day(at) * dice.uniform(0.9, 1.1))
        failed = _some(dice, 0.005 + 0.145 * level(at), count)
        good.append(count - failed)
        bad.append(failed)
    of = {"queue": "default", **EXPORT}
    return [
        series("tasks_finished_total", _counter(good), outcome="success", **of),
        series("tasks_finished_total", _counter(bad), outcome="failed", **of),
    ]


def durations(dice: random.Random, level: Level, minutes: int) -> list[Series]:
    """Run times around a quarter of the timeout at p99, up to all of it at the worst."""
    below: dict[float, list[float]] = {edge: [] for edge in _EDGES}
    counts = []
    for at in range(minutes):
        count = round(40 * _day(at) * dice.uniform(0.9, 1.1))
        middle = 0.1 * (1 + 3.5 * level(at)) * dice.uniform(0.95, 1.05)
        used = [dice.lognormvariate(math.log(middle), 0.4) for _ in range(count)]
        for edge in _EDGES:
            below[edge].append(sum(one <= edge for one in used))
        counts.append(count)
    name, of = "timeout_used_ratio_bucket", EXPORT
    return [
        *(series(name, _counter(below[edge]), le=str(edge), **of) for edge in _EDGES),
        series(name, _counter(counts), le="+Inf", **of),
        series("timeout_used_ratio_count", _counter(counts), **of),
        series("tasks_finished_total", _counter(counts), queue="default", outcome="success", **of),
    ]


def waiting(dice: random.Random, level: Level, minutes: int) -> list[Series]:
    """A queue that is worked off faster than it fills, with a burst each hour, or more slowly."""
    depth, ages = 0.0, []
    for at in range(minutes):
        burst = 250 if at % 60 == 10 else 0
        depth += 60 * _day(at) * dice.uniform(0.8, 1.2) * (1 + 1.2 * level(at)) + burst
        done = 100 * dice.uniform(0.9, 1.1)
        depth = max(depth - done, 0.0)
        ages.append(depth / done * 60)
    return [series("queue_oldest_age_seconds", _text(ages), queue="default")]


def memory(dice: random.Random, level: Level, minutes: int) -> list[Series]:
    """A worker of 300 MiB that is replaced every few hours, or one that leaks up to 4 GiB."""
    mib, values = 300.0, []
    for at in range(minutes):
        mib = 300.0 if at % 237 == 0 and not level(at) else mib + 0.4
        values.append((mib + 3800 * level(at) + dice.uniform(-40, 60)) * 2**20)
    return [series("worker_resident_memory_bytes", _text(values), slot="0")]


def descriptors(dice: random.Random, level: Level, minutes: int) -> list[Series]:
    """A worker with 40 to 60 descriptors, or one that leaks a thousand."""
    values = [40 + dice.randrange(20) + 1000 * level(at) for at in range(minutes)]
    return [series("worker_open_fds", _text([round(one) for one in values]), slot="0")]


def zombies(dice: random.Random, level: Level, minutes: int) -> list[Series]:
    """200 running tasks, one of which stalls now and then, or one after the other."""
    now, stalled = 0, []
    for at in range(minutes):
        if dice.random() < 0.004:
            now = 5
        now = max(now - 1, 0)
        stalled.append((1 if now else 0) + int(24 * level(at)))
    running = [round(200 * dice.uniform(0.9, 1.1)) for _ in range(minutes)]
    return [
        series("zombies", _text(stalled), kind="stalled"),
        series("running", _text(running), queue="default", **EXPORT),
    ]


def heartbeats(dice: random.Random, level: Level, minutes: int) -> list[Series]:
    """A beat every 30 s, later at the worst; the age as a scrape finds it."""
    values, last, now = [], 0.0, 0.0
    following = 30.0
    for at in range(minutes):
        now = at * 60.0
        while following <= now:
            last = following
            following += 30 + 95 * level(at) + abs(dice.gauss(0, 1.5))
        values.append(now - last)
    return [series("worker_heartbeat_age_seconds", _text(values), slot="0")]


def calls(dice: random.Random, level: Level, minutes: int) -> list[Series]:
    """A service that answers in 0.15 s with 0.3 % errors, or in 2 s with 25 %."""
    good, bad, took = [], [], []
    for at in range(minutes):
        count = round(80 * _day(at) * dice.uniform(0.9, 1.1))
        failed = _some(dice, 0.003 + 0.247 * level(at), count)
        mean = (0.15 + 1.85 * level(at)) * dice.uniform(0.85, 1.15)
        mean += 0.5 if dice.random() < 0.01 else 0.0  # a hiccup of a minute
        good.append(count - failed)
        bad.append(failed)
        took.append(mean * count)
    total = [one + other for one, other in zip(good, bad, strict=True)]
    return [
        series("calls_total", _counter(good), outcome="ok", **PAY),
        series("calls_total", _counter(bad), outcome="error", **PAY),
        series("call_duration_seconds_sum", _counter(took), **PAY),
        series("call_duration_seconds_count", _counter(total), **PAY),
    ]


_SLOW, _ERRORS = (
    ("DependencySlowing", "DependencySlow"),
    (
        "DependencyErrorsRising",
        "DependencyErrorsHigh",
    ),
)

INCIDENTS = (
    Incident(
        "database",
        "a database slows down over an hour and a half, from 0.15 s to 2 s a call",
        *_SLOW,
        calls,
        ramp(90),
    ),
    Incident("database, faster", "the same within 40 minutes", *_SLOW, calls, ramp(40)),
    Incident("database, bending", "the same, ever faster", *_SLOW, calls, creeping(120)),
    Incident("database, at once", "it is slow from one minute to the next", *_SLOW, calls,
             at_once(0)),
    Incident("errors of a service", "from 0.3 % to 25 % in two hours", *_ERRORS, calls, ramp(120)),
    Incident(
        "failures", "from 0.5 % to 15 % of the attempts in two hours",
        "TaskFailureRateRising", "TaskFailureRateHigh", failures, ramp(120),
    ),
    Incident(
        "run times", "p99 from a quarter of the timeout to all of it, in two hours",
        "TaskDurationRising", "TaskRunningNearTimeout", durations, ramp(120),
    ),
    Incident(
        "queue", "producers grow to 2.2 times their usual in an hour",
        "TaskQueueWaitRising", "TaskQueueWaitLong", waiting, ramp(60),
    ),
    Incident(
        "memory", "a leak of 25 MiB a minute",
        "WorkerMemoryRising", "WorkerMemoryHigh", memory, ramp(150),
    ),
    Incident(
        "descriptors", "a leak of 7 a minute",
        "WorkerFdsRising", "WorkerFdsHigh", descriptors, ramp(150),
    ),
    Incident(
        "zombies", "of 200 running tasks one stalls every three minutes",
        "ZombieShareRising", "ZombieShareHigh", zombies, ramp(72),
    ),
    Incident(
        "heartbeats", "a beat every 30 s, later every 125 s; 90 s are a loss",
        "HeartbeatsLate", "(heartbeat lost)", heartbeats, ramp(60),
    ),
)  # fmt: skip

#: What runs on a quiet day, with the alerts that must be silent.
QUIET: Mapping[str, Callable[[random.Random, Level, int], list[Series]]] = MappingProxyType(
    {
        "DependencySlowing": calls,
        "DependencyErrorsRising": calls,
        "TaskFailureRateRising": failures,
        "TaskDurationRising": durations,
        "TaskQueueWaitRising": waiting,
        "WorkerMemoryRising": memory,
        "WorkerFdsRising": descriptors,
        "ZombieShareRising": zombies,
        "HeartbeatsLate": heartbeats,
    }
)


def lead(incident: Incident, minutes: int = BEGIN + 180, seed: int = 1) -> Lead:
    """Replay an incident and return when both alerts fired first."""
    made = incident.make(random.Random(seed), incident.level, minutes)
    names = [name for name in (incident.early, incident.hard) if not name.startswith("(")]
    fired = timeline(names, made, minutes)
    first = {name: min((at - BEGIN for at in fired[name] if at >= BEGIN), default=None)
             for name in names}  # fmt: skip
    hard = first[incident.hard] if incident.hard in first else _lost(made)
    return Lead(incident, first[incident.early], hard)


def _lost(made: Sequence[Series]) -> int | None:
    ages = [float(value) for value in made[0][1].split()]
    return next((at - BEGIN for at, age in enumerate(ages) if age > 90), None)


def false_alarms(alert: str, minutes: int = 1440, seed: int = 1) -> int:
    """Return how often an early alert fires on a quiet day."""
    made = QUIET[alert](random.Random(seed), quiet, minutes)
    fired = sorted(timeline([alert], made, minutes)[alert])
    return sum(at - 1 not in set(fired) for at in fired)


def timeline(names: Sequence[str], made: Sequence[Series], minutes: int) -> dict[str, set[int]]:
    """Return the minutes in which each alert fires; asked of promtool, which expects silence."""
    checks = [Check(f"{at}m", name) for name in names for at in range(minutes)]
    groups = files.only(files.needed(names, files.all_groups()), files.all_groups())
    case = Case("timeline", made, checks)
    passed, output = promtool.run(
        {
            "t.rules.yml": rules_as.document(groups, files.LIMITS, None),
            "t.test.yml": document([case], ["t.rules.yml"], [g.name for g in groups], "1m"),
        },
        "t.test.yml",
    )
    failed = promtool.failures(output)
    if not passed and not failed:
        raise AssertionError(output[:2000])
    fired: dict[str, set[int]] = {name: set() for name in names}
    for failure in failed:
        fired[failure.alert].add(promtool.seconds(failure.time) // 60)
    return fired


def lead_checks(incident: Incident) -> Case:
    """Return a case in which the early alert of an incident fires, at its first minute."""
    minutes = BEGIN + 60
    made = incident.make(random.Random(1), incident.level, minutes)
    at = min(timeline([incident.early], made, minutes)[incident.early])
    by = alerts.by_name()[incident.early][0].by
    known = {"type": "export", "queue": "default", "service": "pay", "slot": "0"}
    labels = {name: known.get(name, "a:9464") for name in by}
    return Case(incident.name, made, [Check(f"{at}m", incident.early, (labels,))])
