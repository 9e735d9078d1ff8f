"""Traces without a node: when they are on, what leaves in which order, and what a loss costs."""

from __future__ import annotations

import importlib.metadata
import itertools
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

import pytest
from opentelemetry import context as otel
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from supervisor.errors import StoreUnavailable
from supervisor.model.record import Due, Submitted
from supervisor.model.spec import TaskSpec
from supervisor.telemetry import trace
from supervisor.telemetry.trace import Plan, Sender, attached, carried, plan
from supervisor.telemetry.trace_api import sending_by
from supervisor.telemetry.trace_courier import Courier

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{SPAN}-01"
HERE = "http://127.0.0.1:4318"


class TestPlan:
    @pytest.mark.parametrize(
        ("variables", "endpoint"),
        [
            ({"ENDPOINT": HERE}, f"{HERE}/v1/traces"),
            ({"ENDPOINT": f"{HERE}/"}, f"{HERE}/v1/traces"),
            ({"ENDPOINT": f"{HERE}/otlp"}, f"{HERE}/otlp/v1/traces"),
            ({"TRACES_ENDPOINT": f"{HERE}/in"}, f"{HERE}/in"),
            ({"TRACES_ENDPOINT": f"{HERE}/in", "ENDPOINT": "http://other"}, f"{HERE}/in"),
            ({"ENDPOINT": "https://me:secret@host/a?key=secret"}, "https://host/a"),
            ({"ENDPOINT": HERE, "PROTOCOL": "http/protobuf"}, f"{HERE}/v1/traces"),
            ({"ENDPOINT": HERE, "PROTOCOL": "grpc", "TRACES_PROTOCOL": "http/protobuf"},
             f"{HERE}/v1/traces"),
        ],
    )  # fmt: skip
    def test_an_endpoint_turns_it_on(self, variables: dict[str, str], endpoint: str) -> None:
        environ = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}
        found = plan(environ)
        assert (found.off, found.remedy) == ("", "")
        assert found.endpoint.startswith(endpoint)
        assert "secret" not in found.endpoint

    @pytest.mark.parametrize(
        ("environ", "why"),
        [
            ({}, "OTEL_EXPORTER_OTLP_ENDPOINT is not set"),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, "OTEL_EXPORTER_OTLP_ENDPOINT is not set"),
            (
                {"OTEL_EXPORTER_OTLP_ENDPOINT": HERE, "OTEL_SDK_DISABLED": "True"},
                "OTEL_SDK_DISABLED is true",
            ),
            (
                {"OTEL_EXPORTER_OTLP_ENDPOINT": HERE, "OTEL_TRACES_EXPORTER": "none"},
                "OTEL_TRACES_EXPORTER is none",
            ),
        ],
    )
    def test_who_does_not_want_it_is_told_of_no_fault(
        self, environ: dict[str, str], why: str
    ) -> None:
        assert plan(environ) == Plan(off=why)
        assert not plan(environ).refused

    @pytest.mark.parametrize(
        ("more", "why", "remedy"),
        [
            ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "is grpc", "http/protobuf"),
            ({"OTEL_TRACES_EXPORTER": "zipkin"}, "is zipkin", "otlp"),
            ({"OTEL_EXPORTER_OTLP_ENDPOINT": "host:4318"}, "no http://", "http://HOST"),
        ],
    )
    def test_what_is_wanted_and_cannot_be_has_a_remedy(
        self, more: dict[str, str], why: str, remedy: str
    ) -> None:
        found = plan({"OTEL_EXPORTER_OTLP_ENDPOINT": HERE, **more})
        assert found.refused
        assert why in found.off
        assert remedy in found.remedy

    def test_without_the_extra_it_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing(name: str) -> str:
            raise importlib.metadata.PackageNotFoundError(name)

        monkeypatch.setattr(importlib.metadata, "version", missing)
        found = plan({"OTEL_EXPORTER_OTLP_ENDPOINT": HERE})
        assert found.off.startswith("opentelemetry-sdk and ")
        assert "pip install 'task-supervisor[otel]'" in found.remedy


@pytest.fixture
def memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(memory: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(memory))
    return made


@pytest.fixture(autouse=True)
def no_trace_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("TRACEPARENT", raising=False)


class TestWhereACallerIs:
    def test_nowhere(self) -> None:
        assert carried() is None

    def test_in_the_span_that_is_current(self, provider: TracerProvider) -> None:
        with provider.get_tracer("app").start_as_current_span("request") as span:
            place = span.get_span_context()
            told = carried()
        assert told is not None
        assert told.startswith(f"00-{place.trace_id:032x}-{place.span_id:016x}-")
        assert carried() is None

    def test_where_the_environment_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRACEPARENT", GIVEN)
        assert carried() == GIVEN
        monkeypatch.setenv("TRACEPARENT", "nonsense")
        assert carried() is None

    def test_where_a_body_is_attached_to(self) -> None:
        with attached(GIVEN):
            assert carried() == os.environ["TRACEPARENT"] == GIVEN
            inside = api.get_current_span().get_span_context()
            assert (f"{inside.trace_id:032x}", f"{inside.span_id:016x}") == (TRACE, SPAN)
        assert carried() is None
        assert "TRACEPARENT" not in os.environ
        assert not api.get_current_span().get_span_context().is_valid

    def test_it_is_left_again_whatever_happens_in_between(self) -> None:
        def leaves_a_mess() -> None:
            with attached(GIVEN):
                otel.attach(otel.set_value("a body that does not", "clean up"))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            leaves_a_mess()
        assert "TRACEPARENT" not in os.environ


class TestSubmits:
    def test_off_hands_on_what_is_given_or_where_the_caller_is(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TRACEPARENT", GIVEN)
        other = GIVEN.replace("0af", "1af")
        specs = [TaskSpec(type="a"), TaskSpec(type="b", traceparent=other)]
        with Sender().sending(specs) as sent:
            assert [sent.of(spec) for spec in specs] == [GIVEN, other]
            sent.reached([Submitted("task_1", created=True)])

    def test_nothing_to_send_is_no_span(self) -> None:
        with Sender().sending([]) as sent:
            sent.reached([])

    def test_one_task_has_a_span_below_what_was_given(
        self, provider: TracerProvider, memory: InMemorySpanExporter
    ) -> None:
        spec = TaskSpec(type="greet", traceparent=GIVEN)
        with sending_by(provider, [spec]) as sent:
            place = sent.of(spec)
            sent.reached(
                [Submitted("task_1", created=True, due=Due(("mail", 5, "greet"), "task_1", 0))]
            )
        (span,) = memory.get_finished_spans()
        assert span.context is not None
        assert span.parent is not None
        assert f"{span.parent.span_id:016x}" == SPAN
        assert place is not None
        assert place.startswith(f"00-{TRACE}-{span.context.span_id:016x}-")
        assert (span.name, span.kind) == ("send greet", api.SpanKind.PRODUCER)
        assert dict(span.attributes or {}) == {
            "messaging.system": "supervisor",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.destination.name": "mail",
            "messaging.message.id": "task_1",
            "supervisor.task.type": "greet",
            "supervisor.dedup.hits": 0,
        }

    def test_a_batch_has_one_span_for_all_that_name_no_other_place(
        self, provider: TracerProvider, memory: InMemorySpanExporter
    ) -> None:
        specs = [TaskSpec(type="a"), TaskSpec(type="b", traceparent=GIVEN), TaskSpec(type="a")]
        with sending_by(provider, specs) as sent:
            places = [sent.of(spec) for spec in specs]
            sent.reached([Submitted(f"task_{n}", created=n > 0) for n in range(3)])
        (span,) = memory.get_finished_spans()
        assert places[0] == places[2] != places[1] == GIVEN
        told = dict(span.attributes or {})
        assert (span.name, told["messaging.batch.message_count"]) == ("send", 3)
        assert (told["supervisor.task.type"], told["supervisor.dedup.hits"]) == (("a", "b"), 1)

    def test_a_submit_that_fails_is_an_error(
        self, provider: TracerProvider, memory: InMemorySpanExporter
    ) -> None:
        with pytest.raises(StoreUnavailable), sending_by(provider, [TaskSpec(type="greet")]):
            raise StoreUnavailable("the store is away: password")
        (span,) = memory.get_finished_spans()
        assert (span.status.status_code, span.status.description) == (
            api.StatusCode.ERROR,
            "StoreUnavailable",
        )
        assert "password" not in span.to_json()

    def test_the_names_are_those_of_the_conventions(self) -> None:
        from opentelemetry.semconv._incubating.attributes import messaging_attributes as names
        from opentelemetry.semconv.attributes import error_attributes

        from supervisor.telemetry import trace_api

        pairs = {
            trace_api.SYSTEM: names.MESSAGING_SYSTEM,
            trace_api.OPERATION_TYPE: names.MESSAGING_OPERATION_TYPE,
            trace_api.OPERATION_NAME: names.MESSAGING_OPERATION_NAME,
            trace_api.DESTINATION: names.MESSAGING_DESTINATION_NAME,
            trace_api.MESSAGE_ID: names.MESSAGING_MESSAGE_ID,
            trace_api.BATCH_COUNT: names.MESSAGING_BATCH_MESSAGE_COUNT,
            trace_api.ERROR_TYPE: error_attributes.ERROR_TYPE,
        }
        assert all(ours == theirs for ours, theirs in pairs.items())
        kinds = {kind.value for kind in names.MessagingOperationTypeValues}
        assert {"send", "process"} <= kinds


class Gate(SpanExporter):
    """An exporter that refuses or holds on to what it gets, as the test says."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.answer = SpanExportResult.SUCCESS
        self.open = threading.Event()
        self.open.set()
        self.got = threading.Semaphore(0)
        self.closed = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.batches.append(len(spans))
        self.got.release()
        self.open.wait(10)
        return self.answer

    def shutdown(self) -> None:
        self.closed.set()
        self.open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


def _span(sampled: bool = True) -> ReadableSpan:
    flags = api.TraceFlags(1 if sampled else 0)
    return ReadableSpan("a", api.SpanContext(int(TRACE, 16), int(SPAN, 16), False, flags))


def _courier(
    monkeypatch: pytest.MonkeyPatch, gate: Gate, failed: list[int], **more: int
) -> Courier:
    limits = {"SCHEDULE_DELAY": 3_600_000, "MAX_QUEUE_SIZE": 10, "MAX_EXPORT_BATCH_SIZE": 4, **more}
    for name, value in limits.items():
        monkeypatch.setenv(f"OTEL_BSP_{name}", str(value))
    return Courier("http://here", lambda: failed.append(1), exporter=gate)


class TestCourier:
    def test_a_full_batch_goes_at_once_and_the_rest_at_the_end(
        self, monkeypatch: pytest.MonkeyPatch, gate: Gate
    ) -> None:
        courier = _courier(monkeypatch, gate, [])
        for _ in range(4):
            courier.on_end(_span())
        assert gate.got.acquire(timeout=5)
        courier.on_end(_span())
        courier.on_end(_span(sampled=False))
        courier.close(5)
        assert sum(gate.batches) == 5
        assert gate.closed.is_set()
        courier.on_end(_span())
        courier.close(5)
        assert sum(gate.batches) == 5

    def test_what_finds_the_queue_full_is_lost_and_told_once(
        self, monkeypatch: pytest.MonkeyPatch, gate: Gate, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "supervisor")
        failed: list[int] = []
        gate.open.clear()
        courier = _courier(monkeypatch, gate, failed)
        for _ in range(4):
            courier.on_end(_span())
        assert gate.got.acquire(timeout=5)  # it holds a batch, and ten more may wait
        for _ in range(13):
            courier.on_end(_span())
        gate.open.set()
        courier.close(5)
        assert sum(gate.batches) == 14
        assert failed == []
        assert _told(caplog) == [("traces.lost", 3)]

    def test_a_refusal_is_told_at_its_beginning_and_at_its_end(
        self, monkeypatch: pytest.MonkeyPatch, gate: Gate, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "supervisor")
        failed: list[int] = []
        gate.answer = SpanExportResult.FAILURE
        courier = _courier(monkeypatch, gate, failed, MAX_EXPORT_BATCH_SIZE=1)
        for _ in range(3):
            courier.on_end(_span())
            assert gate.got.acquire(timeout=5)
        gate.answer = SpanExportResult.SUCCESS
        courier.on_end(_span())
        assert gate.got.acquire(timeout=5)
        courier.close(5)
        assert len(failed) in (2, 3)  # the last may have been answered after the change
        (lost, *_), (name, more) = _told(caplog)[0], _told(caplog)[-1]
        assert (lost, name) == ("traces.lost", "traces.recovered")
        assert 1 + more == len(failed)

    def test_an_exporter_that_raises_is_one_that_refuses(
        self, monkeypatch: pytest.MonkeyPatch, gate: Gate, caplog: pytest.LogCaptureFixture
    ) -> None:
        failed: list[int] = []
        courier = _courier(monkeypatch, gate, failed)
        monkeypatch.setattr(gate, "export", lambda _: 1 / 0)
        courier.on_end(_span())
        courier.close(5)
        assert failed == [1]
        (record,) = [r for r in caplog.records if r.message == "traces.lost"]
        assert record.__dict__["fields"]["error"] == "ZeroDivisionError('division by zero')"

    def test_the_end_waits_no_longer_than_it_may(
        self, monkeypatch: pytest.MonkeyPatch, gate: Gate, caplog: pytest.LogCaptureFixture
    ) -> None:
        gate.open.clear()
        courier = _courier(monkeypatch, gate, [])
        for _ in range(6):
            courier.on_end(_span())
        assert gate.got.acquire(timeout=5)
        courier.close(0.05)
        assert gate.closed.is_set()  # told to wait for no second try
        assert _told(caplog) == [("traces.lost", 2)]

    def test_a_forked_child_neither_sends_nor_waits(
        self, monkeypatch: pytest.MonkeyPatch, gate: Gate
    ) -> None:
        courier = _courier(monkeypatch, gate, [])
        monkeypatch.setattr("supervisor.telemetry.trace_courier.os.getpid", lambda: 1)
        courier.on_end(_span())
        courier.close(5)
        assert not gate.closed.is_set()
        monkeypatch.undo()
        courier.close(5)
        assert gate.batches == []

    def test_variables_that_are_no_numbers_are_as_if_not_set(
        self, monkeypatch: pytest.MonkeyPatch, gate: Gate
    ) -> None:
        for name in ("SCHEDULE_DELAY", "MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE"):
            monkeypatch.setenv(f"OTEL_BSP_{name}", "-1")
        courier = Courier("http://here", exporter=gate)
        courier.on_end(_span())
        courier.close(5)
        assert gate.batches == [1]


@pytest.mark.parametrize("answers", [True, False])
def test_a_courier_that_is_closed_listens_to_the_exporter_no_more(
    monkeypatch: pytest.MonkeyPatch, gate: Gate, answers: bool
) -> None:
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    assert (logger.handlers, logger.propagate) == ([], True)
    first, second = _courier(monkeypatch, gate, []), _courier(monkeypatch, gate, [])
    assert (len(logger.handlers), logger.propagate) == (2, False)
    first.close(5)
    assert (len(logger.handlers), logger.propagate) == (1, False)
    if not answers:
        gate.open.clear()
        second.on_end(_span())
    second.close(5 if answers else 0.05)
    assert (logger.handlers, logger.propagate) == ([], True)


def _told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    return [
        (record.message, record.__dict__["fields"]["spans"])
        for record in caplog.records
        if record.message.startswith("traces.")
    ]


def test_a_flush_under_way_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, flushed = threading.Semaphore(0), threading.Event(), []

    class Provider:
        def force_flush(self, millis: int) -> bool:
            flushed.append(millis)
            begun.release()
            return go_on.wait(10)

    monkeypatch.setattr(trace, "_app_provider", Provider)
    flusher = trace.Flusher()
    flusher.flush()
    assert begun.acquire(timeout=5)
    for _ in range(3):
        flusher.flush()
    assert flushed == [1000]
    go_on.set()
    flusher.finish()
    assert flushed in ([1000, 1000], [1000, 1000, 1000])


def _flushed() -> None:
    for thread in [one for one in threading.enumerate() if one.name == "supervisor-flush"]:
        thread.join(5)


def test_no_flush_is_lost_however_it_meets_the_end_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []

    class Provider:
        def force_flush(self, _millis: int) -> bool:
            said.append("sent")
            return True

    def flush(flusher: trace.Flusher) -> None:
        said.append("asked")
        flusher.flush()

    monkeypatch.setattr(trace, "_app_provider", Provider)
    for at in itertools.count():
        flusher, steps = trace.Flusher(), itertools.count()
        asking = threading.Thread(target=flush, args=(flusher,))

        def step(
            frame: FrameType,
            _event: str,
            _arg: object,
            at: int = at,
            steps: Iterator[int] = steps,
            asking: threading.Thread = asking,
        ) -> object:
            if not frame.f_code.co_filename.endswith("telemetry/trace.py"):
                return None
            frame.f_trace_opcodes = True
            if next(steps) == at:
                threading.settrace(None)  # type: ignore[arg-type]
                asking.start()
                asking.join(0.02)  # it may have to wait for us
            return step

        said.clear()
        threading.settrace(step)
        flusher.flush()
        threading.settrace(None)  # type: ignore[arg-type]
        _flushed()
        if asking.ident is None:
            break  # all steps have been tried
        asking.join(5)
        _flushed()
        assert said[-1] == "sent", f"the flush asked for at step {at} was lost: {said}"
    assert at > 10


def test_without_a_tracer_of_the_app_there_is_nothing_to_flush() -> None:
    flusher = trace.Flusher()
    flusher.flush()
    flusher.finish()
    assert [one.name for one in threading.enumerate() if one.name == "supervisor-flush"] == []


def test_an_endpoint_that_is_no_address_is_refused_with_a_remedy() -> None:
    told = trace.plan({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1"})
    assert told.refused
    assert told.off == "the endpoint is no address: Invalid IPv6 URL"
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in told.remedy
