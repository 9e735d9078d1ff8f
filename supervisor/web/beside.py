"""What a web process does beside answering: a thread for the length of a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from supervisor.telemetry.events import emit

_REMEDY = "The pages go on, and it is tried again; report this bug with the lines of this log."


@contextmanager
def beside(
    what: Callable[[], None], over: threading.Event, *, name: str, leave_s: float
) -> Iterator[None]:
    """Run it in a thread, which must end when `over` is set; wait so long for that."""
    thread = threading.Thread(target=what, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(leave_s)


def in_turns(turn: Callable[[], None], over: threading.Event, what: str, every_s: float) -> None:
    """Take one turn after another until it is over; one that raises ends nothing.

    A bug is told once, until another one or none is met.
    """
    told = ""
    while True:
        try:
            turn()
            told = ""
        except Exception as exc:
            if repr(exc) != told:
                told = repr(exc)
                emit("web.troubled", exc_info=True, what=what, error=told, remedy=_REMEDY)
        if over.wait(every_s):
            return
