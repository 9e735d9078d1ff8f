"""The doorbell: tells a node that a row is worth a look.

Secret kept here: which kind carries the rings of a store: a socket on the host of a file, a Redis,
or the notifications of a PostgreSQL that stands alone. Used by the client and by the node.
"""

from __future__ import annotations

from supervisor.queue.bell import ANY_PRIORITY, Bell, Heard, Kind, Listener

__all__ = ["ANY_PRIORITY", "Bell", "Heard", "Kind", "Listener", "open_bell", "open_listener"]


def open_bell(queue_url: str, store_url: str, identity: str) -> Bell:  # noqa: ARG001
    """Make the ringing end for a store; no server is asked before the first ring."""
    from supervisor.queue.socket import SocketBell

    return SocketBell(store_url)


def open_listener(queue_url: str, store_url: str, identity: str) -> Listener:  # noqa: ARG001
    """Listen for a store; a server that does not answer yet is told by `away`, not raised.

    `identity` is the store's own: two stores on one Redis never hear each other.
    Raises: QueueUnavailable when a socket has no place on this host.
    """
    from supervisor.queue.socket import SocketListener

    return SocketListener(store_url)
