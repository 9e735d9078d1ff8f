"""A node's spans packed by ourselves: what arrives is what the SDK would have sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from supervisor.telemetry import trace_packing
from supervisor.telemetry.trace_courier import Courier, _posting
from supervisor.telemetry.trace_packing import Attempted, Packing, Value

PLACES = some.builds(
    lambda trace, span, flags: f"00-{trace:032x}-{span:016x}-{flags:02x}",
    some.integers(1, 2**128 - 1),
    some.integers(1, 2**64 - 1),
    some.sampled_from((1, 3)),
)
TEXTS = some.text(max_size=300)
NUMBERS = some.integers(-(2**63), 2**63 - 1)
SHARES = some.floats(allow_nan=False)
#: Of one name all values are of one kind, as it is with a node's spans.
SHARED = some.fixed_dictionaries(
    {}, optional={"type": TEXTS, "number": NUMBERS, "flag": some.booleans()}
)
OWN = some.fixed_dictionaries({}, optional={"id": TEXTS, "share": SHARES, "count": NUMBERS})
MOMENTS = some.integers(0, 2**63 - 1)
SPANS = some.builds(
    Attempted,
    name=TEXTS,
    place=PLACES,
    parent=some.none() | PLACES,
    before=some.none() | some.integers(1, 2**64 - 1).map(lambda number: f"{number:016x}"),
    start=MOMENTS,
    end=MOMENTS,
    error=some.none() | TEXTS,
    shared=SHARED,
    own=OWN,
)


def packing() -> Packing:
    resource = Resource({"service.name": "tasks", "process.pid": 7}, "https://schema")
    return Packing(resource, InstrumentationScope("supervisor", "1.0"))


@settings(max_examples=80, deadline=None)
@given(some.lists(SPANS, min_size=1, max_size=4))
def test_it_is_what_the_sdk_packs(spans: list[Attempted]) -> None:
    ours = packing()
    for _ in range(2):  # the second time from memory
        found = ExportTraceServiceRequest.FromString(ours.packed(spans))
        assert found == encode_spans(ours.readable(spans))


def test_what_cannot_be_written_as_utf8_spoils_no_batch() -> None:
    (found,) = sent([attempted({"type": "a\ud800b"})])
    assert [one.value.string_value for one in found.attributes] == ["a?b"]


def test_a_place_that_is_none_is_left_out() -> None:
    good = attempted({})
    assert len(sent([good, good._replace(place="00-nothing-01"), good])) == 2


def test_only_so_much_is_remembered() -> None:
    ours = packing()
    many = trace_packing.REMEMBERED_MOST + 10
    for number in range(many):
        ours.packed([attempted({"type": f"t{number}"})])
    assert len(ours._remembered) == 10
    (last,) = sent([attempted({"type": f"t{many - 1}"})], ours)
    assert last.attributes[0].value.string_value == f"t{many - 1}"


def test_the_exporter_sends_what_is_packed_already() -> None:
    """Where this fails spans still arrive, packed by the SDK: see what its client is called now."""
    exporter = OTLPSpanExporter("http://127.0.0.1:1/v1/traces")
    assert _posting(exporter) is not None
    exporter.shutdown()


class Plain(SpanExporter):
    """Another version of the exporter: it takes spans of the SDK."""

    def __init__(self) -> None:
        self.kept: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.kept.extend(spans)
        return SpanExportResult.SUCCESS


class Renamed(Plain):
    """Its client has the name that we know and is called otherwise."""

    def __init__(self) -> None:
        super().__init__()

        class _OTLPHTTPClient:
            def export(self, data: bytes, size: int) -> None:
                raise AssertionError

        self._client = _OTLPHTTPClient()


@pytest.mark.parametrize(
    ("kind", "why"), [(Plain, "no known client in Plain"), (Renamed, "missing 1 required")]
)
def test_an_exporter_that_does_not_is_given_the_spans_of_the_sdk_and_that_is_told_once(
    kind: type[Plain], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = kind()
    courier = Courier("http://here", exporter=exporter, packing=packing())
    for _ in range(3):
        courier.take(attempted({"type": "noop"}))
        courier._send_all()
    courier.close(5)
    told = [(one.name, dict(one.attributes or {})) for one in exporter.kept]
    assert told == [("a", {"type": "noop"})] * 3
    (record,) = caplog.records
    fields = record.__dict__["fields"]
    assert (record.message, why in fields["error"]) == ("traces.slowed", True)
    assert "requirements.lock" in fields["remedy"]


def attempted(attributes: Mapping[str, Value]) -> Attempted:
    return Attempted(
        name="a", place=f"00-{'1' * 32}-{'2' * 16}-01", parent=None, before=None,
        start=1, end=2, error=None, shared=attributes, own={},
    )  # fmt: skip


def sent(spans: list[Attempted], by: Packing | None = None) -> Sequence[ReadableSpan]:
    request = ExportTraceServiceRequest.FromString((by or packing()).packed(spans))
    (of_resource,) = request.resource_spans
    (of_scope,) = of_resource.scope_spans
    return of_scope.spans  # type: ignore[no-any-return]
