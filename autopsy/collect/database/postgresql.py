"""A PostgreSQL server asked about the patient's sessions, who blocks them and whom they block.

Secret: the questions, which work from version 10 on, through a pooler too and with few rights.
Invariants: one connection, read-only, in one transaction whose settings end with it; it waits for
no lock; what it returns holds no literal of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from autopsy.collect.database.address import Access, is_literal
from autopsy.collect.database.credential import located
from autopsy.collect.database.identity import thread_as
from autopsy.collect.database.server import Line, Server
from autopsy.collect.database.statement import without_literals
from autopsy.section import Payload

if TYPE_CHECKING:
    import psycopg

APPLICATION = "autopsy"
OK, UNREACHABLE, REFUSED, NO_DRIVER = "ok", "unreachable", "refused", "no driver"
MAX_DEPTH = 5
_MAX_BACKENDS = 60
_MAX_LOCKS = 20
_HIDDEN = "<insufficient privilege>"
_PREPARED = 0
_NOT_LET_IN = re.compile(
    r"authentication|password|pg_hba|does not exist|too many|remaining connection|permission"
    r"|not permitted|starting up|shutting down|no encryption|SSL",
    re.IGNORECASE,
)
_BOUNDS = (
    "set transaction read only",
    "set local statement_timeout = 500",
    "set local lock_timeout = 200",
)
_OURS = """
select pid, host(client_addr) || ':' || client_port = any(%(clients)s::text[]),
       pid = any(%(pids)s::int[]), application_name = any(%(names)s::text[])
  from pg_stat_activity
 where pid <> pg_backend_pid()
   and (host(client_addr) || ':' || client_port = any(%(clients)s::text[])
        or pid = any(%(pids)s::int[]) or application_name = any(%(names)s::text[]))
"""
_WAITING = """
select pid, pg_blocking_pids(pid)
  from (select distinct pid from pg_locks where not granted limit 200) waiting
"""
_SESSIONS = """
select pid, application_name, host(client_addr), client_port, usename, datname, state,
       wait_event_type, wait_event, backend_type,
       extract(epoch from clock_timestamp() - xact_start)::float8,
       extract(epoch from clock_timestamp() - state_change)::float8,
       extract(epoch from clock_timestamp() - query_start)::float8,
       left(query, 2000), backend_start
  from pg_stat_activity where pid = any(%s::int[])
"""
_LOCKS = """
select pid, locktype, mode, granted,
       case when relation is null then null
            when database in (0, (select oid from pg_database where datname = current_database()))
            then relation::regclass::text
            else 'relation ' || relation || ' of database ' || coalesce(
                 (select datname::text from pg_database d where d.oid = l.database), '?') end,
       page, tuple, transactionid::text, classid::bigint, objid::bigint, objsubid
  from pg_locks l
 where pid = any(%s::int[]) and locktype <> 'virtualxid'
 order by granted, locktype <> 'tuple', relation, pid limit 600
"""
_LEFT_PREPARED = """
select gid, extract(epoch from clock_timestamp() - prepared)::float8, owner, database
  from pg_prepared_xacts order by prepared limit 1
"""


class NotAnswered(Exception):
    """A server could not be asked; `status` is one of the words of the payload.

    An ordinary answer: it never leaves the package.
    """

    def __init__(self, status: str, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the patient's sessions are recognised: by their ends, their processes, their name."""

    lines: Sequence[Line]
    application: str = ""

    @property
    def parameters(self) -> Mapping[str, list[Any]]:
        """Return the parameters of the question for our sessions."""
        return {
            "clients": [line.client for line in self.lines if line.client],
            "pids": [line.backend_there for line in self.lines if line.backend],
            "names": [self.application] if self.application else [],
        }


def ask(
    server: Server, ways: Sequence[Access], wanted: Wanted, owner: Callable[[str], Payload | None]
) -> Payload:
    """Return what a server knows of the patient's sessions; `owner` names who has a local end.

    Shapes: server, status, reason, matched_by, backends (ours have depth 0, who blocks them 1 to 5,
    whom they block -1 to -5), left_out.
    """
    try:
        with connected(server, ways) as connection:
            if not is_direct(connection, server):
                wanted = replace(wanted, lines=())
            asked = _Answers(connection, wanted, owner)
            return {"server": server.name, "status": OK, **asked.payload()}
    except NotAnswered as exc:
        status, reason = exc.status, exc.reason
        return {
            "server": server.name, "status": status, "reason": reason, "matched_by": [],
            "backends": [], "left_out": 0,
        }  # fmt: skip


def is_direct(connection: psycopg.Connection[tuple[Any, ...]], server: Server) -> bool:
    """Return whether the server sees the patient's own ends, and no pooler's in their stead."""
    row = connection.execute("select coalesce(inet_server_port(), 0)").fetchone()
    return bool(server.path) or row == (server.port,)


@contextmanager
def connected(
    server: Server, ways: Sequence[Access]
) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Open a connection by the first way that lets us in, within a transaction that is bounded.

    Raises NotAnswered.
    """
    try:
        import psycopg
    except ImportError as exc:
        why = "the driver is missing: install psycopg beside autopsy"
        raise NotAnswered(NO_DRIVER, why) from exc
    connection = _opened(server, ways)
    try:
        for bound in _BOUNDS:
            connection.execute(bound)
        yield connection
    except psycopg.Error as exc:
        raise NotAnswered(REFUSED, f"the question failed: {in_a_line(exc)}") from exc
    finally:
        connection.close()


def _opened(server: Server, ways: Sequence[Access]) -> psycopg.Connection[tuple[Any, ...]]:
    import psycopg

    first: NotAnswered | None = None
    for way in ways:
        try:
            # Over a unix socket the server may let in whom the kernel names: a user of this system.
            with thread_as(way.user) if server.path and not way.password else nullcontext():
                return psycopg.connect(**_parameters(located(way, server), server))
        except psycopg.Error as exc:
            text = in_a_line(exc)
            if not _NOT_LET_IN.search(text):
                raise NotAnswered(UNREACHABLE, text) from exc
            remedy = "name an account: --database postgresql://USER@HOST"
            first = first or NotAnswered(REFUSED, f"{text}; {remedy}")
    raise first or NotAnswered(REFUSED, "no way into it is known")


def _parameters(access: Access, server: Server) -> dict[str, Any]:
    given = {
        "host": access.host,
        "user": access.user,
        "dbname": access.database,
        **access.options,
    }
    return {
        **{name: value for name, value in given.items() if value},
        # Given even when empty: else libpq takes ours, from PGPASSWORD and PGHOSTADDR.
        "password": access.password,
        "hostaddr": server.host if is_literal(server.host) else "",
        "port": access.port,
        "connect_timeout": 1,
        "application_name": APPLICATION,
        "gssencmode": "disable",
        "prepare_threshold": None,  # a pooler may give each statement to another server process
    }


def in_a_line(exc: Exception) -> str:
    """Return the first line of the driver's message; it never has a password in it."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return (lines[0] if lines else type(exc).__name__)[:300]


class _Answers:
    """The answers of one server, put together."""

    def __init__(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        wanted: Wanted,
        owner: Callable[[str], Payload | None],
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._owner = owner
        self._by_client = {line.client: line for line in wanted.lines if line.client}
        self._by_backend = {line.backend_there: line for line in wanted.lines if line.backend}

    def payload(self) -> Payload:
        """Ask everything."""
        execute = self._connection.execute
        rows = execute(_OURS, self._wanted.parameters).fetchall()
        ours = [row[0] for row in rows if row[1] or row[2]] or [row[0] for row in rows]
        waits = dict(execute(_WAITING).fetchall())
        depths = around(ours, waits)
        chosen = sorted(depths, key=lambda pid: (abs(depths[pid]), pid))[:_MAX_BACKENDS]
        locks = self._locks(chosen)
        backends = [
            {
                **self._session(row, set(ours)),
                "depth": depths[row[0]],
                "blocked_by": list(waits.get(row[0], ())),
                "locks": locks.get(row[0], []),
            }
            for row in execute(_SESSIONS, [chosen]).fetchall()
        ]
        backends.sort(key=lambda one: (abs(one["depth"]), one["pid"]))
        backends += self._prepared(depths)
        return {
            "reason": self._reason(rows, backends),
            "matched_by": _matched_by(rows),
            "backends": backends,
            "left_out": len(depths) - len(chosen),
        }

    def _session(self, row: tuple[Any, ...], ours: set[int]) -> Payload:
        pid, application, address, port, user, database, state, wait_type, wait, kind = row[:10]
        transaction_s, state_s, query_s, query, began = row[10:]
        client = f"{address}:{port}" if address else ("local" if port == -1 else "")
        is_ours, line = pid in ours, self._by_client.get(client) or self._by_backend.get(pid)
        owner = None if is_ours or not address else self._owner(client)
        return {
            "pid": pid,
            "application": as_text(application),
            "client": client,
            "client_process": owner,
            "fd": line.fd if line and is_ours else None,
            "user": as_text(user),
            "database": as_text(database),
            "state": state or ("" if query != _HIDDEN else "hidden"),
            "kind": kind,
            "wait_type": wait_type,
            "wait": wait,
            "transaction_s": _rounded(transaction_s),
            "state_s": _rounded(state_s),
            "query_s": _rounded(query_s),
            "query": "" if query == _HIDDEN else without_literals(as_text(query)),
            "ours": is_ours,
            "backend_start": began.isoformat() if began else None,
        }

    def _locks(self, pids: list[int]) -> dict[int, list[Payload]]:
        found: dict[int, list[Payload]] = {}
        for row in self._connection.execute(_LOCKS, [pids]).fetchall():
            listed = found.setdefault(row[0], [])
            if len(listed) < _MAX_LOCKS:
                listed.append(_lock(row))
        return found

    def _prepared(self, depths: Mapping[int, int]) -> list[Payload]:
        """A transaction that was prepared and never committed blocks as process 0."""
        if _PREPARED not in depths:
            return []
        row = self._connection.execute(_LEFT_PREPARED).fetchone()
        name, age, owner, database = row or ("?", None, "", "")
        return [
            {
                "pid": _PREPARED, "application": "", "client": "", "client_process": None,
                "fd": None, "user": as_text(owner), "database": as_text(database),
                "state": "prepared transaction", "kind": "", "wait_type": None, "wait": None,
                "transaction_s": _rounded(age), "state_s": _rounded(age), "query_s": None,
                "query": f"PREPARE TRANSACTION {as_text(name)}", "ours": False,
                "backend_start": None, "depth": depths[_PREPARED], "blocked_by": [], "locks": [],
            }
        ]  # fmt: skip

    def _reason(self, rows: Sequence[tuple[Any, ...]], backends: Sequence[Payload]) -> str:
        if not rows:
            return "none of its sessions was found there: a pooler or address translation between?"
        if any(one["state"] == "hidden" for one in backends):
            user = self._connection.info.user
            return f"sessions of other users are hidden from {user}: grant pg_monitor to {user}"
        return ""


def around(ours: Sequence[int], waits: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return how far each session is from ours: blockers 1 to 5, blocked ones -1 to -5.

    `waits` are the sessions that each waiting session waits for.
    """
    found = dict.fromkeys(ours, 0)
    victims: dict[int, list[int]] = {}
    for pid, blockers in waits.items():
        for blocker in blockers:
            victims.setdefault(blocker, []).append(pid)
    for edges, sign in ((waits, 1), (victims, -1)):
        edge = list(ours)
        for depth in range(1, MAX_DEPTH + 1):
            reached = [other for pid in edge for other in edges.get(pid, ())]
            edge = [pid for pid in dict.fromkeys(reached) if pid not in found]
            found.update(dict.fromkeys(edge, sign * depth))
    return found


def _matched_by(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    by_socket = any(row[1] or row[2] for row in rows)
    by_name = any(row[3] for row in rows)
    return ["socket"] * by_socket + ["application name"] * by_name


def _lock(row: tuple[Any, ...]) -> Payload:
    _, kind, mode, granted, relation, page, number, transaction, class_id, object_id, part = row
    lock: Payload = {"type": kind, "relation": relation, "mode": mode, "granted": granted}
    if number is not None:
        lock["tuple"] = f"({page},{number})"
    if transaction is not None:
        lock["transaction"] = transaction
    if kind == "advisory":
        is_whole = part == 1  # one key of 64 bits, or two of 32
        lock["key"] = str(class_id << 32 | object_id) if is_whole else f"{class_id}, {object_id}"
    return lock


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def as_text(value: str | bytes | None) -> str:
    """Return what a server said as text: a database of no encoding answers in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
