"""A Redis server asked about the patient's connections: what each does, and since when.

Secret: the protocol (RESP 2), spoken directly: two commands are not worth loading a client.
Invariant: nothing but AUTH, CLIENT LIST and INFO is ever sent.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import BinaryIO

from autopsy.collect.database.address import Access
from autopsy.collect.database.credential import located
from autopsy.collect.database.postgresql import OK, REFUSED, UNREACHABLE, NotAnswered
from autopsy.collect.database.server import Line, Server
from autopsy.section import Payload

_TIMEOUT_S = 0.4
_MAX_REPLY_BYTES = 8 << 20
_MAX_CLIENTS = 100
_BLOCKED, _MULTI = "b", "x"


def ask(
    server: Server,
    ways: Sequence[Access],
    lines: Sequence[Line],
    owner: Callable[[str], Payload | None],
) -> Payload:
    """Return what a server knows of the patient's connections.

    Shapes: server, status, reason, clients (client, name, command, idle_s, age_s, flags, ours, fd;
    others only while they are blocked or in a transaction), connected, blocked, left_out.
    """
    entry: Payload = {
        "server": server.name, "status": OK, "reason": "", "clients": [], "locks": [],
        "connected": None, "blocked": None, "left_out": 0,
    }  # fmt: skip
    try:
        listed, info = _asked(server, ways)
    except NotAnswered as exc:
        return entry | {"status": exc.status, "reason": exc.reason}
    clients = [_client(words, lines, owner) for words in map(_fields, listed.splitlines()) if words]
    told = sorted(filter(_is_worth_telling, clients), key=lambda one: not one["ours"])
    if not any(one["ours"] for one in told):
        entry["reason"] = "none of its connections was found there: a proxy between?"
    return entry | {
        "clients": told[:_MAX_CLIENTS],
        "connected": len(clients),
        "blocked": _number(info, "blocked_clients"),
        "left_out": max(0, len(told) - _MAX_CLIENTS),
    }


def _asked(server: Server, ways: Sequence[Access]) -> tuple[str, str]:
    """Return the answers to CLIENT LIST and INFO clients. Raises NotAnswered."""
    why = NotAnswered(REFUSED, "no password for it is known")
    for way in ways:
        access = located(way, server)
        try:
            with _opened(access) as line, line.makefile("rb") as answers:
                if access.password:
                    user = [access.user] if access.user else []
                    _said(line, answers, "AUTH", *user, access.password)
                return (
                    _said(line, answers, "CLIENT", "LIST"),
                    _said(line, answers, "INFO", "clients"),
                )
        except NotAnswered as exc:
            why = exc
        except TimeoutError:
            why = NotAnswered(UNREACHABLE, f"it did not answer within {_TIMEOUT_S:g} s")
            break
        except (OSError, ValueError) as exc:
            why = NotAnswered(UNREACHABLE, f"{type(exc).__name__}: {exc}")
            break
    raise why


def _opened(access: Access) -> socket.socket:
    if access.host.startswith(("/", "@")):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        line.settimeout(_TIMEOUT_S)
        line.connect("\0" + access.host[1:] if access.host.startswith("@") else access.host)
        return line
    plain = socket.create_connection((access.host, access.port), _TIMEOUT_S)
    if not access.tls:
        return plain
    # It is the patient's own peer, and no secret but the one meant for it is sent.
    return ssl.create_default_context().wrap_socket(plain, server_hostname=access.host)


def _said(line: socket.socket, answers: BinaryIO, *words: str) -> str:
    """Send a command and return the answer as text. Raises NotAnswered for a refusal."""
    encoded = [word.encode() for word in words]
    parts = [b"*%d\r\n" % len(encoded)] + [b"$%d\r\n%b\r\n" % (len(one), one) for one in encoded]
    line.sendall(b"".join(parts))
    head = answers.readline(4096).decode("utf-8", "replace").rstrip("\r\n")
    if head.startswith("-"):
        remedy = "; give an address: --database redis://:PASSWORD@HOST"
        needs = head.startswith(("-NOAUTH", "-WRONGPASS", "-NOPERM", "-ERR AUTH"))
        raise NotAnswered(REFUSED, head[1:300] + (remedy if needs else ""))
    if not head.startswith("$"):
        if not head:
            raise NotAnswered(UNREACHABLE, "it closed the connection: too many clients, or TLS?")
        return head[1:]
    size = int(head[1:])
    text = answers.read(min(max(size, 0), _MAX_REPLY_BYTES) + 2)
    return text.decode("utf-8", "replace")


def _fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\S+?)=(\S*)", line))


def _client(
    words: dict[str, str], lines: Sequence[Line], owner: Callable[[str], Payload | None]
) -> Payload:
    host, _, port = words.get("addr", "").rpartition(":")
    client = f"{host.strip('[]')}:{port}"
    # A unix socket has no end that the server could name: the server's descriptor is not ours.
    own = next((line for line in lines if line.client and line.client == client), None)
    flags = words.get("flags", "")
    is_worth_it = own is None and bool(set(flags) & {_BLOCKED, _MULTI})
    return {
        "client": client,
        "client_process": owner(client) if is_worth_it else None,
        "fd": own.fd if own else None,
        "name": words.get("name", ""),
        "command": words.get("cmd", ""),
        "idle_s": _integer(words.get("idle")),
        "age_s": _integer(words.get("age")),
        "flags": flags,
        "blocked": _BLOCKED in flags,
        "in_transaction": _MULTI in flags,
        "database": _integer(words.get("db")),
        "user": words.get("user", ""),
        "ours": own is not None,
    }


def _is_worth_telling(client: Payload) -> bool:
    return bool(client["ours"] or client["blocked"] or client["in_transaction"])


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.lstrip("-").isdigit() else None


def _number(info: str, name: str) -> int | None:
    match = re.search(rf"^{name}:(\d+)", info, re.MULTILINE)
    return int(match[1]) if match else None
