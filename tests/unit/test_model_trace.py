"""Trace context: what is read of a traceparent, and the ids that follow from task and attempt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.spec import parse_spec
from supervisor.model.trace import (
    TraceParent,
    attempt_span,
    attempt_trace,
    log_ids,
    read_traceparent,
    span_id_of,
    trace_id_of,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "flags", "written"),
    [
        (f"00-{TRACE}-{SPAN}-01", 0x01, "01"),
        (f"00-{TRACE}-{SPAN}-00", 0x00, "00"),
        (f"00-{TRACE}-{SPAN}-03", 0x03, "03"),
        (f"00-{TRACE}-{SPAN}-ff", 0x03, "03"),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", 0x01, "01"),
    ],
)
def test_a_traceparent_is_read_and_written(text: str, flags: int, written: str) -> None:
    place = read_traceparent(text)
    assert place == TraceParent(TRACE, SPAN, flags)
    assert str(place) == f"00-{TRACE}-{SPAN}-{written}"
    assert place.sampled is (flags != 0)
    assert (trace_id_of(text), span_id_of(text)) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"cc-{TRACE}-{SPAN}-01.more",
    ],
)
def test_what_is_no_traceparent_is_none(text: str) -> None:
    assert read_traceparent(text) is None


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    place = read_traceparent(text)
    assert place is None or read_traceparent(str(place)) == place


def test_spans_of_attempts_differ_and_stay() -> None:
    tasks = [f"task_{number:032x}" for number in range(300)]
    spans = {attempt_span(task, attempt) for task in tasks for attempt in (1, 2, 3)}
    assert len(spans) == 900
    assert attempt_span(tasks[0], 1) == attempt_span(tasks[0], 1)
    for task in tasks:
        place = TraceParent(attempt_trace(task), attempt_span(task, 1))
        assert read_traceparent(str(place)) == place


def test_a_sampler_by_ratio_takes_its_share_of_tasks() -> None:
    """It keeps a trace whose lower 64 bits are below the share: they must be spread evenly."""
    lower = [int(attempt_trace(f"task_{number:032x}")[16:], 16) for number in range(2000)]
    share = sum(one < 0.1 * 2**64 for one in lower) / len(lower)
    assert 0.07 < share < 0.13


def test_a_log_line_bears_both_ids_or_none() -> None:
    assert log_ids(None) == {}
    assert log_ids(f"00-{TRACE}-{SPAN}-01") == {"trace_id": TRACE, "span_id": SPAN}


def test_a_task_that_differs_in_its_trace_alone_is_the_same() -> None:
    first = parse_spec({"type": "greet", "traceparent": f"00-{TRACE}-{SPAN}-01"})
    assert first.traceparent == f"00-{TRACE}-{SPAN}-01"
    assert first == parse_spec({"type": "greet"})
