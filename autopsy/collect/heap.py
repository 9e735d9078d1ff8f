"""What the patient's Python heap consists of, when it is large enough to ask.

Secret: when it is worth its time, and how that is divided between counting and naming.
"""

from __future__ import annotations

from collections.abc import Callable

from autopsy import clock
from autopsy.collect import procfs
from autopsy.collect.patient import Patient
from autopsy.cpython import heap
from autopsy.cpython.interpreter import Interpreter, open_interpreter
from autopsy.cpython.owner import Owners, is_interned, largest
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.section import Payload, Skipped

TIME_BOX_S = 1.2
# A small program's heap is no cause; reading a large one takes most of a second.
_DEFAULT_OVER_BYTES = 64 << 20
_COUNTING_S, _READING_S = 0.55, 0.8
_MAX_CONTAINERS = 10
# A library may have long ones that are no leak.
_UNNAMED = 50_000
_NO_NAME = "(unnamed)"


def collector(over_bytes: int | None = None) -> Callable[[Patient], Payload]:
    """Return the collector of the heap of a process with more resident memory than that.

    Shapes: objects, seen, partial, share (of the memory that was looked at), types and buffers
    (type, count, bytes), python_bytes; small_bytes (in use in pools), unused_bytes (free in them);
    containers (name, type, length), longest first. Raises Skipped when it is smaller.
    """
    over = _DEFAULT_OVER_BYTES if over_bytes is None else over_bytes

    def collect(patient: Patient) -> Payload:
        resident = _resident_bytes(patient.pid)
        if resident < over:
            mib = over >> 20
            raise Skipped(f"it uses {resident >> 20} MiB; the heap is counted from {mib} MiB on")
        began = clock.mono()
        interpreter = open_interpreter(patient.pid, began + _READING_S)
        try:
            count = heap.Count(interpreter)
            count.run(began + _COUNTING_S)
        except (Unreadable, OutOfTime, KeyError) as exc:
            raise Skipped("its heap changes too quickly, or is made in a way unknown") from exc
        # Finding the names may find giants too: it comes before the sum.
        containers = _containers(interpreter, count, began + _READING_S)
        payload = count.payload()
        if not payload["small_bytes"]:
            raise Skipped("it does not use Python's own allocator (PYTHONMALLOC)")
        payload["containers"] = containers
        payload["ms"] = round((clock.mono() - began) * 1000, 1)
        return payload

    return collect


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


def _resident_bytes(pid: int) -> int:
    words = (procfs.status(f"/proc/{pid}/status") or {}).get("VmRSS", "0").split()
    return int(words[0]) * 1024
