"""A node's spans as the protobuf of OTLP, packed without the objects of the SDK.

Secret kept here: that format, and that most of what a span says was said by the one before: what
many share is packed once and remembered. The SDK takes some five times as long, in the interpreter
that the loop needs. `readable` is the same span as the SDK has it. Called by the courier's thread.
Source: opentelemetry-proto 1.x, trace.proto and common.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from supervisor.model.trace import TraceParent, read_traceparent

Value = str | bool | int | float

#: Sets of shared attributes that are remembered: more are as different as tasks are.
REMEMBERED_MOST = 512
#: What a link to the attempt before is called.
LINK: Mapping[str, Value] = {"supervisor.link": "previous_attempt"}

# What stands before each field: its number and its kind; before an id its size, too.
_TRACE_ID, _SPAN_ID, _PARENT_ID = b"\x0a\x10", b"\x12\x08", b"\x22\x08"
_NAME, _KIND, _START, _END, _ATTRIBUTE = b"\x2a", b"\x30", 0x39, 0x41, b"\x4a"
_LINK, _STATUS, _FLAGS = b"\x6a", b"\x7a", b"\x85\x01"
_STATUS_TEXT, _STATUS_CODE = b"\x12", b"\x18"
_LINK_ATTRIBUTE, _LINK_FLAGS = b"\x22", b"\x35"
_RESOURCE_SPANS, _SCOPE_SPANS, _SPAN = b"\x0a", b"\x12", b"\x12"
_KEY, _VALUE = b"\x0a", b"\x12"
_TEXT, _BOOL, _INT, _FLOAT = b"\x0a", b"\x10", b"\x18", 0x21
#: SpanFlags: whether the place above is another process's is known; in the second, it is.
_OWN, _REMOTE = (flags.to_bytes(4, "little") for flags in (0x100, 0x300))
_CONSUMER, _ERROR = b"\x05", b"\x02"
_TIMES = struct.Struct("<BQBQ")
_DOUBLE = struct.Struct("<Bd")


class Attempted(NamedTuple):
    """What the span of an attempt says: small, whatever its task gave back.

    The attributes in `shared` many attempts have alike, those in `own` none has like another.
    `place` and `parent` are traceparents, `before` is the span id of the attempt before, as hex
    digits; `error` says why it is a failure. Times are Unix nanoseconds.
    """

    name: str
    place: str
    parent: str | None
    before: str | None
    start: int
    end: int
    error: str | None
    shared: Mapping[str, Value]
    own: Mapping[str, Value]


class Packing:
    """Packs the spans of one node."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        self._resource, self._scope = resource, scope
        self._remembered: dict[tuple[object, ...], bytes] = {}
        self._link = _attribute(*next(iter(LINK.items())), tag=_LINK_ATTRIBUTE)
        sample = encode_spans([ReadableSpan("", resource=resource, instrumentation_scope=scope,
                                            context=SpanContext(1, 1, False))])  # fmt: skip
        (of_resource,) = sample.resource_spans
        (of_scope,) = of_resource.scope_spans
        del of_scope.spans[:]
        self._scope_head = of_scope.SerializeToString()
        del of_resource.scope_spans[:]
        self._resource_head = of_resource.SerializeToString()

    def packed(self, spans: Sequence[Attempted]) -> bytes:
        """Return the request that sends these spans."""
        inside = [self._scope_head]
        for span in spans:
            if (place := read_traceparent(span.place)) is not None:
                inside += _sized(_SPAN, self._span(span, place))
        of_scope = b"".join(inside)
        of_resource = self._resource_head + b"".join(_sized(_SCOPE_SPANS, of_scope))
        return b"".join(_sized(_RESOURCE_SPANS, of_resource))

    def readable(self, spans: Sequence[Attempted]) -> list[ReadableSpan]:
        """Return the same spans as the SDK has them."""
        places = ((span, read_traceparent(span.place)) for span in spans)
        return [self._readable(span, place) for span, place in places if place is not None]

    def _readable(self, span: Attempted, place: TraceParent) -> ReadableSpan:
        trace_id, flags = int(place.trace_id, 16), TraceFlags(place.flags)
        links: tuple[Link, ...] = ()
        if span.before is not None:
            links = (Link(SpanContext(trace_id, int(span.before, 16), True, flags), LINK),)
        above = None if span.parent is None else read_traceparent(span.parent)
        parent = None
        if above is not None:
            ids = int(above.trace_id, 16), int(above.span_id, 16)
            parent = SpanContext(*ids, True, TraceFlags(above.flags))
        failed = Status(StatusCode.ERROR, span.error)
        return ReadableSpan(
            span.name,
            SpanContext(trace_id, int(place.span_id, 16), False, flags),
            parent,
            self._resource,
            {**span.shared, **span.own},
            links=links,
            kind=SpanKind.CONSUMER,
            status=Status(StatusCode.UNSET) if span.error is None else failed,
            start_time=span.start,
            end_time=span.end,
            instrumentation_scope=self._scope,
        )

    def _span(self, span: Attempted, place: TraceParent) -> bytes:
        trace_id = bytes.fromhex(place.trace_id)
        above = None if span.parent is None else read_traceparent(span.parent)
        parts = [_TRACE_ID, trace_id, _SPAN_ID, bytes.fromhex(place.span_id)]
        if above is not None:
            parts += (_PARENT_ID, bytes.fromhex(above.span_id))
        parts += (*_sized(_NAME, _text(span.name)), _KIND, _CONSUMER)
        parts.append(_TIMES.pack(_START, span.start, _END, span.end))
        parts.append(self._shared(span.shared))
        parts += [_attribute(name, value) for name, value in span.own.items()]
        if span.before is not None:
            parts += _sized(_LINK, self._packed_link(trace_id, span.before))
        status = b""
        if span.error is not None:
            why = _sized(_STATUS_TEXT, _text(span.error))
            status = b"".join((*why, _STATUS_CODE, _ERROR))
        parts += _sized(_STATUS, status)
        parts += (_FLAGS, _OWN if above is None else _REMOTE)
        return b"".join(parts)

    def _packed_link(self, trace_id: bytes, before: str) -> bytes:
        ids = (_TRACE_ID, trace_id, _SPAN_ID, bytes.fromhex(before))
        return b"".join((*ids, self._link, _LINK_FLAGS, _REMOTE))

    def _shared(self, attributes: Mapping[str, Value]) -> bytes:
        pairs = tuple(attributes.items())
        key = pairs, tuple(type(value) for value in attributes.values())  # 1 is True to a key
        packed = self._remembered.get(key)
        if packed is None:
            if len(self._remembered) >= REMEMBERED_MOST:
                self._remembered.clear()
            packed = self._remembered[key] = b"".join(_attribute(*pair) for pair in pairs)
        return packed


def _attribute(name: str, value: Value, tag: bytes = _ATTRIBUTE) -> bytes:
    pair = b"".join((*_sized(_KEY, name.encode()), *_sized(_VALUE, _any(value))))
    return b"".join(_sized(tag, pair))


def _any(value: Value) -> bytes:
    if isinstance(value, bool):
        return _BOOL + bytes((value,))
    if isinstance(value, int):
        return _INT + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if isinstance(value, float):
        return _DOUBLE.pack(_FLOAT, value)
    return b"".join(_sized(_TEXT, _text(value)))


def _text(value: str) -> bytes:
    return value.encode(errors="replace")


def _sized(tag: bytes, content: bytes) -> tuple[bytes, bytes, bytes]:
    return tag, _varint(len(content)), content


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
