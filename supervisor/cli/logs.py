"""`supervisor logs`: what an attempt wrote, kept or live."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from supervisor.cli.call import Call, command
from supervisor.cli.cold import Subject, subject
from supervisor.cli.ids import full_id
from supervisor.clock import SystemClock
from supervisor.errors import Refused
from supervisor.model.states import Reason, State
from supervisor.words.text import plain

if TYPE_CHECKING:
    from supervisor.store import TaskView
    from supervisor.store.view import AttemptView
    from supervisor.words.living import LiveOutput

POLL_S = 0.2  # soon enough for a person, and 5 system calls a second
#: Characters of a line that is waited for.
LINE_MAX = 64 * 1024


@command(example="supervisor logs 8823134a --follow")
@click.argument("task_id", metavar="ID")
@click.option("--attempt", type=click.IntRange(min=1), help="Which run. [default: the latest]")
@click.option("--follow", is_flag=True, help="Go on printing while it runs on this host.")
def logs(call: Call, task_id: str, attempt: int | None, follow: bool) -> None:
    """Print what an attempt wrote.

    Output is kept for attempts that did not succeed. A running attempt is read live if its node
    is on this host. With --follow --json each piece is one JSON line.
    """
    found = subject(call, full_id(call, task_id))
    task = found.view
    if attempt is not None and attempt > task.attempt:
        raise Refused(
            f"{task.task_id} has no attempt {attempt}: its latest is number {task.attempt}",
            remedy=f"`supervisor show {task.task_id}` lists its attempts.",
        )
    running = task.state is State.RUNNING and attempt in (None, task.attempt)
    if running:
        try:
            _live(call, task, follow=follow)
        except Refused as exc:
            _say(f"{exc.message}; printing what is kept")
            found = subject(call, task.task_id)  # it may have ended meanwhile
            if "node_name" in exc.facts:
                _say(exc.remedy)
        else:
            return
    elif follow:
        _say(f"{task.task_id} is {task.state}: there is nothing to follow; printing what is kept")
    _kept(call, found, attempt)


def _kept(call: Call, found: Subject, attempt: int | None) -> None:
    task = found.view
    runs = [one for one in found.attempts if attempt in (None, one.attempt)]
    kept = ((one.attempt, found.log(one.attempt)) for one in reversed(runs))
    latest = runs[-1].attempt if runs else attempt
    attempt, text = next(((number, text) for number, text in kept if text), (latest, None))
    if not text:
        _say(_why_empty(task, runs))
    document = {"task_id": task.task_id, "attempt": attempt, "live": False, "text": text or ""}
    call.answer(document, lambda: [_shown(text)] if text else [])


def _why_empty(task: TaskView, runs: Sequence[AttemptView]) -> str:
    """Say why no output is kept of these attempts; the latest speaks for all."""
    if not runs:
        return f"{task.task_id} has not run yet"
    latest = runs[-1]
    what = f"attempt {latest.attempt}"
    if latest.ended_at is None:
        return f"nothing is kept of {what} before it has ended"
    if latest.reason == Reason.NODE_LOST:
        return f"the output of {what} was lost with its node"
    if latest.outcome is State.SUCCESS:
        return f"nothing is kept of {what}: it succeeded"
    if latest.started_at is None:
        return f"{what} never started"
    return f"{what} printed nothing"


def _live(call: Call, task: TaskView, *, follow: bool) -> None:
    from supervisor.words.living import live_output, living_worker
    from supervisor.words.veil import veil_of

    task = _once_started(call, task, wait=follow)
    worker = living_worker(call.client().reader, task, "logs")
    if task.started_at is None:
        raise Refused(f"{task.task_id} is assigned and has not started")
    store = call.client().reader.store
    with live_output(store, worker, task, call.settings.log_tail_bytes) as output:
        if follow:
            _follow(call, task, output)
        else:
            shown = _all(output).decode("utf-8", "replace")
            text = veil_of(call.client().reader, task).text(shown) or ""
            document = {"task_id": task.task_id, "attempt": task.attempt, "live": True}
            call.answer({**document, "text": text}, lambda: [_shown(text)] if text else [])


def _once_started(call: Call, task: TaskView, *, wait: bool) -> TaskView:
    clock = SystemClock()
    while wait and task.assigned:
        clock.sleep(POLL_S)
        task = call.client().view(task.task_id)
    return task


def _all(output: LiveOutput) -> bytes:
    pieces = list(iter(output.read, b""))
    return b"".join(pieces).lstrip(b"\0")  # what was trimmed away reads as zero bytes


def _follow(call: Call, task: TaskView, output: LiveOutput) -> None:
    from supervisor.words.veil import veil_of

    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    clock, veil = SystemClock(), veil_of(call.client().reader, task)
    over, rest = False, ""
    while True:
        chunk = output.read().lstrip(b"\0")
        # A line is shown when it is whole, or nothing more has come: half a secret looks like none.
        whole, end, rest = (rest + decode(chunk)).rpartition("\n")
        if not chunk or len(rest) > LINE_MAX:
            whole, end, rest = whole + end + rest, "", ""
        _print(call, task, veil.text(whole + end) or "")
        if chunk:
            continue
        if over:
            if output.cut:
                _say("its worker went on quickly: the last lines may be missing")
            return
        clock.sleep(POLL_S)
        now = call.client().view(task.task_id)
        over = now.state is not State.RUNNING or now.attempt != task.attempt


def _print(call: Call, task: TaskView, text: str) -> None:
    if not text:
        return
    if call.as_json:
        text = json.dumps({"task_id": task.task_id, "attempt": task.attempt, "text": text}) + "\n"
    elif sys.stdout.isatty():
        text = plain(text)
    click.echo(text, nl=False)


def _shown(text: str) -> str:
    """Return output as it is for a pipe, and without control characters for a terminal."""
    return plain(text).rstrip("\n") if sys.stdout.isatty() else text.rstrip("\n")


def _say(text: str) -> None:
    click.echo(f"note: {plain(text)}", err=True)
