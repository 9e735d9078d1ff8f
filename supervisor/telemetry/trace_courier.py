"""Sends spans in batches from a thread of its own; whatever the collector does, nobody waits.

Secret kept here: the queue, the OTLP exporter, and that a loss is told once: at its beginning, and
when spans arrive again. Spans that find the queue full or whose batch is refused are lost and
counted. OTEL_BSP_* and OTEL_EXPORTER_OTLP_* hold. Silent in a forked child. Used by `trace_sdk`.
A node's spans wait as what they say, and become what is sent in the thread.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry import context as otel
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from supervisor.clock import Clock, SystemClock
from supervisor.telemetry.events import emit
from supervisor.telemetry.trace_packing import Attempted, Packing

#: What holds unless a variable says otherwise: an export that takes longer has failed.
TIMEOUT_S = 2.0
#: Several seconds of a busy node, a few megabytes.
QUEUE_MOST, BATCH_MOST, DELAY_MS = 8192, 512, 5000
#: That more spans end than can be sent is told this often.
TOLD_AGAIN_S = 60.0
#: The logger of the exporter, whose words for a failure go into our own event.
_EXPORTER_LOG = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_SLOW = (
    "Spans arrive as before and cost the node five times as much; install the version of "
    "opentelemetry-exporter-otlp-proto-http that requirements.lock names."
)


def _nobody() -> None:
    """Nobody counts."""


class Courier(SpanProcessor):
    """Takes ended spans and brings them to the collector."""

    def __init__(
        self,
        endpoint: str,
        failed: Callable[[], None] = _nobody,
        exporter: SpanExporter | None = None,
        clock: Clock | None = None,
        packing: Packing | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._failed = failed
        self._clock = clock or SystemClock()
        self._words = _Words()
        self._exporter = exporter or _exporter()
        self._packing = packing
        self._post = None if packing is None else _posting(self._exporter)
        if packing is not None and self._post is None:
            self._tell_slow(f"no known client in {type(self._exporter).__name__}")
        self._queue: deque[Any] = deque()  # of Attempted with a packing, else of ReadableSpan
        self._most = _number("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE_MOST)
        self._batch = min(self._most, _number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH_MOST))
        self._delay_s = _number("OTEL_BSP_SCHEDULE_DELAY", DELAY_MS) / 1000
        self._wanted = threading.Event()
        self._closing = False
        self._overflown = 0  # counted by whoever ends spans; the rest by the thread
        self._refused = self._told = 0
        self._told_at = float("-inf")
        self._away_since: float | None = None
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span; it is lost if too many wait already. Never waits."""
        if span.context is not None and span.context.trace_flags.sampled:
            self._take(span)

    def take(self, attempted: Attempted) -> None:
        """Take what a span shall say; needs a packing. It is lost like one; never waits."""
        self._take(attempted)

    def _take(self, span: ReadableSpan | Attempted) -> None:
        if self._pid != os.getpid() or self._closing:
            return  # the thread stayed behind in the parent, which sends what is in its queue
        if len(self._queue) >= self._most:
            self._overflown += 1
            return
        self._queue.append(span)
        if len(self._queue) >= self._batch:
            self._wanted.set()

    def close(self, budget_s: float) -> None:
        """Send what is left, for so long at most."""
        if self._pid != os.getpid() or self._closing:
            return
        self._closing = True
        self._wanted.set()
        self._thread.join(budget_s)
        if self._thread.is_alive():
            self._tell_loss(f"not sent within {budget_s:g} s at the end", len(self._queue))
            self._exporter.shutdown()  # it does not wait for a next try any more
            self._words.leave()

    def shutdown(self) -> None:
        """Do as `close` does; called by a tracer provider."""
        self.close(TIMEOUT_S)

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002 - the SDK's face
        """Have it sent now; True at once, since nobody may wait for it."""
        self._wanted.set()
        return True

    def _run(self) -> None:
        # What instruments HTTP clients must not make spans of our own requests.
        otel.attach(otel.set_value(otel._SUPPRESS_INSTRUMENTATION_KEY, True))
        while not self._closing:
            self._wanted.wait(self._delay_s)
            self._wanted.clear()
            self._send_all()
        self._send_all()  # what came between the last look and the end
        self._exporter.shutdown()
        self._words.leave()

    def _send_all(self) -> None:
        while self._queue:
            size = min(self._batch, len(self._queue))
            self._send([self._queue.popleft() for _ in range(size)])

    def _export(self, spans: Sequence[Any]) -> bool:
        if self._packing is None:
            return self._exporter.export(spans) is SpanExportResult.SUCCESS
        if self._post is not None:
            try:
                return bool(self._post(self._packing.packed(spans)).success)
            except (AttributeError, TypeError) as exc:  # another version calls it otherwise
                self._post = None
                self._tell_slow(repr(exc))
        return self._exporter.export(self._packing.readable(spans)) is SpanExportResult.SUCCESS

    def _send(self, spans: Sequence[Any]) -> None:
        try:
            arrived = self._export(spans)
        except Exception as exc:  # whatever it is, the spans are lost and the thread lives on
            self._words.last, arrived = repr(exc), False
        if arrived:
            self._arrived()
            return
        self._refused += len(spans)
        self._failed()
        if self._away_since is None:
            self._away_since = self._clock.mono()
            self._tell_loss(self._words.last or "refused")

    def _arrived(self) -> None:
        now = self._clock.mono()
        if self._away_since is not None:
            away_s, self._away_since = now - self._away_since, None
            lost = self._take_untold()
            emit(
                "traces.recovered",
                endpoint=self._endpoint, spans=lost, away_s=round(away_s, 1),
            )  # fmt: skip
        elif self._untold() and now - self._told_at >= TOLD_AGAIN_S:
            self._tell_loss("more end than can be sent")

    def _untold(self) -> int:
        """Return how many spans were lost since the last word about that."""
        return self._overflown + self._refused - self._told

    def _take_untold(self) -> int:
        lost = self._untold()
        self._told += lost
        return lost

    def _tell_slow(self, why: str) -> None:
        emit("traces.slowed", endpoint=self._endpoint, error=why, remedy=_SLOW)

    def _tell_loss(self, why: str, more: int = 0) -> None:
        self._told_at = self._clock.mono()
        emit("traces.lost", endpoint=self._endpoint, spans=self._take_untold() + more, error=why)


def _exporter() -> SpanExporter:
    named = (f"OTEL_EXPORTER_OTLP_{of}TIMEOUT" for of in ("TRACES_", ""))
    is_set = any(os.environ.get(name) for name in named)
    return OTLPSpanExporter(timeout=None if is_set else TIMEOUT_S)


def _posting(exporter: SpanExporter) -> Callable[[bytes], Any] | None:
    """Return what sends a request that is packed already; None where this exporter has no such.

    It is none of its public parts: without it the exporter packs the SDK's spans, as slowly.
    """
    client: Any = getattr(exporter, "_client", None)
    is_known = type(client).__name__ == "_OTLPHTTPClient" and hasattr(client, "export")
    return client.export if is_known else None


def _number(variable: str, otherwise: int) -> int:
    """Return a variable that is a whole number above 0; what is none is as if it were not set."""
    given = os.environ.get(variable, "").strip()
    return int(given) if given.isdecimal() and int(given) > 0 else otherwise


class _Words(logging.Handler):
    """Keeps what the exporter says of a failure; nobody else hears it say so every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        logger = logging.getLogger(_EXPORTER_LOG)
        logger.addHandler(self)
        logger.propagate = False

    def leave(self) -> None:
        """Hear no more; when nobody of us listens, others may hear it again."""
        logger = logging.getLogger(_EXPORTER_LOG)
        logger.removeHandler(self)
        logger.propagate = not any(isinstance(one, _Words) for one in logger.handlers)

    def emit(self, record: logging.LogRecord) -> None:
        """Remember it."""
        self.last = record.getMessage()
