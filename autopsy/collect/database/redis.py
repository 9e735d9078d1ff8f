"""A Redis server asked about the patient's connections: what each does, and since when.

Secret: the protocol (RESP 2), spoken directly: a few commands are not worth loading a client.
Invariant: nothing is sent that changes a key, or that takes the server longer than a moment.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from autopsy.collect.database.address import Access
from autopsy.collect.database.credential import located
from autopsy.collect.database.postgresql import OK, REFUSED, UNREACHABLE, NotAnswered
from autopsy.collect.database.server import Line, Server
from autopsy.section import Payload

_TIMEOUT_S = 0.4
_MAX_REPLY_BYTES = 8 << 20
_MAX_CLIENTS = 100
_BLOCKED, _MULTI = "b", "x"
# What a client sends that tries to take a lock.
_TAKING = frozenset({"set", "setnx", "eval", "evalsha", "fcall", "get", "exists"})
_KEYS_LOOKED_AT = 5000
# Not what is called block, clock or unlocked: the value of such a key is nobody's business.
_CALLED_LOCK = re.compile(r"(?<![bcn])lock", re.IGNORECASE)
_MAX_LOCKS = 20
_OWNER_CHARACTERS = 80


def ask(
    server: Server,
    ways: Sequence[Access],
    lines: Sequence[Line],
    owner: Callable[[str], Payload | None],
) -> Payload:
    """Return what a server knows of the patient's connections.

    Shapes: server, status, reason, clients (client, name, command, idle_s, age_s, flags, ours, fd;
    others only while they are blocked or in a transaction), connected, blocked, left_out; locks
    (key, value, ttl_s: None for no end) if ours may be after one: keys that are called so.
    """
    entry: Payload = {
        "server": server.name, "status": OK, "reason": "", "clients": [], "locks": [],
        "connected": None, "blocked": None, "left_out": 0,
    }  # fmt: skip
    try:
        with _let_in(server, ways) as asked:
            listed, info = asked.say("CLIENT", "LIST"), asked.say("INFO", "clients")
            found = [_client(one, lines, owner) for one in map(_fields, listed.splitlines()) if one]
            locks = _locks(asked, found)
    except NotAnswered as exc:
        return entry | {"status": exc.status, "reason": exc.reason}
    told = sorted(filter(_is_worth_telling, found), key=lambda one: not one["ours"])
    if not any(one["ours"] for one in told):
        entry["reason"] = "none of its connections was found there: a proxy between?"
    return entry | {
        "clients": told[:_MAX_CLIENTS],
        "locks": locks,
        "connected": len(found),
        "blocked": _number(info, "blocked_clients"),
        "left_out": max(0, len(told) - _MAX_CLIENTS),
    }


class _Line:
    """A connection that answers one command after the other."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._answers = line.makefile("rb")

    def say(self, *words: str) -> str:
        """Send a command and return the answer as text, of a list one line for each entry.

        Raises NotAnswered for a refusal.
        """
        encoded = [word.encode() for word in words]
        parts = [b"*%d\r\n" % len(encoded)]
        parts += [b"$%d\r\n%b\r\n" % (len(one), one) for one in encoded]
        try:
            self._line.sendall(b"".join(parts))
            return self._answer()
        except TimeoutError as exc:
            why = f"it did not answer within {_TIMEOUT_S:g} s"
            raise NotAnswered(UNREACHABLE, why) from exc
        except (OSError, ValueError) as exc:
            raise NotAnswered(UNREACHABLE, f"{type(exc).__name__}: {exc}") from exc

    def close(self) -> None:
        """Let the server go."""
        self._answers.close()
        self._line.close()

    def _answer(self) -> str:
        head = self._answers.readline(4096).decode("utf-8", "replace").rstrip("\r\n")
        if head.startswith("-"):
            remedy = "; give an address: --database redis://:PASSWORD@HOST"
            needs = head.startswith(("-NOAUTH", "-WRONGPASS", "-NOPERM", "-ERR AUTH"))
            raise NotAnswered(REFUSED, head[1:300] + (remedy if needs else ""))
        if not head:
            raise NotAnswered(UNREACHABLE, "it closed the connection: too many clients, or TLS?")
        if head.startswith("*"):
            return "\n".join(self._answer() for _ in range(int(head[1:])))
        if not head.startswith("$"):
            return head[1:]
        size = int(head[1:])
        if size < 0:
            return ""
        return self._answers.read(min(size, _MAX_REPLY_BYTES) + 2).decode("utf-8", "replace")[:-2]


@contextmanager
def _let_in(server: Server, ways: Sequence[Access]) -> Iterator[_Line]:
    """Open a connection by the first way that lets us in. Raises NotAnswered."""
    why = NotAnswered(REFUSED, "no password for it is known")
    for way in ways:
        access = located(way, server)
        try:
            asked = _Line(_opened(access))
        except (OSError, ValueError) as exc:
            raise NotAnswered(UNREACHABLE, f"{type(exc).__name__}: {exc}") from exc
        with closing(asked):
            try:
                if access.password:
                    asked.say("AUTH", *([access.user] if access.user else []), access.password)
                asked.say("CLIENT", "ID")
            except NotAnswered as exc:
                why = exc
                if exc.status == UNREACHABLE:
                    break
                continue
            yield asked
            return
    raise why


def _locks(asked: _Line, clients: Sequence[Payload]) -> list[Payload]:
    """Return the keys that are called locks, in the databases of clients that may be after one."""
    mine = [one for one in clients if one["ours"] and one["command"].split("|")[0] in _TAKING]
    found: list[Payload] = []
    for database in sorted({one["database"] or 0 for one in mine}):
        try:
            asked.say("SELECT", str(database))
            _, *keys = asked.say(
                "SCAN", "0", "MATCH", "*[lL][oO][cC][kK]*", "COUNT", str(_KEYS_LOOKED_AT)
            ).split("\n")
            named = [key for key in keys if _CALLED_LOCK.search(key)]
            found += [_lock(asked, key) for key in named[:_MAX_LOCKS]]
        except NotAnswered:
            continue  # this account may list clients and nothing else
    return found[:_MAX_LOCKS]


def _lock(asked: _Line, key: str) -> Payload:
    try:
        value = asked.say("GETRANGE", key, "0", str(_OWNER_CHARACTERS - 1))
    except NotAnswered:
        value = ""  # a lock that is kept as a hash or a list
    left = int(asked.say("PTTL", key))
    return {"key": key, "value": value, "ttl_s": round(left / 1000, 3) if left >= 0 else None}


def _opened(access: Access) -> socket.socket:
    if access.host.startswith(("/", "@")):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        line.settimeout(_TIMEOUT_S)
        line.connect("\0" + access.host[1:] if access.host.startswith("@") else access.host)
        return line
    plain = socket.create_connection((access.host, access.port), _TIMEOUT_S)
    if not access.tls:
        return plain
    import ssl  # few servers speak it, and it takes a while to load

    # It is the patient's own peer, and no secret but the one meant for it is sent.
    return ssl.create_default_context().wrap_socket(plain, server_hostname=access.host)


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
