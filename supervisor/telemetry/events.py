"""The table of events: dotted past-tense names with their fields, and `emit`.

A name and its fields are a contract that people grep and alert on; docs/events.md is made from this
table and a test reads every `emit` in the source against it. Emitting cannot hurt the work: an
event outside the table is logged with a mark, never raised. Anybody from L1 up may emit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

LOGGER = "supervisor"
#: What an event about a task bears as well if that is part of a trace.
TRACE_IDS = frozenset({"trace_id", "span_id"})


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its level, when it happens, and the fields it always carries."""

    name: str
    level: int
    prose: str
    fields: tuple[str, ...]
    keys: frozenset[str]


def _event(level: int, name: str, prose: str, *fields: str) -> tuple[str, Event]:
    return name, Event(name, level, prose, fields, frozenset(fields))


_D, _I, _W, _E = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
_TASK = ("task_id", "attempt", "type")

EVENTS: Mapping[str, Event] = MappingProxyType(
    dict(
        [
            # The node
            _event(
                _I, "node.started", "A node is up and takes tasks.",
                "node_id", "node_name", "pid", "store", "workers",
            ),
            _event(
                _I, "node.stopping", "A node takes no more tasks and drains.",
                "reason", "running", "grace_s",
            ),
            _event(_I, "node.stopped", "A node has stopped.", "duration_s", "left_behind"),
            _event(
                _I, "order.received", "A person asks something of the node, by way of the store.",
                "order", "by", "reason", "task_id",
            ),
            _event(
                _I, "order.answered", "What became of it, as the person is told.",
                "order", "task_id", "answer",
            ),
            _event(
                _W, "bell.refused", "No address for the wake socket; new work is found by polling.",
                "error",
            ),
            _event(
                _E, "bell.lost", "The doorbell does not answer; new work is found by polling.",
                "error",
            ),
            _event(_I, "bell.recovered", "The doorbell answers again.", "away_s"),
            _event(
                _D, "ring.dropped", "A ring did not go out; the nodes find its row by polling.",
                "error", "pause_s",
            ),
            _event(
                _W, "bell.endangered",
                "The Redis of the doorbell may evict ids of due tasks: those would start late.",
                "policy", "maxmemory",
            ),
            _event(_I, "signal.received", "A signal reached the node.", "signal"),
            _event(_I, "settings.reloaded", "New settings are in force.", "changed"),
            _event(_E, "settings.refused", "New settings were wrong; the old ones hold.", "error"),
            _event(
                _W, "settings.postponed",
                "These settings have changed and take effect only when the node is started anew.",
                "names",
            ),
            _event(_W, "loop.lagged", "The loop was late; deadlines were moved by it.", "gap_s"),
            _event(
                _W, "clock.stepped",
                "The wall clock was set (or the host slept); no limit depends on it.", "step_s",
            ),
            _event(
                _E, "node.fenced",
                "The node cannot renew its lease: it claims nothing and ends what it runs, before "
                "other nodes may take that over.",
                "why", "running",
            ),
            _event(_I, "node.unfenced", "The lease holds again: tasks are claimed.", "fenced_s"),
            _event(
                _I, "sweeper.elected",
                "This node ends what lost nodes ran, from now on; terms count up.", "term",
            ),
            _event(
                _W, "clock.skewed",
                "The host's wall clock is not the store's, which due times and leases go by.",
                "skew_s",
            ),
            _event(_I, "traces.started", "Spans of attempts are exported.", "endpoint"),
            _event(
                _W, "traces.refused", "Spans are wanted and cannot be exported.",
                "error", "remedy",
            ),
            _event(
                _W, "traces.lost", "Spans do not reach the collector; tasks go on without them.",
                "endpoint", "spans", "error",
            ),
            _event(
                _I, "traces.recovered",
                "Spans reach the collector again; so many were lost since the last word.",
                "endpoint", "spans", "away_s",
            ),
            _event(
                _W, "traces.slowed",
                "The exporter is none that takes packed spans: the SDK packs them, as slowly.",
                "endpoint", "error", "remedy",
            ),
            _event(_W, "log.dropped", "Nobody read the log for long: lines were lost.", "lines"),
            _event(_E, "loop.failed", "One step of the loop raised.", "step", "error"),
            # The app
            _event(
                _I, "app.booted", "The app was imported by the zygote.", "app", "types"
            ),
            _event(
                _E, "app.refused",
                "The app could not be imported; `follows` says whether an older one goes on.",
                "app", "error", "follows",
            ),
            _event(
                _W, "app.unforkable",
                "The app's import left something that forbids forking; workers are exec'ed.",
                "app", "obstacles",
            ),
            _event(
                _W, "collector.failed",
                "What is looked up when metrics are read could not be told: it is absent there.",
                "collector", "error",
            ),
            # Workers
            _event(_I, "worker.spawned", "A worker was born.", "worker_id", "pid", "reason"),
            _event(_D, "worker.ready", "A worker may be assigned to.", "worker_id", "pid"),
            _event(
                _I, "worker.exited", "A worker's end was reaped.",
                "worker_id", "pid", "exit", "reason",
            ),
            _event(
                _W, "worker.killed", "A worker and its whole tree were killed.",
                "worker_id", "pid", "verdict", "processes",
            ),
            _event(
                _E, "worker.garbled", "A worker sent what is no message; it is ended.",
                "worker_id", "pid", "error",
            ),
            _event(
                _W, "oom.unexplained",
                "The kernel's OOM killer ended processes of the node's control group that were no "
                "workers: children of tasks, most likely.",
                "kills",
            ),
            _event(_E, "spawn.failed", "A worker could not be born.", "error"),
            _event(
                _E, "restart.halted", "Too many failed starts: the pool waits for a person.",
                "failures", "window_s",
            ),
            _event(
                _E, "type.held",
                "Tasks of a type ended too many workers: none is started for a while.",
                "type", "crashes", "wait_s",
            ),
            _event(_I, "type.released", "Tasks of a held type may be started again.", "type"),
            _event(_I, "restart.resumed", "The pool starts workers again.", "reason"),
            _event(
                _W, "orphan.killed", "A process that outlived its task was ended.",
                "pid", "task_id",
            ),
            # Tasks
            _event(
                _I, "growth.noticed",
                "A worker has more open or running than before this attempt, or the few before.",
                *_TASK, "fds", "threads", "segments", "children", "attempts", "names",
            ),
            _event(
                _I, "segments.reclaimed", "Shared memory that a dead attempt had made was removed.",
                "task_id", "attempt", "segments",
            ),
            _event(_I, "task.retried", "A task will run again.", *_TASK, "delay_s"),
            _event(_W, "task.died", "A task ended FAILED or TIMEOUT for good.", *_TASK, "reason"),
            _event(_E, "task.quarantined", "A task killed too many workers.", *_TASK, "crashes"),
            _event(_W, "task.unrouted", "A due task has a type this node does not know.", "type"),
            _event(_I, "cancel.requested", "Somebody asked a running task to stop.", *_TASK, "by"),
            _event(_I, "cancel.delivered", "The wish reached the worker.", *_TASK),
            _event(_I, "cancel.acknowledged", "The body has seen the wish.", *_TASK),
            _event(_W, "cancel.forced", "The grace was used up: the worker is killed.", *_TASK),
            _event(_I, "cancel.verified", "The attempt is verified gone.", *_TASK, "latency_s"),
            _event(
                _W, "result.discarded", "A result came after its attempt had ended.",
                "task_id", "attempt", "why",
            ),
            _event(
                _E, "transition.refused", "A bug: a move outside the transition table.",
                "error",
            ),
            # Judging and evidence
            _event(
                _W, "verdict.reached", "The probes agree that something is wrong.",
                *_TASK, "verdict", "action", "detail",
            ),
            _event(
                _W, "verdict.held", "A verdict was held back: the observer is unreliable.",
                *_TASK, "verdict", "why",
            ),
            _event(
                _I, "autopsy.taken", "Evidence of an attempt was saved.",
                "task_id", "attempt", "autopsy_id", "status", "diagnosis", "duration_s",
            ),
            _event(
                _I, "autopsy.skipped", "An attempt that lives on was not examined.",
                "task_id", "attempt", "why",
            ),
            _event(
                _E, "autopsy.failed", "No evidence could be saved.", "task_id", "attempt", "error"
            ),
            _event(
                _I, "sessions.ended", "An attempt's sessions in PostgreSQL end before its kill.",
                "task_id", "attempt", "ended", "left", "sessions",
            ),
            # The pages
            _event(_I, "web.started", "The pages are served.", "listen", "store"),
            _event(_I, "web.stopped", "The pages are served no more.", "reason"),
            _event(
                _W, "web.refused", "Something was asked for that was not allowed; bounded.",
                "why", "who", "address", "request", "code",
            ),
            _event(_W, "web.unrecorded", "A refusal is not in the audit trail.", "error"),
            _event(_E, "web.failed", "A page raised: a bug.", "route", "error"),
            _event(
                _E, "web.troubled", "What is done beside the pages raised: a bug; it goes on.",
                "what", "error", "remedy",
            ),
            # The store
            _event(_E, "store.lost", "The store does not answer; claims stop.", "error"),
            _event(_I, "store.recovered", "The store answers again.", "away_s"),
            _event(
                _E, "store.rescued", "The store's file was deleted; its data was saved.", "path"
            ),
            _event(
                _W, "claim.lost",
                "The answer to a claim was lost with the store: the task is given back.",
                "task_id", "attempt",
            ),
            _event(_W, "task.swept", "A task of a lost node was ended.", *_TASK, "proof"),
        ]
    )
)  # fmt: skip


def emit(name: str, /, *, exc_info: bool = False, **fields: object) -> None:
    """Log one event of the table with its fields, and the current traceback if asked for."""
    event = EVENTS.get(name)
    level = logging.WARNING if event is None else event.level
    logger = logging.getLogger(LOGGER)
    if not logger.isEnabledFor(level):
        return
    if event is None or fields.keys() - TRACE_IDS != event.keys:
        fields["undeclared"] = True  # found by the test that reads every emit; shown until then
    logger.log(level, name, exc_info=exc_info, extra={"fields": fields})
