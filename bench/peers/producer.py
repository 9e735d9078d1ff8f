"""The program that submits, in the environment of its queue: `python -m bench.peers.producer NAME`.

One request a line on stdin, one answer a line on stdout, both JSON. It measures only what it does
itself; what the workers do is measured from outside.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol


class Queue(Protocol):
    """What `connect()` of an adapter returns."""

    def enqueue(self, body: str, what: str) -> object:
        """Submit one task and return its id."""


class Producer:
    """The requests. Those with an id are for adapters that can do more than enqueue."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def fill(self, tasks: int) -> dict[str, float]:
        """Submit that many no-ops, one by one."""
        began, cpu = time.perf_counter(), time.process_time()
        for number in range(tasks):
            self._queue.enqueue("noop", str(number))
        return {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}

    def pace(self, name: str, tasks: int, every_s: float) -> list[int]:
        """Submit one stamp at a time; return when each call began, in monotonic nanoseconds."""
        called = []
        first = time.monotonic()
        for number in range(tasks):
            time.sleep(max(0.0, first + number * every_s - time.monotonic()))
            called.append(time.monotonic_ns())
            self._queue.enqueue("stamp", f"{name}{number}")
        return called

    def submit(self, body: str, what: str, **options: Any) -> object:
        """Submit one task and return its id."""
        return self._queue.enqueue(body, what, **options)

    def cancel(self, task: Any) -> object:
        """Ask a running task to stop."""
        return self._queue.cancel(task)

    def record(self, task: Any) -> object:
        """Return what the queue has on record of a task."""
        return self._queue.record(task)


def _serve(producer: Producer, answer: Callable[[object], None]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        answer(getattr(producer, request.pop("do"))(**request))


def main() -> int:
    """Answer requests until stdin closes."""
    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not get between
    os.dup2(2, 1)

    def answer(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    producer = Producer(importlib.import_module(f"bench.peers.adapters.{sys.argv[1]}").connect())
    answer("ready")
    _serve(producer, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
