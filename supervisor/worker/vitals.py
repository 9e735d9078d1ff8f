"""The vital signs of a worker in shared memory: written by the worker, read by the node.

Secret kept here: the layout. One word (8 bytes) per value, each written by one thread and by one
store, so no lock is needed and reading costs no system call. The memory is a sealed memfd: it
outlives a SIGKILL of the writer, and a worker that truncates it cannot crash the node. All times
are CLOCK_MONOTONIC nanoseconds of this host.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from autopsy.memfd import create_sealed

SIZE = 4096
NAME = "supervisor-vitals"

_BEATS, _TICKS, _SEQ, _STARTED, _CHANGES, _DONE, _TOTAL, _ACK, _FINISHED, _OUTPUT = range(10)
_ACK_KIND, _CHANGED, _LAST = 10, 11, 12
_CALLS, _CALL_SEQ, _CALL_SINCE = 13, 14, 15
#: Where the name of a service lies, in bytes; it is cut to its room.
_SERVICE = slice(128, 192)

#: Glances at a worker that changes its attempt during each of them.
READ_TRIES = 3
#: Numbers of the interruptions in the acknowledge word.
KINDS = ("", "cancel", "soft_timeout", "shutdown")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a worker's vital signs. `seq` is 0 between attempts; `last_seq` stays."""

    beats: int
    ticks: int
    seq: int
    last_seq: int
    started_ns: int
    progress_changes: int
    progress_done: float
    progress_total: float
    progress_changed_ns: int
    acknowledged_seq: int
    acknowledged_kind: str
    finished: int
    output_start: int


@dataclass(frozen=True, slots=True)
class Calling:
    """Calls of other services that have not come back: how many, and the oldest."""

    number: int
    service: str
    since_ns: int


def create() -> int:
    """Make the shared memory and return its descriptor, sealed against resizing."""
    return create_sealed(NAME, SIZE)


class Vitals:
    """One worker's vital signs, mapped from a descriptor of `create`."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, SIZE)
        self._view = memoryview(self._map)
        self._words = self._view.cast("Q")
        self._floats = self._view.cast("d")

    def close(self) -> None:
        """Unmap; the memory lives on while another process has it."""
        self._words.release()
        self._floats.release()
        self._view.release()
        self._map.close()

    def beat(self) -> None:
        """Count one beat of the helper thread."""
        self._words[_BEATS] += 1

    def begin(self, seq: int, started_ns: int, output_start: int) -> None:
        """The main thread enters the body of attempt `seq`."""
        words = self._words
        words[_CHANGES] = 0
        self._floats[_DONE] = self._floats[_TOTAL] = 0.0
        words[_CHANGED] = started_ns
        words[_STARTED] = started_ns
        words[_OUTPUT] = output_start
        words[_LAST] = seq
        words[_SEQ] = seq

    def end(self) -> None:
        """The main thread has left the body."""
        self._words[_SEQ] = 0
        self._words[_FINISHED] += 1

    def tick(self) -> None:
        """Count one sign of life of the main thread."""
        self._words[_TICKS] += 1

    def progress(self, done: float, total: float, now_ns: int) -> None:
        """Report progress; a repeated equal value is no progress."""
        self._floats[_TOTAL] = total
        last = self._floats[_DONE]
        if self._words[_CHANGES] and (last == done or (last != last and done != done)):
            return  # a value that is not a number equals itself here
        self._floats[_DONE] = done
        self._words[_CHANGED] = now_ns
        self._words[_CHANGES] += 1

    def acknowledge(self, seq: int, kind: str) -> None:
        """The interruption of this kind has reached the body of attempt `seq`."""
        self._words[_ACK_KIND] = KINDS.index(kind)
        self._words[_ACK] = seq

    def calling(self, seq: int, calls: Calling | None) -> None:
        """The helper thread notes what attempt `seq` waits for; None: for nobody."""
        words = self._words
        words[_CALL_SEQ] = 0  # nothing to read until all is written
        if calls is not None:
            room = _SERVICE.stop - _SERVICE.start
            self._view[_SERVICE] = calls.service.encode()[:room].ljust(room, b"\0")
            words[_CALLS], words[_CALL_SINCE] = calls.number, calls.since_ns
            words[_CALL_SEQ] = seq

    def read_calling(self) -> Calling | None:
        """Return what the present attempt waits for, as of a second ago; None if nobody."""
        words = self._words
        seq = words[_CALL_SEQ]
        if not seq or seq != words[_SEQ]:
            return None
        name = bytes(self._view[_SERVICE]).rstrip(b"\0").decode("ascii", "replace")
        found = Calling(words[_CALLS], name, words[_CALL_SINCE])
        return found if words[_CALL_SEQ] == seq else None

    def current(self) -> int:
        """Return the number of the attempt the main thread is in, 0 between attempts."""
        return self._words[_SEQ]

    def read(self) -> Reading:
        """Take one look: the values are of the attempt that it names, if it names one.

        Each is whole, and may be a store apart from the others.
        """
        for _ in range(READ_TRIES):
            reading = self._glance()
            if self._words[_SEQ] == reading.seq:
                return reading
        return replace(reading, seq=0)  # it was between attempts at least once during each glance

    def _glance(self) -> Reading:
        words, floats = self._words, self._floats
        return Reading(
            beats=words[_BEATS],
            ticks=words[_TICKS],
            seq=words[_SEQ],
            last_seq=words[_LAST],
            started_ns=words[_STARTED],
            progress_changes=words[_CHANGES],
            progress_done=floats[_DONE],
            progress_total=floats[_TOTAL],
            progress_changed_ns=words[_CHANGED],
            acknowledged_seq=words[_ACK],
            acknowledged_kind=KINDS[words[_ACK_KIND] % len(KINDS)],
            finished=words[_FINISHED],
            output_start=words[_OUTPUT],
        )
