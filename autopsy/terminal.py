"""How the command looks to a person at a terminal: colours and progress, and neither elsewhere.

Secret: the control sequences. Invariant: what is piped or stored never contains one of ours.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TextIO

from autopsy import clock

_BOLD, _DIM, _PLAIN = "\033[1m", "\033[2m", "\033[0m"
_CLEAR_LINE = "\r\033[K"
_RULE = "-"
_TURN_S = 0.2


def painted(report: str, stream: TextIO) -> str:
    """Return the report with its title and headings set off, if the stream shows that."""
    if not _has_colours(stream):
        return report
    lines = report.split("\n")
    ruled = {index for index, line in enumerate(lines) if line and not line.strip(_RULE)}
    for index in range(len(lines)):
        if index in ruled:
            lines[index] = f"{_DIM}{lines[index]}{_PLAIN}"
        elif index == 0 or index + 1 in ruled:
            lines[index] = f"{_BOLD}{lines[index]}{_PLAIN}"
    return "\n".join(lines)


@contextlib.contextmanager
def progress(what: str, limit_s: float, stream: TextIO) -> Iterator[None]:
    """Show a line that counts the seconds while the block runs; removed when it ends."""
    if not stream.isatty():
        yield
        return
    over = threading.Event()
    shown = threading.Thread(
        target=_count, args=(what, limit_s, stream, over), name="autopsy-progress", daemon=True
    )
    shown.start()
    try:
        yield
    finally:
        over.set()
        shown.join()
        _write(stream, _CLEAR_LINE)


def _count(what: str, limit_s: float, stream: TextIO, over: threading.Event) -> None:
    begun = clock.mono()
    while not over.wait(_TURN_S):
        past = clock.mono() - begun
        _write(stream, f"{_CLEAR_LINE}{what}: {past:.1f} s of at most {limit_s:g} s")


def _write(stream: TextIO, text: str) -> None:
    with contextlib.suppress(OSError):  # a terminal that has gone; the result does not depend on it
        stream.write(text)
        stream.flush()


def _has_colours(stream: TextIO) -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return stream.isatty() and not plain
