"""What one metric is: its name, kind, labels with their closed sets, scope, help and buckets.

Plain data without prometheus_client. `catalog` holds the metrics that there are; everything that
speaks of metrics (the node, rules, dashboards, documents) reads them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

PREFIX = "supervisor_"
OTHER = "_other"
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
#: The same from every node, as it describes the store they share: `max without (instance)`; of one
#: node alone: `sum`; or, of `zombies`, store for kind="lost" and process for the other kinds.
STORE, PROCESS, MIXED = "store", "process", "mixed"
#: Sets that are known only when the app is: filled by `Metrics.allow`.
OPEN: tuple[str, ...] = ()

# 15 edges from a fast body to the longest usual one: 50 ms to 1 h.
TASK_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
# Submit → claim is a few milliseconds when a worker is free.
WAIT_BUCKETS = (0.002, 0.005, 0.015, 0.05, 0.1, 0.25, 1, 2.5, 10, 30, 60, 300, 600, 1800, 3600)
# One loop turn and one commit: the floor is 20 ms at p99, anything past 1 s moves deadlines.
TURN_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
# A capture may take 10 s, a cancel the grace of 10 s and a capture.
STOP_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 12.5, 15, 20, 30, 60)
# A fork takes milliseconds, an import with exec seconds; after 10 s a birth is given up.
BIRTH_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# The alert asks for the share above 0.8: an edge lies there, so that its answer is exact.
RATIO_BUCKETS = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `labels` maps each label to its closed set (empty: registered at run time).

    With `at_scrape` a collector makes its samples when somebody asks, and there is none when it
    cannot tell: what it told last serves for a minute at most.
    """

    name: str
    kind: str
    unit: str
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    buckets: tuple[float, ...] = ()
    scope: str = PROCESS
    at_scrape: bool = False

    @property
    def full_name(self) -> str:
        """The name as it is exposed."""
        return PREFIX + self.name


def labels(**sets: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    """Return the labels of a metric with their sets."""
    return MappingProxyType(sets)


def counter(name: str, text: str, /, unit: str = "", **sets: tuple[str, ...]) -> Metric:
    """Return a counter of this node."""
    return Metric(name, COUNTER, unit, text, labels(**sets))


def gauge(name: str, text: str, /, unit: str = "", **sets: tuple[str, ...]) -> Metric:
    """Return a gauge of this node."""
    return Metric(name, GAUGE, unit, text, labels(**sets))


def histogram(
    name: str,
    text: str,
    buckets: tuple[float, ...],
    /,
    unit: str = "seconds",
    **sets: tuple[str, ...],
) -> Metric:
    """Return a histogram of this node."""
    return Metric(name, HISTOGRAM, unit, text, labels(**sets), buckets)


def of_store(name: str, text: str, /, unit: str = "", **sets: tuple[str, ...]) -> Metric:
    """Return a gauge that is read from the store at scrape time."""
    return Metric(name, GAUGE, unit, text, labels(**sets), scope=STORE, at_scrape=True)


def seen(
    name: str, text: str, /, kind: str = GAUGE, unit: str = "", **sets: tuple[str, ...]
) -> Metric:
    """Return a metric of this node that is looked up at scrape time."""
    return Metric(name, kind, unit, text, labels(**sets), at_scrape=True)
