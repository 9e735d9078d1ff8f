"""One place to wait for everything a node hears: sockets, exits, signals, the scribe.

Secret kept here: the selector and the signal wake-up. Signal handlers only put a byte on a socket;
what a signal means is decided in the loop.
"""

from __future__ import annotations

import selectors
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from supervisor.telemetry.events import emit

Heard = Callable[[], None]


class Ear:
    """Waits for descriptors to become readable and calls who asked for it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._inside, self._outside = socket.socketpair()
        for end in (self._inside, self._outside):
            end.setblocking(False)
        self._before: dict[int, object] = {}
        self._wakeup_before = -1
        self.signals: list[int] = []
        self.listen(self._inside.fileno(), self._drain)

    def listen(self, fd: int, heard: Heard) -> None:
        """Call `heard` whenever this descriptor is readable."""
        self._selector.register(fd, selectors.EVENT_READ, heard)

    def forget(self, fd: int) -> None:
        """Listen to it no more; call before closing it."""
        with suppress(KeyError):
            self._selector.unregister(fd)

    def wait(self, timeout_s: float) -> None:
        """Wait until something is heard or the time is over, and call everyone concerned."""
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            if self._selector.get_map().get(key.fd) is not key:
                continue  # forgotten by what was heard a moment ago
            try:
                key.data()
            except Exception as exc:
                emit("loop.failed", step="ear", error=repr(exc), exc_info=True)

    def wake(self) -> None:
        """End the wait; may be called from any thread."""
        with suppress(BlockingIOError):
            self._outside.send(b"\0")

    def catch(self, *numbers: int) -> None:
        """Hear these signals instead of obeying them; SIGCHLD only wakes."""
        self._wakeup_before = signal.set_wakeup_fd(
            self._outside.fileno(), warn_on_full_buffer=False
        )
        for number in (*numbers, signal.SIGCHLD):
            self._before[number] = signal.signal(number, self._noted)

    def close(self) -> None:
        """Give the signals back and close."""
        if self._before:
            signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._selector.close()
        self._inside.close()
        self._outside.close()

    def _noted(self, _number: int, _frame: FrameType | None) -> None:
        """The byte on the wake-up socket says all; Python wants a handler to write it."""

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while data := self._inside.recv(4096):
                self.signals += [number for number in data if number not in (0, signal.SIGCHLD)]
