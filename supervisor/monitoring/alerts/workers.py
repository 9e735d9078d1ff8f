"""Alerts about worker processes: survival, crashes, halted births, memory and CPU of a slot."""

from __future__ import annotations

from supervisor.monitoring.rule import Alert, Board, Runbook, Severity

_NODE = ("instance",)
_SLOT = ("instance", "slot")

POOL = (
    Alert(
        name="WorkerSurvivalLow",
        expr="""
            avg_over_time(instance:supervisor_workers_alive_per_desired:ratio[5m]) < <survival>
            unless on (job, instance)
              supervisor_stopping == 1
        """,
        hold="1m",
        severity=Severity.CRITICAL,
        summary="Fewer than <survival:percent> of the workers of {{ $labels.instance }} survive.",
        description=(
            "{{ $value | humanizePercentage }} of the wanted workers were alive over the last 5 "
            "minutes. They are replaced; they die faster."
        ),
        board=Board.WORKERS,
        by=_NODE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "`supervisor top`: how many live, in which state?",
                (
                    "Why do they end? The log says `worker.` events with exit codes; `sum by "
                    "(reason) (increase(supervisor_worker_exits_total[10m]))` in Prometheus."
                ),
                "Cannot start: `supervisor check MODULE:app` tries the app's import on this host.",
                (
                    "Killed from outside (signal 9 and no verdict): `dmesg` for the OOM killer; "
                    "fewer workers or more memory."
                ),
                "Restart the node in order (SIGTERM, then start) if the pool does not recover.",
            ),
            means=(
                "Workers alive with a fresh heartbeat over workers wanted, averaged over 5 "
                "minutes, for each node. One of eight missing for 15 s is no alert."
            ),
            ignore="During a rolling restart that you watch.",
        ),
    ),
    Alert(
        name="WorkerCrashLoop",
        expr="""
            sum without (reason) (
              increase(supervisor_worker_exits_total{reason=~"crashed|boot_failed"}[5m])
            ) > 5
        """,
        hold="1m",
        severity=Severity.CRITICAL,
        summary="Workers of {{ $labels.instance }} crash again and again.",
        description='{{ $value | printf "%.0f" }} workers crashed or could not start in 5 minutes.',
        board=Board.WORKERS,
        by=_NODE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "In a task: `supervisor list --state FAILED` shows crashes and quarantined "
                    "tasks; `supervisor show ID` says how (signal, exit code, out of memory)."
                ),
                (
                    "At the start: `supervisor check MODULE:app`; the output of the worker is in "
                    "the log of the node."
                ),
                "After a deploy: roll it back.",
                "The type that does it is held back by itself (TypeHeld); the others go on.",
            ),
            means="Deaths that nobody asked for: neither recycled, stopped nor killed by us.",
            ignore="Never while it fires.",
        ),
    ),
    Alert(
        name="PoolHalted",
        expr="max_over_time(supervisor_restart_halted[2m]) == 1",
        hold="2m",
        severity=Severity.CRITICAL,
        summary="Node {{ $labels.instance }} starts no more workers: they die at their start.",
        description="More deaths than `restart_intensity` allows. It tries again, more rarely.",
        board=Board.WORKERS,
        by=_NODE,
        autopsy="",
        runbook=Runbook(
            steps=(
                (
                    "`supervisor check MODULE:app` on this host: can the app be imported, is there "
                    "memory, are there descriptors?"
                ),
                "The log of the node: `restart.halted` and the output of the last worker.",
                "After the repair send SIGHUP, or restart the node.",
            ),
            means=(
                "Workers fail outside of any task, again and again. Births are halted for 2 s, "
                "then longer, up to a minute, instead of spinning."
            ),
            ignore="Never: this node does no work.",
        ),
    ),
    Alert(
        name="TypeHeld",
        expr="max_over_time(supervisor_types_held[5m]) > 0",
        hold="2m",
        severity=Severity.WARNING,
        summary="A task type is held back on {{ $labels.instance }}: it ends its workers.",
        description='{{ $value | printf "%.0f" }} types wait; all others go on.',
        board=Board.WORKERS,
        by=_NODE,
        autopsy="",
        runbook=Runbook(
            steps=(
                "`curl -s 127.0.0.1:9464/readyz` names the type.",
                (
                    "`supervisor list --state FAILED --type TYPE`, `supervisor show ID`: how did "
                    "the worker die?"
                ),
                "Mend the type and reload (SIGHUP). It is tried again by itself, ever more rarely.",
            ),
            means="Tasks of this type ended too many workers one after the other.",
            ignore="Never for long: its tasks wait.",
        ),
    ),
    Alert(
        name="WorkerSpawnFailing",
        expr="increase(supervisor_worker_spawn_failures_total[10m]) >= 3",
        severity=Severity.WARNING,
        summary="Workers of {{ $labels.instance }} die before they are ready.",
        description='{{ $value | printf "%.0f" }} births failed in 10 minutes.',
        board=Board.WORKERS,
        by=_NODE,
        runbook=Runbook(
            steps=(
                "The log: `spawn.failed` says why (descriptors, memory, import).",
                "`supervisor check MODULE:app` on this host.",
                "Too few descriptors: raise `LimitNOFILE` (some eight for each worker, and 128).",
            ),
            means="A worker that ends before it says that it is ready has run nothing.",
            ignore="Single ones at the start of a busy host.",
        ),
    ),
    Alert(
        name="WorkersSaturated",
        expr="""
            sum without (instance, state) (supervisor_workers{state="busy"})
              / sum without (instance) (supervisor_workers_desired) > 0.95
            and on (job)
              supervisor:in_queue > 0
        """,
        hold="15m",
        severity=Severity.INFO,
        summary="All workers are busy and tasks wait.",
        description="{{ $value | humanizePercentage }} of the workers are busy for 15 minutes.",
        board=Board.WORKERS,
        runbook=Runbook(
            steps=(
                "`supervisor top`: do the tasks end? Then it is load: more `workers`, or a node.",
                "If nothing waits long (TaskQueueWaitLong is silent), it is good use of the host.",
            ),
            means="Every worker has had a task for a quarter of an hour, and more are due.",
            ignore="As long as waiting times are fine.",
        ),
    ),
)

SLOTS = (
    Alert(
        name="WorkerCpuPegged",
        expr="rate(supervisor_worker_cpu_seconds_total[5m]) > 0.95",
        hold="10m",
        severity=Severity.WARNING,
        summary="Worker {{ $labels.slot }} of {{ $labels.instance }} burns a whole core.",
        description=(
            'It has used {{ $value | printf "%.2f" }} cores for 10 minutes. Either its tasks '
            "compute, or one is in an endless loop."
        ),
        board=Board.WORKERS,
        by=_SLOT,
        autopsy="verdict=cpu_spin",
        runbook=Runbook(
            steps=(
                "`supervisor top` shows what the worker runs, and for how long.",
                (
                    "The same task all the time: `supervisor autopsy capture ID`, then `supervisor "
                    "autopsy show ID`. The stacks of 5 minutes tell a loop from progress."
                ),
                'An endless loop: `supervisor cancel ID --reason "endless loop"`.',
                "Many short tasks: it is simply busy. Nothing to do.",
            ),
            means="CPU time of the worker's process, a core's worth, for ten minutes.",
            ignore="Workers whose tasks compute.",
        ),
    ),
    Alert(
        name="WorkerMemoryHigh",
        expr="""
            supervisor_worker_resident_memory_bytes > <worker_memory_bytes>
            unless on (job, instance)
              max without (type) (supervisor_task_memory_limit_bytes) > <worker_memory_bytes>
        """,
        hold="5m",
        severity=Severity.WARNING,
        summary="Worker {{ $labels.slot }} of {{ $labels.instance }} uses more than "
        "<worker_memory_bytes:bytes>.",
        description="{{ $value | humanize1024 }}B resident. The kernel may end it at any time.",
        board=Board.WORKERS,
        by=_SLOT,
        autopsy="verdict=memory",
        runbook=Runbook(
            steps=(
                "`supervisor top` shows what it runs.",
                (
                    "What fills it? `supervisor autopsy capture ID`, then `supervisor autopsy show "
                    "ID`: the largest kinds of objects are listed."
                ),
                (
                    'Free it: `supervisor cancel ID --reason "memory"`, or let it end; a worker '
                    "that has grown by `recycle_growth_bytes` is replaced after its task."
                ),
                (
                    "Set `memory_limit_bytes` for the type: then evidence is taken before the "
                    "kernel takes the process."
                ),
            ),
            means=(
                "Resident memory of one worker process above a fixed number. It is silent on nodes "
                "that have a type whose `memory_limit_bytes` is higher: TaskMemoryHigh watches "
                "that."
            ),
            ignore=(
                "Types that need it: say so by `memory_limit_bytes` of the type, or export the "
                "rules with a higher number."
            ),
        ),
    ),
    Alert(
        name="TaskMemoryHigh",
        expr="""
            max without (instance) (supervisor_running_memory_bytes)
              > on (job, type) <memory_limit_share>
                * (max without (instance) (supervisor_task_memory_limit_bytes) > 0)
        """,
        hold="2m",
        severity=Severity.WARNING,
        summary="A task of type {{ $labels.type }} uses nearly all the memory that it may, or "
        "more.",
        description=(
            "{{ $value | humanize1024 }}B resident, above <memory_limit_share:percent> of "
            "`memory_limit_bytes` of the type. At the limit follows what `on_memory` says."
        ),
        board=Board.TYPES,
        by=("type",),
        autopsy="verdict=memory",
        runbook=Runbook(
            steps=(
                "Find it: `supervisor list --state RUNNING --type TYPE`, `supervisor top`.",
                (
                    "What fills it? `supervisor autopsy capture ID`, then `supervisor autopsy show "
                    "ID`: the largest kinds of objects are listed."
                ),
                (
                    'Free it: `supervisor cancel ID --reason "memory"`, or let it end if it soon '
                    "will."
                ),
                (
                    "If the work needs that much, raise `memory_limit_bytes` of the type "
                    "(`[type.NAME]` in the TOML file, then SIGHUP)."
                ),
            ),
            means=(
                "Resident memory of the largest worker that runs the type, against the limit of "
                "that type. Types without a limit are watched by WorkerMemoryHigh."
            ),
            ignore="Types whose limit is their ordinary size, where `on_memory` is `alert`.",
        ),
    ),
    Alert(
        name="AttemptsLeaveRemains",
        expr="""
            sum without (instance) (increase(supervisor_left_behind_total[1h])) > 50
        """,
        severity=Severity.INFO,
        summary="Tasks leave things behind ({{ $labels.kind }}).",
        description=(
            '{{ $value | printf "%.0f" }} in the last hour. What can be cleared is cleared; '
            "descriptors and threads stay until the worker is recycled."
        ),
        board=Board.WORKERS,
        by=("kind",),
        runbook=Runbook(
            steps=(
                "`supervisor show ID` of recent tasks says what each left behind.",
                "fd, thread: close files and join threads in the body (`with`).",
                "child: wait for subprocesses. file, segment: use the attempt's scratch folder.",
            ),
            means="Counted by comparing the worker before and after each attempt.",
            ignore="Small numbers: workers are recycled anyway.",
        ),
    ),
)

ALERTS = (*POOL, *SLOTS)
