"""Stacks without any tool: read from the memory of the interpreter, which is not stopped for it.

Secret: none beyond `cpython`. Exact on threads that stand still; on one that runs, calls may be
missing. Works where py-spy is not installed, fails, or finds too many calls.
"""

from __future__ import annotations

from autopsy import clock
from autopsy.collect.patient import Patient
from autopsy.collect.pyspy import Dumped, Frame, Thread
from autopsy.cpython import interpreter as cpython
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.section import Skipped

LIMIT_S = 0.5
#: Of each thread; a recursion of 50,000 says the same over and over.
CALLS_READ = 1000


def _frames(thread: cpython.Thread) -> tuple[Frame, ...]:
    frames = [Frame(one.code.name, one.code.file, one.line) for one in thread.calls]
    if len(frames) >= CALLS_READ:
        frames.append(Frame("... calls further out are not read ...", "", 0))
    return tuple(frames)


def dump(patient: Patient) -> Dumped:
    """Return the stacks of the threads that run Python, or why they cannot be read."""
    try:
        interpreter = cpython.open_interpreter(patient.pid, clock.mono() + LIMIT_S)
        threads = tuple(
            Thread(
                one.tid,
                one.name,
                owns_gil=False,
                active=False,
                frames=_frames(one),
            )
            for one in interpreter.threads
        )
    except Skipped as exc:
        return Dumped(reason=str(exc))
    except Unreadable:
        return Dumped(reason="its memory changed too quickly to be read")
    except OutOfTime:
        return Dumped(reason=f"its memory was not read in {LIMIT_S} s")
    if not any(thread.frames for thread in threads):
        return Dumped(reason="no Python thread was found in its memory")
    return Dumped(threads)
