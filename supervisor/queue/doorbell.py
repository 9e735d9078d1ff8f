"""The socket's ends as the client and the node took them before there were several kinds of bell.

Goes when both have changed to `open_bell` and `open_listener`.
"""

from __future__ import annotations

from typing import Self

from supervisor.queue.bell import Kind
from supervisor.queue.socket import SocketBell as Bell
from supervisor.queue.socket import SocketListener

__all__ = ["Bell", "Kind", "Listener"]


class Listener:
    """Hears the rings for one store, as a set of kinds."""

    def __init__(self, store_url: str) -> None:
        self._real = SocketListener(store_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._real.close()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the bell was rung."""
        return self._real.fileno()

    def heard(self) -> set[str]:
        """Take every ring that has come in and return their kinds; never waits."""
        return set(self._real.heard().kinds)
