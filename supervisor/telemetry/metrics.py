"""The node's metrics: a private registry filled from the catalogue, every series there from 0.

Secret kept here: prometheus_client. A label value outside its closed set is folded into `_other`
and counted, so no caller can grow the number of series. Threads of the node may share one; new
label values are let in by the main thread only.
"""

from __future__ import annotations

import itertools
import math
import platform
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from supervisor.telemetry import exposition
from supervisor.telemetry.account import Account
from supervisor.telemetry.catalog import CATALOG, COUNTER, GAUGE, OTHER, Metric
from supervisor.telemetry.series import TaskSeries

#: Pairs of a queue and a type with series of their own: all there can be, while they are few; then
#: only those that tasks were seen of; after that the queue is folded.
PAIRS_AT_START, PAIRS_MOST = 200, 1000

_OPEN_METRICS = "application/openmetrics-text"

Pair = tuple[str, str]
_PAIR = frozenset({"queue", "type"})


class Metrics:
    """The metrics of one node. Names are those of the catalogue, without the prefix."""

    def __init__(
        self, *, types: Iterable[str] = (), queues: Iterable[str] = (), version: str = ""
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series nobody reads
        self._registry = CollectorRegistry()
        self._allowed: dict[str, frozenset[str]] = {"type": frozenset(), "queue": frozenset()}
        self._pairs: frozenset[Pair] = frozenset()
        kept = [metric for metric in CATALOG.values() if not metric.at_scrape]
        self._families = {metric.name: self._family(metric) for metric in kept}
        self._bound: dict[tuple[str, ...], Any] = {}
        self._series: dict[Pair, TaskSeries] = {}
        self._fill(kept)
        self.allow("type", types)
        self.allow("queue", queues)
        build = {"version": version, "python_version": platform.python_version()}
        for label, value in build.items():
            self.allow(label, [value])
        self.set("build_info", 1, **build)
        self.account = Account(lambda: self.known("type"), self._dropped)
        self.collect_with(self.account)

    def allow(self, label: str, values: Iterable[str]) -> None:
        """Add values to a label's set (types and queues become known at boot) and zero them."""
        before = self._allowed.get(label, frozenset())
        self._allowed[label] = before | frozenset(values)
        self._bound.clear()  # a value that was folded so far has a series of its own now
        self._series.clear()
        queues, types = self._allowed["queue"], self._allowed["type"]
        if len(queues) * len(types) <= PAIRS_AT_START:
            self._pairs = self._pairs.union(itertools.product(queues, types))
        self._fill(metric for metric in CATALOG.values() if label in metric.labels)

    def known(self, label: str) -> frozenset[str]:
        """Return the values that a label has series for, without `_other`."""
        return self._allowed.get(label, frozenset())

    @property
    def pairs(self) -> frozenset[Pair]:
        """The (queue, type) pairs that have series."""
        return self._pairs

    def pair(self, queue: str, kind: str) -> Pair:
        """Return under which queue and type a task is shown, counting what is folded."""
        queue = queue if queue in self._allowed["queue"] else self._dropped("queue")
        kind = kind if kind in self._allowed["type"] else self._dropped("type")
        if OTHER in (queue, kind) or (queue, kind) in self._pairs:
            return queue, kind
        if len(self._pairs) >= PAIRS_MOST:
            return self._dropped("queue"), kind
        self._pairs |= {(queue, kind)}
        self._fill((m for m in CATALOG.values() if m.labels.keys() >= _PAIR), [(queue, kind)])
        return queue, kind

    def of_task(self, queue: str, kind: str) -> TaskSeries:
        """Return the counters of the tasks of this type in this queue, bound once."""
        series = self._series.get((queue, kind))
        if series is None:
            series = TaskSeries(self._child_of, *self.pair(queue, kind))
            if OTHER not in series.pair:  # each folded use is counted, so it is not remembered
                self._series[queue, kind] = series
        return series

    def setter(self, name: str, /, **labels: str) -> Callable[[float], None]:
        """Return what sets a gauge, and costs little while it stands; nobody else may set that."""
        put, stands = self._child(name, labels).set, math.nan

        def set_to(value: float) -> None:
            nonlocal stands
            if value != stands:
                stands = value
                put(value)

        return set_to

    def inc(self, name: str, value: float = 1, /, **labels: str) -> None:
        """Add to a counter (or gauge)."""
        self._child(name, labels).inc(value)

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        self._child(name, labels).set(value)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Add one observation to a histogram."""
        self._child(name, labels).observe(value)

    def collect_with(self, collector: Collector) -> None:
        """Let something make samples of its own when the metrics are read."""
        self._registry.register(collector)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return all series and their content type: the richest format that the reader takes."""
        _, content_type = choose_encoder(accept)
        if content_type.startswith(_OPEN_METRICS):
            return exposition.opened(self._registry.collect()), content_type
        return exposition.plain(self._registry.collect()), content_type

    def _child(self, name: str, labels: dict[str, str]) -> Any:
        key = (name, *labels, *labels.values())
        child = self._bound.get(key)
        if child is None:
            metric = CATALOG[name]
            if labels.keys() != metric.labels.keys():
                raise ValueError(f"{name} has the labels {sorted(metric.labels)}")
            folded = self._fold_all(metric, labels)
            child = self._child_of(name, folded)
            if OTHER not in folded.values():  # each folded use is counted, so it is not remembered
                self._bound[key] = child
        return child

    def _child_of(self, name: str, labels: Mapping[str, str]) -> Any:
        family = self._families[name]
        return family.labels(**labels) if labels else family

    def _fold_all(self, metric: Metric, labels: Mapping[str, str]) -> dict[str, str]:
        folded = dict(labels)
        if metric.labels.keys() >= _PAIR:
            folded["queue"], folded["type"] = self.pair(labels["queue"], labels["type"])
        return {label: self._fold(metric, label, folded[label]) for label in metric.labels}

    def _fold(self, metric: Metric, label: str, value: str) -> str:
        if value == OTHER or value in self._known(metric, label):
            return value
        return self._dropped(label)

    def _dropped(self, label: str) -> str:
        if label in CATALOG["label_values_dropped_total"].labels["label"]:
            self.inc("label_values_dropped_total", label=label)
        return OTHER

    def _known(self, metric: Metric, label: str) -> Collection[str]:
        return metric.labels[label] or self._allowed.get(label, ())

    def _family(self, metric: Metric) -> Any:
        names = tuple(metric.labels)
        if metric.kind == COUNTER:
            return Counter(metric.full_name, metric.help, names, registry=self._registry)
        if metric.kind == GAUGE:
            return Gauge(metric.full_name, metric.help, names, registry=self._registry)
        return Histogram(
            metric.full_name, metric.help, names, registry=self._registry, buckets=metric.buckets
        )

    def _fill(self, metrics: Iterable[Metric], pairs: Collection[Pair] | None = None) -> None:
        """Make every series exist: one that appears at 3 has no increase, one from 0 has."""
        for metric in metrics:
            if metric.labels and not metric.at_scrape:
                for values in self._values(metric, self._pairs if pairs is None else pairs):
                    self._families[metric.name].labels(**values)

    def _values(self, metric: Metric, pairs: Collection[Pair]) -> Iterable[dict[str, str]]:
        """Yield every set of label values that the metric has."""
        paired = metric.labels.keys() >= _PAIR
        free = [label for label in metric.labels if not (paired and label in _PAIR)]
        named = [{"queue": queue, "type": kind} for queue, kind in sorted(pairs)]
        for pair in named if paired else [{}]:
            for values in itertools.product(*(sorted(self._known(metric, one)) for one in free)):
                yield {**pair, **dict(zip(free, values, strict=True))}
