"""`supervisor top`: nodes, workers and running tasks, once or live."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import click

from supervisor.cli.call import Call, command, fields_of
from supervisor.cli.five import Counted, Five, five_numbers
from supervisor.cli.text import cell, columns, state_text
from supervisor.clock import SystemClock
from supervisor.model.states import State
from supervisor.words.living import Progress, live_progress
from supervisor.words.roll import Roll, roll_call
from supervisor.words.text import ago
from supervisor.words.waiting import paused

if TYPE_CHECKING:
    from supervisor.store import Reader, TaskLine, WorkerRecord
    from supervisor.store.view import NodeView, PauseView

RUNNING_MAX = 200
#: On a narrower terminal a task is called by the end of its id: every command takes that.
WHOLE_IDS_WIDTH, END_DIGITS = 120, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """What there is to see at one moment. Ended nodes and workers are left out.

    A node that was killed is among the nodes until its successor writes down its end; its workers
    went with it.
    """

    at: datetime
    in_queue: int
    by_state: dict[str, int]
    nodes: list[NodeView]
    workers: list[WorkerRecord]
    running: list[TaskLine]
    pauses: list[PauseView]
    progress: dict[str, Progress]
    roll: Roll
    five: Five

    def document(self) -> dict[str, object]:
        """Return it for programs."""
        return {
            "at": self.at,
            "in_queue": self.in_queue,
            "by_state": self.by_state,
            "numbers": self.five.document(),
            "nodes": [{**fields_of(n), "gone": n.node_id in self.roll.gone} for n in self.nodes],
            "workers": self.workers,
            "pauses": self.pauses,
            "running": [
                {
                    **fields_of(task),
                    "node_gone": self.roll.gone_node(task) is not None,
                    "progress": self.progress.get(task.task_id),
                }
                for task in self.running
            ],
        }


@command(example="supervisor top --every 2")
@click.option(
    "--every",
    type=click.FloatRange(min=0.2),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often a terminal is redrawn.",
)
def top(call: Call, every: float) -> None:
    """Watch nodes, workers and running tasks.

    Redraws a terminal until interrupted; with --json or into a pipe it prints once.
    """
    reader = call.client().reader
    if call.as_json or not sys.stdout.isatty():
        shot = _take(reader)
        call.answer(shot.document(), lambda: _lines(shot, RUNNING_MAX))
    else:
        with suppress(KeyboardInterrupt):  # how a person leaves it
            _watch(reader, every)


def _take(reader: Reader, counted: Counted | None = None) -> Shot:
    from supervisor.store import TaskFilter

    now = reader.store.clock.now()
    counts = reader.counts(now)
    roll = roll_call(reader)
    killed = [node for node in roll.gone.values() if node.ended_at is None]
    workers = [
        worker
        for node in roll.running
        for worker in reader.workers(node.node_id)
        if worker.ended_at is None
    ]
    wanted = TaskFilter(states=(State.RUNNING,), limit=RUNNING_MAX)
    running = sorted(reader.tasks(wanted).tasks, key=lambda task: task.claimed_at or now)
    by_id = {worker.worker_id: worker for worker in workers}
    owned = [
        (task, by_id[task.worker_id or ""])
        for task in running
        if task.worker_id in by_id and roll.runs_here(task)
    ]
    seen = {task.task_id: live_progress(reader.store, worker, task) for task, worker in owned}
    return Shot(
        at=now,
        in_queue=counts.in_queue,
        by_state={str(state): count for state, count in counts.by_state.items()},
        nodes=[*roll.running, *killed],
        workers=workers,
        running=running,
        pauses=reader.every_pause(),
        progress={task_id: one for task_id, one in seen.items() if one is not None},
        roll=roll,
        five=five_numbers(reader.store, now, counts.in_queue, roll, counted),
    )


def _lines(shot: Shot, room: int, width: int = WHOLE_IDS_WIDTH) -> Iterator[str]:
    counts = "  ".join(f"{state_text(state)} {n}" for state, n in shot.by_state.items())
    yield f"in queue {shot.in_queue}  {counts}"
    yield from (cell(paused(pause), 200) for pause in shot.pauses)
    yield shot.five.line()
    yield ""
    rows = [
        (
            cell(node.node_name, 30),
            str(node.pid),
            "gone" if node.node_id in shot.roll.gone else ago(node.started_at, shot.at),
            str(sum(worker.node_id == node.node_id for worker in shot.workers)),
            str(node.running),
            cell(node.listen),
        )
        for node in shot.nodes
    ]
    head = ("NODE", "PID", "UP", "WORKERS", "RUNNING", "LISTENS")
    if rows:
        yield from columns(head, rows)
    if not shot.roll.running:
        yield "no node runs: start one with `supervisor run`"
    yield ""
    digits = 0 if width >= WHOLE_IDS_WIDTH else END_DIGITS
    tasks = [_task_row(task, shot, digits) for task in shot.running[:room]]
    over = ("TASK", "TYPE", "ATTEMPT", "RUNS FOR", "PROGRESS", "NOTE", "WORKER")
    yield from columns(over, tasks) if tasks else ["no task runs"]
    if len(shot.running) > room:
        yield f"… and {len(shot.running) - room} more"
    yield from _idle_lines(shot, room)


def _idle_lines(shot: Shot, room: int) -> Iterator[str]:
    """Name the idle workers; a pid means something on its own host only."""
    busy = {task.worker_id for task in shot.running}
    idle = [worker for worker in shot.workers if worker.worker_id not in busy][:room]
    for node in shot.roll.running:
        pids = [str(worker.pid) for worker in idle if worker.node_id == node.node_id]
        if pids:
            on = "" if len(shot.roll.running) == 1 else f" on {cell(node.node_name, 30)}"
            yield f"idle workers{on}: {', '.join(pids)}"


def _task_row(task: TaskLine, shot: Shot, digits: int) -> tuple[str, ...]:
    note = "assigned" if task.assigned else task.verdict
    if task.mark is not None:
        note = f"{task.mark.kind} asked by {task.mark.by}"
    gone = shot.roll.gone_node(task) is not None
    if gone:
        note = "node gone"
    return (
        f"…{cell(task.task_id)[-digits:]}" if digits else cell(task.task_id),
        cell(task.type, 40),
        str(task.attempt),
        "-" if gone else ago(task.started_at, shot.at),
        cell(shot.progress.get(task.task_id), 40),
        cell(note),
        cell(task.worker_id, 40),
    )


def _watch(reader: Reader, every: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    clock, counted = SystemClock(), Counted()
    console = Console()  # knows NO_COLOR by itself
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            room = max(3, console.height - 12)
            text = "\n".join(_lines(_take(reader, counted), room, console.width))
            shown = Text.from_ansi(text, no_wrap=True, overflow="ellipsis")
            live.update(shown, refresh=True)
            clock.sleep(every)
