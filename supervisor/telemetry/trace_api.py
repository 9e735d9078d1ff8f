"""The span of a submit, written with any tracer provider of OpenTelemetry.

Secret kept here: names and attributes, pinned as text after the semantic conventions for messaging
(schema 1.44, still in development). Loaded only where a provider is. Called by `trace.Sender`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from opentelemetry import context as otel
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TracerProvider,
    set_span_in_context,
)

from supervisor import __version__
from supervisor.model.record import Submitted
from supervisor.model.spec import TaskSpec
from supervisor.model.trace import read_traceparent
from supervisor.telemetry.trace import Sending, carried, written

SCOPE = "supervisor"
SYSTEM = "messaging.system"
OPERATION_TYPE = "messaging.operation.type"
OPERATION_NAME = "messaging.operation.name"
DESTINATION = "messaging.destination.name"
MESSAGE_ID = "messaging.message.id"
BATCH_COUNT = "messaging.batch.message_count"
ERROR_TYPE = "error.type"
TASK_TYPE = "supervisor.task.type"
DEDUP_HITS = "supervisor.dedup.hits"


def remote(traceparent: str) -> SpanContext | None:
    """Return a place in a trace as OpenTelemetry has it; None for what is none."""
    place = read_traceparent(traceparent)
    if place is None:
        return None
    flags = TraceFlags(place.flags)
    return SpanContext(int(place.trace_id, 16), int(place.span_id, 16), True, flags)


def below(traceparent: str | None) -> otel.Context | None:
    """Return the context whose spans are children of that place."""
    place = None if traceparent is None else remote(traceparent)
    return None if place is None else set_span_in_context(NonRecordingSpan(place), otel.Context())


def sending_by(provider: TracerProvider, specs: Sequence[TaskSpec]) -> Sending:
    """Open the producer span of a submit of these tasks; a batch has one for all."""
    types = sorted({spec.type for spec in specs})
    attributes: dict[str, Any] = {
        SYSTEM: SCOPE,
        OPERATION_TYPE: "send",
        OPERATION_NAME: "send",
        TASK_TYPE: types[0] if len(types) == 1 else types,
    }
    if len(specs) > 1:
        attributes[BATCH_COUNT] = len(specs)
    given = specs[0].traceparent if len(specs) == 1 else None
    around = given or carried()
    span = provider.get_tracer(SCOPE, __version__).start_span(
        f"send {types[0]}" if len(types) == 1 else "send",
        below(around),
        kind=SpanKind.PRODUCER,
        attributes=attributes,
    )
    own = span.get_span_context()
    return _Producing(span, written(own) if own.is_valid else around, alone=len(specs) == 1)


class _Producing:
    """A submit with its span."""

    def __init__(self, span: Any, place: str | None, *, alone: bool) -> None:
        self._span = span
        self._place = place
        self._alone = alone

    def of(self, spec: TaskSpec) -> str | None:
        """Return the span itself; in a batch a task may name another place."""
        return self._place if self._alone else spec.traceparent or self._place

    def reached(self, answers: Sequence[Submitted]) -> None:
        """Add what is known now: the ids and the queue, and how many were there already."""
        span = self._span
        if self._alone:
            span.set_attribute(MESSAGE_ID, answers[0].task_id)
        queues = {answer.due.level[0] for answer in answers if answer.due is not None}
        if len(queues) == 1:
            span.set_attribute(DESTINATION, queues.pop())
        span.set_attribute(DEDUP_HITS, sum(not answer.created for answer in answers))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """End the span, as failed if the submit was."""
        if kind is not None:
            self._span.set_attribute(ERROR_TYPE, kind.__qualname__)
            self._span.set_status(StatusCode.ERROR, kind.__qualname__)
        self._span.end()
