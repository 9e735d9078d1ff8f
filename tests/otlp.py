"""A collector of a test's own: takes OTLP over HTTP, and can be away, refuse or never answer.

Secret kept here: what comes in, as protobuf messages, and how a test waits for it.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True)
class Span:
    """A span as it arrived; ids are hex digits, times nanoseconds."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent: str
    start: int
    end: int
    status: str
    description: str
    links: tuple[tuple[str, str], ...]
    attributes: dict[str, Any]
    resource: dict[str, Any]

    @property
    def lasted_s(self) -> float:
        return (self.end - self.start) / 1e9


@dataclass
class Collector:
    """What has arrived, and how the next request is answered."""

    server: ThreadingHTTPServer
    spans: list[Span] = field(default_factory=list)
    requests: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    #: Answers this instead of taking the spans.
    status: int = 200
    #: While it is not set nothing is answered at all.
    answering: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def named(self, name: str) -> list[Span]:
        """Return the spans of this name, by their beginning."""
        return sorted((s for s in list(self.spans) if s.name == name), key=lambda s: s.start)

    def of(self, task_id: str) -> list[Span]:
        """Return the spans of a task's attempts in order."""
        found = [
            span
            for span in list(self.spans)
            if span.kind == "CONSUMER" and span.attributes["messaging.message.id"] == task_id
        ]
        return sorted(found, key=lambda span: span.attributes["supervisor.attempt"])

    def wait(self, seen: Callable[[], Any], timeout: float = 20.0, what: str = "") -> Any:
        """Wait until this is so of what has arrived, and return it."""
        deadline = time.monotonic() + timeout
        with self.changed:
            while not (found := seen()):
                left = deadline - time.monotonic()
                assert left > 0, f"{what}; arrived: {[(s.name, s.attributes) for s in self.spans]}"
                self.changed.wait(min(left, 0.5))
        return found

    def take(self, body: bytes) -> None:
        message = ExportTraceServiceRequest()
        message.ParseFromString(body)
        for of in message.resource_spans:
            resource = _plain(of.resource.attributes)
            self.spans += [_span(s, resource) for scope in of.scope_spans for s in scope.spans]


def _plain(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(one) for one in found.values] if kind == "array_value" else found


def _span(span: Message, resource: dict[str, Any]) -> Span:
    return Span(
        name=span.name,
        kind=Message.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        status=Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        description=span.status.message,
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        attributes=_plain(span.attributes),
        resource=resource,
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    collector: Collector

    def do_POST(self) -> None:
        ours = self.collector
        body = self.rfile.read(int(self.headers["Content-Length"]))
        ours.answering.wait(30)
        status = ours.status if self.path == "/v1/traces" else 404
        with ours.changed:
            ours.requests += 1
            ours.headers.append(dict(self.headers.items()))
            if status == 200:
                packed = self.headers.get("Content-Encoding") == "gzip"
                ours.take(gzip.decompress(body) if packed else body)
            ours.changed.notify_all()
        answer = ExportTraceServiceResponse().SerializeToString() if status == 200 else b""
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            self.close_connection = True  # whoever sent it has not waited

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error of ours."""


@contextmanager
def collecting(port: int = 0) -> Iterator[Collector]:
    """Run a collector on a port."""
    handler = type("Handler", (_Handler,), {})
    server = _Server(("127.0.0.1", port), handler)
    collector = handler.collector = Collector(server)
    collector.answering.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.answering.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
