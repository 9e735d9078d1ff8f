"""The doorbell: tells a node that a row is worth a look.

Secret kept here: which kind carries the rings of a store: a socket on the host of a file, a Redis,
or the notifications of a PostgreSQL that stands alone. Used by the client and by the node.
"""

from __future__ import annotations

from supervisor.queue.bell import ANY_PRIORITY, Bell, Heard, Kind, Listener
from supervisor.settings.address import NO_QUEUE, is_file

__all__ = ["ANY_PRIORITY", "Bell", "Heard", "Kind", "Listener", "open_bell", "open_listener"]


def open_bell(queue_url: str, store_url: str, identity: str) -> Bell:
    """Make the ringing end for a store; no server is asked before the first ring.

    `identity` is the store's own: two stores on one Redis never hear each other. A file has a
    socket, whatever `queue_url` says: only processes of its host can use it.
    """
    if is_file(store_url):
        from supervisor.queue.socket import SocketBell

        return SocketBell(store_url)
    if queue_url == NO_QUEUE:
        from supervisor.queue.notify import notify_bell

        return notify_bell(store_url, identity)
    from supervisor.queue.redis import redis_bell

    return redis_bell(queue_url, identity)


def open_listener(queue_url: str, store_url: str, identity: str) -> Listener:
    """Listen for a store; a server that does not answer yet is told by `away`, not raised.

    Raises: QueueUnavailable when a socket has no place on this host.
    """
    if is_file(store_url):
        from supervisor.queue.socket import SocketListener

        return SocketListener(store_url)
    if queue_url == NO_QUEUE:
        from supervisor.queue.notify import NotifyListener

        return NotifyListener(store_url, identity)
    from supervisor.queue.redis import RedisListener

    return RedisListener(queue_url, identity)
