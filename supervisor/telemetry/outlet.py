"""Log lines on their way to a stream that may not take them: a full pipe, a held terminal.

Secret kept here: who waits. A line that would wait is put aside and written by a thread of its own,
in order; beyond a limit lines are dropped, and counted. So whoever logs never waits for a reader
(for a file on a disk that hangs it does: nothing tells beforehand). One outlet a process.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from collections import deque
from typing import TextIO

from supervisor.telemetry.events import emit

#: What a pipe that is reported writable takes at once for sure. Source: pipe(7).
AT_ONCE_BYTES = select.PIPE_BUF
#: Put aside at most; a line is a few hundred bytes.
ASIDE_BYTES = 4 * 2**20


class Outlet:
    """Stands in for the stream of a `logging.StreamHandler`."""

    def __init__(self, stream: TextIO, aside_bytes: int = ASIDE_BYTES) -> None:
        self._fd = stream.fileno()
        self._terminal = stream.isatty()
        self._never_waits = stat.S_ISREG(os.fstat(self._fd).st_mode)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._most_bytes = aside_bytes
        self._aside: deque[bytes] = deque()
        self._aside_bytes = 0
        self._dropped = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def isatty(self) -> bool:
        """Say whether people read it."""
        return self._terminal

    def flush(self) -> None:
        """Nothing is kept back that could be written."""

    def write(self, text: str) -> None:
        """Write a line now, or put it aside if that would wait."""
        data = text.encode(errors="replace")
        with self._changed:
            if not self._aside and self._takes(len(data)):
                _write(self._fd, data)
            elif self._dropped or self._aside_bytes + len(data) > self._most_bytes:
                self._dropped += 1  # until all is written, so that the gap is in one place
            else:
                self._put_aside(data)

    def _takes(self, size: int) -> bool:
        if self._never_waits:
            return True
        return size <= AT_ONCE_BYTES and any(
            event & select.POLLOUT for _, event in self._poll.poll(0)
        )

    def _put_aside(self, data: bytes) -> None:
        self._aside.append(data)
        self._aside_bytes += len(data)
        if self._thread is None:
            self._thread = threading.Thread(target=self._drain, name="log", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _drain(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._aside)
                data = self._aside[0]  # stays there until it is written: none overtakes it
            _write(self._fd, data)
            with self._changed:
                self._aside.popleft()
                self._aside_bytes -= len(data)
                dropped = 0 if self._aside else self._dropped
                self._dropped -= dropped
                self._changed.notify_all()
            if dropped:
                emit("log.dropped", lines=dropped)

    def close(self, timeout_s: float) -> bool:
        """Wait until all is written, and say whether it is; if not, the stream leads nowhere now.

        Whatever is said at the end of the process would wait there as well.
        """
        with self._changed:
            done = self._changed.wait_for(lambda: not self._aside, timeout_s)
        if not done:
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, self._fd)
            os.close(nowhere)
        return done


def _write(fd: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        return  # nobody is there to read it, or to be told so
