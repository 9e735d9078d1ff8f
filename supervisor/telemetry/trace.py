"""Traces: where a caller is, where a body is, and whether spans are written at all.

Secret kept here: OpenTelemetry. Nothing of it is imported before there is somewhere to export to
and something to export it with (`telemetry.trace_sdk`); until then a loaded API is looked at, never
loaded. Configured by the standard OTEL_* variables alone. Clients, nodes and workers use it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import urlsplit, urlunsplit

from supervisor.model.record import Submitted
from supervisor.model.spec import TaskSpec
from supervisor.model.trace import TraceParent, read_traceparent

if TYPE_CHECKING:
    from supervisor.telemetry.trace_sdk import NodeTraces, Producer

#: Where a program says in which trace it runs; so do the processes that a body starts.
VARIABLE = "TRACEPARENT"
#: What writes and sends spans; both come with the extra `otel`.
DISTRIBUTIONS = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
PROTOCOL = "http/protobuf"
#: How long a worker waits at its end for spans that the app's own tracer has not sent yet.
FLUSH_S = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Whether spans are exported and where to, without credentials; `off` says why not.

    `refused`: it was asked for and cannot be; `remedy` says what to do.
    """

    endpoint: str = ""
    off: str = ""
    remedy: str = ""

    @property
    def refused(self) -> bool:
        """Whether somebody wants spans and gets none."""
        return bool(self.remedy)


def plan(environ: Mapping[str, str]) -> Plan:
    """Read the standard variables and look for what is installed; nothing of it is imported."""
    if _is_disabled(environ):
        return Plan(off="OTEL_SDK_DISABLED is true")
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if exporter == "none":
        return Plan(off="OTEL_TRACES_EXPORTER is none")
    try:
        endpoint = _endpoint(environ)
    except ValueError as error:
        remedy = "Correct OTEL_EXPORTER_OTLP_ENDPOINT, as in http://127.0.0.1:4318."
        return Plan(off=f"the endpoint is no address: {error}", remedy=remedy)
    if not endpoint:
        return Plan(off="OTEL_EXPORTER_OTLP_ENDPOINT is not set")
    why, remedy = _refusal(environ, exporter, endpoint)
    return Plan(endpoint, why, remedy)


def _refusal(environ: Mapping[str, str], exporter: str, endpoint: str) -> tuple[str, str]:
    """Say what keeps spans from being exported, and what to do; two empty texts if nothing does."""
    if exporter != "otlp":
        why = f"OTEL_TRACES_EXPORTER is {exporter}"
        return why, "Set it to otlp (or none), or leave it out."
    if not endpoint.startswith(("http://", "https://")):
        why = "OTEL_EXPORTER_OTLP_ENDPOINT is no http:// or https:// address"
        return why, "Give it as http://HOST:4318."
    protocol = _of_traces(environ, "PROTOCOL") or PROTOCOL
    if protocol != PROTOCOL:
        why = f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, which is not spoken here"
        return why, f"Set it to {PROTOCOL}; collectors take that at port 4318."
    missing = [name for name in DISTRIBUTIONS if not _is_installed(name)]
    if missing:
        why = f"{' and '.join(missing)} cannot be found"
        return why, "Install them: pip install 'task-supervisor[otel]'."
    return "", ""


def _is_disabled(environ: Mapping[str, str]) -> bool:
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _of_traces(environ: Mapping[str, str], name: str) -> str:
    """Return a variable of the exporter: that for traces, else that for all signals."""
    for prefix in ("OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"):
        if value := environ.get(f"{prefix}{name}", "").strip():
            return value
    return ""


def _endpoint(environ: Mapping[str, str]) -> str:
    if own := environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip():
        return _shown(own)
    shared = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    return _shown(f"{shared.rstrip('/')}/v1/traces") if shared else ""


def _shown(url: str) -> str:
    """Return a URL without what may be a secret in it: user, password, query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _is_installed(distribution: str) -> bool:
    import importlib.metadata  # 10 ms that only those pay who have somewhere to export to

    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def carried() -> str | None:
    """Return where in a trace the caller is: its current span, else what TRACEPARENT says."""
    current = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current is not None:
        place = current().get_span_context()
        if place.is_valid:
            return written(place)
    given = os.environ.get(VARIABLE)
    found = read_traceparent(given) if given else None
    return None if found is None else str(found)


def written(place: Any) -> str:
    """Return a span context of OpenTelemetry as a traceparent."""
    flags = int(place.trace_flags) & 0xFF
    return str(TraceParent(f"{place.trace_id:032x}", f"{place.span_id:016x}", flags))


# --- clients ----------------------------------------------------------------------------------


class Sending(Protocol):
    """One submit, from before it is written to its answers."""

    def of(self, spec: TaskSpec) -> str | None:
        """Return where in a trace this task is submitted."""

    def reached(self, answers: Sequence[Submitted]) -> None:
        """Note what the store has answered."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None: ...


class Carried:
    """A submit of which no span is written: it only hands on where its caller is."""

    __slots__ = ("_place",)

    def __init__(self, place: str | None) -> None:
        self._place = place

    def of(self, spec: TaskSpec) -> str | None:
        """Return what was given with the task, else where the caller is."""
        return spec.traceparent or self._place

    def reached(self, answers: Sequence[Submitted]) -> None:
        """Nothing is kept of it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """Nothing is open."""


class Sender:
    """The spans of one client's submits.

    An app that has set up a tracer of its own gets them there; else they are exported from here if
    the variables say so.
    """

    def __init__(self) -> None:
        self._own: Producer | None = None
        self._is_planned = False
        self._planning = threading.Lock()

    def sending(self, specs: Sequence[TaskSpec]) -> Sending:
        """Begin a submit of these tasks."""
        if not specs:
            return Carried(None)
        provider = _app_provider()
        if provider is None:
            own = self._own if self._is_planned else self._plan()
            return Carried(carried()) if own is None else own.sending(specs)
        from supervisor.telemetry.trace_api import sending_by

        return sending_by(provider, specs)

    def _plan(self) -> Producer | None:
        with self._planning:
            if not self._is_planned:
                wanted = plan(os.environ)
                if not wanted.off:
                    with _refusing():
                        from supervisor.telemetry.trace_sdk import Producer

                        self._own = Producer(wanted.endpoint)
                self._is_planned = True
            return self._own

    def close(self) -> None:
        """Send what was not sent yet, within two seconds."""
        with self._planning:
            own, self._own, self._is_planned = self._own, None, False
        if own is not None:
            own.close()


@contextmanager
def _refusing() -> Iterator[None]:
    """Go on without spans where OpenTelemetry cannot read one of its variables."""
    from supervisor.telemetry.events import emit

    try:
        yield
    except ValueError as error:
        emit("traces.refused", error=str(error), remedy="Correct the OTEL_* variable it names.")


def _app_provider() -> Any:
    """Return the tracer provider that the app has set up in this process, None if it has none."""
    api = sys.modules.get("opentelemetry.trace")
    find = getattr(api, "get_tracer_provider", None)
    if api is None or find is None or _is_disabled(os.environ):
        return None
    provider = find()
    stand_ins = (api.ProxyTracerProvider, api.NoOpTracerProvider)
    return None if isinstance(provider, stand_ins) else provider


# --- nodes ------------------------------------------------------------------------------------


def open_node_traces(node_id: str, failed: Callable[[], None]) -> NodeTraces | None:
    """Return what writes a node's spans, or None where none are wanted or possible.

    `failed` is called, from another thread, for every export that failed.
    """
    from supervisor.telemetry.events import emit

    wanted = plan(os.environ)
    if wanted.refused:
        emit("traces.refused", error=wanted.off, remedy=wanted.remedy)
    if wanted.off:
        return None
    with _refusing():
        from supervisor.telemetry.trace_sdk import NodeTraces

        traces = NodeTraces(node_id, wanted.endpoint, failed)
        emit("traces.started", endpoint=wanted.endpoint)
        return traces
    return None


# --- workers ----------------------------------------------------------------------------------


@contextmanager
def attached(traceparent: str) -> Iterator[None]:
    """Let what runs meanwhile be in that place of a trace.

    The app's own spans become its children if OpenTelemetry is loaded; processes that are started
    find it in TRACEPARENT.
    """
    os.environ[VARIABLE] = traceparent
    token = _attach(traceparent)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if token is not None:
            sys.modules["opentelemetry.context"].detach(token)


def _attach(traceparent: str) -> Any:
    api, context = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.context")
    if api is None or context is None:
        return None
    from supervisor.telemetry.trace_api import remote

    place = remote(traceparent)
    if place is None:
        return None
    return context.attach(api.set_span_in_context(api.NonRecordingSpan(place)))


class Flusher:
    """Has the app's own tracer send its spans between two bodies, beside the worker.

    One flush at a time, in a thread that nobody waits for: a collector that does not answer costs
    the next task nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._again = False

    def flush(self) -> None:
        """Begin to send what has ended so far; if that is under way, once more after it."""
        provider = _app_provider()
        send = getattr(provider, "force_flush", None)
        if send is None:
            return
        with self._lock:
            self._again = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, args=(send,), name="supervisor-flush", daemon=True
                )
                self._thread.start()

    def _run(self, send: Callable[[int], Any]) -> None:
        while self._goes_on():
            send(round(FLUSH_S * 1000))

    def _goes_on(self) -> bool:
        """Take the next wish; without one the thread is over, in the same moment for everybody."""
        with self._lock:
            goes_on, self._again = self._again, False
            if not goes_on:
                self._thread = None
            return goes_on

    def finish(self) -> None:
        """Send what is left, within a second."""
        self.flush()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(FLUSH_S)
