"""`supervisor show` and `history`: one task in full, and its audit trail."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.call import Call, command, fields_of
from supervisor.cli.cold import source_lines, subject, trail_of
from supervisor.cli.ids import full_id
from supervisor.cli.text import cell, columns, state_text
from supervisor.model.states import Reason, State
from supervisor.model.trace import trace_id_of
from supervisor.words.ladder import Step, ladder
from supervisor.words.living import Progress, live_progress
from supervisor.words.roll import Roll, last_word, roll_call
from supervisor.words.sentence import (
    by_command,
    checkpoint_document,
    diagnosis,
    for_good,
    last_progress,
    limits,
    naming_limit,
    note,
    usage,
    who_canceled,
)
from supervisor.words.text import clock, plain, size, span
from supervisor.words.veil import veil_of
from supervisor.words.waiting import waits_for

if TYPE_CHECKING:
    from supervisor.store import AutopsyRecord, HistoryLine, Reader, TaskView
    from supervisor.store.view import AttemptView


@command(example="supervisor show 8823134a")
@click.argument("task_id", metavar="ID")
def show(call: Call, task_id: str) -> None:
    """Show one task with its attempts, result and autopsies.

    ID may be the end of an id, at least 6 digits, or its beginning, at least 8: tasks of one
    minute begin alike.
    """
    found = subject(call, full_id(call, task_id))
    reader = call.client().reader
    veil, autopsies = veil_of(reader, found.view), found.autopsies
    task, attempts = veil.task(found.view), veil.attempts(found.attempts)
    trail = veil.history(found.history)
    steps = ladder(task, trail, attempts)
    roll = roll_call(reader)
    waits = waits_for(reader, task, roll)
    progress = _progress(reader, task, roll)
    checkpoint = checkpoint_document(veil.checkpoint(found.checkpoint))
    document = {
        **dict(_fields(task)),
        "trace_id": _trace_id(task, attempts),
        "node_gone": roll.gone_node(task) is not None,
        "waits": waits,
        "progress": progress,
        "checkpoint": checkpoint,
        "params": json.loads(task.params_json),
        "result": None if task.result_json is None else json.loads(task.result_json),
        "attempts": [_attempt_document(attempt) for attempt in attempts],
        "cancel": steps,
        "autopsies": autopsies,
        "archived": found.is_archived,
        "files": found.files,
    }

    def lines() -> Iterator[str]:
        yield from _task_lines(task, roll)
        if trace_id := document["trace_id"]:
            yield f"  trace      {trace_id}"
        yield from source_lines(found)
        yield from _follow_lines(task, trail, attempts)
        if checkpoint is not None:
            by = f"attempt {checkpoint['attempt']}, {clock(checkpoint['at'])}"
            yield f"  checkpoint {checkpoint['value']} ({by})"
        yield from (f"  waits      {plain(why, keep='')}" for why in waits)
        for attempt in attempts:
            yield from _attempt_lines(attempt)
            if progress is not None and attempt.ended_at is None:
                yield f"  progress   {progress}"
            yield from _ladder_lines(s for s in steps if s.attempt == attempt.attempt)
        yield from _autopsy_lines(autopsies)

    call.answer(document, lines)


@command(example="supervisor history 8823134a --json")
@click.argument("task_id", metavar="ID")
def history(call: Call, task_id: str) -> None:
    """Print the audit trail of a task.

    Every move with its operator, reason and time, oldest first; notes move nothing.
    """
    from supervisor.client import unknown_task

    task_id = full_id(call, task_id)
    trail, files = trail_of(call, task_id)
    if not trail:
        raise unknown_task(task_id)

    def lines() -> Iterator[str]:
        rows = [
            (
                clock(line.at),
                _move(line),
                "-" if line.attempt is None else str(line.attempt),
                cell(line.operator, 30),
                cell(line.reason),
                cell(line.note, 120),
            )
            for line in trail
        ]
        yield from columns(("TIME", "MOVE", "ATTEMPT", "OPERATOR", "REASON", "NOTE"), rows)
        yield from (f"from {plain(file)}" for file in files)

    call.answer({"history": trail, "files": files}, lines)


def _trace_id(task: TaskView, attempts: Sequence[AttemptView]) -> str | None:
    """Return the trace that the task is part of, as it was submitted or as its node wrote it."""
    places = (task.traceparent, *(attempt.traceparent for attempt in attempts))
    return next((trace_id_of(place) for place in places if place), None)


def _progress(reader: Reader, task: TaskView, roll: Roll) -> Progress | None:
    """Return what the attempt that runs reports, if it runs on this host."""
    if task.state is not State.RUNNING or task.assigned or not roll.runs_here(task):
        return None
    workers = {worker.worker_id: worker for worker in reader.workers(task.node_id)}
    worker = workers.get(task.worker_id or "")
    return None if worker is None else live_progress(reader.store, worker, task)


def _move(line: HistoryLine) -> str:
    if line.to_state is None:
        return "note"
    return f"{line.from_state or '·'} → {state_text(line.to_state)}"


def _fields(task: TaskView) -> Iterator[tuple[str, Any]]:
    for name, value in fields_of(task).items():
        if name not in {"params_json", "result_json"}:
            yield name, value


def _attempt_document(attempt: AttemptView) -> dict[str, Any]:
    document = fields_of(attempt)
    del document["result_json"]
    result = attempt.result_json
    return {**document, "result": None if result is None else json.loads(result)}


def _task_lines(task: TaskView, roll: Roll) -> Iterator[str]:
    yield f"{task.task_id}  {state_text(task.state)}  {cell(task.reason)}"
    if task.assigned:
        yield "  assigned, not started yet"
    gone = roll.gone_node(task)
    facts = (
        ("node", gone and f"{last_word(gone)}: RUNNING is its last word; {roll.judged}"),
        ("runs on", roll.far_host(task)),
        ("type", task.type),
        ("queue", f"{task.queue}, priority {task.priority}"),
        ("submitted", f"{clock(task.created_at)} by {task.submitted_by or '-'}"),
        ("due", clock(task.run_after) if task.state is State.PENDING else None),
        ("ended", None if task.ended_at is None else clock(task.ended_at)),
        ("attempts", f"{task.attempt}, {task.retry_count} retries, {task.crash_count} crashes"),
        ("dedup key", task.dedup_key),
        ("tags", ", ".join(task.tags)),
        ("parent", task.parent_id),
        ("params", task.params_json),
        ("result", task.result_json),
    )
    for name, value in facts:
        if value not in (None, ""):
            yield f"  {name:<10} {cell(value, 500)}"


def _follow_lines(
    task: TaskView, trail: Sequence[HistoryLine], attempts: Sequence[AttemptView]
) -> Iterator[str]:
    """Say what holds and what follows: limits, who canceled it, how it runs again."""
    yield f"  limits     {limits(task, attempts)}"
    if task.state is State.CANCELED and (who := who_canceled(trail)):
        yield f"  end        {cell(who, 500)}"
    if ended := for_good(task, by_command(task)):
        yield f"  {ended[0]}: {ended[1]}"


def _attempt_lines(attempt: AttemptView) -> Iterator[str]:
    ended = attempt.outcome or (State.RUNNING if attempt.ended_at is None else "-")
    yield f"attempt {attempt.attempt}  {state_text(ended)}  {cell(attempt.reason)}"
    yield f"  {_when(attempt)}; worker {cell(attempt.worker_id)} (pid {attempt.pid})"
    for name, value in (
        ("verdict", attempt.verdict),
        ("error", naming_limit(_error(attempt), attempt)),
        ("proof", attempt.proof),
        ("note", note(attempt)),
        ("progress", last_progress(attempt)),
        ("usage", usage(attempt)),
    ):
        if value:
            yield f"  {name:<10} {cell(value, 500)}"
    if attempt.effects_unknown:
        yield "  effects    unknown: its process was ended while it ran"
    if attempt.traceback:
        yield from (f"    {plain(line)}" for line in attempt.traceback.splitlines())


def _when(attempt: AttemptView) -> str:
    if attempt.started_at is None:
        return f"claimed {clock(attempt.claimed_at)}, never started"
    if attempt.ended_at is None:
        return f"started {clock(attempt.started_at)}"
    ran = (attempt.ended_at - attempt.started_at).total_seconds()
    most = "at most " if attempt.reason == Reason.NODE_LOST else ""  # it ended when nobody looked
    return f"started {clock(attempt.started_at)}, ran {most}{span(ran)}"


def _error(attempt: AttemptView) -> str | None:
    if attempt.error is None:
        return attempt.error_type
    return f"{attempt.error_type}: {attempt.error}" if attempt.error_type else attempt.error


def _ladder_lines(steps: Iterable[Step]) -> Iterator[str]:
    for number, step in enumerate(steps):
        if number == 0:
            yield "  stop request"
        who = f"{cell(step.by, 30)}  {cell(step.note)}"
        yield f"    {clock(step.at)}  {step.step}  {who}"


def _autopsy_lines(autopsies: Sequence[AutopsyRecord]) -> Iterator[str]:
    for one in autopsies:
        yield (
            f"autopsy {cell(one.autopsy_id)}  attempt {one.attempt}  {cell(diagnosis(one))}  "
            f"{one.status}, {size(one.bytes)}, {span(one.ms / 1000)}"
        )
