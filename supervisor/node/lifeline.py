"""One worker's descriptors on the node's side: assignments, control, vital signs, rings, output.

Secret kept here: which end is whose and when each is closed. The read end of the assignments stays
open here too, so that what the worker has not read can be taken back even if it is stopped; what it
printed is read with pread and never mapped, since the worker may shrink its own output.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from autopsy.memfd import DUMP, OUTPUT, create_appended
from autopsy.ring import create_log_ring
from autopsy.stackring import create_stack_ring
from supervisor.node import process
from supervisor.worker import vitals, wire
from supervisor.worker.main import Plumbing
from supervisor.worker.vitals import Vitals

#: Output kept beyond the reported tail before its memory is given back.
OUTPUT_SLACK_BYTES = 1024 * 1024
#: faulthandler writes up to 100 frames of each of up to 100 threads.
FATAL_DUMP_BYTES = 64 * 1024
_FATAL = "Fatal Python error: "


class Keepsakes(NamedTuple):
    """Descriptors of a worker's shared memory that outlive its line."""

    logs: int
    stacks: int
    output: int
    dumps: int


class Lifeline:
    """The node's half of what ties it to a worker."""

    def __init__(self, log_records: int, tail_bytes: int, stack_window_s: float) -> None:
        self._tail_bytes = tail_bytes
        self._assign, self._assign_theirs = process.assignment_pair()
        self.control, self._control_theirs = socket.socketpair()
        self.control.setblocking(False)
        self._vitals_fd = vitals.create()
        self.vitals = Vitals(self._vitals_fd)
        self._log_fd = create_log_ring(log_records)
        self._stack_fd = create_stack_ring(stack_window_s)
        self._dump_fd = create_appended(DUMP)
        self._output_fd = create_appended(OUTPUT)
        self._stream: wire.Stream[wire.FromWorker] = wire.Stream(wire.FromWorker)
        self._punched = 0
        self._unsent = b""
        self._behind: deque[bytes] = deque()

    def gifts(self) -> tuple[int, ...]:
        """Return the descriptors a worker is born with, in the order of `Plumbing`."""
        return Plumbing(
            assignments=self._assign_theirs.fileno(),
            control=self._control_theirs.fileno(),
            vitals=self._vitals_fd,
            logs=self._log_fd,
            stacks=self._stack_fd,
            output=self._output_fd,
            dumps=self._dump_fd,
        )

    def given(self) -> None:
        """Close what only the worker needs, once it has been sent."""
        self._control_theirs.close()
        os.close(self._vitals_fd)

    def keep(self) -> Keepsakes:
        """Return descriptors that outlive this line: to be closed."""
        return Keepsakes(*map(os.dup, self._memory()))

    def _memory(self) -> Keepsakes:
        return Keepsakes(self._log_fd, self._stack_fd, self._output_fd, self._dump_fd)

    def close(self) -> None:
        """Close everything on our side."""
        self._assign.close()
        self._assign_theirs.close()
        self.control.close()
        self.vitals.close()
        for fd in self._memory():
            os.close(fd)

    def assign(self, message: wire.Assignment) -> bool:
        """Put one packet in the worker's queue, or behind it; False if no queue could hold it."""
        data = wire.encode(message)
        if len(data) > wire.PACKET_MAX_BYTES:
            return False
        self._behind.append(data)
        self._refill()
        return True

    def _refill(self) -> None:
        """Move what waits behind the queue into it, as far as there is room."""
        try:
            while self._behind:
                self._assign.send(self._behind[0])
                self._behind.popleft()
        except OSError as exc:
            if exc.errno not in (errno.EAGAIN, errno.ENOBUFS):
                raise

    def take_back(self) -> list[int]:
        """Withdraw what has not been read; return the numbers of the attempts."""
        packets = []
        with suppress(BlockingIOError):
            while data := self._assign_theirs.recv(wire.PACKET_MAX_BYTES, socket.MSG_DONTWAIT):
                packets.append(data)
        packets += self._behind
        self._behind.clear()
        messages = [wire.assignments.decode(data) for data in packets]
        return [message.seq for message in messages if isinstance(message, wire.Assign)]

    def send(self, message: wire.FromNode) -> bool:
        """Send a control message; False if the worker does not take it now.

        One that went out in part counts as sent: its rest goes before anything else.
        """
        if not self._flush():
            return False
        data = self._unsent = wire.frame(message)
        self._flush()
        if self._unsent == data:
            self._unsent = b""  # nothing of it went out
            return False
        return True

    def _flush(self) -> bool:
        try:
            while self._unsent:
                self._unsent = self._unsent[self.control.send(self._unsent) :]
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            return False
        return True

    def hear(self, buffer: bytearray) -> Iterator[wire.FromWorker]:
        """Yield the messages that have arrived.

        Raises: EOFError when the worker has closed its end; WireBroken on junk.
        """
        try:
            size = self.control.recv_into(buffer)
        except (BlockingIOError, ConnectionResetError):
            return
        if not size:
            raise EOFError
        self._refill()
        yield from self._stream.feed(memoryview(buffer)[:size])

    def output_tail(self, start: int, end: int | None) -> str:
        """Return the end of what was printed between two offsets, marked where it was cut."""
        if end is None:
            end = os.fstat(self._output_fd).st_size
        if end < max(start, self._punched):  # it was shrunk: what is there was printed since then
            start = self._punched = 0
        begin = max(start, end - self._tail_bytes, self._punched)
        text = os.pread(self._output_fd, max(0, end - begin), begin).decode("utf-8", "replace")
        cut = begin - start
        return (f"[… {cut} bytes of earlier output dropped …]\n" if cut > 0 else "") + text

    def fatal_dump(self) -> str:
        """Return what the interpreter wrote last when a fatal signal ended it; empty if nothing.

        Stacks that an autopsy asked for lie in the same memory, before it.
        """
        size = os.fstat(self._dump_fd).st_size
        begin = max(0, size - FATAL_DUMP_BYTES)
        text = os.pread(self._dump_fd, size - begin, begin).decode("utf-8", "replace")
        _, mark, last = text.rpartition(_FATAL)
        return mark + last

    def trim(self) -> None:
        """Send what is still to be sent, and give back output that is older than any tail."""
        self._flush()
        self._refill()
        end = os.fstat(self._output_fd).st_size
        self._punched = min(self._punched, end)
        keep_from = end - self._tail_bytes
        if keep_from - self._punched >= OUTPUT_SLACK_BYTES:
            process.punch(self._output_fd, keep_from)
            self._punched = keep_from
