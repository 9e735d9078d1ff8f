"""What is believed of a reverse proxy: who asks, by which scheme and host, below which path.

Invariant: the headers of a peer that is not in `web_proxies` have no effect whatever; of one that
is, the value nearest to us counts, and an address or prefix that is none is ignored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from werkzeug.middleware.proxy_fix import ProxyFix

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_FORWARDED = (
    "HTTP_FORWARDED",
    "HTTP_X_FORWARDED_BY",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
    "HTTP_X_FORWARDED_PREFIX",
    "HTTP_X_FORWARDED_PROTO",
)
_PREFIX = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+\Z")


class Proxies:
    """WSGI middleware over the site."""

    def __init__(self, site: WSGIApplication, trusted: str | None) -> None:
        self._plain = site
        self._forwarded = ProxyFix(site, x_for=1, x_proto=1, x_host=1, x_prefix=1)
        self._trusted = [ipaddress.ip_network(one) for one in (trusted or "").split(",") if one]

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not self._trusts(environ.get("REMOTE_ADDR", "")):
            for name in _FORWARDED:
                environ.pop(name, None)
            return self._plain(environ, start_response)
        asker = _last(environ.pop("HTTP_X_FORWARDED_FOR", ""))
        if is_address(asker):
            environ["HTTP_X_FORWARDED_FOR"] = asker
        prefix = _last(environ.pop("HTTP_X_FORWARDED_PREFIX", "")).rstrip("/")
        if _PREFIX.match(prefix):
            environ["HTTP_X_FORWARDED_PREFIX"] = prefix
        return self._forwarded(environ, start_response)

    def _trusts(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:  # a Unix socket has no address
            return False
        return any(address in network for network in self._trusted)


def _last(values: str) -> str:
    return values.rpartition(",")[2].strip()


def is_address(text: str) -> bool:
    """Say whether this is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Say whether only this host can reach this address."""
    name = host.strip("[]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
