"""Alerts about what does not end: hangs, zombies, stops that do not take, evidence not taken.

What has not ended is in no histogram, so these read what runs now.
"""

from __future__ import annotations

from types import MappingProxyType

from supervisor.monitoring.rule import Alert, Board, Runbook, Severity

_TYPE = ("type",)

HANGS = (
    Alert(
        name="TaskStuckPastTimeout",
        expr="""
            max without (instance) (supervisor_running_timeout_used_ratio) > <stuck_timeouts>
        """,
        hold="1m",
        severity=Severity.CRITICAL,
        summary="A task of type {{ $labels.type }} runs past its timeout and was not ended.",
        description=(
            "It has used {{ $value | humanizePercentage }} of its own timeout. The hard timeout "
            "kills at 100 %: either the kill does not work or the node does not judge."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="verdict=timeout",
        runbook=Runbook(
            steps=(
                "Find it: `supervisor list --state RUNNING --type TYPE`, oldest last.",
                "Take evidence while it is there: `supervisor autopsy capture ID`.",
                'End it by hand: `supervisor fail ID --reason "stuck past its timeout"`.',
                (
                    "If it is still there after a minute, its process may hang in the kernel "
                    "(state D in `ps`, a dead network disk): nothing ends that but the disk coming "
                    "back."
                ),
                "See that the node itself is well: `supervisor top`, SupervisorLoopStalled.",
            ),
            means=(
                "The largest age over its own timeout of what runs now. Evidence may delay a kill "
                "by `autopsy_budget` (10 s) and never more, so with ordinary timeouts 120 % is "
                "impossible while the node works."
            ),
            ignore=(
                "Timeouts of a few seconds: there 120 % is less than the time evidence may take, "
                "and the minute of patience is what keeps this quiet."
            ),
        ),
    ),
    Alert(
        name="TaskCloseToTimeout",
        expr="""
            max without (instance) (supervisor_running_timeout_used_ratio) > 0.8
            unless
              max without (instance) (supervisor_running_timeout_used_ratio) > <stuck_timeouts>
        """,
        hold="1m",
        severity=Severity.INFO,
        summary="A running task of type {{ $labels.type }} is about to hit its timeout.",
        description=(
            "It has used {{ $value | humanizePercentage }} of its timeout. At 100 % evidence is "
            "taken and it is killed; now it can still be looked at alive."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="verdict=timeout",
        runbook=Runbook(
            steps=(
                "Find it: `supervisor list --state RUNNING --type TYPE`.",
                "Look at it alive: `supervisor autopsy capture ID`, `supervisor logs ID --follow`.",
                "Let it be: at its timeout evidence is taken, and it is retried if it may be.",
            ),
            means="One attempt, running now, is past 80 % of its own timeout for a minute.",
            ignore="Most of the time: it is for people who already watch this type.",
        ),
    ),
    Alert(
        name="TaskRunsUnusuallyLong",
        expr="""
            max without (instance) (supervisor_running_oldest_age_seconds)
              > on (job, type) 10 * type:supervisor_running_duration_seconds:mean6h
            and
              max without (instance) (supervisor_running_oldest_age_seconds)
                > on (job, type) 2 * type:supervisor_running_duration_seconds:p99_rate6h
            and
              max without (instance) (supervisor_running_oldest_age_seconds) > 60
        """,
        hold="1m",
        severity=Severity.WARNING,
        summary=(
            "A task of type {{ $labels.type }} runs far longer than any before it: does it hang?"
        ),
        description=(
            "It has run for {{ $value | humanizeDuration }}: more than ten times the mean and "
            "twice the p99 of the last 6 hours. Its timeout is still to come."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "Find it: `supervisor list --state RUNNING --type TYPE`.",
                (
                    "Ask it why: `supervisor autopsy capture ID`, then `supervisor autopsy show "
                    "ID`: the diagnosis names the lock, the call or the loop. It lives on."
                ),
                'If it hangs: `supervisor cancel ID --reason "hangs"`, or wait for its timeout.',
            ),
            means=(
                "A hang shows here long before the timeout when the timeout is generous: a type "
                "that takes seconds and may take an hour is found after a minute or two."
            ),
            ignore="When you know that this one has more to do than the others.",
        ),
    ),
    Alert(
        name="TaskNoProgress",
        expr="""
            max without (instance) (supervisor_running_since_progress_seconds) > <stall_s>
        """,
        hold="1m",
        severity=Severity.WARNING,
        summary="A task of type {{ $labels.type }} has stopped making progress.",
        description=(
            "It has reported progress before, and none for {{ $value | humanizeDuration }}. "
            "An autopsy is taken by the node when it stalls."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="verdict=stalled",
        runbook=Runbook(
            steps=(
                (
                    "Open the autopsy (the link of the alert), or `supervisor autopsy list`, then "
                    "`supervisor autopsy show ID`: the first cause says what it waits for."
                ),
                "A database row lock or a service: help there, it goes on by itself.",
                'A deadlock or an endless loop: `supervisor fail ID --reason "deadlocked"`.',
            ),
            means=(
                "Longest time since `ctx.progress(…)` changed, of the attempts that run now and "
                "have reported any. Attempts that never report are not judged by this."
            ),
            ignore="A known long step without reports: report inside it, or raise "
            "`progress_timeout` of the type.",
        ),
    ),
)

ZOMBIES = (
    Alert(
        name="ZombieTasks",
        expr="""
            kind:supervisor_zombies:now > 0
            or
              sum without (instance) (increase(supervisor_zombies_detected_total[10m])) > 0
        """,
        severity=Severity.WARNING,
        summary="Zombies ({{ $labels.kind }}) exist or were found in the last 10 minutes.",
        description=(
            '{{ $value | printf "%.0f" }} of kind {{ $labels.kind }}. The counter keeps the alert '
            "true when they are swept faster than Prometheus looks."
        ),
        board=Board.WORKERS,
        by=("kind",),
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "stalled or heartbeat_lost: open the autopsy (the link of the alert) or "
                    "`supervisor autopsy list`; the verdict is acted on by itself."
                ),
                (
                    "lost: a node went away. `supervisor nodes` says which; start it again, or let "
                    "another one sweep. `supervisor list --state RUNNING` shows the tasks."
                ),
                (
                    "orphan: a process outlived its attempt; the node ends it. If it comes back, "
                    "the type starts daemons: `supervisor autopsy show ID` lists the children."
                ),
                "Find out why before it is forgotten: each was a task that had stopped living.",
            ),
            means=(
                "lost: the node that ran it is dead or without a lease. stalled: no progress. "
                "heartbeat_lost: no sign of life, the process may be stopped. orphan: stray "
                "processes of an ended attempt."
            ),
            ignore="Right after you killed a node on purpose.",
        ),
    ),
    Alert(
        name="ZombieShareHigh",
        expr="""
            job:supervisor_zombies_per_running:ratio > <zombie_share>
            and
              job:supervisor_zombies:sum >= <least_zombies>
        """,
        hold="1m",
        severity=Severity.CRITICAL,
        summary="More than <zombie_share:percent> of the running tasks are zombies.",
        description=(
            "{{ $value | humanizePercentage }} of what runs does not live. New tasks will probably "
            "end the same way."
        ),
        board=Board.WORKERS,
        autopsy="",
        labels=MappingProxyType({"notify": "sms"}),
        runbook=Runbook(
            steps=(
                (
                    'Let nothing new start: `supervisor pause QUEUE --reason "zombies"` for each '
                    "queue of `supervisor queues`."
                ),
                (
                    "Read two autopsies: `supervisor autopsy list`, `supervisor autopsy show ID`. "
                    "The same cause in both is the cause: a dead database, a lock, a service."
                ),
                "lost ones: `supervisor nodes`. Is a host down?",
                (
                    'Mend the cause, then `supervisor resume QUEUE --reason "…"`, then rerun: '
                    '`supervisor list --state TIMEOUT`, `supervisor rerun ID --reason "…"`.'
                ),
            ),
            means=(
                "Zombies over running tasks for a minute. One cause usually holds many tasks: it "
                "will hold the next ones, too. A single zombie is no share of anything: of that "
                "ZombieTasks tells."
            ),
            ignore=(
                "Where few tasks run and two that hang are nothing to wake up for: export the "
                "rules with a higher `least_zombies`."
            ),
        ),
    ),
    Alert(
        name="LostTasksNotSwept",
        expr="""
            max without (instance, kind) (min_over_time(supervisor_zombies{kind="lost"}[5m])) > 0
        """,
        hold="5m",
        severity=Severity.CRITICAL,
        summary="Tasks of a lost node still read RUNNING.",
        description=(
            '{{ $value | printf "%.0f" }} tasks belong to a node that is gone, for more than 5 '
            "minutes. Nobody sweeps, or nobody can prove that they are over."
        ),
        board=Board.WORKERS,
        autopsy="",
        runbook=Runbook(
            steps=(
                "`supervisor nodes --all`: which node do they belong to, is its lease over?",
                (
                    "Does a node lead the sweep? On PostgreSQL one of `supervisor_sweeper_leading` "
                    "is 1. If none, the store is in trouble: TaskStoreDown, TaskStoreErrors."
                ),
                "On SQLite the next node on the same host sweeps: start it.",
                (
                    "Was it in a container whose processes cannot be seen from here? Start a node "
                    'there, or end them by hand: `supervisor fail ID --reason "node is gone"`.'
                ),
            ),
            means=(
                "After lease (90 s), gap and sweep (15 s) a lost task is ended and goes back to "
                "the queue. Here it did not."
            ),
            ignore="Never: these tasks wait for ever.",
        ),
    ),
    Alert(
        name="UnreapedChildren",
        expr="min_over_time(supervisor_unreaped[2m]) > 0",
        hold="1m",
        severity=Severity.WARNING,
        summary="Node {{ $labels.instance }} does not reap its dead children.",
        description=(
            '{{ $value | printf "%.0f" }} defunct processes for minutes. Each holds a pid and an '
            "exit status nobody has read."
        ),
        board=Board.WORKERS,
        by=("instance",),
        runbook=Runbook(
            steps=(
                "Is the loop alive? `supervisor top`; SupervisorLoopStalled fires if not.",
                "See them: `ps -eo pid,ppid,stat,etime,comm` with state Z below the node.",
                (
                    "If it does not recover, restart the node in order (SIGTERM): the tasks are "
                    "given time and the kernel reaps what is left."
                ),
            ),
            means="The kernel keeps an ended child until its parent asks. The node asks at once.",
            ignore="Never for long; the process table is finite.",
        ),
    ),
)

STOPS = (
    Alert(
        name="CancelOverdue",
        expr="sum without (instance) (min_over_time(supervisor_cancel_overdue[2m])) > 0",
        hold="1m",
        severity=Severity.CRITICAL,
        summary="A canceled task is still running.",
        description=(
            '{{ $value | printf "%.0f" }} stop requests are older than the grace and the time '
            "evidence may take, and their attempts are not verified gone."
        ),
        board=Board.WORKERS,
        autopsy="verdict=canceled",
        runbook=Runbook(
            steps=(
                (
                    "`supervisor list --state RUNNING`; `supervisor show ID` shows the ladder: "
                    "requested, delivered, acknowledged, stopped, verified gone."
                ),
                "Not delivered: the node does not hear. `supervisor nodes`, `supervisor top`.",
                (
                    "Stopped and not gone: a process hangs in the kernel (`ps`, state D), or a "
                    "child of it lives on. Find what it waits for; SIGKILL is already sent."
                ),
            ),
            means=(
                "A task reads CANCELED only when its processes are verified gone. Until then the "
                "person who canceled it was promised something that is not yet true."
            ),
            ignore="Never.",
        ),
    ),
    Alert(
        name="KillsRising",
        expr="""
            sum without (instance) (
              increase(supervisor_kills_total{verdict!="shutdown"}[30m])
            ) >= 5
            and
              sum without (instance) (increase(supervisor_kills_total{verdict!="shutdown"}[30m]))
                > 3 * sum without (instance) (
                  increase(supervisor_kills_total{verdict!="shutdown"}[6h] offset 30m)
                ) / 12
        """,
        severity=Severity.WARNING,
        summary="Workers are killed more and more often ({{ $labels.verdict }}).",
        description=(
            '{{ $value | printf "%.0f" }} kills with verdict {{ $labels.verdict }} in 30 minutes, '
            "more than three times what the six hours before had."
        ),
        board=Board.WORKERS,
        by=("verdict",),
        autopsy="verdict={{ $labels.verdict | urlquery }}",
        runbook=Runbook(
            steps=(
                (
                    "Every kill left an autopsy: `supervisor autopsy list`, read the newest two "
                    "with `supervisor autopsy show ID`."
                ),
                "One type only? Then its input or its code: pause its queue if it does harm.",
                "All types? Then what they share: database, service, host (memory, CPU).",
            ),
            means="The rate of kills of one verdict has left its usual level.",
            ignore="While you test timeouts on purpose.",
        ),
    ),
    Alert(
        name="AutopsiesFailing",
        expr="""
            sum without (instance, status) (
              increase(supervisor_autopsies_total{status=~"failed|busy"}[1h])
            ) >= 2
            and
              sum without (instance, status) (
                increase(supervisor_autopsies_total{status=~"failed|busy"}[1h])
              ) > 0.2 * sum without (instance, status) (increase(supervisor_autopsies_total[1h]))
        """,
        severity=Severity.WARNING,
        summary="Tasks are killed without evidence: autopsies fail.",
        description=(
            '{{ $value | printf "%.0f" }} autopsies of the last hour failed or were not taken, '
            "more than a fifth of all."
        ),
        board=Board.AUTOPSIES,
        autopsy="",
        runbook=Runbook(
            steps=(
                "`supervisor autopsy list` shows which, and why; the log says `autopsy.` events.",
                (
                    "`supervisor check` tells whether this host lets a process be looked into "
                    "(ptrace), and whether `autopsy_dir` can be written."
                ),
                (
                    "Is the disk of `autopsy_dir` full? `df -h`. Old bundles go after "
                    "`autopsy_keep_days`."
                ),
                "busy: too many at once. It is a wave; read the ones that were taken.",
            ),
            means=(
                "Before every kill a bundle is taken. Without it the next hang of the same kind "
                "will be as dark as this one."
            ),
            ignore="On hosts that forbid it by design; partial ones do not count here.",
        ),
    ),
    Alert(
        name="AutopsiesSlow",
        expr="""
            histogram_quantile(
              0.95,
              sum without (instance) (rate(supervisor_autopsy_duration_seconds_bucket[1h]))
            ) > 8
            and
              sum without (instance) (increase(supervisor_autopsy_duration_seconds_count[1h])) >= 3
        """,
        severity=Severity.INFO,
        summary="Taking evidence takes nearly all the time it may.",
        description=(
            "The p95 of the last hour is {{ $value | humanizeDuration }}; the budget is 10 s and "
            "usual is 2 s. What does not fit is left out."
        ),
        board=Board.AUTOPSIES,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "`supervisor autopsy show ID` of a recent one: the list of collectors shows "
                    "which one took the time."
                ),
                "A database that does not answer: see `autopsy_databases`.",
                (
                    "A process with a very large memory: raise `memory_snapshot_bytes`, so that "
                    "its objects are not counted."
                ),
            ),
            means="Evidence delays a kill; a slow collector delays it up to the budget.",
            ignore="When hosts are overloaded anyway; mend that first.",
        ),
    ),
)

ALERTS = (*HANGS, *ZOMBIES, *STOPS)
