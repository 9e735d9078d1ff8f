"""Recording rules: what alerts and dashboards ask again and again, and the five numbers.

Secret kept here: how many nodes become one number. What every node says alike of the store is
taken once (`max without (instance)`); what each says of itself is added up. Endings that say
nothing about the task (`requeued`) are in no rate. Order matters: a record may use those above.
"""

from __future__ import annotations

from supervisor.monitoring.rule import Group, Record

#: What an attempt that was run to an end is: not canceled, not given back.
_EXECUTED = 'outcome!~"canceled|requeued"'
_SLO_WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d")


def groups() -> tuple[Group, ...]:
    """Return the groups of recording.rules.yml."""
    return (
        Group(
            "supervisor.recording",
            (*_QUEUES, *_ENDINGS, *_DURATIONS, *_ZOMBIES, *_SERVICES, *_FIVE),
        ),
    )


def slo_records() -> tuple[Record, ...]:
    """Return, for each window, the share of executed attempts that did not succeed."""
    return tuple(_slo(window) for window in _SLO_WINDOWS)


def _slo(window: str) -> Record:
    counter = "supervisor_tasks_finished_total"
    return Record(
        f"job:supervisor_slo_errors:ratio_rate{window}",
        f"""
        sum by (job) (rate({counter}{{outcome=~"failed|timeout"}}[{window}]))
        /
        sum by (job) (rate({counter}{{{_EXECUTED}}}[{window}]))
        """,
    )


_QUEUES = (
    Record("queue_type:supervisor_in_queue:max", "max without (instance) (supervisor_in_queue)"),
    Record(
        "queue:supervisor_in_queue:sum",
        "sum without (type) (queue_type:supervisor_in_queue:max)",
    ),
    Record(
        "queue:supervisor_running:sum",
        "sum without (type) (max without (instance) (supervisor_running))",
    ),
    Record(
        "queue:supervisor_queue_oldest_age_seconds:max",
        "max without (instance) (supervisor_queue_oldest_age_seconds)",
    ),
    Record("queue:supervisor_in_queue:deriv10m", "deriv(queue:supervisor_in_queue:sum[10m])"),
    Record(
        "queue:supervisor_tasks_started:rate10m",
        "sum without (instance, type) (rate(supervisor_tasks_started_total[10m]))",
    ),
    Record(
        "queue:supervisor_drain_eta_seconds",
        "queue:supervisor_in_queue:sum / (queue:supervisor_tasks_started:rate10m > 0)",
    ),
)

_ENDINGS = (
    Record(
        "type_outcome:supervisor_tasks_finished:rate10m",
        """
        sum without (instance, queue) (
          rate(supervisor_tasks_finished_total{outcome!="requeued"}[10m])
        )
        """,
    ),
    Record(
        "type:supervisor_tasks_finished:increase10m",
        "sum without (outcome) (type_outcome:supervisor_tasks_finished:rate10m) * 600",
    ),
    Record(
        "type:supervisor_tasks_executed:increase10m",
        """
        sum without (outcome) (
          type_outcome:supervisor_tasks_finished:rate10m{outcome!="canceled"}
        ) * 600
        """,
    ),
    Record(
        "type:supervisor_failed_per_executed:ratio_rate10m",
        """
        sum without (outcome) (
          type_outcome:supervisor_tasks_finished:rate10m{outcome=~"failed|timeout"}
        )
        /
        sum without (outcome) (type_outcome:supervisor_tasks_finished:rate10m{outcome!="canceled"})
        """,
    ),
    Record(
        "type:supervisor_canceled_per_finished:ratio_rate10m",
        """
        sum without (outcome) (type_outcome:supervisor_tasks_finished:rate10m{outcome="canceled"})
        /
        sum without (outcome) (type_outcome:supervisor_tasks_finished:rate10m)
        """,
    ),
)

_DURATIONS = (
    Record(
        "type_le:supervisor_running_duration_seconds_bucket:rate10m",
        "sum without (instance, outcome) (rate(supervisor_running_duration_seconds_bucket[10m]))",
    ),
    *(
        Record(
            f"type:supervisor_running_duration_seconds:p{digits}_rate10m",
            f"""
            histogram_quantile(
              0.{digits}, type_le:supervisor_running_duration_seconds_bucket:rate10m
            )
            """,
        )
        for digits in ("50", "95", "99")
    ),
    Record(
        "type:supervisor_running_duration_seconds:p99_rate6h",
        """
        histogram_quantile(0.99, sum without (instance, outcome) (
          rate(supervisor_running_duration_seconds_bucket{outcome="success"}[6h])
        ))
        """,
    ),
    Record(
        "type:supervisor_running_duration_seconds:mean6h",
        """
        sum without (instance, outcome) (
          rate(supervisor_running_duration_seconds_sum{outcome="success"}[6h])
        )
        /
        sum without (instance, outcome) (
          rate(supervisor_running_duration_seconds_count{outcome="success"}[6h])
        )
        """,
    ),
    Record(
        "type:supervisor_running_duration_seconds:mean10m",
        """
        sum without (instance, outcome) (
          rate(supervisor_running_duration_seconds_sum{outcome!="canceled"}[10m])
        )
        /
        sum without (instance, outcome) (
          rate(supervisor_running_duration_seconds_count{outcome!="canceled"}[10m])
        )
        """,
    ),
    Record(
        "type:supervisor_over_80_percent_of_timeout:ratio_rate10m",
        """
        1 - (
          sum without (instance, le) (rate(supervisor_timeout_used_ratio_bucket{le="0.8"}[10m]))
          /
          sum without (instance) (rate(supervisor_timeout_used_ratio_count[10m]))
        )
        """,
    ),
    Record(
        "type:supervisor_timeout_used:p99_rate10m",
        """
        histogram_quantile(
          0.99, sum without (instance) (rate(supervisor_timeout_used_ratio_bucket[10m]))
        )
        """,
    ),
)

_ZOMBIES = (
    Record(
        "kind:supervisor_zombies:now",
        """
        max without (instance) (supervisor_zombies{kind="lost"})
        or
        sum without (instance) (supervisor_zombies{kind!="lost"})
        """,
    ),
    Record("job:supervisor_zombies:sum", "sum without (kind) (kind:supervisor_zombies:now)"),
    Record(
        "job:supervisor_zombies_per_running:ratio",
        """
        job:supervisor_zombies:sum
        /
        clamp_min(sum without (queue) (queue:supervisor_running:sum), 1)
        """,
    ),
    Record(
        "instance:supervisor_workers_alive_per_desired:ratio",
        "supervisor_workers_alive / (supervisor_workers_desired > 0)",
    ),
)

_SERVICES = (
    Record(
        "service:supervisor_calls:increase5m",
        "sum without (instance, outcome) (increase(supervisor_calls_total[5m]))",
    ),
    Record(
        "service:supervisor_calls_failed:ratio_rate5m",
        """
        sum without (instance, outcome) (rate(supervisor_calls_total{outcome="error"}[5m]))
        /
        sum without (instance, outcome) (rate(supervisor_calls_total[5m]))
        """,
    ),
    Record(
        "service:supervisor_call_duration_seconds:mean5m",
        """
        sum without (instance) (rate(supervisor_call_duration_seconds_sum[5m]))
        /
        sum without (instance) (rate(supervisor_call_duration_seconds_count[5m]))
        """,
    ),
    Record(
        "service:supervisor_call_in_flight:sum",
        "sum without (instance) (supervisor_call_in_flight)",
    ),
)

#: The five numbers of the specification, over everything.
_FIVE = (
    Record("supervisor:in_queue", "sum by (job) (queue:supervisor_in_queue:sum)"),
    Record(
        "supervisor:running_duration_p99",
        """
        histogram_quantile(
          0.99, sum by (job, le) (type_le:supervisor_running_duration_seconds_bucket:rate10m)
        )
        """,
    ),
    Record(
        "supervisor:failed_rate",
        """
        sum by (job) (type_outcome:supervisor_tasks_finished:rate10m{outcome=~"failed|timeout"})
        /
        sum by (job) (type_outcome:supervisor_tasks_finished:rate10m{outcome!="canceled"})
        """,
    ),
    Record(
        "supervisor:canceled_rate",
        """
        sum by (job) (type_outcome:supervisor_tasks_finished:rate10m{outcome="canceled"})
        /
        sum by (job) (type_outcome:supervisor_tasks_finished:rate10m)
        """,
    ),
    Record("supervisor:zombie_count", "sum by (job) (job:supervisor_zombies:sum)"),
)
