"""Alerts about how tasks end: failures, cancels, dead letters, run time against what was said."""

from __future__ import annotations

from types import MappingProxyType

from supervisor.monitoring.rule import Alert, Board, Runbook, Severity

_TYPE = ("type",)

FAILURES = (
    Alert(
        name="TaskFailureRateHigh",
        expr="""
            type:supervisor_failed_per_executed:ratio_rate10m > <failed_rate>
            and
              type:supervisor_tasks_executed:increase10m >= <least_attempts>
        """,
        hold="5m",
        severity=Severity.WARNING,
        summary="More than <failed_rate:percent> of the {{ $labels.type }} attempts fail.",
        description=(
            "{{ $value | humanizePercentage }} of the {{ $labels.type }} attempts of the last 10 "
            "minutes failed or timed out. Canceled ones are not counted."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "See what they say: `supervisor list --state FAILED --state TIMEOUT --type "
                    "TYPE`, then `supervisor show ID` of two or three. One error for all means one "
                    "cause."
                ),
                "If a deploy came just before, roll it back.",
                (
                    "If a service is down (see DependencyErrorsHigh), stop the queue until it is "
                    'back: `supervisor pause QUEUE --reason "the bank is down"`, later `supervisor '
                    'resume QUEUE --reason "it is back"`.'
                ),
                'When it is mended, run the final ones again: `supervisor rerun ID --reason "…"`.',
            ),
            means=(
                "(failed + timeout) / (success + failed + timeout) over 10 minutes is above the "
                "threshold, with enough attempts to mean something. Attempts that will be retried "
                "count: this comes before the first task is lost."
            ),
            ignore=(
                "A type whose failures are part of its work (it polls until something is there). "
                "Let it succeed with a result that says so, then it counts no more."
            ),
        ),
    ),
    Alert(
        name="TaskTypeAlwaysFails",
        expr="""
            sum without (instance, queue, outcome) (
              increase(supervisor_tasks_finished_total{outcome=~"failed|timeout"}[1h])
            ) >= 3
            unless
              sum without (instance, queue, outcome) (
                increase(supervisor_tasks_finished_total{outcome="success"}[1h])
              ) > 0
        """,
        severity=Severity.WARNING,
        summary="{{ $labels.type }} fails every time.",
        description=(
            '{{ $labels.type }} ended {{ $value | printf "%.0f" }} times in the last hour, and not '
            "once with success."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "Read the error: `supervisor list --state FAILED --state TIMEOUT --type TYPE`, "
                    "then `supervisor show ID`."
                ),
                (
                    "Tasks still in their back-off will fail, too: stop them from using up their "
                    'retries with `supervisor pause QUEUE --reason "…"` if the queue is theirs '
                    "alone."
                ),
                'After the repair: `supervisor rerun ID --reason "…"`.',
            ),
            means=(
                "Three or more failures in an hour and no success. It is the partner of "
                "TaskFailureRateHigh for types that run too seldom for a rate."
            ),
            ignore="While you try out a new type on purpose.",
        ),
    ),
    Alert(
        name="TaskDead",
        expr="""
            sum without (instance) (increase(supervisor_tasks_dead_total[15m])) > 0
        """,
        severity=Severity.WARNING,
        summary="Tasks of {{ $labels.type }} ended for good and wait for a person.",
        description=(
            '{{ $value | printf "%.0f" }} {{ $labels.type }} tasks of queue {{ $labels.queue }} '
            "ended FAILED or TIMEOUT without a retry left, in the last 15 minutes."
        ),
        board=Board.TYPES,
        by=("queue", "type"),
        autopsy="",
        runbook=Runbook(
            steps=(
                "List them: `supervisor list --state FAILED --state TIMEOUT --type TYPE`.",
                (
                    "See why: `supervisor show ID`. *effects unknown* means that it was ended in "
                    "the middle: look whether the work was done before you run it again."
                ),
                'Run it again with `supervisor rerun ID --reason "…"`, or leave it.',
            ),
            means=(
                "A task that reads FAILED or TIMEOUT is final: nothing happens to it until a "
                "person decides. The steps are those of [failed tasks](../failed.md)."
            ),
            ignore="When the tasks are worthless by now; they stay listed and cost nothing.",
        ),
    ),
    Alert(
        name="TaskQuarantined",
        expr="""
            sum without (instance) (increase(supervisor_tasks_quarantined_total[1h])) > 0
        """,
        severity=Severity.WARNING,
        summary="A task of type {{ $labels.type }} killed its worker again and again.",
        description=(
            '{{ $value | printf "%.0f" }} {{ $labels.type }} tasks were quarantined in the last '
            "hour: each ended max_crashes workers (segfault, out of memory, os._exit)."
        ),
        board=Board.WORKERS,
        by=_TYPE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "Find it: `supervisor list --state FAILED --type TYPE` shows *(quarantined)*.",
                (
                    "See how the worker died: `supervisor show ID`, `supervisor logs ID`, and "
                    "`supervisor autopsy show ID` if a bundle was kept."
                ),
                "Do not run it again before the cause is known: it takes a worker with it.",
            ),
            means=(
                "The task's input makes the process die, not the body raise. It is kept out so "
                "that it cannot take the pool down."
            ),
            ignore="Never; but it can wait for the morning, since the task runs no more.",
        ),
    ),
    Alert(
        name="LateResults",
        expr="""
            sum without (instance) (increase(supervisor_late_results_total[1h])) > 0
        """,
        severity=Severity.INFO,
        summary="Results of {{ $labels.type }} came after the attempt had ended.",
        description=(
            '{{ $value | printf "%.0f" }} results were refused in the last hour. The work may have '
            "been done although the attempt reads TIMEOUT or FAILED."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "Find the task: `supervisor list --state TIMEOUT --type TYPE`; its history "
                    "says *late result discarded*: `supervisor history ID`."
                ),
                "Look whether its effects are there before anything runs it again.",
                "If it is the time limit that is short: raise `timeout` of the type.",
            ),
            means=(
                "An attempt had been judged over (its lease was over, or it was being stopped) and "
                "then reported. One ending per attempt: the second is refused, never mixed in."
            ),
            ignore="Single cases of types that may run twice without harm.",
        ),
    ),
    Alert(
        name="IllegalTransition",
        expr="""
            sum without (instance) (increase(supervisor_illegal_transitions_total[15m])) > 0
        """,
        severity=Severity.WARNING,
        summary="A move outside the table of states was refused: that is a bug.",
        description='{{ $value | printf "%.0f" }} in the last 15 minutes; nothing was written.',
        board=Board.INTERNALS,
        runbook=Runbook(
            steps=(
                "Keep the log of the nodes around the time; it names task and move.",
                "See the task: `supervisor history ID`.",
                (
                    "Are all nodes of one version? `supervisor nodes` and the label `version` of "
                    "`supervisor_build_info`. If not, finish the upgrade."
                ),
                "Report it with log and history.",
            ),
            means=(
                "Every state change is checked against one table. What is not in it is refused, "
                "so the stored states are right; the code that asked is not."
            ),
            ignore="Never.",
        ),
    ),
)

CANCELS = (
    Alert(
        name="TaskCancelRateHigh",
        expr="""
            type:supervisor_canceled_per_finished:ratio_rate10m > <canceled_rate>
            and
              type:supervisor_tasks_finished:increase10m >= <least_attempts>
        """,
        hold="10m",
        severity=Severity.WARNING,
        summary="More than <canceled_rate:percent> of the {{ $labels.type }} tasks are canceled.",
        description=(
            "{{ $value | humanizePercentage }} of the {{ $labels.type }} attempts of the last 10 "
            "minutes were canceled. Usually the flow of the product is wrong, not the system."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="verdict=canceled",
        labels=MappingProxyType({"route": "product"}),
        runbook=Runbook(
            steps=(
                (
                    "See who cancels and why: `supervisor list --state CANCELED --type TYPE`, then "
                    "`supervisor history ID`: operator and reason stand there."
                ),
                (
                    "One script or one person: ask them. Many users: they do not want to wait, "
                    "look at the queue wait first."
                ),
                "Tell the owner of the product; there is nothing to restart.",
            ),
            means=(
                "Canceled attempts over all that ended, for ten minutes. Tasks that are canceled "
                "while they wait (PENDING) had no attempt and do not count. A stop of a node gives "
                "its tasks back to the queue and does not count here either."
            ),
            ignore="After a mass cancel that was meant.",
        ),
    ),
    Alert(
        name="TasksIgnoreStop",
        expr="""
            sum without (instance, phase) (increase(supervisor_stops_total{phase="killed"}[1h]))
            > 0.5 * sum without (instance, phase) (increase(supervisor_stops_total[1h]))
            and
              sum without (instance, phase) (increase(supervisor_stops_total{phase="killed"}[1h]))
              >= 5
        """,
        severity=Severity.WARNING,
        summary="Most tasks that are told to stop have to be killed.",
        description=(
            '{{ $value | printf "%.0f" }} stops of the last hour ended with SIGKILL, more than '
            "half of all. Each takes the whole grace and leaves effects unknown."
        ),
        board=Board.WORKERS,
        autopsy="verdict=canceled",
        runbook=Runbook(
            steps=(
                (
                    "See where they stood when they were told: `supervisor autopsy list`, then "
                    "`supervisor autopsy show ID` (the stack of the main thread)."
                ),
                (
                    "A body in C code, or one that catches BaseException, cannot hear: let it look "
                    "at `ctx.canceled` in its loop, or split its long calls."
                ),
            ),
            means=(
                "The stop ladder is asked, interrupted, killed. Tasks that hear the first or the "
                "second step clean up; those that are killed cannot."
            ),
            ignore="During an emergency stop.",
        ),
    ),
)

DURATIONS = (
    Alert(
        name="TaskRunningNearTimeout",
        expr="""
            type:supervisor_over_80_percent_of_timeout:ratio_rate10m > <near_timeout_share>
            and
              type:supervisor_tasks_executed:increase10m >= <least_attempts>
        """,
        hold="5m",
        severity=Severity.WARNING,
        summary="The p99 run time of {{ $labels.type }} is above 80 % of its timeout.",
        description=(
            "{{ $value | humanizePercentage }} of the {{ $labels.type }} attempts of the last 10 "
            "minutes used more than 80 % of their own timeout; <near_timeout_share:percent> is "
            "allowed, which is what p99 says."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="verdict=timeout",
        runbook=Runbook(
            steps=(
                "Is it getting slower, or was it always so? The dashboard shows p50, p95 and p99.",
                (
                    "See where the time goes: `supervisor list --state RUNNING --type TYPE`, then "
                    "`supervisor autopsy capture ID` takes the stacks and lets it live."
                ),
                "Slower because of a service: DependencySlow names it.",
                (
                    "If the work is simply that long, raise `timeout` of the type (`[type.NAME]` "
                    "in the TOML file, then SIGHUP) before the first is killed."
                ),
            ),
            means=(
                "One attempt in a hundred is about to hit its limit. Measured as a share of each "
                "attempt's own timeout, so tasks with a timeout of their own count right."
            ),
            ignore="Types that are meant to run until their time is up.",
        ),
    ),
    Alert(
        name="TaskMeanDurationHigh",
        expr="""
            type:supervisor_running_duration_seconds:mean10m
              > on (job, type) <mean_times_expected>
                * (max without (instance) (supervisor_task_expected_duration_seconds) > 0)
            and
              type:supervisor_tasks_executed:increase10m >= 5
        """,
        hold="5m",
        severity=Severity.WARNING,
        summary="{{ $labels.type }} takes more than <mean_times_expected> times what it should.",
        description=(
            "The mean run time of {{ $labels.type }} over the last 10 minutes is "
            "{{ $value | humanizeDuration }}; `expected_duration` of the type is less than half."
        ),
        board=Board.TYPES,
        by=_TYPE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "Take a profile of one that runs: `supervisor list --state RUNNING --type "
                    "TYPE`, `supervisor autopsy capture ID`; its stack ring shows where the last 5 "
                    "minutes went."
                ),
                "Did the input grow? `supervisor show ID` of a fast and of a slow one.",
                "Is the host short of CPU? The workers dashboard shows it, WorkerCpuPegged too.",
            ),
            means=(
                "Sum over count of the run times against what the type declares with "
                "`expected_duration`. Types that declare none are not watched."
            ),
            ignore="When the new duration is right: change `expected_duration`.",
        ),
    ),
)

ALERTS = (*FAILURES, *CANCELS, *DURATIONS)
