"""Alerts about the node itself and what it stands on: scrape, loop, lease, clock, store, bell."""

from __future__ import annotations

from supervisor.monitoring.rule import Alert, Board, Runbook, Severity

_NODE = ("instance",)

SCRAPE = (
    Alert(
        name="SupervisorDown",
        expr='up{job="supervisor"} == 0',
        hold="1m",
        severity=Severity.CRITICAL,
        summary="Node {{ $labels.instance }} does not answer Prometheus.",
        description="No scrape has succeeded for a minute: it is gone, cut off, or stands still.",
        board=Board.OVERVIEW,
        by=_NODE,
        runbook=Runbook(
            steps=(
                (
                    "`systemctl status` (or your orchestrator) on the host; `supervisor nodes` "
                    "from anywhere that reaches the store."
                ),
                "Gone: start it. What it ran is judged by the next node; nothing is lost.",
                (
                    "Running: `curl -s 127.0.0.1:9464/healthz` on the host. An answer there means "
                    "network or `metrics_listen`."
                ),
                "No answer there: `py-spy dump --pid PID` of the node, keep it, then restart.",
            ),
            means="Prometheus' own `up`. All other alerts about this node are silenced meanwhile.",
            ignore="A node you took down; take it out of the scrape configuration.",
        ),
    ),
    Alert(
        name="SupervisorAbsent",
        expr='absent(up{job="supervisor"})',
        hold="2m",
        severity=Severity.CRITICAL,
        summary="No supervisor is scraped at all.",
        description='Prometheus has no target with job="supervisor": all alerts here are blind.',
        board=Board.OVERVIEW,
        runbook=Runbook(
            steps=(
                'Look at Prometheus\' targets page: is there a job "supervisor"?',
                (
                    "The scrape configuration names the nodes' `metrics_listen` under "
                    "`job_name: supervisor`; it is in the page about monitoring."
                ),
            ),
            means="Not one target. A node that is down still has one; see SupervisorDown.",
            ignore="Never.",
        ),
    ),
    Alert(
        name="SupervisorMetricsMissing",
        expr='up{job="supervisor"} == 1 unless on (job, instance) supervisor_start_time_seconds',
        hold="2m",
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }} answers scrapes without supervisor metrics.",
        description="Something else listens there, or the node's registry is broken.",
        board=Board.OVERVIEW,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "`curl -s ADDRESS/metrics | head`: who answers?",
                "Another program on that port: mend the scrape configuration.",
                "The node: its log says why; restart it.",
            ),
            means="A target that is up and does not have the one metric every node has.",
            ignore="Never: it looks healthy and is blind.",
        ),
    ),
    Alert(
        name="SupervisorRestarted",
        expr="changes(supervisor_start_time_seconds[15m]) > 2",
        severity=Severity.WARNING,
        summary="Node {{ $labels.instance }} keeps restarting.",
        description='It has started {{ $value | printf "%.0f" }} times anew in 15 minutes.',
        board=Board.OVERVIEW,
        by=_NODE,
        runbook=Runbook(
            steps=(
                (
                    "The last lines of its log before each end, and the exit code: 1 refused, 2 "
                    "settings or app, 69 the store; see the table of exit codes."
                ),
                "Exit by signal 9: the orchestrator's liveness probe, or the OOM killer (`dmesg`).",
                "`supervisor check MODULE:app` with the same flags.",
            ),
            means="Its start time has changed more than twice in a quarter of an hour.",
            ignore="While you restart it by hand.",
        ),
    ),
    Alert(
        name="SupervisorDrainStuck",
        expr="min_over_time(supervisor_stopping[5m]) == 1",
        hold="1m",
        severity=Severity.WARNING,
        summary="Node {{ $labels.instance }} has been stopping for minutes.",
        description="It takes no tasks and does not end. By default a stop takes 127 s at most.",
        board=Board.WORKERS,
        by=_NODE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "`supervisor top`: what does it still run?",
                (
                    "Hasten it: a second SIGTERM asks the tasks for a checkpoint, a third takes "
                    "evidence and kills."
                ),
                "A process in state D (`ps`) cannot be ended: wait for its disk, or the host.",
            ),
            means="`supervisor_stopping` for more than 5 minutes.",
            ignore="With a `drain_grace` of more than 5 minutes.",
        ),
    ),
)

LOOP = (
    Alert(
        name="SupervisorLoopStalled",
        expr="time() - supervisor_loop_last_tick_timestamp_seconds > 30",
        hold="30s",
        severity=Severity.CRITICAL,
        summary="The loop of node {{ $labels.instance }} stands still.",
        description=(
            "Its last turn was {{ $value | humanizeDuration }} ago. It judges nothing, kills "
            "nothing, and takes no tasks; its lease runs out."
        ),
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "Keep evidence: `py-spy dump --pid PID` of the node (or `autopsy PID`).",
                "Restart it. systemd does it by itself with `WatchdogSec`.",
                "If the clocks of host and Prometheus differ, it is a false alarm: ClockSkew.",
            ),
            means="The loop writes the time at the end of each turn, several times a second.",
            ignore="Never.",
        ),
    ),
    Alert(
        name="SupervisorLoopLate",
        expr="""
            histogram_quantile(0.99, rate(supervisor_loop_lag_seconds_bucket[5m])) > 0.5
        """,
        hold="10m",
        severity=Severity.WARNING,
        summary="The loop of node {{ $labels.instance }} is late.",
        description="p99 of its lag is {{ $value | humanizeDuration }}; usual is below 20 ms.",
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "Is the host starved? `cat /proc/pressure/cpu`; fewer workers or neighbours.",
                "Is it the node's own work? `py-spy top --pid PID`.",
                "Gaps above 1 s move all deadlines by their length and are in the audit trail.",
            ),
            means="How late a turn of the loop was. Inferred verdicts are held meanwhile.",
            ignore="Short backups and the like.",
        ),
    ),
    Alert(
        name="SupervisorLoopErrors",
        expr="increase(supervisor_loop_errors_total[10m]) > 0",
        severity=Severity.WARNING,
        summary="Steps of the loop of {{ $labels.instance }} raise.",
        description='{{ $value | printf "%.0f" }} in 10 minutes; the loop goes on without them.',
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "The log has each with its traceback (level error).",
                "Report it: that is a bug. A restart may help for the time being.",
            ),
            means="An exception reached the edge of a step. It is counted and not swallowed.",
            ignore="Never.",
        ),
    ),
    Alert(
        name="SupervisorFenced",
        expr="max_over_time(supervisor_fenced[1m]) == 1",
        hold="30s",
        severity=Severity.CRITICAL,
        summary="Node {{ $labels.instance }} is fenced: it may run nothing.",
        description="It could not renew its lease and has ended its workers, so that no task "
        "runs twice.",
        board=Board.WORKERS,
        by=_NODE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "Can the host reach the store? `supervisor nodes` on it; `supervisor check`.",
                "It comes back by itself when the store answers. If it does not, its log says why.",
                "Do other nodes have the same trouble? Then it is the store: TaskStoreDown.",
            ),
            means="Renewal every 10 s, fence at 65 s, lease over at 90 s: by then all is ended.",
            ignore="Never; but it is safe.",
        ),
    ),
    Alert(
        name="SupervisorFencedAgain",
        expr="increase(supervisor_fences_total[1h]) >= 3",
        severity=Severity.WARNING,
        summary="Node {{ $labels.instance }} loses its lease again and again.",
        description='{{ $value | printf "%.0f" }} times in an hour; its tasks start anew.',
        board=Board.WORKERS,
        by=_NODE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "Network between this host and the store: losses, time-outs of a firewall.",
                "The host: does it stand still (snapshots, suspend)? SupervisorLoopLate.",
                "A longer `lease` helps against short interruptions; sweeps come later then.",
            ),
            means="Fences of one node within an hour.",
            ignore="After a known outage of the network.",
        ),
    ),
    Alert(
        name="ClockSkew",
        expr="abs(supervisor_clock_skew_seconds) > <clock_skew_s>",
        hold="5m",
        severity=Severity.WARNING,
        summary="The clock of {{ $labels.instance }} is off by {{ $value | humanizeDuration }}.",
        description="Against the store's clock. Deadlines and leases do not depend on it; log "
        "lines and alerts do.",
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "`timedatectl` or `chronyc tracking` on the host: is it synchronised?",
                "`supervisor nodes` shows the skew of all: one that is off, or all (the store)?",
            ),
            means="Own wall clock minus database time.",
            ignore="Never for long: nobody can put logs in order.",
        ),
    ),
    Alert(
        name="ConfigReloadFailed",
        expr="max_over_time(supervisor_config_last_reload_successful[5m]) == 0",
        severity=Severity.WARNING,
        summary="Node {{ $labels.instance }} refused its new settings.",
        description="It runs on with the old ones. A restart would fail.",
        board=Board.INTERNALS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "`supervisor check MODULE:app` names all that is wrong at once.",
                "Mend it, then SIGHUP. The log says `settings.refused` or `app.refused`.",
            ),
            means="The last SIGHUP brought settings or an app that cannot be used.",
            ignore="Never: the next start fails.",
        ),
    ),
)

ALERTS = (*SCRAPE, *LOOP)
