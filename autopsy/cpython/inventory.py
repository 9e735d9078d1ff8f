"""The heap of a process counted and its large containers named: a program of its own.

Secret: how its time is divided. It computes without a pause, and in a thread would keep those that
read /proc at the same time from going on. Prints one line of JSON; imports the standard library
and this package only.
"""

from __future__ import annotations

import json
import sys

from autopsy import clock
from autopsy.cpython import heap
from autopsy.cpython.interpreter import Interpreter, open_interpreter
from autopsy.cpython.owner import Owners, is_interned, largest
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.section import Payload, Skipped

_COUNTING_S, _READING_S = 0.5, 0.7
_MAX_CONTAINERS = 10
# A library may have long ones that are no leak.
_UNNAMED = 50_000
_NO_NAME = "(unnamed)"


def main(pid: int) -> None:
    """Print the payload of the section, or under `skipped` why there is none."""
    try:
        answer = take(pid)
    except Skipped as exc:
        answer = {"skipped": str(exc)}
    json.dump(answer, sys.stdout)


def take(pid: int) -> Payload:
    """Count the heap of a process and name its large containers. Raises Skipped."""
    began = clock.mono()
    interpreter = open_interpreter(pid, began + _READING_S)
    try:
        count = heap.Count(interpreter)
        count.run(began + _COUNTING_S)
    except (Unreadable, OutOfTime, KeyError, OSError) as exc:
        raise Skipped("its heap changes too quickly, or is made in a way unknown") from exc
    # Finding the names may find giants too: it comes before the sum.
    containers = _containers(interpreter, count, began + _READING_S)
    payload = count.payload()
    if not payload["small_bytes"]:
        raise Skipped("it does not use Python's own allocator (PYTHONMALLOC)")
    payload["containers"] = containers
    payload["ms"] = clock.ms_since(began)
    return payload


def _containers(interpreter: Interpreter, count: heap.Count, until_mono: float) -> list[Payload]:
    lengths = count.containers
    owners = Owners(interpreter, set(lengths), count.giant, until_mono)
    owners.search()
    unnamed = [
        {"name": _NO_NAME, "type": heap.type_name(interpreter, kind), "length": length}
        for address, (length, kind) in lengths.items()
        if address not in owners.found and length >= _UNNAMED
        if not is_interned(interpreter, address)
    ]
    return largest([*owners.found.values(), *unnamed], _MAX_CONTAINERS)
