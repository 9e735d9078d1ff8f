"""One section of a bundle: what a collector returned, or why it returned nothing.

Invariant: a payload is plain JSON data (string keys, lists, numbers, strings, booleans, None), so
that a diagnosis of a bundle read back equals the one made at capture.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

# JSON as the collectors make it; its shape is in each collector's docstring.
Payload = dict[str, Any]


class Status(StrEnum):
    """How a collector ended."""

    OK = "ok"
    TIMEOUT = "timeout"
    ERROR = "error"
    SKIPPED = "skipped"


class Skipped(Exception):
    """Raised by a collector that has nothing to look at; the message is the reason.

    An ordinary answer, not an error: it never leaves the runner.
    """


@dataclass(frozen=True, slots=True)
class Section:
    """A named payload with how it was obtained; `ms` is how long the collector took."""

    name: str
    status: Status
    reason: str = ""
    ms: float = 0.0
    payload: Payload = field(default_factory=dict)
