"""What a task body is handed as `ctx`: progress, cancel, checkpoint, children, scratch space, log,
and what it says of its own work.

Cheap enough to call in a loop: progress and ticks are stores into shared memory, counts additions
to a sum. The context is valid for one attempt only.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from supervisor.clock import mono_ns
from supervisor.errors import (
    Interruption,
    InvalidSpec,
    Problem,
    Refused,
    TaskCanceled,
    UnknownTaskType,
)
from supervisor.model.spec import json_problems, parse_spec
from supervisor.model.trace import log_ids
from supervisor.telemetry.trace import carried
from supervisor.worker.tally import Tally
from supervisor.worker.vitals import Vitals
from supervisor.worker.wire import Assign

CHECKPOINT_MAX_BYTES = 64 * 1024

T = TypeVar("T")


class Line(Protocol):
    """What the context needs of the worker that runs the attempt."""

    vitals: Vitals
    temp_dir: Path

    def wish(self) -> Interruption | None:
        """Return what the attempt was asked to do, as the exception that says so."""

    def acknowledge(self) -> None:
        """Note that the body has seen the wish."""

    def knows(self, type_name: str) -> bool:
        """Say whether the app has this task type."""

    def save_checkpoint(self, value_json: str) -> None:
        """Send a checkpoint to the node."""

    def submit_child(self, spec_json: str, *, on_success: bool) -> str | None:
        """Send a child task; return its id, or None when it waits for success."""

    def tally(self, seq: int, type_name: str, complain: Callable[[str], None]) -> Tally:
        """Return where the attempt `seq` gathers what it says; of one that is over nobody hears."""


class TaskContext:
    """One attempt's view of itself."""

    def __init__(self, assign: Assign, line: Line) -> None:
        self._line = line
        self._vitals = line.vitals
        self._seq = assign.seq
        self.task_id = assign.task_id
        self.attempt = assign.attempt
        self.type = assign.type
        self.timeout = assign.timeout
        self.submitted_by = assign.submitted_by
        self.dedup_key = assign.dedup_key
        self.traceparent = assign.traceparent
        self._checkpoint_json = assign.checkpoint_json
        self._tally: Tally | None = None
        self.log = logging.LoggerAdapter(
            logging.getLogger("supervisor.task"),
            {
                "task_id": assign.task_id,
                "attempt": assign.attempt,
                **log_ids(assign.traceparent),
            },
        )

    @property
    def last_checkpoint(self) -> Any:
        """The value an earlier attempt saved with `checkpoint`, None if there is none."""
        return None if self._checkpoint_json is None else json.loads(self._checkpoint_json)

    @property
    def tempdir(self) -> Path:
        """A directory of this worker, emptied when the attempt is over, however it ends."""
        return self._line.temp_dir

    @property
    def canceled(self) -> bool:
        """Whether the attempt has been asked to stop (cancel, soft time limit, node stop)."""
        if self._is_over():
            return True
        self._vitals.tick()
        return self._line.wish() is not None

    def check(self) -> None:
        """Leave the body here if it was asked to stop.

        Raises: TaskCanceled, SoftTimeout or ShutdownRequested (none of them is an Exception).
        """
        if self._is_over():
            raise TaskCanceled("the attempt is over")
        self._vitals.tick()
        wish = self._line.wish()
        if wish is not None:
            self._line.acknowledge()
            raise wish

    def progress(self, done: float, total: float = 0) -> None:
        """Report how much of the work is done; only a changed value counts as progress."""
        if not self._is_over():
            self._vitals.tick()
            self._vitals.progress(float(done), float(total), mono_ns())

    def _is_over(self) -> bool:
        """Whether a thread of an attempt that has ended still holds this context."""
        return self._vitals.current() != self._seq

    def _require_running(self) -> None:
        if self._is_over():
            raise Refused(
                f"attempt {self.attempt} of {self.task_id} is over",
                remedy="End the threads of a task before its body returns.",
            )

    def track(self, items: Iterable[T], total: int | None = None) -> Iterator[T]:
        """Yield the items, with a progress report and a `check` before each."""
        size = total if total is not None else len(items) if isinstance(items, Sized) else 0
        done = 0
        for item in items:
            self.check()
            self.progress(done, size)
            yield item
            done += 1
        self.progress(done, size)

    def count(self, name: str, n: float = 1) -> None:
        """Add to what this type of task counts (rows, mails …); made for loops.

        Neither this nor the three below ever raise: what they cannot take is told in the log.
        """
        (self._tally or self._begin_tally()).count(name, n)

    def error_code(self, code: str | int) -> None:
        """Count an error by its code: one that the task has met, whether it fails by it or not."""
        (self._tally or self._begin_tally()).error_code(code)

    def step(self, name: str) -> AbstractContextManager[None]:
        """Measure the time of a step of the work: `with ctx.step("render"):`."""
        return (self._tally or self._begin_tally()).step(name)

    def call(self, service: str) -> AbstractContextManager[None]:
        """Measure time and health of another service: `with ctx.call("payments"):`.

        An exception that leaves the block counts as an error of the service.
        """
        return (self._tally or self._begin_tally()).call(service)

    def _begin_tally(self) -> Tally:
        self._tally = self._line.tally(self._seq, self.type, self.log.error)
        return self._tally

    def checkpoint(self, value: Any) -> None:
        """Save a JSON value for the next attempt of this task (`last_checkpoint` there).

        Raises: InvalidSpec when it is not JSON or larger than 64 KiB.
        """
        self._require_running()
        problems = json_problems(value, "checkpoint")
        if problems:
            raise InvalidSpec(problems)
        encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        size = len(encoded.encode())
        if size > CHECKPOINT_MAX_BYTES:
            raise InvalidSpec([_too_large(size)])
        self._line.save_checkpoint(encoded)

    def submit(self, type: str, *, on_success: bool = False, **fields: Any) -> str | None:
        """Submit a task from this one: now, or with `on_success` only if this attempt succeeds.

        Returns: the id of the new (or, by dedup key, existing) task; None with `on_success`.
        Raises: InvalidSpec, UnknownTaskType, or Refused with the node's words.
        """
        self._require_running()
        spec = {"type": type, **fields}
        if spec.get("traceparent") is None and (place := carried()) is not None:
            spec["traceparent"] = place
        problems = json_problems(spec, "spec")
        if problems:
            raise InvalidSpec(problems)
        parse_spec(spec)  # refused here, field by field, before anything is sent
        if not self._line.knows(type):
            raise UnknownTaskType(
                f"no task type {type!r} in this app", remedy="Register it with @app.task."
            )
        return self._line.submit_child(json.dumps(spec, ensure_ascii=False), on_success=on_success)


def _too_large(size: int) -> Problem:
    return Problem("checkpoint", f"is {size} bytes as JSON, the most is {CHECKPOINT_MAX_BYTES}")
