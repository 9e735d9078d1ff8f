"""Alerts about waiting: queues that grow, tasks that wait long, queues that stand."""

from __future__ import annotations

from supervisor.monitoring.rule import Alert, Board, Runbook, Severity

_QUEUE = ("queue",)

ALERTS = (
    Alert(
        name="TaskQueueGrowing",
        expr="""
            queue:supervisor_in_queue:deriv10m
              > <queue_growth_share> * queue:supervisor_tasks_started:rate10m
            and
              queue:supervisor_in_queue:sum > (queue:supervisor_in_queue:sum offset 10m)
            and
              queue:supervisor_in_queue:sum > <queue_floor>
        """,
        hold="10m",
        severity=Severity.WARNING,
        summary="Queue {{ $labels.queue }} keeps growing: it drains more slowly than it fills.",
        description=(
            'Queue {{ $labels.queue }} has grown by {{ $value | printf "%.2f" }} tasks a second '
            "for more than 10 minutes. A queue that is long but level does not raise this."
        ),
        board=Board.QUEUES,
        by=_QUEUE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "`supervisor queues`: which queue, how many. `supervisor top`: are all workers "
                    "busy, and do tasks end?"
                ),
                (
                    "Workers busy, tasks end: more work than workers. Start a further node on the "
                    "same store, or raise `workers`."
                ),
                (
                    "Workers busy, tasks do not end: they hang or have become slow. "
                    "`supervisor list --state RUNNING`, `supervisor autopsy capture ID`."
                ),
                "Workers idle: see TaskQueueNotDraining.",
                (
                    "Slow down who submits, if you can; what may wait can be held back with "
                    '`supervisor pause QUEUE --priority 0 --reason "…"`.'
                ),
            ),
            means=(
                "The depth of the queue itself rises, by more than 2 % of what is started, and is "
                "above that of 10 minutes ago. Tasks that are put off count once they are due."
            ),
            ignore="A burst you know, that will be worked off in the night.",
        ),
    ),
    Alert(
        name="TaskQueueWaitLong",
        expr="""
            max without (instance) (supervisor_queue_oldest_age_seconds) > <queue_wait_s>
            unless on (job, queue)
              max without (instance) (supervisor_queue_paused) == 1
        """,
        hold="5m",
        severity=Severity.WARNING,
        summary="A task of queue {{ $labels.queue }} waits longer than <queue_wait_s:duration>.",
        description=(
            "The oldest due task of {{ $labels.queue }} has waited {{ $value | humanizeDuration }}."
        ),
        board=Board.QUEUES,
        by=_QUEUE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "`supervisor queues`, then `supervisor list --state PENDING --queue QUEUE`: "
                    "which types wait, with which priority?"
                ),
                (
                    "Low priority behind much of a high one: that is what was asked for. More "
                    "workers or a node of its own for this queue (`--queues`)."
                ),
                (
                    "A type no node knows waits for ever: `/readyz` of the node names it. Start a "
                    "node with an app that has it."
                ),
                "A type that is held after crashes: TypeHeld.",
            ),
            means="Time since the oldest due task became due. Paused queues do not count.",
            ignore="Queues for work that may take all night: raise the threshold for them.",
        ),
    ),
    Alert(
        name="TaskQueueNotDraining",
        expr="""
            min_over_time(queue:supervisor_in_queue:sum[5m]) > 0
            and
              sum without (instance, type) (increase(supervisor_tasks_started_total[10m])) == 0
            unless on (job, queue)
              max without (instance) (supervisor_queue_paused) == 1
        """,
        hold="5m",
        severity=Severity.CRITICAL,
        summary="Queue {{ $labels.queue }} has work and starts none of it.",
        description=(
            '{{ $value | printf "%.0f" }} tasks or more are due in {{ $labels.queue }}, and none '
            "was started for 10 minutes."
        ),
        board=Board.QUEUES,
        by=_QUEUE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "`curl -s 127.0.0.1:9464/readyz` on the nodes: it says why nothing is claimed "
                    "(store away, fenced, births halted, no worker ready, unknown type)."
                ),
                "`supervisor nodes`: is there one at all? Does it take this queue (`queues`)?",
                (
                    "`supervisor top`: all workers held by tasks that hang? "
                    "`supervisor autopsy capture ID` of one."
                ),
                "The log of the node says the rest; SIGTERM and a start anew is the last resort.",
            ),
            means="Work is due, the queue is not paused, and nothing was started for 10 minutes.",
            ignore=(
                "Few long tasks: all workers of the queue run tasks longer than 10 minutes, and "
                "the next has to wait."
            ),
        ),
    ),
    Alert(
        name="QueuePaused",
        expr="max without (instance) (supervisor_queue_paused) == 1",
        severity=Severity.INFO,
        summary="Queue {{ $labels.queue }} is paused.",
        description="A person paused it, or a priority of it. It stays so until it is resumed.",
        board=Board.QUEUES,
        by=_QUEUE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "`supervisor queues` shows what is paused and why.",
                'When the reason is gone: `supervisor resume QUEUE --reason "…"`.',
            ),
            means="Nothing new starts there; running tasks go on. It silences the queue's alerts.",
            ignore="As long as the pause is meant.",
        ),
    ),
    Alert(
        name="OutboxBacklog",
        expr="max without (instance) (min_over_time(supervisor_outbox_pending[5m])) > <outbox>",
        hold="5m",
        severity=Severity.WARNING,
        summary="Submitted tasks are not announced: the outbox is not worked off.",
        description=(
            '{{ $value | printf "%.0f" }} tasks have waited for minutes to have their bell rung.'
        ),
        board=Board.QUEUES,
        autopsy="",
        runbook=Runbook(
            steps=(
                "Is the doorbell there? BellDown; `supervisor check` tries it.",
                "Is a node running at all? `supervisor nodes`. Each one rings.",
                (
                    "Tasks start nevertheless: nodes also look at the table every second. No task "
                    "is lost, each comes at most a second late."
                ),
            ),
            means="Rows of the outbox that no node has published yet.",
            ignore="During a mass submit, while it shrinks.",
        ),
    ),
)
