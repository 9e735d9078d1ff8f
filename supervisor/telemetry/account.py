"""What tasks use and what they say of themselves, added up by type until somebody scrapes it.

Secret kept here: which names get series of their own: those that a type declares, and the first
that are not declared; the others share one. Adding is a few additions to plain numbers, so that the
shortest task can afford it. One thread adds, any may collect.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from supervisor.telemetry.catalog_task import (
    CALL_BUCKETS,
    CPU_MODES,
    IO_DIRECTIONS,
    MEMORY_BUCKETS,
    NETWORK_DIRECTIONS,
    STEP_BUCKETS,
    of_business,
    of_resources,
)
from supervisor.telemetry.metric import OTHER
from supervisor.telemetry.metric import Metric as Entry

#: Names of one metric and type that are learned beside the declared ones.
LEARNED_MOST = 20
#: What only grows → the order in which its amounts are added.
SPENT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "task_cpu_seconds_total": CPU_MODES,
        "task_io_bytes_total": IO_DIRECTIONS,
        "task_network_bytes_total": NETWORK_DIRECTIONS,
    }
)
_AMOUNTS = sum(map(len, SPENT.values()))
#: Kinds of names → the label that bears them.
LABELS: Mapping[str, str] = MappingProxyType(
    {"counts": "name", "codes": "code", "steps": "step", "calls": "service"}
)
_EDGES: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"steps": STEP_BUCKETS, "calls": CALL_BUCKETS}
)


class _Sum:
    """A number, or durations (by bucket, the last above all edges), of which `errors` failed.

    `good` is a sum of its own: buckets less errors, read while both grow, would fall now and then.
    """

    __slots__ = ("buckets", "edges", "errors", "good", "total")

    def __init__(self, edges: tuple[float, ...] = ()) -> None:
        self.edges = edges
        self.buckets = [0] * (len(edges) + 1)
        self.total = 0.0
        self.errors = self.good = 0

    def gain(self, buckets: Sequence[int], total: float, errors: int) -> None:
        """Add durations that were sorted elsewhere, by the same edges."""
        self.buckets = [have + more for have, more in zip(self.buckets, buckets, strict=True)]
        self.total += total
        self.errors += errors
        self.good += max(0, sum(buckets) - errors)

    def observe(self, value: float, times: int = 1) -> None:
        """Add a value, so many times."""
        self.buckets[bisect_left(self.edges, value)] += times
        self.total += value * times

    def told(self) -> list[tuple[str, float]]:
        """Return the buckets as they are exposed: each with all below it."""
        names = (*map(floatToGoString, self.edges), "+Inf")
        counts = accumulate(self.buckets.copy())
        return [(name, float(count)) for name, count in zip(names, counts, strict=True)]


class Account(Collector):
    """The sums of one node. `types` says which types there are; `dropped` hears of each label
    whose value was folded."""

    def __init__(
        self, types: Callable[[], Iterable[str]], dropped: Callable[[str], object]
    ) -> None:
        self._types = types
        self._dropped = dropped
        self._spent: dict[str, list[float]] = {}
        self._memory: dict[str, _Sum] = {}
        self._open_fds: Mapping[str, int] = {}
        self._said: dict[tuple[str, str], dict[str, _Sum]] = {}
        self._learned: dict[tuple[str, str], int] = {}
        self._in_flight: Mapping[str, int] = {}

    def spend(self, type_name: str, amounts: Sequence[float]) -> None:
        """Add to what tasks of a type have used, in the order of `SPENT`."""
        have = self._spent.get(type_name)
        if have is None:
            have = self._spent[type_name] = [0.0] * _AMOUNTS
        for at, amount in enumerate(amounts):
            have[at] += max(0.0, amount)

    def peak(self, type_name: str, size_bytes: int, attempts: int = 1) -> None:
        """Note the most memory that the worker of so many attempts had."""
        sizes = self._memory.get(type_name)
        if sizes is None:
            sizes = self._memory[type_name] = _Sum(MEMORY_BUCKETS)
        sizes.observe(size_bytes, attempts)

    def declare(self, type_name: str, words: Mapping[str, Iterable[str]]) -> None:
        """Let these names of a type, by kind, have series from now on."""
        for kind, names in words.items():
            place = self._place(kind, type_name)
            for name in names:
                place.setdefault(name, _Sum(_EDGES.get(kind, ())))

    def count(self, kind: str, type_name: str, name: str, amount: float) -> None:
        """Add to a number that tasks of a type tell."""
        self._sum(kind, type_name, name).total += amount

    def time(
        self,
        kind: str,
        type_name: str,
        name: str,
        buckets: Sequence[int],
        total_s: float,
        errors: int = 0,
    ) -> None:
        """Add durations that tasks of a type tell."""
        self._sum(kind, type_name, name).gain(buckets, total_s, errors)

    def fail_call(self, service: str, took_s: float) -> None:
        """Note a call that had not come back when its attempt was ended."""
        call = self._sum("calls", "", service)
        call.observe(took_s)
        call.errors += 1

    def stand(self, open_fds: Mapping[str, int], in_flight: Mapping[str, int]) -> None:
        """Take in how it stands now: open descriptors by type, calls in flight by service."""
        self._open_fds = open_fds
        standing: dict[str, int] = {}
        for service, number in in_flight.items():
            shown = self._name("calls", "", service, is_news=False)
            standing[shown] = standing.get(shown, 0) + number
        self._in_flight = standing

    def _place(self, kind: str, type_name: str) -> dict[str, _Sum]:
        # A service is the same whoever calls it.
        return self._said.setdefault((kind, "" if kind == "calls" else type_name), {})

    def _name(self, kind: str, type_name: str, name: str, *, is_news: bool = True) -> str:
        """Return under which name something is shown, letting it in if there is room.

        What only stands as it did (no news) is folded without being counted again.
        """
        place = self._place(kind, type_name)
        if name in place:
            return name
        key = (kind, "" if kind == "calls" else type_name)
        if name != OTHER:
            learned = self._learned.get(key, 0)
            if learned < LEARNED_MOST:
                self._learned[key] = learned + 1
            else:
                if is_news:
                    self._dropped(LABELS[kind])
                name = OTHER
        place.setdefault(name, _Sum(_EDGES.get(kind, ())))
        return name

    def _sum(self, kind: str, type_name: str, name: str) -> _Sum:
        return self._place(kind, type_name)[self._name(kind, type_name, name)]

    # -- collecting, in whatever thread

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the names are in the catalogue, and are taken by nobody else."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield everything as it stands."""
        entries = {entry.name: entry for entry in (*of_resources(), *of_business())}
        types = sorted({*self._types(), *self._spent.copy(), *self._memory.copy()})
        yield from self._of_resources(entries, types)
        yield self._numbers(entries["task_counts_total"], "counts")
        yield self._numbers(entries["task_error_codes_total"], "codes")
        yield self._times(entries["task_step_duration_seconds"], "steps")
        yield self._times(entries["call_duration_seconds"], "calls")
        yield from self._of_calls(entries)

    def _of_resources(self, entries: Mapping[str, Entry], types: list[str]) -> Iterator[Metric]:
        at = 0
        for name, parts in SPENT.items():
            family = _counter(entries[name])
            for kind in types:
                amounts = self._spent.get(kind, [0.0] * _AMOUNTS)[at : at + len(parts)]
                for part, amount in zip(parts, amounts, strict=True):
                    family.add_metric([kind, part], amount)
            yield family
            at += len(parts)
        sizes = _histogram(entries["task_max_rss_bytes"])
        opened = _gauge(entries["task_open_fds"])
        for kind in types:
            size = self._memory.get(kind) or _Sum(MEMORY_BUCKETS)
            sizes.add_metric([kind], size.told(), size.total)
            opened.add_metric([kind], self._open_fds.get(kind, 0))
        yield sizes
        yield opened

    def _numbers(self, entry: Entry, kind: str) -> Metric:
        family = _counter(entry)
        for values, one in self._all(kind):
            family.add_metric(values, one.total)
        return family

    def _times(self, entry: Entry, kind: str) -> Metric:
        family = _histogram(entry)
        for values, one in self._all(kind):
            family.add_metric(values, one.told(), one.total)
        return family

    def _of_calls(self, entries: Mapping[str, Entry]) -> Iterator[Metric]:
        ended, flying = _counter(entries["calls_total"]), _gauge(entries["call_in_flight"])
        standing = self._in_flight
        for (service,), call in self._all("calls"):
            ended.add_metric([service, "ok"], call.good)
            ended.add_metric([service, "error"], call.errors)
            flying.add_metric([service], standing.get(service, 0))
        yield ended
        yield flying

    def _all(self, kind: str) -> Iterator[tuple[list[str], _Sum]]:
        """Yield everything of a kind by the values of its labels."""
        for (its_kind, type_name), place in sorted(self._said.copy().items()):
            if its_kind == kind:
                for name, one in place.copy().items():
                    yield ([name] if kind == "calls" else [type_name, name]), one


def _counter(entry: Entry) -> CounterMetricFamily:
    return CounterMetricFamily(entry.full_name, entry.help, labels=list(entry.labels))


def _gauge(entry: Entry) -> GaugeMetricFamily:
    return GaugeMetricFamily(entry.full_name, entry.help, labels=list(entry.labels))


def _histogram(entry: Entry) -> HistogramMetricFamily:
    return HistogramMetricFamily(entry.full_name, entry.help, labels=list(entry.labels))
