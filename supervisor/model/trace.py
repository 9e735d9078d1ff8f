"""Trace context as W3C writes it, and the ids of a span that nobody has to remember.

Secret kept here: the form of a `traceparent`, and that trace and span of an attempt follow from the
task and the attempt's number alone. So the worker knows its span before it exists, and a node that
has to end another one's attempt writes the very same. Pure. Source: W3C Trace Context, level 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

#: Of the flags two are defined: sampled, and that the trace id was drawn at random.
SAMPLED, RANDOM = 0x01, 0x02

#: Task id, attempt, type and the task's own traceparent → the traceparent of the attempt.
Trace = Callable[[str, int, str, str | None], str | None]

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z")


class TraceParent(NamedTuple):
    """A place in a trace: ids as hex digits, and the flags."""

    trace_id: str
    span_id: str
    flags: int = SAMPLED

    @property
    def sampled(self) -> bool:
        """Whether spans of it are kept."""
        return bool(self.flags & SAMPLED)

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def read_traceparent(text: str) -> TraceParent | None:
    """Return what a traceparent says, None for what is none.

    Of a later version of the format the part that this one knows is taken.
    """
    match = _FORM.match(text)
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more):
        return None
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return TraceParent(trace_id, span_id, int(flags, 16) & (SAMPLED | RANDOM))


def trace_id_of(traceparent: str) -> str:
    """Return the trace id of a traceparent that was checked."""
    return traceparent[3:35]


def span_id_of(traceparent: str) -> str:
    """Return the span id of a traceparent that was checked."""
    return traceparent[36:52]


def is_sampled(traceparent: str) -> bool:
    """Say whether spans of a place are kept."""
    return bool(int(traceparent[53:55], 16) & SAMPLED)


def attempt_trace(task_id: str) -> str:
    """Return the trace id of a task that nobody has given one.

    Hashed: a sampler by ratio looks at the lower half, in which some bits of an id are fixed.
    """
    return blake2b(task_id.encode(), digest_size=16, person=b"trace").hexdigest()


def attempt_span(task_id: str, attempt: int) -> str:
    """Return the span id of an attempt."""
    return blake2b(f"{task_id}:{attempt}".encode(), digest_size=8, person=b"span").hexdigest()


def log_ids(traceparent: str | None) -> dict[str, Any]:
    """Return what a log line of that place in a trace bears; nothing without one.

    Shapes: trace_id, span_id.
    """
    if traceparent is None:
        return {}
    return {"trace_id": trace_id_of(traceparent), "span_id": span_id_of(traceparent)}
