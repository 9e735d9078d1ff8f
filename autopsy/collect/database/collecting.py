"""The section `databases`: every server the patient is connected to, asked at the same time.

Secret: who may wait for whom. A server that does not answer is left behind in its own thread, and
costs neither the others nor what is known without asking. Invariant: nothing here shows an address.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from autopsy import clock
from autopsy.collect import connection, procfs
from autopsy.collect.database import credential, postgresql, redis, sqlite
from autopsy.collect.database.address import POSTGRESQL, Access
from autopsy.collect.database.asking import Asking
from autopsy.collect.database.identity import enter_network_of
from autopsy.collect.database.server import Server, servers, told_servers
from autopsy.collect.holder import Holders, named
from autopsy.collect.patient import Patient
from autopsy.section import Payload, Skipped

TIME_BOX_S = 1.5
# For putting the section together once the slowest server has been given up.
_REST_S = 0.1
_TABLE_LIMIT = 8 << 20

T = TypeVar("T")


def collector(holders: Holders, asking: Asking) -> Callable[[Patient], Payload]:
    """Return the collector of what databases know; it raises Skipped when there is none.

    Shapes: postgresql, redis (one entry a server, as `postgresql.ask` and `redis.ask` return it),
    sqlite (`sqlite.files`), local_servers (pid, name, title, server, fd: what the server's process
    on this host says it does; needs no credentials).
    """

    def collect(patient: Patient) -> Payload:
        deadline = clock.mono() + TIME_BOX_S - _REST_S
        sockets = connection.collector(holders)(patient)["sockets"]
        told, patients = credential.given(asking.addresses), credential.of_patient(patient.pid)
        found = servers(patient.pid, sockets, [*told, *patients])
        if asking.application:  # the only way to know its sessions behind a pooler
            found += told_servers(told, found)
        payload: Payload = {
            "postgresql": [],
            "redis": [],
            "sqlite": sqlite.files(patient.pid),
            "local_servers": _local(found),
        }
        inquiry = Inquiry(patient.pid, holders, asking, told, patients)
        for server, entry in zip(found, inquiry.all_of(found, deadline), strict=True):
            payload[server.kind].append(entry)
        if not any(payload.values()):
            raise Skipped("it has no connection to PostgreSQL or Redis and no SQLite file open")
        return payload

    return collect


class Inquiry:
    """The questions to all servers of one patient."""

    def __init__(
        self,
        pid: int,
        holders: Holders,
        asking: Asking,
        told: Sequence[Access],
        patients: Sequence[Access],
    ) -> None:
        self._pid = pid
        self._holders = holders
        self._asking = asking
        self._told = told
        self._patients = patients

    def all_of(self, found: Sequence[Server], deadline_mono: float) -> list[Payload]:
        """Ask every server at once; return an entry for each, in order, by the deadline."""
        return at_once(found, self._asked, _unanswered_late, deadline_mono)

    def _asked(self, server: Server) -> Payload:
        if not self._asking.allowed:
            return _unanswered(server, "not asked", "asking servers was switched off")
        if why := out_of_reach(self._pid, server):
            return _unanswered(server, postgresql.UNREACHABLE, why)
        ways = credential.ways_into(server, self._told, self._patients)
        if server.kind == POSTGRESQL:
            wanted = postgresql.Wanted(server.lines, self._asking.application)
            return postgresql.ask(server, ways, wanted, self._owner)
        return redis.ask(server, ways, server.lines, self._owner)

    def _owner(self, client: str) -> Payload | None:
        """Return the process of this host that has that end of a connection open."""
        inode = _inode_of(self._pid, client)
        holding = self._holders.of(self._pid, f"socket:[{inode}]") if inode else []
        return named(holding[0][0]) if holding else None


def at_once(
    found: Sequence[Server],
    ask: Callable[[Server], T],
    otherwise: Callable[[Server, str], T],
    deadline_mono: float,
) -> list[T]:
    """Call `ask` for every server at the same time; return the answers in order by the deadline."""
    answers: dict[int, T] = {}

    def run(number: int, server: Server) -> None:
        try:
            answers[number] = ask(server)
        except Exception as exc:  # a broken answer of one server must not cost the others
            why = f"the answer was not understood ({type(exc).__name__})"
            answers[number] = otherwise(server, why)

    began = clock.mono()
    threads = [
        threading.Thread(target=run, args=one, name="autopsy-database", daemon=True)
        for one in enumerate(found)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline_mono - clock.mono()))
    late = f"no answer within {clock.mono() - began:.1f} s"
    return [
        answers[number] if number in answers else otherwise(server, late)
        for number, server in enumerate(found)
    ]


def _unanswered_late(server: Server, why: str) -> Payload:
    return _unanswered(server, postgresql.UNREACHABLE, why)


def out_of_reach(pid: int, server: Server) -> str:
    """Say why a server of a process cannot be asked from here; empty if it can.

    The calling thread is moved into the network of the process, for the rest of its life.
    """
    if not server.path:
        if enter_network_of(pid) or not server.is_here:
            return ""
        return "it is in another network namespace: run autopsy in there, or as root"
    try:
        same = os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return ""
    return "" if same else "its socket is in another mount namespace: run autopsy in there"


def _unanswered(server: Server, status: str, reason: str) -> Payload:
    entry: Payload = {"server": server.name, "status": status, "reason": reason, "left_out": 0}
    if server.kind == POSTGRESQL:
        return entry | {"matched_by": [], "backends": []}
    return entry | {"clients": [], "locks": [], "connected": None, "blocked": None}


def _local(found: Sequence[Server]) -> list[Payload]:
    return [
        {"pid": line.backend, "name": server.kind, "title": line.title, "server": server.name,
         "fd": line.fd}
        for server in found
        for line in server.lines
        if line.backend is not None
    ]  # fmt: skip


def _inode_of(pid: int, client: str) -> int:
    for family in ("tcp", "tcp6"):
        table = procfs.read_text(f"/proc/{pid}/net/{family}", _TABLE_LIMIT) or ""
        for local, inode in re.findall(
            r"^\s*\d+: (\S+) \S+ \S+ \S+ \S+ \S+\s+\d+\s+\d+\s+(\d+)", table, re.MULTILINE
        ):
            host, _, port = connection.address(local).rpartition(":")
            if f"{host.strip('[]')}:{port}" == client:
                return int(inode)
    return 0
