"""Looks at something before every single step of what changes it, as another thread might."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def looks_between(change: Callable[[], object], look: Callable[[], T], file: str) -> list[T]:
    """Return what was seen before each instruction of `change` in the source file, and after."""
    seen: list[T] = []

    def trace(frame: FrameType, _event: str, _arg: Any) -> Any:
        if not frame.f_code.co_filename.endswith(file):
            return None
        frame.f_trace_opcodes = True
        sys.settrace(None)
        seen.append(look())
        sys.settrace(trace)
        return trace

    sys.settrace(trace)
    try:
        change()
    finally:
        sys.settrace(None)
    return [*seen, look()]
