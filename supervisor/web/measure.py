"""What the web process counts of itself, in the format that Prometheus reads.

Secret kept here: prometheus_client. Invariant: the labels are routes and methods of the site, never
what an address holds. Safe to share between threads.
"""

from __future__ import annotations

from flask import g, request
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from supervisor.clock import SystemClock
from supervisor.telemetry.catalog_web import METHODS, WEB_CATALOG
from supervisor.telemetry.metric import OTHER


class Measure:
    """The metrics of one web process."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series nobody reads
        self._clock = SystemClock()
        self._registry = CollectorRegistry()
        requests, duration, start = WEB_CATALOG.values()
        self._requests = Counter(
            requests.full_name, requests.help, tuple(requests.labels), registry=self._registry
        )
        self._duration = Histogram(
            duration.full_name,
            duration.help,
            tuple(duration.labels),
            registry=self._registry,
            buckets=duration.buckets,
        )
        Gauge(start.full_name, start.help, registry=self._registry).set(
            self._clock.now().timestamp()
        )

    def begin(self) -> None:
        """Note when a request has come."""
        g.begun = self._clock.mono()

    def end(self, code: int) -> None:
        """Count the request that is answered now."""
        method = request.method if request.method in METHODS else OTHER
        route = OTHER if request.url_rule is None else request.url_rule.rule
        self._requests.labels(method, route, str(code)).inc()
        took_s = self._clock.mono() - g.get("begun", self._clock.mono())
        self._duration.labels(method, route).observe(took_s)

    def render(self) -> bytes:
        """Return all series."""
        return generate_latest(self._registry)
