"""Alerts about the store, the doorbell, and telemetry itself."""

from __future__ import annotations

from supervisor.monitoring.rule import Alert, Board, Runbook, Severity

_NODE = ("instance",)

STORE = (
    Alert(
        name="TaskStoreDown",
        expr="max_over_time(supervisor_store_up[1m]) == 0",
        hold="30s",
        severity=Severity.CRITICAL,
        summary="The store does not answer node {{ $labels.instance }}.",
        description=(
            "Claims have stopped. What runs goes on; endings are kept in memory and written when "
            "it is back."
        ),
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "Do not restart the nodes: endings that are not written yet would be lost.",
                "`curl -s 127.0.0.1:9464/readyz` says what is wrong: locked, full, no answer.",
                "PostgreSQL: is the server up, can this host reach it? SQLite: `df -h`, the disk.",
                "On PostgreSQL there are 65 s until the node fences itself and ends its tasks.",
            ),
            means="The node's last dealings with the store failed or got no answer.",
            ignore="Never.",
        ),
    ),
    Alert(
        name="TaskStoreErrors",
        expr="rate(supervisor_store_errors_total[5m]) > 0.1",
        hold="5m",
        severity=Severity.WARNING,
        summary="Store operations of {{ $labels.instance }} fail.",
        description='{{ $value | printf "%.2f" }} a second for 5 minutes, though it is up.',
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "The log of the node says which and why.",
                "A table or column is missing: `supervisor db upgrade` was not run.",
                "PostgreSQL: its own log; connections used up?",
            ),
            means="Operations that failed and were not merely in another's way.",
            ignore="During a restart of the database.",
        ),
    ),
    Alert(
        name="TaskStoreSlow",
        expr="""
            histogram_quantile(0.99, rate(supervisor_store_commit_duration_seconds_bucket[5m]))
              > 0.5
        """,
        hold="10m",
        severity=Severity.WARNING,
        summary="Commits of {{ $labels.instance }} are slow.",
        description="p99 of a group commit is {{ $value | humanizeDuration }}; usual is 10 ms.",
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "The disk: `iostat -x 1`, `cat /proc/pressure/io`. A backup, a neighbour?",
                "PostgreSQL: long transactions, checkpoints, replication that is waited for.",
                "`supervisor archive` keeps the tables small.",
            ),
            means="Every start and ending waits for a commit; this is the floor of all latencies.",
            ignore="During a backup.",
        ),
    ),
    Alert(
        name="TaskStoreContended",
        expr="rate(supervisor_store_conflicts_total[5m]) > 1",
        hold="10m",
        severity=Severity.INFO,
        summary="Transactions of {{ $labels.instance }} stand in each other's way.",
        description='{{ $value | printf "%.1f" }} a second are tried again.',
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "Does anything else write to these tables? A report with a long transaction?",
                "PostgreSQL: `select * from pg_stat_activity where wait_event_type = 'Lock'`.",
            ),
            means="Conflicts are answered by trying again; nothing is lost, all is slower.",
            ignore="As long as TaskStoreSlow is silent.",
        ),
    ),
    Alert(
        name="ClaimsMissed",
        expr="""
            rate(supervisor_claims_missed_total[10m])
              > 0.2 * rate(supervisor_claims_tried_total[10m])
            and
              rate(supervisor_claims_tried_total[10m]) > 1
        """,
        hold="10m",
        severity=Severity.INFO,
        summary="Many claims of {{ $labels.instance }} come too late.",
        description='{{ $value | printf "%.1f" }} a second find the task taken by another node.',
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "Usual is below 1 %. Is the doorbell away (BellDown)? Then all nodes scan.",
                "Many nodes for few short tasks: fewer nodes with more workers each.",
            ),
            means="Losing the race for a task is an ordinary answer; it only costs a query.",
            ignore="As long as tasks start in time.",
        ),
    ),
    Alert(
        name="BellDown",
        expr="max_over_time(supervisor_bell_up[2m]) == 0",
        hold="1m",
        severity=Severity.WARNING,
        summary="The doorbell does not answer node {{ $labels.instance }}.",
        description="Tasks are found by looking at the table: they start a little later, none is "
        "lost.",
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "`supervisor check` tries it. Redis: is it up, can this host reach it?",
                "Memory full or read-only replica: `redis-cli info memory`, `role`.",
                "It can be emptied or restarted at any time: it is rung again from the table.",
            ),
            means="The queue is a doorbell, the row is the truth.",
            ignore="Until the morning, if the store can bear the scans.",
        ),
    ),
)

TELEMETRY = (
    Alert(
        name="CollectorFailing",
        expr="max_over_time(supervisor_collector_success[5m]) == 0",
        severity=Severity.WARNING,
        summary="Collector {{ $labels.collector }} of {{ $labels.instance }} cannot tell.",
        description="Its metrics are absent since then; alerts on them are blind.",
        board=Board.INTERNALS,
        by=("instance", "collector"),
        runbook=Runbook(
            steps=(
                "The log says why. backlog, recent, zombies ask the store: TaskStoreDown?",
                "`curl -s 127.0.0.1:9464/metrics | grep supervisor_collector`.",
            ),
            means=(
                "Numbers read at scrape time are left out when they cannot be read. An answer that "
                "took long serves for 20 times as long, a minute at most."
            ),
            ignore="Never for long.",
        ),
    ),
    Alert(
        name="CollectorSlow",
        expr="sum without (collector) (supervisor_collector_duration_seconds) > 1",
        hold="5m",
        severity=Severity.INFO,
        summary="A scrape of {{ $labels.instance }} takes long.",
        description="Its collectors take {{ $value | humanizeDuration }} together.",
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "Which one? `curl -s 127.0.0.1:9464/metrics | grep collector_duration`.",
                "The store is slow (TaskStoreSlow) or its tables are large: `supervisor archive`.",
                "Two Prometheis that scrape every second: once in 15 s is enough.",
            ),
            means="A scrape that takes longer than its time-out counts as down.",
            ignore="Below the scrape time-out (10 s).",
        ),
    ),
    Alert(
        name="TelemetryDropped",
        expr="sum without (instance) (increase(supervisor_label_values_dropped_total[15m])) > 0",
        severity=Severity.INFO,
        summary="Values of label {{ $labels.label }} are folded into _other.",
        description='{{ $value | printf "%.0f" }} in 15 minutes.',
        board=Board.INTERNALS,
        by=("label",),
        runbook=Runbook(
            steps=(
                "type, queue: a node meets names that its app does not declare. Same app on all?",
                (
                    "name, code, step, service: more than 20 for one type. Declare them on the "
                    "decorator, and never put an id into one."
                ),
            ),
            means="Label sets are closed so that series stay few; what is over is counted here.",
            ignore="When the folded ones do not matter to you.",
        ),
    ),
    Alert(
        name="TraceExportFailing",
        expr="sum without (instance) (increase(supervisor_otel_export_failures_total[15m])) > 0",
        severity=Severity.INFO,
        summary="Traces do not reach the collector.",
        description='{{ $value | printf "%.0f" }} exports failed in 15 minutes. Tasks do not wait.',
        board=Board.INTERNALS,
        by=("signal",),
        runbook=Runbook(
            steps=(
                "Is the collector up? Its address is OTEL_EXPORTER_OTLP_ENDPOINT of the node.",
                "Spans of that time are lost; rows, audit and autopsies have it all.",
            ),
            means="The exporter gave up on a batch.",
            ignore="While the collector is being updated.",
        ),
    ),
    Alert(
        name="Watchdog",
        expr="vector(1)",
        severity=Severity.NONE,
        summary="Always firing: Prometheus and Alertmanager deliver.",
        description="A dead man's switch outside of this system tells when it stops coming.",
        board=Board.OVERVIEW,
        runbook=Runbook(
            steps=(
                "You are told that it is *missing*: look whether Prometheus and Alertmanager run.",
                (
                    "Both run: Prometheus' page *Status, Runtime* and Alertmanager's log show "
                    "whether alerts are sent and taken."
                ),
                "Until it is back nothing else is told: watch `supervisor top`.",
            ),
            means="It fires all the time. Its receiver alarms when it has not come for minutes.",
            ignore="While it fires.",
        ),
    ),
)

ALERTS = (*STORE, *TELEMETRY)
