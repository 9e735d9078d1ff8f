"""What the node tells an autopsy of an attempt: its task, its limits, and what the probes saw.

Secret kept here: the shape of those facts, and how often a crash is worth a bundle. A process that
died can no longer be looked at; a bundle of what outlives it (log, output, the interpreter's last
words) is cheap, and still too dear for each of a thousand crashes.
"""

from __future__ import annotations

import json
import math
from typing import Any

from autopsy.secret import in_params
from supervisor.model.health import Signs, Verdict
from supervisor.model.order import Order
from supervisor.model.outcome import Outcome
from supervisor.model.trace import log_ids
from supervisor.node.floor import NS_PER_S, Attempt, Floor, Slot
from supervisor.node.port import Exited, Facts
from supervisor.worker import session
from supervisor.worker.vitals import Reading

#: The verdict of a bundle that a person wanted.
ASKED = "asked"
#: Crashes of a type within this time of one that got a bundle get none.
CRASH_BUNDLE_EVERY_S = 10.0


class Remains:
    """Bundles of attempts whose worker has died."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._last: dict[str, float] = {}

    def examine(self, slot: Slot, attempt: Attempt, outcome: Outcome, exit: Exited) -> None:
        """Keep what outlives the process, unless a crash of this type has just been kept."""
        now, kind = self._floor.clock.mono(), attempt.claim.type
        if now - self._last.get(kind, float("-inf")) < CRASH_BUNDLE_EVERY_S:
            return
        self._last[kind] = now
        values = {
            **_facts(self._floor, slot, attempt),
            "why": outcome.error,
            "verdict": str(outcome.reason),
            "name": f"{attempt.name}-crash",
            "max_rss_bytes": exit.max_rss_bytes,
            "exit": exit.how,
            "exit_detail": outcome.detail,
            "last_words": outcome.traceback,
        }
        if seen := last_progress(exit.last, attempt):
            values["progress"] = {
                "done": seen["progress_done"],
                "total": seen.get("progress_total"),
            }
        budget_s = self._floor.settings.autopsy_budget
        attempt.autopsy_id = str(values["name"])
        self._floor.pool.capture(slot.worker_id, Facts(values), budget_s, remains=True)


def last_progress(last: Reading, attempt: Attempt) -> dict[str, float]:
    """Return how far an attempt says it came, as its usage has it; empty if it never said.

    Shapes: progress_done, and progress_total if that was told.
    """
    done, total = last.progress_done, last.progress_total
    if last.last_seq != attempt.seq or not last.progress_changes or not math.isfinite(done):
        return {}
    seen = {"progress_done": done}
    return seen | {"progress_total": total} if math.isfinite(total) and total else seen


def suspect_facts(
    floor: Floor,
    slot: Slot,
    attempt: Attempt | None,
    verdict: Verdict | None,
    *,
    lets_live: bool = False,
) -> Facts:
    """Return what is known of a suspect that still lives."""
    code = str(verdict.code) if verdict else "shutdown"
    return Facts(
        {
            **_facts(floor, slot, attempt),
            "why": verdict.why if verdict else "was taken out of service and did not leave",
            "verdict": code,
            "name": f"{attempt.name}-{code}" if attempt else slot.worker_id,
        },
        lets_live,
    )


def asked_facts(floor: Floor, slot: Slot, attempt: Attempt, order: Order) -> Facts:
    """Return what is known of an attempt that a person wants examined; each has its own name."""
    return Facts(
        {
            **_facts(floor, slot, attempt),
            "why": f"asked for by {order.operator}: {order.reason}",
            "verdict": ASKED,
            "name": f"{attempt.name}-{ASKED}-{order.order_id[-12:]}",
        },
        lets_live=True,
    )


def _facts(floor: Floor, slot: Slot, attempt: Attempt | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "node_id": floor.node_id,
        "worker_id": slot.worker_id,
        "pid": slot.pid,
        "captured_at": floor.clock.now().isoformat(),
    }
    if attempt is None:
        return values
    values |= {
        **_of_claim(attempt),
        **_begin(floor, attempt),
        "secrets": _secrets(floor, attempt),
        "limits": {
            "timeout_s": attempt.limits.timeout,
            "soft_timeout_s": attempt.limits.told_soft,
            "cancel_grace_s": attempt.limits.cancel_grace,
            "memory_limit_bytes": attempt.limits.memory_limit_bytes,
        },
        "calls": _calls(attempt, floor.clock.mono()),
        "looks": [_look(signs, attempt.started_at or 0.0) for signs in attempt.looks],
    }
    if attempt.mark is not None:
        mark = attempt.mark
        values["stop_wish"] = {"kind": mark.kind, "by": mark.by, "reason": mark.reason}
    return values


def _begin(floor: Floor, attempt: Attempt) -> dict[str, Any]:
    """Say from where on the worker's output and log are this attempt's."""
    if attempt.started_at is None:
        return {}
    # Its log has the times of this host's wall clock, and of the old one before that was set.
    began = floor.wall(attempt.started_at).timestamp() + floor.skew_s
    begun_at = began - attempt.wall_forward_s
    return {"output_start": attempt.output_start, "begun_at": begun_at}


def _of_claim(attempt: Attempt) -> dict[str, Any]:
    claim = attempt.claim
    return {
        "task_id": claim.task_id,
        "attempt": claim.attempt,
        "application": session.name_of(claim.task_id, claim.attempt),
        "type": claim.type,
        "queue": claim.queue,
        "submitted_by": claim.submitted_by,
        "retry_count": claim.retry_count,
        **log_ids(attempt.traceparent),
    }


def _calls(attempt: Attempt, now: float) -> list[dict[str, Any]]:
    """Return the services that the attempt has called and that have not answered."""
    if attempt.said is None:
        return []
    return [
        {"service": service, "number": calls.number, "for_s": now - calls.since_ns / NS_PER_S}
        for service, calls in attempt.said.in_flight.items()
    ]


def _secrets(floor: Floor, attempt: Attempt) -> list[str]:
    """Return what no evidence may show: handed to the autopsy, which forgets it when it is done."""
    info = floor.types.get(attempt.claim.type)
    marked = info.secret_params if info else ()
    return list(in_params(json.loads(attempt.claim.params_json), marked))


def _look(signs: Signs, started_at: float) -> dict[str, Any]:
    return {
        "age_s": round(signs.at - started_at, 3),
        "beats": signs.beats,
        "progress_done": signs.progress_done,
        "progress_changes": signs.progress_changes,
        "rss_bytes": signs.rss_bytes,
        "cpu_s": signs.cpu_s,
        "proc_state": signs.proc_state,
    }
