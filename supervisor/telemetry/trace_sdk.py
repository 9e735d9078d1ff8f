"""Writing and sending spans with the SDK of OpenTelemetry; loaded only where spans are exported.

Secret kept here: the SDK, and how spans leave: in batches, from a thread of their own, which a dead
collector costs nothing but the spans. A node's spans are made at the end of an attempt, under ids
that were fixed at its claim. Used through `telemetry.trace` only.
"""

from __future__ import annotations

import atexit
import os
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind

from supervisor import __version__
from supervisor.model.outcome import Settlement
from supervisor.model.record import Ending, Traced
from supervisor.model.spec import TaskSpec
from supervisor.model.states import REQUEUE_REASONS, State
from supervisor.model.trace import (
    RANDOM,
    SAMPLED,
    TraceParent,
    attempt_span,
    attempt_trace,
    is_sampled,
    read_traceparent,
)
from supervisor.telemetry import trace_api as name
from supervisor.telemetry.trace import Sending
from supervisor.telemetry.trace_courier import Courier
from supervisor.telemetry.trace_packing import Attempted, Packing, Value

#: How long the end of a program or node waits for its last spans.
CLOSE_S = 2.0
#: The name of the service where OTEL_SERVICE_NAME names none.
SERVICE = "task-supervisor"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FAILED = frozenset({State.FAILED, State.TIMEOUT})


def _resource(instance: str) -> Resource:
    """Say who writes; what the variables say of it comes before what we know."""
    own: dict[str, Any] = {
        SERVICE_NAME: SERVICE,
        SERVICE_INSTANCE_ID: instance,
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
    }
    return Resource.create().merge(Resource(own)).merge(OTELResourceDetector().detect())


class Producer:
    """The spans of submits of a program that has set up no tracer of its own."""

    def __init__(self, endpoint: str) -> None:
        self._courier = Courier(endpoint)
        self._provider = TracerProvider(
            resource=_resource(f"{socket.gethostname()}-{os.getpid()}"), shutdown_on_exit=False
        )
        self._provider.add_span_processor(self._courier)
        atexit.register(self.close)

    def sending(self, specs: Sequence[TaskSpec]) -> Sending:
        """Open the span of a submit."""
        return name.sending_by(self._provider, specs)

    def close(self) -> None:
        """Send what is left, for two seconds at most."""
        atexit.unregister(self.close)
        self._courier.close(CLOSE_S)


class NodeTraces:
    """The spans of a node's attempts: `span_of` is called by the scribe, the rest by the loop."""

    def __init__(self, node_id: str, endpoint: str, failed: Callable[[], None]) -> None:
        provider = TracerProvider(resource=_resource(node_id), shutdown_on_exit=False)
        self._sampler = provider.sampler
        scope = InstrumentationScope(name.SCOPE, __version__)
        packing = Packing(provider.resource, scope)
        self._courier = Courier(endpoint, failed, packing=packing)

    def span_of(self, task_id: str, attempt: int, type_: str, parent: str | None) -> str:
        """Return the traceparent of an attempt that is about to be claimed.

        Whether its spans are kept is decided here, and told with it.
        """
        above = None if parent is None else read_traceparent(parent)
        trace_id = above.trace_id if above is not None else attempt_trace(task_id)
        if self._sampler is DEFAULT_ON:  # as its parent, else kept: known without its objects
            kept = above is None or above.sampled
        else:
            kept = self._is_kept(trace_id, type_, parent)
        flags = SAMPLED if kept else 0
        if above is not None:
            flags |= above.flags & RANDOM
        return str(TraceParent(trace_id, attempt_span(task_id, attempt), flags))

    def _is_kept(self, trace_id: str, type_: str, parent: str | None) -> bool:
        decided = self._sampler.should_sample(
            name.below(parent),
            int(trace_id, 16),
            f"process {type_}",
            SpanKind.CONSUMER,
            {name.TASK_TYPE: type_},
        )
        return decided.decision is Decision.RECORD_AND_SAMPLE

    def ended(self, ending: Ending, settlement: Settlement) -> None:
        """Write the span of an attempt whose ending is in the store."""
        traced = ending.traced
        if traced is None or not is_sampled(traced.span) or traced.span == traced.parent:
            return  # the last: it was claimed by a node that writes no spans
        start = _ns(ending.started_at or traced.claimed_at)
        before = None  # its id follows from its number
        if ending.attempt > 1:
            before = attempt_span(ending.task_id, ending.attempt - 1)
        self._courier.take(
            Attempted(
                name=f"process {ending.type}",
                place=traced.span,
                parent=traced.parent,
                before=before,
                start=start,
                end=max(start, _ns(ending.ended_at)),
                error=_error(ending),
                shared=_shared(ending, traced, settlement),
                own=_own(ending, traced, settlement),
            )
        )

    def close(self) -> None:
        """Send what is left, for two seconds at most."""
        self._courier.close(CLOSE_S)


def _ns(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND * 1000


def _error(ending: Ending) -> str | None:
    """Say why it is a failure; what was canceled or gave way is neither good nor bad."""
    outcome = ending.outcome
    if outcome.state not in _FAILED or outcome.reason in REQUEUE_REASONS:
        return None
    what = f": {outcome.error_type}" if outcome.error_type else ""
    return f"{outcome.reason}{what}"


def _shared(ending: Ending, traced: Traced, settlement: Settlement) -> dict[str, Value]:
    """Say what happened, as far as it happens to many, by names and numbers.

    No text of the task leaves the store.
    """
    outcome = ending.outcome
    requeued = outcome.reason in REQUEUE_REASONS
    found: dict[str, Value] = {
        name.SYSTEM: name.SCOPE,
        name.OPERATION_TYPE: "process",
        name.OPERATION_NAME: "process",
        name.DESTINATION: ending.queue,
        name.TASK_TYPE: ending.type,
        "supervisor.attempt": ending.attempt,
        "supervisor.outcome": "requeued" if requeued else outcome.state.lower(),
        "supervisor.reason": str(outcome.reason),
        "supervisor.state": str(settlement.state),
        "supervisor.proof": outcome.proof,
        "supervisor.effects_unknown": outcome.effects_unknown,
        "supervisor.worker.id": traced.worker_id,
        "process.pid": traced.pid,
    }
    if outcome.state in _FAILED and not requeued:
        found[name.ERROR_TYPE] = outcome.error_type or str(outcome.reason)
    if outcome.verdict is not None:
        found["supervisor.verdict"] = outcome.verdict
    return found


def _own(ending: Ending, traced: Traced, settlement: Settlement) -> dict[str, Value]:
    """Say what no two attempts have alike."""
    found: dict[str, Value] = {name.MESSAGE_ID: ending.task_id}
    if traced.autopsy_id is not None:
        found["supervisor.autopsy.id"] = traced.autopsy_id
    if settlement.run_after is not None:
        wait = settlement.run_after - ending.ended_at
        found["supervisor.retry.delay_s"] = max(0.0, wait.total_seconds())
    for usage in ("cpu_s", "max_rss_bytes"):
        if usage in ending.usage:
            found[f"supervisor.{usage}"] = ending.usage[usage]
    return found
