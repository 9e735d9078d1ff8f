"""What a web process does beside answering: a thread for the length of a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
