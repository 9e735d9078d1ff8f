"""Traces from end to end: a span for each attempt, whatever ended it, below where it was submitted.

Nodes, workers and submitters are real, and so is the collector, which stands in this process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import NodeUnderTest, Start, eventually, on_both_stores
from otlp import Collector, Span, collecting
from servers import free_port

from supervisor.model.trace import attempt_span, attempt_trace

APP = "tests.programs.tasks_traced:app"
OWN_SPANS = "tests.programs.tasks_with_spans:app"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{PARENT}-01"


def exported(node: NodeUnderTest, url: str, delay_ms: int = 50, **more: str) -> NodeUnderTest:
    """Have the spans of a node that has not been started go to a collector."""
    node.env |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_BSP_SCHEDULE_DELAY": str(delay_ms),
        **more,
    }
    return node


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as one:
        yield one


@pytest.fixture(scope="module")
def traced(nursery: Any, collector: Collector) -> Iterator[NodeUnderTest]:
    """One node that writes spans, for all tests that do nothing to it."""
    node = exported(nursery.make(APP, {"workers": 2}), collector.url, OTEL_SERVICE_NAME="shop")
    node.start()
    yield node
    assert nursery.close(node) == []


def submitted(node: NodeUnderTest, kind: str, place: str | None = GIVEN, **params: Any) -> str:
    handle = node.submit(kind, spec={"traceparent": place}, **params)
    handle.wait(30)
    return handle.task_id


def by_command_line(node: NodeUnderTest) -> str:
    task_id: str = node.cli_json("submit", "where")["tasks"][0]["task_id"]
    node.app.get(task_id).wait(30)
    return task_id


def spans_of(collector: Collector, task_id: str, number: int = 1) -> list[Span]:
    found: list[Span] = collector.wait(
        lambda: (spans := collector.of(task_id)) and len(spans) >= number and spans,
        what=f"{number} spans of {task_id}",
    )
    assert len(found) == number
    return found


# -- one attempt


def test_from_the_command_line_to_the_end(traced: NodeUnderTest, collector: Collector) -> None:
    before = time.time_ns()
    task_id = by_command_line(traced)
    (ran,) = spans_of(collector, task_id)
    (sent,) = collector.wait(
        lambda: [
            span
            for span in collector.named("send where")
            if span.attributes.get("messaging.message.id") == task_id
        ]
    )
    assert (sent.kind, sent.parent, sent.status) == ("PRODUCER", "", "UNSET")
    assert (ran.kind, ran.name, ran.status) == ("CONSUMER", "process where", "UNSET")
    assert (ran.trace_id, ran.parent) == (sent.trace_id, sent.span_id)
    assert before < sent.start < ran.start <= ran.end < time.time_ns()
    (attempt,) = traced.attempts(task_id)
    assert attempt.started_at is not None
    assert attempt.ended_at is not None
    assert ran.start == round(attempt.started_at.timestamp() * 1e6) * 1000
    assert ran.end == round(attempt.ended_at.timestamp() * 1e6) * 1000
    assert attempt.traceparent is not None
    assert attempt.traceparent.split("-")[1:3] == [ran.trace_id, ran.span_id]
    assert sent.attributes == {
        "messaging.system": "supervisor",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": "default",
        "messaging.message.id": task_id,
        "supervisor.task.type": "where",
        "supervisor.dedup.hits": 0,
    }
    numbers = {
        name: ran.attributes.pop(f"supervisor.{name}") for name in ("cpu_s", "max_rss_bytes")
    }
    assert 0 <= numbers["cpu_s"] < 5
    assert numbers["max_rss_bytes"] > 1_000_000
    assert ran.attributes == {
        "messaging.system": "supervisor",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": task_id,
        "supervisor.task.type": "where",
        "supervisor.attempt": 1,
        "supervisor.outcome": "success",
        "supervisor.reason": "returned",
        "supervisor.state": "SUCCESS",
        "supervisor.proof": "reported",
        "supervisor.effects_unknown": False,
        "supervisor.worker.id": attempt.worker_id,
        "process.pid": attempt.pid,
    }
    assert ran.resource["service.name"] == sent.resource["service.name"] == "shop"
    assert ran.resource["service.instance.id"] == traced.node_id()
    assert traced.cli_json("show", task_id)["trace_id"] == ran.trace_id
    assert f"trace      {ran.trace_id}" in traced.cli("show", task_id).stdout


def test_a_command_line_within_a_trace_submits_below_it(
    traced: NodeUnderTest, collector: Collector
) -> None:
    traced.env["TRACEPARENT"] = GIVEN
    try:
        task_id = by_command_line(traced)
    finally:
        del traced.env["TRACEPARENT"]
    (ran,) = spans_of(collector, task_id)
    (sent,) = [span for span in collector.named("send where") if span.span_id == ran.parent]
    assert (sent.trace_id, sent.parent) == (TRACE, PARENT)


def test_the_body_knows_its_span_before_that_is_written(
    traced: NodeUnderTest, collector: Collector
) -> None:
    handle = traced.submit("where", spec={"traceparent": GIVEN})
    handle.wait(30)
    own = f"00-{TRACE}-{attempt_span(handle.task_id, 1)}-01"
    assert handle.result() == {"own": own, "environment": own, "loaded": []}
    (span,) = spans_of(collector, handle.task_id)
    assert (span.trace_id, span.parent) == (TRACE, PARENT)
    assert span.span_id == attempt_span(handle.task_id, 1)


def test_a_task_that_nobody_traced_begins_a_trace(
    traced: NodeUnderTest, collector: Collector
) -> None:
    task_id = submitted(traced, "where", None)
    (span,) = spans_of(collector, task_id)
    assert (span.trace_id, span.parent) == (attempt_trace(task_id), "")
    assert traced.cli_json("show", task_id)["trace_id"] == span.trace_id


def test_a_program_that_the_body_starts_is_below_its_span(traced: NodeUnderTest) -> None:
    handle = traced.submit("program", spec={"traceparent": GIVEN})
    handle.wait(30)
    assert handle.result() == f"00-{TRACE}-{attempt_span(handle.task_id, 1)}-01"


def test_what_is_not_sampled_leaves_no_span_and_says_so(
    traced: NodeUnderTest, collector: Collector
) -> None:
    handle = traced.submit("where", spec={"traceparent": f"{GIVEN[:-2]}00"})
    handle.wait(30)
    assert handle.result()["own"] == f"00-{TRACE}-{attempt_span(handle.task_id, 1)}-00"
    spans_of(collector, submitted(traced, "where"))  # what came later has arrived
    assert collector.of(handle.task_id) == []


# -- how it ended


def test_an_attempt_that_was_sigkilled_has_its_span(
    traced: NodeUnderTest, collector: Collector
) -> None:
    task_id = submitted(traced, "die")
    (span,) = spans_of(collector, task_id)
    (attempt,) = traced.attempts(task_id)
    assert (span.status, span.description) == ("ERROR", f"{attempt.reason}: WorkerCrashed")
    assert (span.trace_id, span.parent) == (TRACE, PARENT)
    told = span.attributes
    assert told["process.pid"] == attempt.pid
    assert told["error.type"] == "WorkerCrashed"
    assert (told["supervisor.outcome"], told["supervisor.proof"]) == ("failed", "exited")
    assert told["supervisor.effects_unknown"] is True
    (record,) = eventually(lambda: traced.reader.autopsies(task_id), 10)
    assert told["supervisor.autopsy.id"] == record.autopsy_id


def test_an_attempt_that_ran_out_of_time_has_its_span_and_evidence_of_it(
    traced: NodeUnderTest, collector: Collector
) -> None:
    task_id = submitted(traced, "hang")
    (span,) = spans_of(collector, task_id)
    told = span.attributes
    assert (span.status, span.description) == ("ERROR", "timeout")
    assert (told["error.type"], told["supervisor.verdict"]) == ("timeout", "timeout")
    assert (told["supervisor.outcome"], told["supervisor.state"]) == ("timeout", "TIMEOUT")
    assert span.lasted_s >= 1
    (record,) = traced.reader.autopsies(task_id)
    assert told["supervisor.autopsy.id"] == record.autopsy_id
    ids = {"trace_id": TRACE, "span_id": span.span_id}
    facts = traced.bundle(task_id).sections["facts"]
    assert {name: facts[name] for name in ids} == ids
    assert f"trace {TRACE}, span {span.span_id}" in traced.cli("autopsy", "show", task_id).stdout
    for name in ("verdict.reached", "autopsy.taken", "task.died"):
        (line,) = [one for one in traced.events(name) if one["task_id"] == task_id]
        assert {key: line[key] for key in ids} == ids
        assert "undeclared" not in line


def test_a_retry_is_linked_to_the_attempt_before(
    traced: NodeUnderTest, collector: Collector
) -> None:
    task_id = submitted(traced, "flaky")
    first, second = spans_of(collector, task_id, 2)
    assert {(span.trace_id, span.parent) for span in (first, second)} == {(TRACE, PARENT)}
    assert (first.links, second.links) == ((), ((TRACE, first.span_id),))
    assert (first.status, first.description) == ("ERROR", "raised: ValueError")
    assert (first.attributes["supervisor.state"], second.status) == ("PENDING", "UNSET")
    assert first.attributes["supervisor.retry.delay_s"] > 0
    assert first.end <= second.start
    assert "secret-of-the-task" not in str(collector.spans)


def test_what_was_canceled_is_no_error(traced: NodeUnderTest, collector: Collector) -> None:
    handle = traced.submit("wait_for_cancel", spec={"traceparent": GIVEN})
    traced.started(handle)
    handle.cancel(by="anna", reason="enough")
    handle.wait(30)
    (span,) = spans_of(collector, handle.task_id)
    assert (span.status, span.attributes["supervisor.outcome"]) == ("UNSET", "canceled")
    (line,) = [one for one in traced.events("cancel.verified") if one["task_id"] == handle.task_id]
    assert (line["trace_id"], line["span_id"]) == (TRACE, span.span_id)


# -- what belongs to it


def test_tasks_that_a_task_submits_are_below_its_attempt(
    traced: NodeUnderTest, collector: Collector
) -> None:
    handle = traced.submit("family", spec={"traceparent": GIVEN})
    handle.wait(30)
    own = attempt_span(handle.task_id, 1)
    told = handle.result()
    rows = traced.query(
        f"SELECT task_id, traceparent FROM tasks WHERE parent_id = '{handle.task_id}'"
    )
    assert len(rows) == 3
    assert {told["first"], told["from_thread"]} < {row[0] for row in rows}
    assert {row[1] for row in rows} == {f"00-{TRACE}-{own}-01"}
    for child, _ in rows:
        (span,) = spans_of(collector, child)
        assert (span.trace_id, span.parent) == (TRACE, own)


def test_the_apps_own_spans_are_below_the_attempt_and_sent_when_it_ends(
    start_node: Start, collector: Collector
) -> None:
    node = exported(start_node(OWN_SPANS, run=False, workers=1), collector.url).start()
    handle = node.submit("inner", spec={"traceparent": GIVEN})
    handle.wait(30)
    child = handle.result()
    (query,) = collector.wait(lambda: collector.named("query"), what="the span of the app")
    assert (query.trace_id, query.parent) == (TRACE, attempt_span(handle.task_id, 1))
    (ran,) = spans_of(collector, child)
    assert (ran.trace_id, ran.parent) == (TRACE, query.span_id)
    name = "query in a coroutine"
    (inside,) = collector.wait(lambda: collector.named(name), what="the span of a coroutine")
    assert (inside.trace_id, inside.parent) == (TRACE, ran.span_id)
    by_client = node.submit("by_client", spec={"traceparent": GIVEN})
    by_client.wait(30)
    (sent,) = collector.wait(lambda: collector.named("send inner_async"))
    (around,) = collector.wait(lambda: collector.named("around"))
    assert (around.parent, sent.parent) == (attempt_span(by_client.task_id, 1), around.span_id)
    assert spans_of(collector, by_client.result())[0].parent == sent.span_id
    assert node.stop() == 0


def test_log_records_of_a_task_bear_its_ids(traced: NodeUnderTest) -> None:
    task_id = submitted(traced, "note")
    ids = f"ids {TRACE} {attempt_span(task_id, 1)}: seen"
    assert ids in traced.cli("logs", task_id).stdout


# -- nodes that die, stop and sample


@on_both_stores
def test_the_span_of_an_attempt_whose_node_was_killed_is_written_by_the_next(
    start_node: Start, collector: Collector, tmp_path: Path
) -> None:
    node = exported(start_node(APP, run=False, workers=1), collector.url)
    node.start()
    seen = tmp_path / "seen"
    handle = node.submit("nap", spec={"traceparent": GIVEN}, file=str(seen), s=60)
    node.started(handle)
    pid = node.worker_pids()[0]
    node.kill()
    assert collector.of(handle.task_id) == []
    node.restart()
    handle.wait(30)
    lost, ran = spans_of(collector, handle.task_id, 2)
    assert seen.read_text().split() == [f"00-{TRACE}-{span.span_id}-01" for span in (lost, ran)]
    assert (lost.status, lost.attributes["supervisor.reason"]) == ("ERROR", "node_lost")
    assert (lost.attributes["process.pid"], lost.parent) == (pid, PARENT)
    assert ran.links == ((TRACE, lost.span_id),)
    told = [(line["trace_id"], line["span_id"]) for line in node.events("task.swept")]
    assert told == [(TRACE, lost.span_id)]


def test_spans_are_sent_before_the_node_is_gone(start_node: Start, collector: Collector) -> None:
    node = exported(start_node(APP, run=False, workers=1), collector.url, 3_600_000)
    node.start()
    task_id = submitted(node, "where")
    sleeping = node.submit("nap", file="/dev/null", s=60, spec={"traceparent": GIVEN})
    node.started(sleeping)
    assert collector.of(task_id) == []
    assert node.stop() == 0
    (span,) = spans_of(collector, task_id)
    assert span.status == "UNSET"
    (given_back,) = spans_of(collector, sleeping.task_id)
    told = given_back.attributes
    assert (given_back.status, told["supervisor.outcome"]) == ("UNSET", "requeued")
    assert (told["supervisor.reason"], told["supervisor.state"]) == ("shutdown", "PENDING")


def test_a_sampler_that_the_variables_name_decides(start_node: Start, collector: Collector) -> None:
    node = start_node(APP, run=False, workers=1)
    exported(node, collector.url, OTEL_TRACES_SAMPLER="parentbased_always_off")
    node.start()
    unsampled, sampled = submitted(node, "where", None), submitted(node, "where")
    spans_of(collector, sampled)  # its parent was
    assert node.stop() == 0
    assert collector.of(unsampled) == []


# -- a collector that is away, refuses, or never answers


def failures(node: NodeUnderTest) -> float:
    name = "supervisor_otel_export_failures_total"
    return node.metrics()[name, (("signal", "traces"),)]


def test_a_collector_that_is_away_costs_spans_and_nothing_else(start_node: Start) -> None:
    port = free_port()
    node = exported(start_node(APP, run=False, workers=1), f"http://127.0.0.1:{port}")
    node.start()
    for _ in range(3):
        assert node.run("where", timeout=10).state == "SUCCESS"
    eventually(lambda: failures(node) >= 1, 15)
    (lost,) = node.events("traces.lost")
    assert lost["endpoint"] == f"http://127.0.0.1:{port}/v1/traces"
    assert lost["spans"] >= 1
    with collecting(port) as late:
        task_id = submitted(node, "where")
        eventually(lambda: node.events("traces.recovered"), 15)
        spans_of(late, task_id)
        assert len(node.events("traces.lost")) == len(node.events("traces.recovered")) == 1
    assert [x for x in node.log_text().splitlines() if x and not x.startswith("{")] == []
    assert node.stop() == 0


def test_a_collector_that_refuses_is_told_of_once(start_node: Start) -> None:
    with collecting() as refusing:
        refusing.status = 503
        node = exported(start_node(APP, run=False, workers=1), refusing.url)
        node.start()
        for _ in range(3):
            submitted(node, "where")
            refusing.wait(lambda seen=refusing.requests: refusing.requests > seen)
        eventually(lambda: failures(node) >= 1, 15)
        refusing.status = 200
        task_id = submitted(node, "where")
        spans_of(refusing, task_id)
        assert len(node.events("traces.lost")) == 1
        assert node.stop() == 0


def test_a_collector_that_never_answers_holds_nobody_up(start_node: Start) -> None:
    with collecting() as silent:
        silent.answering.clear()
        node = exported(start_node(OWN_SPANS, run=False, workers=1), silent.url).start()
        for _ in range(5):
            began = time.monotonic()
            submitted(node, "inner")  # its flush takes 2 s, in a thread that nobody waits for
            assert time.monotonic() - began < 5
        eventually(lambda: node.events("traces.lost"), 15)
        assert node.stop(40) == 0
        assert node.cli("submit", "inner").returncode == 0


# -- off


def test_without_an_endpoint_nothing_of_it_is_imported(start_node: Start) -> None:
    """Client, node, zygote and worker: Python itself tells what it imports."""
    node = start_node(APP, run=False, workers=1)
    node.env["PYTHONPROFILEIMPORTTIME"] = "1"
    node.start()
    answer = node.cli("submit", "where", "--json")
    assert answer.returncode == 0
    handle = node.app.get(json.loads(answer.stdout)["tasks"][0]["task_id"])
    handle.wait(30)
    assert handle.result() == {"own": None, "environment": None, "loaded": []}
    assert node.stop() == 0
    for imports in (answer.stderr, node.log_text()):
        assert "supervisor.telemetry.trace" in imports
        assert "opentelemetry" not in imports


def test_importing_clients_nodes_and_workers_brings_in_nothing_of_it() -> None:
    modules = "supervisor.client, supervisor.node.run, supervisor.worker.zygote, supervisor.cli"
    told = "sorted(n for n in sys.modules if n.startswith('opentelemetry'))"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print({told})"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert run.stdout.strip() == "[]"


def test_without_an_endpoint_a_trace_goes_through_all_the_same(start_node: Start) -> None:
    node = start_node(APP, workers=1)
    handle = node.submit("where", spec={"traceparent": GIVEN})
    handle.wait(30)
    assert handle.result() == {"own": GIVEN, "environment": GIVEN, "loaded": []}
    failed = submitted(node, "note")
    (line,) = node.events("task.died")
    assert (line["task_id"], line["trace_id"], line["span_id"]) == (failed, TRACE, PARENT)
    assert node.cli_json("show", failed)["trace_id"] == TRACE


def test_the_trace_that_the_node_was_started_in_is_not_that_of_its_tasks(
    start_node: Start,
) -> None:
    node = start_node(APP, run=False, workers=1)
    node.env["TRACEPARENT"] = GIVEN
    node.start()
    handle = node.submit("family")
    handle.wait(30)
    assert handle.result()["own"] is None
    rows = node.query("SELECT traceparent FROM tasks")
    assert rows == [(None,)] * 4


def test_what_cannot_be_exported_is_told_at_the_start(start_node: Start) -> None:
    node = start_node(APP, run=False, workers=1)
    exported(node, "http://127.0.0.1:4317", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    node.start()
    (line,) = node.events("traces.refused")
    assert "grpc" in line["error"]
    assert "http/protobuf" in line["remedy"]
    assert node.run("where").state == "SUCCESS"
    check = node.cli("check")
    assert "traces: no spans: OTEL_EXPORTER_OTLP_PROTOCOL is grpc" in check.stdout


def test_check_says_where_spans_go_without_credentials(
    start_node: Start, collector: Collector
) -> None:
    node = start_node(APP, run=False)
    exported(node, collector.url.replace("//", "//user:hunter2@"))
    told = node.cli("check").stdout
    assert f"traces: spans go to {collector.url}/v1/traces" in told
    assert "hunter2" not in told
    exported(node, f"http://127.0.0.1:{free_port()}")
    assert "does not answer: Connection refused" in node.cli("check").stdout
    del node.env["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert "no spans: OTEL_EXPORTER_OTLP_ENDPOINT is not set" in node.cli("check").stdout
