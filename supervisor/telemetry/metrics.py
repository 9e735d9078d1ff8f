"""The node's metrics: a private registry filled from the catalogue, every series there from 0.

Secret kept here: prometheus_client. A label value outside its closed set is folded into `_other`
and counted, so no caller can grow the number of series. Threads of the node may share one.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Collection, Iterable
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from supervisor.telemetry.catalog import CATALOG, COUNTER, GAUGE, OTHER, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one node. Names are those of the catalogue, without the prefix."""

    def __init__(
        self, *, types: Iterable[str] = (), queues: Iterable[str] = (), version: str = ""
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series nobody reads
        self._registry = CollectorRegistry()
        self._allowed: dict[str, set[str]] = {"type": set(), "queue": set()}
        self._families = {name: self._family(metric) for name, metric in CATALOG.items()}
        self._bound: dict[tuple[str, ...], Any] = {}
        self._fill(CATALOG.values())
        self.allow("type", types)
        self.allow("queue", queues)
        build = {"version": version, "python_version": platform.python_version()}
        for label, value in build.items():
            self.allow(label, [value])
        self.set("build_info", 1, **build)

    def allow(self, label: str, values: Iterable[str]) -> None:
        """Add values to a label's set (types and queues become known at boot) and zero them."""
        self._allowed.setdefault(label, set()).update(values)
        self._bound.clear()  # a value that was folded so far has a series of its own now
        self._fill(metric for metric in CATALOG.values() if label in metric.labels)

    def inc(self, name: str, value: float = 1, /, **labels: str) -> None:
        """Add to a counter (or gauge)."""
        self._child(name, labels).inc(value)

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        self._child(name, labels).set(value)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Add one observation to a histogram."""
        self._child(name, labels).observe(value)

    def render(self) -> bytes:
        """Return all series in the text format that Prometheus reads."""
        return generate_latest(self._registry)

    def _child(self, name: str, labels: dict[str, str]) -> Any:
        key = (name, *labels, *labels.values())
        child = self._bound.get(key)
        if child is None:
            metric = CATALOG[name]
            if labels.keys() != metric.labels.keys():
                raise ValueError(f"{name} has the labels {sorted(metric.labels)}")
            folded = {label: self._fold(metric, label, labels[label]) for label in metric.labels}
            child = self._families[name]
            if folded:
                child = child.labels(**folded)
            if OTHER not in folded.values():  # each folded use is counted, so it is not remembered
                self._bound[key] = child
        return child

    def _fold(self, metric: Metric, label: str, value: str) -> str:
        if value in self._known(metric, label):
            return value
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

    def _fill(self, metrics: Iterable[Metric]) -> None:
        """Make every series exist: one that appears at 3 has no increase, one from 0 has."""
        for metric in metrics:
            if metric.labels:
                sets = [sorted(self._known(metric, label)) for label in metric.labels]
                for values in itertools.product(*sets):
                    self._families[metric.name].labels(*values)
