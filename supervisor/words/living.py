"""Finding the process that runs a task, if it runs on this host, and reading its live signs.

Invariant: a process is only taken for the worker when its pid *and* start time are those the store
has, so that a later process of the same pid is never read or captured by mistake.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from supervisor.clock import SystemClock
from supervisor.errors import Refused
from supervisor.model.states import State
from supervisor.words.roll import Roll, last_word, roll_call
from supervisor.words.text import figure, span

if TYPE_CHECKING:
    from supervisor.store import Reader, Store, TaskLine, TaskView, WorkerRecord
    from supervisor.worker.vitals import Calling, Reading, Vitals

CHUNK_BYTES = 64 * 1024
# The row's start is the worker's own, put on the wall clock by the node: microseconds apart.
START_TOLERANCE_S = 0.02
# The time of a server, which the node and we each have measured over a network.
SHARED_TOLERANCE_S = 0.1
FDS_MAX = 4096  # a leaking task may hold any number; ours are among the first


def living_worker(reader: Reader, task: TaskView, command: str) -> WorkerRecord:
    """Return the worker that runs this task, proven to be a process of this host.

    Raises: Refused saying why there is none to look at, or where to run the command.
    """
    from supervisor.worker.presence import lives

    if task.state is not State.RUNNING or task.worker_id is None:
        raise Refused(
            f"{task.task_id} is {task.state}: no process runs it",
            remedy="Its kept output and autopsies are in `supervisor logs` and `supervisor show`.",
        )
    roll = roll_call(reader)
    if roll.runs_here(task):
        workers = reader.workers(task.node_id)
        worker = next((one for one in workers if one.worker_id == task.worker_id), None)
        if worker is not None and lives(worker.pid, worker.start_ticks):
            return worker
    raise _no_process(task, roll, command)


def _no_process(task: TaskView, roll: Roll, command: str) -> Refused:
    gone = roll.gone_node(task)
    if gone is not None:
        return Refused(
            f"the node of {task.task_id} is {last_word(gone)}, and its worker with it",
            remedy=f"There is no process to look at: {roll.judged}.",
            node_id=task.node_id,
        )
    host = roll.far_host(task)
    if host is None:
        return Refused(
            f"the worker of {task.task_id} is no process of this host any more",
            remedy=f"Ask again: node {task.node_id} will say how it ended.",
            node_id=task.node_id,
        )
    return Refused(
        f"{task.task_id} runs on host {host} (or in another container of this one)",
        remedy=f"Run it there: `supervisor {command} {task.task_id}`.",
        node_id=task.node_id,
        node_name=host,
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running attempt says it is; None for what it did not say.

    `still_s` is how long ago that changed, or, when it never said anything, its start; `waits`
    says which service it has called that has not answered.
    """

    done: float | None
    total: float | None
    still_s: float
    waits: str = ""

    def __str__(self) -> str:
        waits = f"; {self.waits}" if self.waits else ""
        if self.done is None:
            return f"none reported{waits}"
        share = figure(self.done)
        if self.total is not None:
            share += f" of {figure(self.total)}"
        return f"{share}, {span(self.still_s)} ago{waits}"


def live_progress(store: Store, worker: WorkerRecord, task: TaskLine) -> Progress | None:
    """Return what an attempt of a node on this host reports now; None when it cannot be seen."""
    seen = _look(store, worker, task)
    return None if seen is None else _progress(*seen)


def live_signs(store: Store, worker: WorkerRecord, task: TaskLine) -> Reading | None:
    """Return the signs of an attempt of a node on this host; None when they cannot be seen."""
    seen = _look(store, worker, task)
    return None if seen is None else seen[0]


def _look(
    store: Store, worker: WorkerRecord, task: TaskLine
) -> tuple[Reading, Calling | None] | None:
    from supervisor.worker import vitals
    from supervisor.worker.presence import lives

    if not lives(worker.pid, worker.start_ticks):
        return None
    fd = _open_memfd(worker.pid, vitals.NAME, os.O_RDWR)  # a map of it asks for both
    if fd is None:
        return None
    try:
        signs = vitals.Vitals(fd)
    finally:
        os.close(fd)
    try:
        calls = signs.read_calling()
        seen = signs.read()
    finally:
        signs.close()
    return (seen, calls) if seen.seq and _is_start_of(store, task, seen) else None


def _progress(seen: Reading, calls: Calling | None) -> Progress:
    now = SystemClock().mono()
    still_s = round(max(0.0, now - seen.progress_changed_ns / 1e9), 3)
    waits = ""
    if calls is not None:
        others = f" (and {calls.number - 1} more)" if calls.number > 1 else ""
        waits = f"in ctx.call({calls.service!r}) for {span(now - calls.since_ns / 1e9)}{others}"
    if not seen.progress_changes or not math.isfinite(seen.progress_done):
        return Progress(None, None, still_s, waits)
    total = seen.progress_total if math.isfinite(seen.progress_total) else None
    return Progress(seen.progress_done, total or None, still_s, waits)


@dataclass(slots=True)
class LiveOutput:
    """The output of the attempt a worker runs now; keeps working when the worker dies.

    `cut` becomes true when the worker has gone through more attempts since the last read than can
    be told apart: what this one wrote last is then unknown.
    """

    fd: int
    vitals: Vitals
    opened: Reading
    position: int
    cut: bool = False

    def read(self) -> bytes:
        """Return what has come since the last read, without that of a later attempt."""
        size = os.fstat(self.fd).st_size  # before the signs: a later attempt shows there first
        now = self.vitals.read()
        if now.last_seq == self.opened.last_seq:
            end = size
        elif now.finished == self.opened.finished + 1:
            end = now.output_start
        else:
            end, self.cut = self.position, True
        wanted = min(CHUNK_BYTES, end - self.position)
        chunk = os.pread(self.fd, wanted, self.position) if wanted > 0 else b""
        self.position += len(chunk)
        return chunk


@contextmanager
def live_output(
    store: Store, worker: WorkerRecord, task: TaskView, tail_bytes: int
) -> Iterator[LiveOutput]:
    """Open the output of a started task, from at most `tail_bytes` before its end.

    Raises: Refused when this user may not read it, or the worker has gone on to another task.
    """
    from autopsy.memfd import OUTPUT
    from supervisor.worker import vitals

    with ExitStack() as stack:
        output = _open_memfd(worker.pid, OUTPUT, os.O_RDONLY)
        stack.callback(_close, output)
        signs_fd = _open_memfd(worker.pid, vitals.NAME, os.O_RDWR)  # a map of it asks for both
        stack.callback(_close, signs_fd)
        if output is None or signs_fd is None:
            raise Refused(
                f"the output of worker {worker.worker_id} (pid {worker.pid}) cannot be opened",
                remedy="Run the command as the user that the node runs as.",
                pid=worker.pid,
            )
        signs = vitals.Vitals(signs_fd)
        stack.callback(signs.close)
        opened = signs.read()
        if opened.seq == 0 or not _is_start_of(store, task, opened):
            raise Refused(
                f"the worker of {task.task_id} has gone on to another task",
                remedy="Ask again: the store will say how this one ended.",
            )
        begin = max(opened.output_start, os.fstat(output).st_size - tail_bytes)
        yield LiveOutput(output, signs, opened, begin)


def _is_start_of(store: Store, task: TaskLine, signs: Reading) -> bool:
    """Say whether the attempt the worker is in started when the store says this one did."""
    if task.started_at is None:
        return False
    age_s = store.clock.mono() - signs.started_ns / 1e9
    off_s = (store.clock.now() - task.started_at).total_seconds() - age_s
    return abs(off_s) <= (SHARED_TOLERANCE_S if store.is_shared else START_TOLERANCE_S)


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)


def _open_memfd(pid: int, name: str, flags: int) -> int | None:
    """Open the memfd of this name that a process has; None if it has none or we may not."""
    from autopsy.collect.procfs import links

    for number, target in links(pid, FDS_MAX):
        if target.split(" (deleted)")[0] == f"/memfd:{name}":
            try:
                return os.open(f"/proc/{pid}/fd/{number}", flags | os.O_CLOEXEC)
            except OSError:
                return None
    return None
