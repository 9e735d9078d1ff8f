"""What the node hears, turned into facts: messages of workers, deaths, answers of the scribe.

Secret kept here: what each message means for an attempt, and whose fault a death was. A worker's
report decides its attempt; without a report the reap does.
"""

from __future__ import annotations

from types import MappingProxyType

from autopsy.signals import INTERRUPT
from supervisor.model import outcome as ended
from supervisor.model.crash import cause_of_death, is_native, signal_name, without_plumbing
from supervisor.model.health import Code
from supervisor.model.outcome import Outcome
from supervisor.model.states import Reason, State
from supervisor.model.termination import Phase
from supervisor.model.trace import log_ids
from supervisor.node import finding, port
from supervisor.node.accounting import Accounting, in_calls
from supervisor.node.evidence import Remains, last_progress
from supervisor.node.floor import NS_PER_S, Attempt, Floor, Slot
from supervisor.telemetry.events import emit
from supervisor.worker import wire

#: What an attempt may leave behind → its name in the usage and as a label.
LEFT = MappingProxyType(
    {
        "fds": ("leaked_fds", "fd"),
        "threads": ("leaked_threads", "thread"),
        "segments": ("leaked_segments", "segment"),
        "children": ("killed_children", "child"),
        "files": ("cleared_files", "file"),
    }
)

#: How a kill for a verdict ends the attempt.
_KILLED: dict[Code, tuple[State, Reason]] = {
    Code.TIMEOUT: (State.TIMEOUT, Reason.TIMEOUT),
    Code.MEMORY: (State.FAILED, Reason.MEMORY),
    Code.STOPPED: (State.TIMEOUT, Reason.HEARTBEAT_LOST),
    Code.HEARTBEAT_LOST: (State.TIMEOUT, Reason.HEARTBEAT_LOST),
    Code.STALLED: (State.TIMEOUT, Reason.STALLED),
    Code.CPU_SPIN: (State.TIMEOUT, Reason.CPU_SPIN),
    Code.CANCELED: (State.CANCELED, Reason.CANCELED),
}


class Listening:
    """Takes in one worker event at a time."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._remains = Remains(floor)
        self.accounting = Accounting(floor)
        self.durations: dict[str, float] = {}

    def said(self, slot: Slot, message: wire.FromWorker, now: float) -> None:
        """A worker sent a message."""
        match message:
            case wire.Ready():
                self._ready(slot, message, now)
            case wire.Finished():
                self._finished(slot, message)
            case wire.Tallied() if (attempt := slot.attempts.get(message.seq)) is not None:
                self.accounting.tallied(slot, attempt, message)
            case wire.Leaving():
                slot.leaving = message.why
            case wire.Checkpoint() if (attempt := slot.attempts.get(message.seq)) is not None:
                claim = attempt.claim
                self._floor.scribe.ask(
                    port.SaveCheckpoint(claim.task_id, claim.attempt, message.value_json)
                )
            case wire.SubmitChild() if (attempt := slot.attempts.get(message.seq)) is not None:
                self._floor.scribe.ask(
                    port.SubmitFor(
                        slot.worker_id, message.request, attempt.claim.task_id, message.spec_json
                    )
                )

    def _ready(self, slot: Slot, message: wire.Ready, now: float) -> None:
        slot.pid, slot.start_ticks, slot.ready_at = message.pid, message.start_ticks, now
        slot.beat_at = now
        self._floor.metrics.observe("worker_spawn_duration_seconds", now - slot.asked_at)
        self._note_worker(slot)
        self.accounting.begin(slot, message.spent)
        emit("worker.ready", worker_id=slot.worker_id, pid=slot.pid)

    def _note_worker(self, slot: Slot, exit: str | None = None) -> None:
        ready_at = slot.ready_at if slot.ready_at is not None else slot.asked_at
        started_at = self._floor.wall(ready_at)
        self._floor.scribe.ask(
            port.WorkerNote(slot.worker_id, slot.pid, slot.start_ticks, started_at, exit)
        )

    def _finished(self, slot: Slot, message: wire.Finished) -> None:
        attempt = slot.attempts.get(message.seq)
        if attempt is None:
            return  # it was ended already; the fence of the ledger would refuse it too
        self._floor.begin(attempt, message.started_ns, message.output_start)
        seen = message.interrupted_by
        if (seen == "cancel" and attempt.mark is not None) or (
            seen == "soft_timeout" and attempt.soft_told and attempt.mark is None
        ):
            self.acknowledged(attempt, seen)  # it may have been over before anybody looked
        finished = message.finished_ns / NS_PER_S
        self._measure(attempt, (message.finished_ns - message.started_ns) / NS_PER_S)
        outcome = self._outcome(attempt, message, finished)
        if message.left is not None:
            outcome = self._with_growth(attempt, outcome, message.left)
        self._floor.end(
            slot,
            attempt,
            outcome,
            usage=_usage(message),
            ended_at=finished,
            output_end=message.output_end,
            children=message.children,
        )
        if message.interrupted_by:
            slot.leaving = f"interrupted by {message.interrupted_by}"  # it says so itself, later
        self.accounting.finished(slot, attempt, message)

    def _with_growth(self, attempt: Attempt, outcome: Outcome, left: wire.LeftBehind) -> Outcome:
        """Count and tell what was left behind; an outcome that keeps the names."""
        for kind, (_, label) in LEFT.items():
            if count := getattr(left, kind):
                self._floor.metrics.inc("left_behind_total", count, kind=label)
        if not left.names:
            return outcome
        if left.fds or left.threads or left.segments:
            emit(
                "growth.noticed",
                **attempt.named, fds=left.fds, threads=left.threads, segments=left.segments,
                children=left.children, attempts=left.attempts, names=list(left.names),
            )  # fmt: skip
        return ended.remarked(outcome, f"left behind: {_names_of(left)}")

    def acknowledged(self, attempt: Attempt, kind: str) -> None:
        """The body has seen what it was asked; said once."""
        if attempt.acknowledged:
            return
        attempt.acknowledged = True
        text = f"the body has seen the {kind.replace('_', ' ')}"
        self._floor.note(attempt, f"{kind}_acknowledged", text)
        if kind == "cancel":
            emit("cancel.acknowledged", **attempt.named)

    def _measure(self, attempt: Attempt, duration_s: float) -> None:
        kind = attempt.claim.type
        mean = self.durations.get(kind)
        self.durations[kind] = duration_s if mean is None else mean + 0.2 * (duration_s - mean)

    def _outcome(self, attempt: Attempt, message: wire.Finished, finished: float) -> Outcome:
        late = finished - attempt.limits_at().timeout_at
        if late > 0 and attempt.mark is None and message.how == "returned":
            self._floor.metrics.inc("late_results_total", type=attempt.claim.type)
            why = f"returned {late:.2f} s after its time limit"
            emit(
                "result.discarded",
                task_id=attempt.claim.task_id, attempt=attempt.claim.attempt, why=why,
                **log_ids(attempt.traceparent),
            )  # fmt: skip
            return ended.too_late(late, message.result_json or "null")
        match message.how:
            case "returned":
                over = finished > attempt.soft_at()
                note = "returned after its soft time limit" if over else None
                return ended.returned(message.result_json or "null", detail=note)
            case "interrupted" if message.interrupted_by == "shutdown" and attempt.fenced:
                return ended.preempted(attempt.fenced)
            case "interrupted":
                return _interrupted(message)
            case "result_invalid" | "result_too_large" as how:
                return ended.result_refused(Reason(how), message.error or how)
        return ended.raised(
            message.error_type or "Exception",
            message.error or "",
            message.traceback or "",
            retryable=message.retryable,
        )

    def exited(self, slot: Slot, exit: port.Exited) -> None:
        """A worker was reaped: end what it still held."""
        floor = self._floor
        unread = set(floor.pool.take_back(slot.worker_id))
        dead: list[Attempt] = []
        for attempt in list(slot.attempts.values()):
            if attempt.seq in unread or exit.last.last_seq < attempt.seq:
                floor.end(slot, attempt, ended.never_started(f"its worker {exit.how}"))
                continue
            dead.append(attempt)
            floor.begin(attempt, exit.last.started_ns, exit.last.output_start)
            usage = {
                "max_rss_bytes": float(exit.max_rss_bytes),
                **last_progress(exit.last, attempt),
            }
            outcome = self._outcome_of_death(slot, attempt, exit)
            if waited := in_calls(attempt, floor.clock.mono()):
                outcome = ended.remarked(outcome, waited)
            if outcome.crashed:
                floor.metrics.inc("crashes_total", reason=outcome.reason)
                self._remains.examine(slot, attempt, outcome, exit)
            floor.end(slot, attempt, outcome, usage=usage)
            self.accounting.died(slot, attempt, exit, outcome)
        self.accounting.gone(slot)
        del floor.slots[slot.worker_id]
        floor.pool.forget(slot.worker_id)
        floor.sweep_strays()
        for attempt in dead:
            floor.reclaim_segments(attempt.claim.task_id, attempt.claim.attempt)
        self._note_worker(slot, exit.how)
        reason = _exit_reason(slot, exit)
        floor.metrics.inc("worker_exits_total", reason=reason)
        emit("worker.exited", worker_id=slot.worker_id, pid=slot.pid, exit=exit.how, reason=reason)

    def _outcome_of_death(self, slot: Slot, attempt: Attempt, exit: port.Exited) -> Outcome:
        farewell = slot.farewell
        phases = f" ({farewell.times(self._floor.clock.mono())})" if farewell else ""
        if slot.doomed is not None and slot.doomed[0] is attempt:
            verdict = slot.doomed[1]
            if verdict.code is Code.CANCELED:
                return ended.canceled(forced=True, detail=f"{verdict.why}{phases}")
            state, reason = _KILLED[verdict.code]
            return ended.killed(state, reason, f"{verdict.why}{phases}", verdict=verdict.code)
        native = is_native(exit.status)
        if attempt.fenced and not native:
            return ended.preempted(f"{attempt.fenced}{phases}", forced=True)
        if farewell is not None and self._floor.stopping is not None and not native:
            return ended.shut_down(forced=True)
        told_to_go = farewell is not None and farewell.phase in (Phase.EXIT, Phase.KILL)
        if (told_to_go and not native) or exit.garbled:
            return ended.crashed(f"the worker was ended by the node: {exit.how}{phases}")
        if exit.status.signal == INTERRUPT and (heeded := _ended_by_wish(slot, attempt)):
            return heeded
        reason, how = cause_of_death(exit.status, exit.oom, slot.leaving)
        outcome = ended.crashed(how, reason, traceback=without_plumbing(exit.dump) or None)
        return ended.remarked(outcome, exit.oom.source) if exit.oom is not None else outcome

    def captured(self, slot: Slot | None, captured: port.Captured) -> None:
        """An autopsy is over: a kill that waits for it goes on."""
        if slot is not None and captured.status != "busy":
            about = captured.facts.values
            for attempt in slot.attempts.values():
                if attempt.claim.task_id == about.get("task_id"):
                    attempt.autopsy_id = str(about["name"])
        # One taken on suspicion, before the kill was decided, is not what the kill waits for.
        awaited = captured.status != "busy" and not captured.facts.lets_live
        farewell = slot.farewell if slot is not None and awaited else None
        if slot is not None and farewell is not None and farewell.phase is Phase.CAPTURE:
            slot.bundle_ready = True
        finding.tell(self._floor, captured)


def _names_of(left: wire.LeftBehind) -> str:
    """Name what was left behind; children are this attempt's own, the rest may be older."""
    children, others = left.names[: left.children], left.names[left.children :]
    told = ", ".join(children)
    if not others:
        return told
    told += ("; " if told else "") + ", ".join(others)
    if (older := left.attempts - 1) > 0:
        before = f"any of the {older} attempts" if older > 1 else "the attempt"
        told += f" (by this or {before} before it)"
    return told


def _interrupted(message: wire.Finished) -> Outcome:
    match message.interrupted_by:
        case "soft_timeout":
            return ended.soft_timed_out(where=message.error, traceback=message.traceback)
        case "shutdown":
            return ended.shut_down()
    return ended.canceled(detail=f"left at {message.error}" if message.error else None)


def _ended_by_wish(slot: Slot, attempt: Attempt) -> Outcome | None:
    """Return how the wish ends it that our signal brought, where the body let that signal kill."""
    how = (
        f"the signal that tells a body ({signal_name(INTERRUPT)}) ended the process: "
        "the body had taken away its handler, or become another program"
    )
    if attempt.delivered:
        return ended.canceled(forced=True, detail=how)
    if slot.farewell is not None and slot.farewell.phase is Phase.CHECKPOINT:
        return ended.remarked(ended.shut_down(forced=True), how)
    if attempt.soft_told:
        why = "ended by its soft time limit"
        return ended.remarked(ended.killed(State.TIMEOUT, Reason.SOFT_TIMEOUT, why), how)
    return None


def _usage(message: wire.Finished) -> dict[str, float]:
    usage = {"cpu_s": message.cpu_s, "max_rss_bytes": float(message.max_rss_bytes)}
    left = message.left
    if left is not None:
        for kind, (name, _) in LEFT.items():
            if count := getattr(left, kind):
                usage[name] = float(count)
    return usage


def _exit_reason(slot: Slot, exit: port.Exited) -> str:
    if exit.status.signal == INTERRUPT:
        return "interrupted"
    ending = slot.farewell is not None and slot.farewell.phase in (Phase.EXIT, Phase.KILL)
    if ending and not exit.clean:
        return "killed"
    if slot.ready_at is None:
        return "boot_failed"
    if not exit.clean:
        return "crashed"
    for word in ("recycled", "interrupted"):
        if slot.leaving.startswith(word):
            return word
    return "stopped"
