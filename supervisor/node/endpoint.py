"""The node's HTTP endpoint: /metrics, /healthz, /readyz on its own thread.

Read-only, no secrets, loopback by default. It only reads values that the loop has published, and
what the collectors of `node.scraping` find, so a slow scraper cannot slow the loop.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

from prometheus_client.exposition import gzip_accepted

from supervisor.clock import SystemClock
from supervisor.errors import Refused
from supervisor.node.reporting import DEAD_AFTER_S, Health
from supervisor.telemetry.metrics import Metrics

_JSON = "application/json"


class Endpoint:
    """A listening server, or nothing when the setting is none."""

    def __init__(self, listen: str | None, metrics: Metrics, health: Callable[[], Health]) -> None:
        self._server: ThreadingHTTPServer | None = None
        self.address = ""
        if listen is None:
            return
        host, _, port = listen.rpartition(":")
        handler = _handler(metrics, health)
        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), int(port)), handler)
        except OSError as exc:
            raise Refused(
                f"metrics_listen: cannot listen on {listen}: {exc.strerror}",
                remedy="Give this node a port of its own with --metrics-listen, or none.",
            ) from exc
        self._server.daemon_threads = True
        self.address = "{}:{}".format(*self._server.server_address[:2])
        threading.Thread(
            target=self._server.serve_forever, name="endpoint", daemon=True, args=(0.2,)
        ).start()

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _readiness(now: Health) -> bytes:
    body = {"ready": not now.not_ready, "reasons": list(now.not_ready), "notes": list(now.notes)}
    return json.dumps(body).encode()


def _handler(metrics: Metrics, health: Callable[[], Health]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET for the three paths."""

        timeout = 5
        server_version = "task-supervisor"
        sys_version = ""

        def do_GET(self) -> None:
            answers = {"/metrics": self._metrics, "/healthz": self._alive, "/readyz": self._ready}
            answer = answers.get(self.path.partition("?")[0])
            if answer is None:
                self._send(404, _JSON, b'{"error": "only /metrics, /healthz and /readyz"}')
            else:
                answer()

        def _metrics(self) -> None:
            body, more = _exposed(metrics, self.headers)
            self._send(200, more.pop("Content-Type"), body, more)

        def _alive(self) -> None:
            still_s = SystemClock().mono() - health().ticked_at
            alive = still_s < DEAD_AFTER_S
            body = {"alive": alive, "loop_still_s": round(still_s, 3)}
            self._send(200 if alive else 503, _JSON, json.dumps(body).encode())

        def _ready(self) -> None:
            now = health()
            self._send(503 if now.not_ready else 200, _JSON, _readiness(now))

        def _send(
            self, code: int, kind: str, body: bytes, more: Mapping[str, str] = MappingProxyType({})
        ) -> None:
            self.send_response(code)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not worth a line."""

    return Handler


def _exposed(metrics: Metrics, asked: Message) -> tuple[bytes, dict[str, str]]:
    """Return all metrics in the format that is asked for, and the headers that say so."""
    body, content_type = metrics.render(asked.get("Accept", ""))
    headers = {"Content-Type": content_type}
    if gzip_accepted(asked.get("Accept-Encoding", "")):
        body = gzip.compress(body, compresslevel=1)  # a tenth of the size, for 1 ms
        headers["Content-Encoding"] = "gzip"
    return body, headers
