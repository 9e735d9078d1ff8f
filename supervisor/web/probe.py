"""What is seen of an attempt that runs: made of its node's vital signs, with how old they are.

Invariants: nothing is shown that no reading says; a rate is of what was seen to change within the
window, so that one that has stopped has none, and no time to the end is promised. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from supervisor.store.vitals import VitalsView

#: Readings of so long are looked at.
WINDOW = timedelta(minutes=2)
#: A reading that is older is told to be old: its node writes one every 5 s.
OLD_AFTER_S = 20.0
#: Points of the small lines.
POINTS = 24


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is: what it said, how fast that grows, and the seconds to its end by that."""

    done: float
    total: float | None
    rate: float | None
    left_s: float | None

    @property
    def share(self) -> float | None:
        """How much of it is done, of one; None when it did not say how much there is."""
        return None if not self.total else max(0.0, min(1.0, self.done / self.total))


@dataclass(frozen=True, slots=True)
class Probe:
    """One look at an attempt; ages are as of now. `cpu` is a share of one core."""

    age_s: float
    worker_id: str
    state: str
    heartbeat_age_s: float | None
    since_progress_s: float | None
    cpu: float | None
    rss: int | None
    fds: int | None
    verdict: str | None
    progress: Progress | None
    cpu_trend: tuple[float | None, ...]
    rss_trend: tuple[float | None, ...]

    @property
    def is_old(self) -> bool:
        """Whether its node should have said something since."""
        return self.age_s > OLD_AFTER_S


def probe_of(
    readings: Sequence[VitalsView], task_id: str, attempt: int, now: datetime
) -> Probe | None:
    """Return what is known of an attempt from readings, oldest first; None if none shows it."""
    seen = [(one.at, worker) for one in readings if (worker := one.of_attempt(task_id, attempt))]
    if not seen:
        return None
    at, last = seen[-1]
    age_s = max(0.0, (now - at).total_seconds())
    process = [
        (one.at, worker)
        for one in readings
        for worker in one.workers
        if worker["worker_id"] == last["worker_id"] and one.at <= at
    ]
    shares = _shares(process)
    return Probe(
        age_s=age_s,
        worker_id=last["worker_id"],
        state=last["state"],
        heartbeat_age_s=_older(last["heartbeat_age_s"], age_s),
        since_progress_s=_older(last["since_progress_s"], age_s),
        cpu=shares[-1] if shares else None,
        rss=last["rss"],
        fds=last["fds"],
        verdict=last["verdict"],
        progress=_progress(seen),
        cpu_trend=tuple(shares[-POINTS:]),
        rss_trend=tuple(worker["rss"] for _, worker in process[-POINTS:]),
    )


def _older(seconds: float | None, age_s: float) -> float | None:
    """Return an age as of now that was told some time ago."""
    return None if seconds is None else seconds + age_s


def _shares(process: Sequence[tuple[datetime, Mapping[str, Any]]]) -> list[float | None]:
    """Return the share of a core that it used from each reading to the next."""
    shares: list[float | None] = []
    for (since, before), (until, after) in pairwise(process):
        used = None
        passed_s = (until - since).total_seconds()
        if passed_s > 0 and None not in (before["cpu_s"], after["cpu_s"]):
            used = max(0.0, (after["cpu_s"] - before["cpu_s"]) / passed_s)
        shares.append(used)
    return shares


def _progress(seen: Sequence[tuple[datetime, Mapping[str, Any]]]) -> Progress | None:
    told = [(at, worker["progress"]) for at, worker in seen if worker["progress"]]
    if not told:
        return None
    (since, (first, _)), (until, (done, total)) = told[0], told[-1]
    passed_s = (until - since).total_seconds()
    rate = (done - first) / passed_s if passed_s > 0 else None
    left_s = None
    if rate and rate > 0 and total:
        left_s = max(0.0, total - done) / rate
    return Progress(done, total, rate, left_s)
