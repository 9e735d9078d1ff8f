"""The web process: a socket, a server with threads, and an end in order.

Invariants: beyond this host it listens only once somebody can be kept out, that is when there are
users; nothing else of it needs the store at its start, which may come later. One per address.
"""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import quote

from waitress.server import create_server

from supervisor.client import Client
from supervisor.clock import SystemClock
from supervisor.errors import Refused, StoreUnavailable
from supervisor.settings import Settings, without_password
from supervisor.telemetry.events import emit
from supervisor.web.carrier import Carrier
from supervisor.web.door import Door
from supervisor.web.proxy import Proxies, is_loopback
from supervisor.web.secret import new_link
from supervisor.web.site import HEADERS, LARGEST_BODY_BYTES, Site
from supervisor.web.watch import Watch
from supervisor.web.wire import channel_of

THREADS = 8
#: Far more than the pages of a team; each is a descriptor.
CONNECTIONS_MOST = 200
#: What a thread writes without waiting for who reads it; what is not sent yet lies in a file.
ANSWER_MOST_BYTES = 128 << 20
#: A browser that has nothing to ask is let go.
IDLE_S = 60
ANY_HOST = frozenset({"0.0.0.0", "::", "[::]"})  # noqa: S104 - what is looked for, not listened on


@dataclass(frozen=True, slots=True)
class Opened:
    """Where the site is; `link` opens it by itself, None when people sign in with passwords."""

    listen: str
    url: str
    link: str | None


def serve(settings: Settings, owner: str, on_open: Callable[[Opened], None]) -> int:
    """Serve the pages until SIGTERM or SIGINT; return the exit code.

    `owner` is as whom the printed link acts. Raises: Refused when the address cannot be listened
    on, or reaches beyond this host while there are no users; StoreUnavailable when it does and the
    store cannot say.
    """
    signal.signal(signal.SIGTERM, _leave)
    client = Client(settings)
    listening: socket.socket | None = None
    try:
        host, _, port = settings.web_listen.rpartition(":")
        is_near = is_loopback(host)
        if not is_near:
            _require_users(client, settings.web_listen)
        listening = _listen(host, int(port))
        _run(settings, client, listening, owner, on_open, is_near=is_near)
    except (KeyboardInterrupt, SystemExit):
        pass  # the ordinary end
    finally:
        if listening is not None:
            listening.close()
        client.close()
    return 0


def _run(
    settings: Settings,
    client: Client,
    listening: socket.socket,
    owner: str,
    on_open: Callable[[Opened], None],
    *,
    is_near: bool,
) -> None:
    token = new_link() if is_near else None
    bound, port = listening.getsockname()[:2]
    door = Door(client, SystemClock(), token, owner)
    site = Site(client, door, cookie_name=f"supervisor-{port}")
    watch = Watch(client)
    watch.join(site.app)
    server: Any = create_server(
        Proxies(site.app, settings.web_proxies),
        sockets=[listening],
        threads=THREADS,
        connection_limit=CONNECTIONS_MOST,
        channel_timeout=IDLE_S,
        clear_untrusted_proxy_headers=False,  # Proxies does
        max_request_body_size=LARGEST_BODY_BYTES,
        outbuf_high_watermark=ANSWER_MOST_BYTES,
        ident=None,
    )
    server.channel_class = channel_of(site.refusals.of_server, dict(HEADERS), SystemClock())
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it warns of every short queue
    reason = "asked to"  # SIGTERM and SIGINT come as exceptions that are no Exception
    try:
        emit("web.started", listen=f"{bound}:{port}", store=without_password(settings.store))
        on_open(_opened(client, f"[{bound}]" if ":" in bound else bound, port, token))
        with watch.going(), site.refusals.going(), Carrier(client).going():
            server.run()
    except Exception as exc:
        reason = f"failed: {type(exc).__name__}"
        raise
    finally:
        server.close()
        emit("web.stopped", reason=reason)


def _opened(client: Client, host: str, port: int, token: str | None) -> Opened:
    shown = "127.0.0.1" if host in ANY_HOST else host
    url = f"http://{shown}:{port}/"
    try:
        by_link = token is not None and not client.access.has_users()
    except StoreUnavailable:
        by_link = token is not None  # nobody knows yet; the door will say
    link = f"{url}sign-in?token={quote(token or '')}" if by_link else None
    return Opened(f"{host}:{port}", url, link)


def _require_users(client: Client, listen: str) -> None:
    if not client.access.has_users():
        raise Refused(
            f"{listen} is beyond this host, and no user exists: whoever reaches it would be let in "
            "or nobody could",
            remedy="Add one with `supervisor users add NAME --role admin`, or listen on 127.0.0.1.",
        )


def _listen(host: str, port: int) -> socket.socket:
    try:
        (family, *_, address), *_ = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(CONNECTIONS_MOST)
        except BaseException:
            listening.close()
            raise
    except OSError as exc:
        raise Refused(
            f"web_listen: cannot listen on {host}:{port}: {exc.strerror}",
            remedy="Choose another address with --web-listen; port 0 takes a free one.",
        ) from exc
    return listening


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)
