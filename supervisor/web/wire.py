"""What the server itself refuses, before it is a request of the site: too long, too slow, no HTTP.

Secret kept here: waitress. Such an answer is a problem document as any error of the API, says
nothing of who serves it, and is written down as any refusal. No thread waits for a peer: a request
is whole before one gets it, an answer is on a disk before it is sent; who trickles is let go.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.task import ErrorTask
from waitress.utilities import Error

from supervisor.clock import Clock

MIMETYPE = "application/problem+json"
#: Told of each: the status, and the address it came from.
Told = Callable[[int, str], None]
#: A message may take so long, and after that only as long as so many bytes come in each second.
GRACE_S, LEAST_PER_S = 20.0, 8 * 1024
_LONG = "The request cannot be read, or is longer than anything that is taken."
_SLOW = f"The request did not come within {GRACE_S:g} s, nor {LEAST_PER_S} bytes in each second."


@dataclass(slots=True)
class Flow:
    """One message on its way, in either direction."""

    began: float
    moved: int = 0

    def is_late(self, now: float) -> bool:
        """Say whether it is slower than any message may be."""
        return self.moved < (now - self.began - GRACE_S) * LEAST_PER_S


class TooSlow(Error):  # type: ignore[misc]
    """The peer trickles."""

    code, reason = 408, "Request Timeout"


def channel_of(told: Told, headers: dict[str, str], clock: Clock) -> type[Any]:
    """Return the kind of connection whose errors are told and have these headers."""

    class Refusing(ErrorTask):  # type: ignore[misc]
        def execute(self) -> None:
            error = self.request.error
            document = {
                "type": f"urn:supervisor:problem:{error.reason.lower().replace(' ', '-')}",
                "title": error.reason,
                "status": error.code,
                "detail": _SLOW if isinstance(error, TooSlow) else _LONG,
            }
            body = msgspec.json.encode(document)
            self.status = f"{error.code} {error.reason}"
            self.response_headers += [("Content-Type", MIMETYPE), *headers.items()]
            self.set_close_on_finish()
            self.content_length = len(body)
            told(error.code, str(self.channel.addr[0]) if self.channel.addr else "")
            self.channel.lingers = True
            self.write(body)

    class Channel(_Paced):
        error_task_class = Refusing

    Channel.clock = clock
    return Channel


class _OneLength(HTTPRequestParser):  # type: ignore[misc]
    """Reads a request; one that says its length in two ways a proxy may have read otherwise."""

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            raise ParsingError("two lengths")


class _Paced(HTTPChannel):  # type: ignore[misc]
    """A connection that is looked at in each turn of the server's loop, by its thread."""

    parser_class = _OneLength
    clock: Clock
    request: Any
    _coming: Flow | None = None
    _going: Flow | None = None
    #: Who was refused may still be sending: closed at once, the answer would be lost on its way.
    lingers = False
    _left: Flow | None = None

    def readable(self) -> bool:
        now = self.clock.mono()
        if self._left is not None:
            if now > self._left.began + GRACE_S:
                self._break()
            return not self.will_close
        self._hurry_request(now)
        self._hurry_answer(now)
        return bool(super().readable())

    def handle_close(self) -> None:
        if self.lingers and self._left is None:
            self._left = Flow(self.clock.mono())
            with suppress(OSError):  # it is gone already
                self.socket.shutdown(socket.SHUT_WR)
                self.will_close = False
                return
        super().handle_close()

    def received(self, data: bytes) -> bool:
        if self._left is not None:
            return False
        self._coming = self._coming or Flow(self.clock.mono())
        self._coming.moved += len(data)
        taken = bool(super().received(data))
        if self.request is None:
            self._coming = None
        return taken

    def send_continue(self) -> None:
        if self.request.error is None:  # nobody is asked to send what is refused
            super().send_continue()

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent = int(super().send(data, do_close))
        if (going := self._going) is not None:
            going.moved += sent
        return sent

    def _hurry_request(self, now: float) -> None:
        if self._coming is None:
            return
        if self.requests or self.total_outbufs_len:
            self._coming = Flow(now)  # nothing is read while the one before is answered
        elif self._coming.is_late(now):
            with self.requests_lock:
                late, self.request, self._coming = self.request, None, None
                if not late.headers_finished:
                    late.parse_header(b"GET / HTTP/1.0\r\n")  # so that there is what to answer
                late.error, late.completed = TooSlow(""), True
                self.requests.append(late)
                self.server.add_task(self)

    def _hurry_answer(self, now: float) -> None:
        waits = self.total_outbufs_len
        if not waits or (self.requests and waits < self.adj.send_bytes):
            self._going = None
        elif self._going is None:
            self._going = Flow(now)
        elif self._going.is_late(now):
            self._break()

    def _break(self) -> None:
        self.will_close = True
        with suppress(OSError):  # it is gone already
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the loop, which then closes it
