"""How the queries of dashboards are put together: what every selector carries, and both scopes.

Secret kept here: that what all nodes say alike is taken once (the largest of them), what each says
of itself is added up; that every selector follows the variables `job` and, for a node's own
numbers, `instance`.
"""

from __future__ import annotations

from supervisor.telemetry.catalog import PREFIX

RATE = "[$__rate_interval]"
JOB = 'job=~"$job"'
#: Alerts of others in the same Prometheus are none of ours: their job has no build of ours.
OURS = 'on (job) group by (job) (present_over_time(supervisor_build_info{job=~"$job"}[1d]))'
BY_QUEUE = 'queue=~"$queue"'
BY_TYPE = 'type=~"$type"'
BY_SERVICE = 'service=~"$service"'


def own(metric: str, *matchers: str) -> str:
    """Return the selector of a metric that each chosen node exports of itself."""
    return _select(PREFIX + metric, JOB, 'instance=~"$instance"', *matchers)


def store(metric: str, *matchers: str) -> str:
    """Return a number about the store, which every node exports alike, once."""
    return f"max without (instance) ({_select(PREFIX + metric, JOB, *matchers)})"


def record(name: str, *matchers: str) -> str:
    """Return the selector of a recording rule."""
    return _select(name, JOB, *matchers)


def firing(*severities: str) -> str:
    """Return our alerts that fire, of these severities."""
    of = f'severity=~"{"|".join(severities)}"'
    return _select("ALERTS", 'alertstate="firing"', JOB, of) + f" and {OURS}"


def total(expr: str, *by: str) -> str:
    """Return the sum for each value of these labels."""
    return _aggregate("sum", expr, by)


def largest(expr: str, *by: str) -> str:
    """Return the maximum for each value of these labels."""
    return _aggregate("max", expr, by)


def smallest(expr: str, *by: str) -> str:
    """Return the minimum for each value of these labels."""
    return _aggregate("min", expr, by)


def rate(counter: str, *by: str, where: tuple[str, ...] = (), over: str = RATE) -> str:
    """Return how fast a node's counter grows, a second, over the nodes."""
    return total(f"rate({own(counter, *where)}{over})", *by)


def growth(counter: str, *by: str, where: tuple[str, ...] = (), over: str = RATE) -> str:
    """Return by how much a node's counter grew in each interval, over the nodes."""
    return total(f"increase({own(counter, *where)}{over})", *by)


def quantile(
    q: float, histogram: str, *by: str, where: tuple[str, ...] = (), over: str = RATE
) -> str:
    """Return a quantile of a node's histogram, its buckets added up over the nodes first."""
    buckets = rate(f"{histogram}_bucket", "le", *by, where=where, over=over)
    return f"histogram_quantile({q}, {buckets})"


def mean(histogram: str, *by: str, where: tuple[str, ...] = ()) -> str:
    """Return the mean of a node's histogram."""
    above = rate(f"{histogram}_sum", *by, where=where)
    return f"{above} / {rate(f'{histogram}_count', *by, where=where)}"


def spread(histogram: str, where: tuple[str, ...] = ()) -> str:
    """Return how many observations fell into each bucket in each interval, for a heatmap."""
    return growth(f"{histogram}_bucket", "le", where=where)


def share(part: str, whole: str) -> str:
    """Return a ratio of two expressions."""
    return f"{part} / {whole}"


def _select(name: str, *matchers: str) -> str:
    return f"{name}{{{', '.join(matchers)}}}"


def _aggregate(operator: str, expr: str, by: tuple[str, ...]) -> str:
    grouping = f" by ({', '.join(by)}) " if by else ""
    return f"{operator}{grouping}({expr})"
