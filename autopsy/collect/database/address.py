"""Addresses of databases as people write them, taken apart: URLs and libpq's `name=value` strings.

Secret: their spellings. Invariant: an address never shows itself; it holds a password, so it has no
repr and appears in no message.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

POSTGRESQL, REDIS = "postgresql", "redis"
PORTS = {POSTGRESQL: 5432, REDIS: 6379}
_SCHEMES = {
    "postgres": POSTGRESQL,
    "postgresql": POSTGRESQL,
    "redis": REDIS,
    "rediss": REDIS,
    "unix": REDIS,
    "redis+socket": REDIS,
    "redis+unix": REDIS,
}
_URL = re.compile(
    r"\b(?:postgres(?:ql)?(?:\+\w+)?|rediss?(?:\+(?:socket|unix))?|unix)://[^\s\"'<>;|\\]+",
    re.IGNORECASE,
)
_PAIR = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']\S*|(?=\s|\Z))")
# What of a libpq connection string decides where it goes, as whom, and how it is encrypted.
_KEPT = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "channel_binding"})
_KNOWN = _KEPT | {
    "host", "hostaddr", "port", "user", "password", "dbname", "application_name", "passfile",
    "connect_timeout", "options", "client_encoding", "target_session_attrs", "gssencmode",
    "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count",
}  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """One way into a server: where it is, as whom. An empty part is left to the client's default.

    `host` is a name, an address, or a path: of the socket (Redis), of its directory (PostgreSQL).
    """

    kind: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""
    database: str = ""
    tls: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


def found_in(text: str) -> list[Access]:
    """Return every address in a text: URLs anywhere, or a whole connection string."""
    found = [one for url in _URL.findall(text) for one in _of_url(url)]
    return found or _of_pairs(text)


def of_variables(environment: Mapping[str, str]) -> Access | None:
    """Return what libpq would take from PGHOST and the like; None if none of them is set."""
    names = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE")
    host, literal, port, user, password, database = (environment.get(name, "") for name in names)
    if not any((host, literal, port, user, password, database)):
        return None
    first = (literal or host).split(",")[0]
    return Access(POSTGRESQL, first, _port(port.split(",")[0]), user, password, database)


def is_loopback(host: str) -> bool:
    """Return whether a host means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_literal(host: str) -> bool:
    """Return whether a host is an address, not a name that would have to be looked up."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _of_url(url: str) -> list[Access]:
    scheme = url.partition("://")[0].lower()
    kind = _SCHEMES.get(scheme) or _SCHEMES.get(scheme.partition("+")[0])
    if kind is None:
        return []
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        return _redis(parts, query) if kind == REDIS else _postgresql(parts, query)
    except ValueError:  # brackets that do not match and the like
        return []


def _postgresql(parts: SplitResult, query: dict[str, str]) -> list[Access]:
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    found = []
    for one in (query.get("host") or hosts).split(","):
        host, port = _host_and_port(one)
        found.append(
            Access(
                POSTGRESQL,
                host,
                _port(query.get("port", "").split(",")[0]) or port,
                query.get("user") or unquote(user),
                query.get("password") or unquote(password),
                query.get("dbname") or unquote(parts.path.lstrip("/")),
                options={name: value for name, value in query.items() if name in _KEPT},
            )
        )
    return found


def _redis(parts: SplitResult, query: dict[str, str]) -> list[Access]:
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    is_path = parts.scheme.lower() in ("unix", "redis+socket", "redis+unix")
    host, port = (unquote(hosts + parts.path), 0) if is_path else _host_and_port(hosts)
    given = {"user": query.get("username") or unquote(user)}
    given["password"] = query.get("password") or unquote(password)
    tls = parts.scheme.lower() == "rediss"
    return [Access(REDIS, host, port, given["user"], given["password"], tls=tls)]


def _of_pairs(text: str) -> list[Access]:
    values: dict[str, str] = {}
    at = 0
    while match := _PAIR.match(text, at):
        name, value = match[1], match[2]
        if name not in _KNOWN:
            return []
        values[name] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith("'") else value
        at = match.end()
    if text[at:].strip() or not values.keys() & {"host", "hostaddr", "dbname", "user"}:
        return []
    return [
        Access(
            POSTGRESQL,
            (values.get("hostaddr") or values.get("host", "")).split(",")[0],
            _port(values.get("port", "").split(",")[0]),
            values.get("user", ""),
            values.get("password", ""),
            values.get("dbname", ""),
            options={name: value for name, value in values.items() if name in _KEPT},
        )
    ]


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port:
        host, port = text, ""
    return unquote(host.strip("[]")), _port(port)


def _port(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and int(text) < 1 << 16 else 0
