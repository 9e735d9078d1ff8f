"""Metrics that are made when somebody asks: each source in a thread of its own, in limited time.

Secret kept here: that a source which hangs cannot hang a scrape, and that a slow one cannot be kept
busy by scraping: its answer serves for a multiple of the time it took, a minute at most. After
that, and where it failed, there are no samples. The sources are called by these threads only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from supervisor.clock import Clock
from supervisor.telemetry.catalog import CATALOG, COUNTER, Metric
from supervisor.telemetry.events import emit

#: A scrape waits this long for all sources together.
WAIT_S = 2.0
#: An answer serves for this many times what it took, but not shorter or longer than this; a failure
#: for the least, so that the numbers are back as soon as their source is.
REST_TIMES, REST_LEAST_S, REST_MOST_S = 20, 0.5, 60.0
#: What is told of the sources themselves.
_ABOUT = ("collector_duration_seconds", "collector_success")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric of the catalogue, under these labels."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


Read = Callable[[], Iterable[Sample]]


class _Source:
    """One source, its last answer, and the thread that asks it, if one does."""

    def __init__(self, name: str, read: Read, clock: Clock) -> None:
        self.name = name
        self._read = read
        self._clock = clock
        self._changed = threading.Condition()
        self._busy_since: float | None = None
        self._ended_at = float("-inf")
        self._took_s = 0.0
        self._samples: tuple[Sample, ...] | None = None
        self._told = ""

    def ask(self) -> None:
        """Have it asked, unless its last answer still serves or it owes one."""
        with self._changed:
            serves = self._clock.mono() - self._ended_at < self._rest_s()
            if serves or self._busy_since is not None:
                return
            self._busy_since = self._clock.mono()
        threading.Thread(target=self._run, name=f"collect-{self.name}", daemon=True).start()

    def _rest_s(self) -> float:
        if self._samples is None:
            return REST_LEAST_S
        return min(max(REST_LEAST_S, REST_TIMES * self._took_s), REST_MOST_S)

    def _run(self) -> None:
        samples: tuple[Sample, ...] | None = None
        why = ""
        try:
            samples = tuple(self._read())
        except Exception as exc:  # whatever it is, the other sources answer
            why = str(exc) or repr(exc)
        with self._changed:
            now = self._clock.mono()
            self._took_s = now - (self._busy_since or now)
            self._busy_since, self._ended_at, self._samples = None, now, samples
            self._changed.notify_all()
        self._tell(why)

    def answer(self, until: float) -> tuple[tuple[Sample, ...] | None, float]:
        """Return its samples, None if there are none by then, and the time it took or takes."""
        with self._changed:
            while self._busy_since is not None:
                now = self._clock.mono()
                left_s = min(until, self._busy_since + WAIT_S) - now
                if left_s <= 0:
                    spent_s = now - self._busy_since
                    break
                self._changed.wait(left_s)
            else:
                return self._samples, self._took_s
        self._tell("no answer in time")
        return None, spent_s

    def _tell(self, why: str) -> None:
        """Write down that it fails, once for each reason in a row."""
        if why and why != self._told:
            emit("collector.failed", collector=self.name, error=why)
        self._told = why


class Collecting(Collector):
    """All sources of a node, as one collector of the registry."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sources: list[_Source] = []
        self._metrics: dict[str, None] = dict.fromkeys(_ABOUT)

    def add(self, name: str, read: Read, metrics: Iterable[str]) -> None:
        """Add a source of these metrics; `name` is the collector's in the catalogue."""
        self._sources.append(_Source(name, read, self._clock))
        self._metrics |= dict.fromkeys(metrics)

    def collect(self) -> Iterable[Any]:
        """Ask all sources, and yield every metric that is made at scrape time."""
        until = self._clock.mono() + WAIT_S
        for source in self._sources:
            source.ask()
        samples: list[Sample] = []
        for source in self._sources:
            found, took_s = source.answer(until)
            samples += found or ()
            about = {"collector": source.name}
            samples.append(Sample("collector_duration_seconds", took_s, about))
            samples.append(Sample("collector_success", float(found is not None), about))
        families = {name: _family(CATALOG[name]) for name in self._metrics}
        for sample in samples:
            labels = [sample.labels[label] for label in CATALOG[sample.name].labels]
            families[sample.name].add_metric(labels, sample.value)
        return families.values()


def _family(metric: Metric) -> Any:
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    return kind(metric.full_name, metric.help, labels=list(metric.labels))
