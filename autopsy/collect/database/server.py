"""Which of the patient's connections go to a PostgreSQL or a Redis, and to which.

Secret: how such a server is recognised: by the process at the other end, by the path of its
socket, by an address that somebody gave for it, by its port, by what the patient has loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autopsy.collect import procfs
from autopsy.collect.database.address import (
    PORTS,
    POSTGRESQL,
    REDIS,
    Access,
    is_literal,
    is_loopback,
)
from autopsy.section import Payload

_CONNECTED = frozenset({"ESTABLISHED", "CLOSE_WAIT", "SYN_SENT", "CONNECTED"})
_PROCESSES = {
    "postgres": POSTGRESQL, "postmaster": POSTGRESQL, "pgbouncer": POSTGRESQL,
    "odyssey": POSTGRESQL, "pgcat": POSTGRESQL,
    "redis-server": REDIS, "valkey-server": REDIS, "keydb-server": REDIS,
}  # fmt: skip
# Those of them that are the database itself, not something before it.
_SERVING = frozenset({"postgres", "redis-server", "valkey-server", "keydb-server"})
# Programs that only pass on what another server says.
_PASSING_ON = frozenset(
    {"ssh", "docker-proxy", "cloud-sql-proxy", "cloud_sql_proxy", "envoy", "haproxy", "socat",
     "kubectl", "stunnel", "stunnel4", "slirp4netns", "pasta", "rootlessport"}
)  # fmt: skip
_WELL_KNOWN = {5432: POSTGRESQL, 5433: POSTGRESQL, 6432: POSTGRESQL, 6379: REDIS, 6380: REDIS}
# What is surely something else is never asked in the words of PostgreSQL.
_OTHER_PORTS = frozenset(
    {22, 25, 53, 80, 111, 389, 443, 465, 587, 636, 1433, 1521, 2181, 2379, 3306, 4222, 5671, 5672,
     8000, 8080, 8443, 9000, 9042, 9092, 9200, 11211, 26379, 27017}
)  # fmt: skip
_LIBRARIES = re.compile(r"libpq[.-]|/psycopg|/asyncpg/")
_SOCKET = re.compile(r"(.*)/\.s\.PGSQL\.(\d+)$")
_MAX_SERVERS = 6


@dataclass(frozen=True, slots=True)
class Line:
    """One connection: whose it is, its own end as the server sees it, who serves it if here.

    `client` is empty for a unix-domain socket; `backend_there` is the server process's pid as the
    server itself knows it.
    """

    pid: int
    fd: int
    inode: int
    client: str
    backend: int | None
    backend_there: int | None
    title: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server and the connections to it. `path` of its unix socket, or `host` and `port`."""

    kind: str
    host: str
    port: int
    path: str
    lines: tuple[Line, ...]

    @property
    def name(self) -> str:
        """Return how a person would name it."""
        return self.path or f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def is_here(self) -> bool:
        """Return whether it is reached without leaving this machine."""
        return bool(self.path) or is_loopback(self.host)


def servers(pid: int, sockets: Sequence[Payload], known: Sequence[Access]) -> list[Server]:
    """Return the database servers among the peers of a process's sockets, most lines first.

    `sockets` as `connection.collector` lists them; `known` are addresses that somebody gave.
    """
    found: dict[tuple[str, str], list[Line]] = {}
    recognise = _Recognition(pid, known)
    for entry in sockets:
        if entry.get("state") not in _CONNECTED or not entry.get("peer"):
            continue
        process = entry.get("peer_process") or recognise.served(entry["local"])
        kind = recognise.kind(entry["peer"], process or {})
        if kind:
            key = (kind, entry["peer"])
            found.setdefault(key, []).append(_line(pid, entry, process))
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return [_server(kind, peer, lines) for (kind, peer), lines in ordered[:_MAX_SERVERS]]


def told_servers(told: Iterable[Access], found: Iterable[Server]) -> list[Server]:
    """Return the PostgreSQL servers that we were told of and the process is not connected to.

    A pooler or an address translation may stand between: there its sessions have their name.
    """
    listed = {
        (one.host, port): Server(POSTGRESQL, one.host, port, "", ())
        for one in told
        for port in [one.port or PORTS[POSTGRESQL]]
        if one.kind == POSTGRESQL and one.host and not one.host.startswith(("/", "@"))
    }
    seen = {(one.host, one.port) for one in found}
    return [one for key, one in listed.items() if key not in seen][:_MAX_SERVERS]


def title_of(process: Payload) -> str:
    """Return what a server process says it does, which it keeps in its command line."""
    return " ".join(process.get("command_line") or ()).strip() or str(process.get("name", ""))


class _Recognition:
    """Asks the cheap questions first, each of the others at most once."""

    def __init__(self, pid: int, known: Sequence[Access]) -> None:
        self._pid = pid
        self._known = known
        self._titles: dict[str, Payload] | None = None
        self._speaks: bool | None = None

    def kind(self, peer: str, process: Payload) -> str:
        """Return what a peer is; empty for what is no database of ours."""
        name = str(process.get("name", ""))
        if name in _PROCESSES:
            return _PROCESSES[name]
        if title_of(process).startswith("postgres:"):
            return POSTGRESQL
        if peer.startswith(("/", "@")):
            return _kind_of_path(peer, self._known)
        host, _, number = peer.rpartition(":")
        port = int(number) if number.isdigit() else 0
        given = _given(host.strip("[]"), port, self._known)
        if given or port in _WELL_KNOWN:
            return given or _WELL_KNOWN[port]
        may_be = port not in _OTHER_PORTS and (not name or name in _PASSING_ON)
        return POSTGRESQL if may_be and self._speaks_postgresql() else ""

    def served(self, local: str) -> Payload | None:
        """Return the backend of this host that says in its title that it serves this end.

        Anybody may read a title, also where the descriptors of the server are hidden from us.
        """
        if self._titles is None:
            self._titles = _titles()
        return self._titles.get(_as_client(local))

    def _speaks_postgresql(self) -> bool:
        if self._speaks is None:
            self._speaks = _LIBRARIES.search(procfs.maps(self._pid)) is not None
        return self._speaks


def _kind_of_path(path: str, known: Iterable[Access]) -> str:
    if _SOCKET.match(path):
        return POSTGRESQL
    if any(one.kind == REDIS and one.host == path for one in known):
        return REDIS
    return REDIS if re.search(r"(redis|valkey)[^/]*$", path) else ""


def _given(host: str, port: int, known: Iterable[Access]) -> str:
    for one in known:
        if (one.port or PORTS[one.kind]) != port or one.host.startswith(("/", "@")):
            continue
        if one.host == host or not is_literal(one.host):
            return one.kind
    return ""


def _titles() -> dict[str, Payload]:
    found: dict[str, Payload] = {}
    for pid in procfs.process_ids():
        if procfs.read_text(f"/proc/{pid}/comm") != "postgres\n":
            continue
        title = " ".join(procfs.command_line(pid)).strip()
        for host, port in re.findall(r"(\S+)\((\d+)\)", title):
            found[f"{host}:{port}"] = {"pid": pid, "name": "postgres", "command_line": [title]}
    return found


def _line(pid: int, entry: Payload, process: Payload | None) -> Line:
    served = process if process and process["name"] in _SERVING else None
    return Line(
        pid,
        int(entry["fd"]),
        int(entry["inode"]),
        _as_client(entry["local"]) if "tcp" in entry["kind"] else "",
        int(served["pid"]) if served else None,
        _pid_inside(int(served["pid"])) if served else None,
        title_of(served) if served else "",
    )


def _pid_inside(pid: int) -> int:
    """Return the pid of a process in its own pid namespace, as a server in a container has it."""
    words = (procfs.status(f"/proc/{pid}/status") or {}).get("NSpid", "").split()
    return int(words[-1]) if words else pid


def _as_client(local: str) -> str:
    host, _, port = local.rpartition(":")
    return f"{host.strip('[]')}:{port}"


def _server(kind: str, peer: str, lines: list[Line]) -> Server:
    if peer.startswith(("/", "@")):
        match = _SOCKET.match(peer)
        return Server(kind, "", int(match[2]) if match else 0, peer, tuple(lines))
    host, _, port = peer.rpartition(":")
    return Server(kind, host.strip("[]"), int(port), "", tuple(lines))
