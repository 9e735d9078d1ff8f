"""The metrics of the web process: what it was asked, and how long the answers took.

Apart from `CATALOG`, whose series every node has from its start. Routes are those of the site, so
the set is closed; a request that no route takes is `_other`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from supervisor.telemetry.metric import OPEN, OTHER, Metric, counter, gauge, histogram

METHODS = ("GET", "HEAD", "POST", OTHER)
# A page is a few queries: the floor is 150 ms at p95.
PAGE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10)

_ALL = (
    counter("http_requests_total", "Requests.", method=METHODS, route=OPEN, code=OPEN),
    histogram(
        "http_request_duration_seconds",
        "From a request's arrival to its answer, without the time to send it.",
        PAGE_BUCKETS,
        method=METHODS,
        route=OPEN,
    ),
    gauge("web_start_time_seconds", "When the web process was started, since 1970.", "seconds"),
)
WEB_CATALOG: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})
