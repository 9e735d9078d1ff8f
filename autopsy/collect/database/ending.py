"""The statements of the dead: a process is about to be killed, and its sessions end before it.

A killed client does not stop what the server does for it: an UPDATE that waits for a row is carried
out later. Secret: which sessions die with the process. Invariants: a session is ended only when
every holder of its connection is to die, or when it is at work under the name of this very attempt
and nobody has its client's end any more (a pooler lends its connections on, names and all); the
process is stopped first, so that it neither sees its statement fail nor tries again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from autopsy import clock
from autopsy.collect import connection
from autopsy.collect.database import credential, postgresql
from autopsy.collect.database.address import POSTGRESQL, Access
from autopsy.collect.database.asking import Asking
from autopsy.collect.database.collecting import at_once, out_of_reach
from autopsy.collect.database.server import Line, Server, servers, told_servers
from autopsy.collect.database.statement import without_literals
from autopsy.collect.holder import Holders, family
from autopsy.collect.patient import DEAD_STATES, STOPPED_STATES, Patient
from autopsy.section import Payload, Skipped

if TYPE_CHECKING:
    import psycopg

TIME_BOX_S = 1.5
_REST_S = 0.1
_STOP_S = 0.05
_POLL_S = 0.005
# An ended session rolls back first; one that takes longer ends all the same.
_GONE_S = 0.3
_MAX_FAMILY = 50
_NOTHING = "it has no connection to PostgreSQL"
_CANDIDATES = """
select pid, backend_start, application_name, state, left(query, 2000),
       host(client_addr) || ':' || client_port,
       coalesce(inet_server_port(), 0), coalesce(host(inet_server_addr()), '')
  from pg_stat_activity
 where pid <> pg_backend_pid()
   and (host(client_addr) || ':' || client_port = any(%(clients)s::text[])
        or pid = any(%(pids)s::int[]) or application_name = any(%(names)s::text[]))
"""
_END = """
select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_start = %s
"""
_LEFT = "select pid from pg_stat_activity where pid = any(%s::int[])"


@dataclass(frozen=True, slots=True)
class _Session:
    """A session that may be the patient's, and why it is not ended if it is not."""

    pid: int
    began: datetime
    application: str
    state: str
    query: str
    matched_by: tuple[str, ...]
    spared: str


def collector(asking: Asking) -> Callable[[Patient], Payload]:
    """Return the step that stops a process and ends its sessions in PostgreSQL.

    Only for a process that is killed next: it stays stopped. Of one that has ended only what has
    the name of the attempt is found. Raises Skipped when there is nothing to end.
    Shapes: postgresql: server, pid (None: the server could not be asked), application, state,
    query, matched_by, ended, reason.
    """

    def end(patient: Patient) -> Payload:
        deadline = clock.mono() + TIME_BOX_S - _REST_S
        told = credential.given(asking.addresses)
        if not patient.is_there():  # and its pid may be somebody else's by now
            return _by_name(asking, told, deadline)
        mortal = family(patient.pid)[:_MAX_FAMILY]
        patients = [one for pid in mortal for one in credential.of_patient(pid)]
        if not _connections(patient, mortal, [*told, *patients], Holders()):
            return _by_name(asking, told, deadline)
        if asking.allowed:
            _stop(patient, mortal)
        # Looked at again: what was opened meanwhile is ended too, what was closed is not ours.
        mortal, holders = family(patient.pid)[:_MAX_FAMILY], Holders()
        found = _connections(patient, mortal, [*told, *patients], holders)
        shared = {
            line.inode: others
            for server in found
            for line in server.lines
            if (others := _survivors(patient.pid, line, mortal, holders))
        }

        def ask(server: Server) -> list[Payload]:
            if why := out_of_reach(patient.pid, server):
                return [_unasked(server, why)]
            ways = credential.ways_into(server, told, patients)
            return _ended(server, ways, asking, shared)

        return _all_of([*found, *told_servers(told, found)], ask, asking, deadline)

    return end


def _by_name(asking: Asking, told: Sequence[Access], deadline: float) -> Payload:
    """End what bears the attempt's name on the servers that we were told of."""
    found = told_servers(told, []) if asking.application else []
    if not found:
        raise Skipped(_NOTHING)
    return _all_of(
        found,
        lambda server: _ended(server, credential.ways_into(server, told, ()), asking, {}),
        asking,
        deadline,
    )


def _all_of(
    found: Sequence[Server],
    ask: Callable[[Server], list[Payload]],
    asking: Asking,
    deadline: float,
) -> Payload:
    if not asking.allowed:
        listed = [_unasked(server, "asking servers was switched off") for server in found]
    else:
        answers = at_once(found, ask, lambda server, why: [_unasked(server, why)], deadline)
        listed = [one for answer in answers for one in answer]
    if not listed:
        raise Skipped("none of its sessions in PostgreSQL is left")
    return {"postgresql": listed}


def _connections(
    patient: Patient, mortal: Iterable[int], known: Sequence[Access], holders: Holders
) -> list[Server]:
    """Return the PostgreSQL servers that a process and its descendants are connected to."""
    found: dict[str, Server] = {}
    look = connection.collector(holders)
    for pid in mortal:
        with contextlib.suppress(Skipped):
            sockets = look(replace(patient, pid=pid))["sockets"]
            for server in servers(pid, sockets, known):
                if server.kind == POSTGRESQL:
                    before = found.get(server.name)
                    lines = (*(before.lines if before else ()), *server.lines)
                    found[server.name] = replace(server, lines=lines)
    return list(found.values())


def _stop(patient: Patient, mortal: Sequence[int]) -> None:
    """Stop a process and all below it, and wait until they are."""
    for pid in mortal:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid == patient.pid:
                signal.pidfd_send_signal(patient.pidfd, signal.SIGSTOP)
            else:
                os.kill(pid, signal.SIGSTOP)
    until = clock.mono() + _STOP_S
    still = STOPPED_STATES | DEAD_STATES
    while not still.issuperset(patient.thread_states().values()) and clock.mono() < until:
        clock.sleep(_POLL_S)


def _survivors(pid: int, line: Line, mortal: Sequence[int], holders: Holders) -> list[int]:
    """Return who else has a connection open and does not die."""
    holding = holders.of(pid, f"socket:[{line.inode}]")
    return sorted({one for one, _ in holding} - set(mortal))


def _ended(
    server: Server, ways: Sequence[Access], asking: Asking, shared: dict[int, list[int]]
) -> list[Payload]:
    wanted = postgresql.Wanted(server.lines, asking.application)
    try:
        with postgresql.connected(server, ways) as asked:
            rows = asked.execute(_CANDIDATES, wanted.parameters).fetchall()
            sessions = [_session(row, server, wanted, shared) for row in rows]
            reasons = {one.pid: one.spared or _end(asked, one) for one in sessions}
            left = _left(asked, [pid for pid, reason in reasons.items() if not reason])
    except postgresql.NotAnswered as exc:
        return [_unasked(server, exc.reason)]
    return [_entry(server, one, reasons[one.pid], one.pid in left) for one in sessions]


def _session(
    row: tuple[Any, ...],
    server: Server,
    wanted: postgresql.Wanted,
    shared: dict[int, list[int]],
) -> _Session:
    pid, began, application, state, query, client, port, address = row
    line = _line_of(pid, client, wanted.lines)
    # Behind a pooler the ends that the server sees are the pooler's, and a port says nothing.
    direct = bool(server.path) or (port == server.port and address == server.host)
    by_socket = line is not None and direct
    by_name = bool(wanted.application) and application == wanted.application
    spared = ""
    if by_socket and line is not None:
        others = shared.get(line.inode, [])
        if others:
            named = ", ".join(map(str, others[:3]))
            spared = f"its connection is open in process {named} as well, which lives on"
    elif not by_name:
        spared = "it is another's: the server is behind a pooler"
    elif state in ("idle", None) or not _client_is_gone(client):
        spared = "it has the name of the attempt alone: a pooler may have lent it on to another"
    matched = ("socket",) * by_socket + ("application name",) * by_name
    return _Session(
        pid, began, postgresql.as_text(application), state or "",
        without_literals(postgresql.as_text(query)), matched, spared,
    )  # fmt: skip


def _client_is_gone(client: str | None) -> bool:
    """Whether a connection began on this host, and nobody has that end of it any more."""
    host, _, port = (client or "").rpartition(":")
    if not port.isdigit() or not _is_of_this_host(host):
        return False
    ends = {f"{host}:{port}", f"[{host}]:{port}"}
    return ends.isdisjoint(connection.held_ends())


def _is_of_this_host(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))  # only an address of one's own can be bound
        except OSError:
            return False
    return True


def _line_of(pid: int, client: str | None, lines: Sequence[Line]) -> Line | None:
    for line in lines:
        if line.backend is not None and line.backend_there != pid:
            continue
        if line.client == client if line.client else line.backend is not None:
            return line
    return None


def _end(asked: psycopg.Connection[tuple[Any, ...]], session: _Session) -> str:
    """End a session that is still the same one; return why not, empty if it is or was over."""
    import psycopg

    try:
        with asked.transaction():  # a refusal must not cost the others
            asked.execute("select pg_stat_clear_snapshot()")
            row = asked.execute(_END, [session.pid, session.began]).fetchone()
    except psycopg.Error as exc:
        return postgresql.in_a_line(exc)
    return "" if row is None or row[0] else "the server could not signal it"


def _left(asked: psycopg.Connection[tuple[Any, ...]], pids: list[int]) -> set[int]:
    until = clock.mono() + _GONE_S
    while pids:
        asked.execute("select pg_stat_clear_snapshot()")
        left = {int(row[0]) for row in asked.execute(_LEFT, [pids]).fetchall()}
        if not left or clock.mono() > until:
            return left
        clock.sleep(_POLL_S)
    return set()


def _entry(server: Server, session: _Session, reason: str, is_left: bool) -> Payload:
    if not reason and is_left:
        reason = f"told to end, not gone after {_GONE_S:g} s: it rolls back"
    return {
        "server": server.name,
        "pid": session.pid,
        "application": session.application,
        "state": session.state,
        "query": session.query,
        "matched_by": list(session.matched_by),
        "ended": not reason or is_left,
        "reason": reason,
    }


def _unasked(server: Server, why: str) -> Payload:
    return {
        "server": server.name, "pid": None, "application": "", "state": "", "query": "",
        "matched_by": [], "ended": False, "reason": why,
    }  # fmt: skip
