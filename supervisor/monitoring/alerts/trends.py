"""Alerts that come before the limit: something is on a straight line towards it.

Each asks three things: the line through the last while passes the limit soon; it has left the
ground already; and it rises, the lowest of now above the highest of before. How long before the
hard alert each comes, and how often for nothing, is measured: docs/early-alerts.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.monitoring.rule import Alert, Board, Runbook, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What is watched: `limit` as in the hard alert, `ground` a share of it.

    The line is drawn through `over` and looks `ahead_s` forward; what is lowest in the last
    `recent` must be above what was highest in such a time, `back` before.
    """

    metric: str
    limit: str
    ground: str
    over: str = "30m"
    ahead_s: int = 3600
    recent: str = "5m"
    back: str = "20m"
    also: str = ""
    unless: str = ""

    @property
    def expr(self) -> str:
        """The expression of the alert."""
        parts = [
            f"predict_linear({self.metric}[{self.over}], {self.ahead_s}) > {self.limit}",
            f"{self.metric} > {self.ground} * {self.limit}",
            (
                f"min_over_time({self.metric}[{self.recent}])\n"
                f"    > max_over_time({self.metric}[{self.recent}] offset {self.back})"
            ),
        ]
        parts += [self.also] if self.also else []
        met = "\nand\n  ".join(parts)
        return f"{met}\n{self.unless}" if self.unless else met


#: Of a node that has a type with a higher limit one number says nothing.
MAY_USE_MORE = """
unless on (job, instance)
  max without (type) (supervisor_task_memory_limit_bytes) > <worker_memory_bytes>
""".strip()

_OLDEST = "queue:supervisor_queue_oldest_age_seconds:max"

TASKS = (
    Alert(
        name="TaskFailureRateRising",
        expr=Line(
            metric="type:supervisor_failed_per_executed:ratio_rate10m",
            limit="<failed_rate>",
            ground="0.25",
            also="type:supervisor_tasks_executed:increase10m >= 10 * <least_attempts>",
        ).expr,
        hold="2m",
        severity=Severity.WARNING,
        summary="Failures of {{ $labels.type }} rise and will pass <failed_rate:percent>.",
        description="Going on like this, {{ $value | humanizePercentage }} fail in an hour.",
        board=Board.TYPES,
        by=("type",),
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "Read the first failures now, while they are few: "
                    "`supervisor list --state FAILED --type TYPE`, `supervisor show ID`."
                ),
                "What changed: a deploy, the input, a service (DependencySlowing)?",
                "Roll back or pause now; every task that you save needs no rerun.",
            ),
            means="A straight line through the last 30 minutes passes the limit within an hour.",
            ignore="When it turns round by itself; it then ends by itself.",
        ),
    ),
    Alert(
        name="TaskDurationRising",
        expr=Line(
            metric="type:supervisor_timeout_used:p99_rate10m",
            limit="0.8",
            ground="0.6",  # above the bucket in which a p99 of a quarter is guessed
            also="type:supervisor_tasks_executed:increase10m >= 5 * <least_attempts>",
        ).expr,
        hold="2m",
        severity=Severity.WARNING,
        summary="The run time of {{ $labels.type }} rises towards its timeout.",
        description=(
            "Going on like this, its p99 is {{ $value | humanizePercentage }} of the timeout in an "
            "hour. At 100 % tasks are killed."
        ),
        board=Board.TYPES,
        by=("type",),
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "Where does the time go? `supervisor list --state RUNNING --type TYPE`, "
                    "`supervisor autopsy capture ID`, `supervisor autopsy show ID`."
                ),
                (
                    "A table that grows, a missing index, a service that slows down: mend it "
                    "before the first timeout."
                ),
                "Raise `timeout` of the type if it cannot be mended tonight (TOML, then SIGHUP).",
            ),
            means="The p99 of the share of the timeout is on a line to 80 % within an hour.",
            ignore="When you have just given the type more to do, and know how much.",
        ),
    ),
    Alert(
        name="TaskQueueWaitRising",
        expr=Line(
            metric=_OLDEST,
            limit="<queue_wait_s>",
            ground="0.15",
            over="15m",
            ahead_s=1800,
            recent="3m",
            back="6m",
        ).expr,
        hold="2m",
        severity=Severity.WARNING,
        summary="Tasks of queue {{ $labels.queue }} wait longer and longer.",
        description=(
            "Going on like this, the oldest waits {{ $value | humanizeDuration }} in half an hour."
        ),
        board=Board.QUEUES,
        by=("queue",),
        autopsy="",
        runbook=Runbook(
            steps=(
                "`supervisor queues`, `supervisor top`: more work than usual, or slower tasks?",
                "More work: start a further node now, it takes effect at once.",
                "Slower tasks: TaskDurationRising, DependencySlowing say which.",
            ),
            means="The age of the oldest due task is on a line to the limit within half an hour.",
            ignore="A burst whose end you know.",
        ),
    ),
)

WORKERS = (
    Alert(
        name="WorkerMemoryRising",
        expr=Line(
            metric="supervisor_worker_resident_memory_bytes",
            limit="<worker_memory_bytes>",
            ground="0.3",
            ahead_s=5400,
            recent="10m",
            unless=MAY_USE_MORE,
        ).expr,
        hold="5m",
        severity=Severity.WARNING,
        summary="Worker {{ $labels.slot }} of {{ $labels.instance }} grows towards "
        "<worker_memory_bytes:bytes>.",
        description="Going on like this, it has {{ $value | humanize1024 }}B in 90 minutes.",
        board=Board.WORKERS,
        by=("instance", "slot"),
        autopsy="",
        runbook=Runbook(
            steps=(
                "What does it run? `supervisor top`.",
                (
                    "What grows? `supervisor autopsy capture ID`, then `supervisor autopsy show "
                    "ID`: it counts the objects by type."
                ),
                (
                    "A long task that gathers: let it write in pieces. A cache: bound it. "
                    "Meanwhile the worker is recycled after its task (`recycle_growth_bytes`)."
                ),
            ),
            means="Resident memory rises steadily and passes the limit within 90 minutes.",
            ignore=(
                "A task that is known to load much and then stay level. It is silent on nodes that "
                "have a type whose `memory_limit_bytes` is higher: TaskMemoryHigh watches that."
            ),
        ),
    ),
    Alert(
        name="WorkerFdsRising",
        expr=Line(
            metric="supervisor_worker_open_fds",
            limit="<worker_fds>",
            ground="0.15",
            ahead_s=7200,
            recent="10m",
        ).expr,
        hold="5m",
        severity=Severity.WARNING,
        summary="Worker {{ $labels.slot }} of {{ $labels.instance }} leaks descriptors.",
        description=(
            'Going on like this, it has {{ $value | printf "%.0f" }} open in two hours; '
            "usually 1024 are allowed."
        ),
        board=Board.WORKERS,
        by=("instance", "slot"),
        autopsy="",
        runbook=Runbook(
            steps=(
                "`supervisor top` says what it runs; `ls -l /proc/PID/fd` what is open.",
                "`supervisor autopsy capture ID` lists sockets and files with their peers.",
                (
                    "Close what the body opens (`with`). The worker is recycled after an attempt "
                    "that left `recycle_growth_fds` behind."
                ),
            ),
            means="Open descriptors rise steadily; at the limit every open and connect fails.",
            ignore="Pools that fill up once and stay level.",
        ),
    ),
    Alert(
        name="WorkerFdsHigh",
        expr="supervisor_worker_open_fds > <worker_fds>",
        hold="2m",
        severity=Severity.WARNING,
        summary="Worker {{ $labels.slot }} of {{ $labels.instance }} has nearly all descriptors "
        "open.",
        description='{{ $value | printf "%.0f" }} are open; usually 1024 are allowed.',
        board=Board.WORKERS,
        by=("instance", "slot"),
        autopsy="",
        runbook=Runbook(
            steps=(
                "`supervisor top` says what it runs; `ls -l /proc/PID/fd` what is open.",
                'End the attempt if it leaks: `supervisor cancel ID --reason "descriptors"`.',
                "Raise `LimitNOFILE` of the unit if it needs them.",
            ),
            means="At the limit every open and connect of this worker fails.",
            ignore="A host with a higher limit: export with another number.",
        ),
    ),
    Alert(
        name="ZombieShareRising",
        expr=Line(
            metric="job:supervisor_zombies_per_running:ratio",
            limit="<zombie_share>",
            ground="0.3",
            over="15m",
            ahead_s=1200,
            recent="2m",
            back="5m",
        ).expr,
        hold="1m",
        severity=Severity.WARNING,
        summary="Zombies become more; they will pass <zombie_share:percent> of what runs.",
        description="Going on like this, it is {{ $value | humanizePercentage }} in 20 minutes.",
        board=Board.WORKERS,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "Read two autopsies: `supervisor autopsy list`, `supervisor autopsy show ID`. "
                    "The same cause in both is the cause."
                ),
                'Stop what feeds it: `supervisor pause QUEUE --reason "zombies"`.',
                "ZombieShareHigh sends text messages; you have some minutes before it.",
            ),
            means="One after the other stops living: something they share is going away.",
            ignore="Few running tasks, where one zombie is a large share.",
        ),
    ),
    Alert(
        name="HeartbeatsLate",
        expr="""
            max_over_time(supervisor_worker_heartbeat_age_seconds[10m]) > 0.5 * <heartbeat_s>
            and
              max_over_time(supervisor_worker_heartbeat_age_seconds[10m])
                > 1.2 * max_over_time(supervisor_worker_heartbeat_age_seconds[10m] offset 20m)
            and
              count_over_time(
                (supervisor_worker_heartbeat_age_seconds > 0.4 * <heartbeat_s>)[10m:1m]
              ) >= 2
        """,
        hold="1m",
        severity=Severity.WARNING,
        summary="Heartbeats of worker {{ $labels.slot }} of {{ $labels.instance }} come later and "
        "later.",
        description=(
            "The longest pause of the last 10 minutes is {{ $value | humanizeDuration }}; after "
            "<heartbeat_s> s it counts as lost and is killed."
        ),
        board=Board.WORKERS,
        by=("instance", "slot"),
        autopsy="",
        runbook=Runbook(
            steps=(
                "Is the host starved? `cat /proc/pressure/cpu`, `/proc/pressure/memory`.",
                (
                    "One slot only: it holds the GIL for long. `supervisor autopsy capture ID` "
                    "with `--native` shows in which C function."
                ),
                "All slots: SupervisorLoopLate, the disk, the neighbours on the host.",
            ),
            means="Beats come every 30 s. Pauses grow before they are long enough to be a loss.",
            ignore="Short starvation of the host; verdicts are held then.",
        ),
    ),
)

SERVICES = (
    Alert(
        name="DependencySlowing",
        expr=Line(
            metric="service:supervisor_call_duration_seconds:mean5m",
            limit="<dependency_mean_s>",
            ground="0.25",
            over="20m",
            ahead_s=2700,
            back="15m",
            also="service:supervisor_calls:increase5m >= 20",
        ).expr,
        hold="2m",
        severity=Severity.WARNING,
        summary="{{ $labels.service }} becomes slower and slower.",
        description=(
            "Going on like this, a call takes {{ $value | humanizeDuration }} in 45 minutes."
        ),
        board=Board.DEPENDENCIES,
        by=("service",),
        autopsy="",
        runbook=Runbook(
            steps=(
                "Tell its owner now: its own alarms may still be silent.",
                (
                    "A database: long transactions, locks, a full disk? `supervisor autopsy "
                    "capture ID` of a task that waits shows who holds the lock."
                ),
                (
                    "Take load from it: fewer `workers`, or `supervisor pause QUEUE --reason "
                    '"SERVICE slows down"` for what can wait.'
                ),
            ),
            means="The mean time of a call is on a line to the limit within 45 minutes.",
            ignore="After a deploy there that made it slower for good, below the limit.",
        ),
    ),
    Alert(
        name="DependencyErrorsRising",
        expr=Line(
            metric="service:supervisor_calls_failed:ratio_rate5m",
            limit="<dependency_error_share>",
            ground="0.25",
            over="20m",
            ahead_s=2700,
            back="15m",
            also="service:supervisor_calls:increase5m >= 100",
        ).expr,
        hold="2m",
        severity=Severity.WARNING,
        summary="More and more calls to {{ $labels.service }} fail.",
        description="Going on like this, {{ $value | humanizePercentage }} fail in 45 minutes.",
        board=Board.DEPENDENCIES,
        by=("service",),
        autopsy="",
        runbook=Runbook(
            steps=(
                "What do they say? `supervisor list --state FAILED`, `supervisor show ID`.",
                "Tell its owner now, with the first error and its time.",
                'Hold back what can wait: `supervisor pause QUEUE --reason "SERVICE fails"`.',
            ),
            means="The share of failed calls is on a line to the limit within 45 minutes.",
            ignore="When it turns round by itself.",
        ),
    ),
)

ALERTS = (*TASKS, *WORKERS, *SERVICES)
