"""Finding the process that runs a task, if it runs on this host, and reading its live output.

Invariant: a process is only taken for the worker when its pid *and* start time are those the store
has, so that a later process of the same pid is never read or captured by mistake.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from supervisor.errors import Refused
from supervisor.model.states import State

if TYPE_CHECKING:
    from supervisor.store import Reader, TaskView, WorkerRecord
    from supervisor.worker.vitals import Vitals

CHUNK_BYTES = 64 * 1024


def living_worker(reader: Reader, task: TaskView) -> WorkerRecord:
    """Return the worker that runs this task, proven to be a process of this host.

    Raises: Refused saying why there is none to look at.
    """
    from autopsy.collect.procfs import start_ticks

    if task.state is not State.RUNNING or task.worker_id is None:
        raise Refused(
            f"{task.task_id} is {task.state}: no process runs it",
            remedy="Its kept output and autopsies are in `supervisor logs` and `supervisor show`.",
        )
    workers = reader.workers(task.node_id)
    worker = next((one for one in workers if one.worker_id == task.worker_id), None)
    if worker is None or start_ticks(worker.pid) != worker.start_ticks:
        raise Refused(
            f"the worker of {task.task_id} is no process of this host",
            remedy=f"Run the command on the host of node {task.node_id}.",
            node_id=task.node_id,
        )
    return worker


@dataclass(slots=True)
class LiveOutput:
    """The output of the attempt a worker runs now; keeps working when the worker dies."""

    fd: int
    vitals: Vitals
    start: int
    position: int

    def read(self) -> bytes:
        """Return what has come since the last read, without that of a later attempt."""
        started = self.vitals.read().output_start
        end = started if started > self.start else self.position + CHUNK_BYTES
        chunk = os.pread(self.fd, max(0, min(CHUNK_BYTES, end - self.position)), self.position)
        self.position += len(chunk)
        return chunk


@contextmanager
def live_output(worker: WorkerRecord, tail_bytes: int) -> Iterator[LiveOutput]:
    """Open the output of a worker's attempt, from at most `tail_bytes` before its end.

    Raises: Refused when this user may not read it.
    """
    from autopsy.collect.record import open_memfd
    from autopsy.memfd import OUTPUT
    from supervisor.worker import vitals

    output = open_memfd(worker.pid, OUTPUT)
    signs_fd = open_memfd(worker.pid, vitals.NAME, os.O_RDWR)
    if output is None or signs_fd is None:
        for fd in (output, signs_fd):
            if fd is not None:
                os.close(fd)
        raise Refused(
            f"the output of worker {worker.worker_id} (pid {worker.pid}) cannot be opened",
            remedy="Run the command as the user that the node runs as.",
            pid=worker.pid,
        )
    try:
        signs = vitals.Vitals(signs_fd)
        try:
            start = signs.read().output_start
            begin = max(start, os.fstat(output).st_size - tail_bytes)
            yield LiveOutput(output, signs, start, begin)
        finally:
            signs.close()
    finally:
        os.close(signs_fd)
        os.close(output)
