"""The databases of a process, as a part of the report: who blocks whom, in which query, since when.

Secret: which backends are worth telling: ours, and who stands in our way. Pure; called by `view`.
"""

from __future__ import annotations

from collections.abc import Iterator

from autopsy.report.part import Block, Lines, Part, Table
from autopsy.report.reading import listing, missing, number, rows, span, text, words
from autopsy.section import Payload

_MAX_ROWS = 50
_QUERY = 300


def databases(payload: Payload, terminated: Payload) -> Part | None:
    """Return what the servers say of the process, and which of its statements were ended."""
    blocks: list[Block] = []
    for server in rows(payload, "postgresql", "server"):
        blocks += _postgresql(server)
    for server in rows(payload, "redis", "server"):
        blocks += _redis(server)
    blocks += _sqlite(payload)
    blocks += _titles(payload)
    blocks += _ended(terminated)
    return Part("databases", "Databases", tuple(blocks)) if blocks else None


def _of(kind: str, server: Payload) -> Lines:
    status, reason = text(server.get("status"), "ok"), text(server.get("reason"))
    by = ", ".join(text(one) for one in listing(server.get("matched_by")))
    told = [one for one in ("" if status == "ok" else status, reason) if one]
    how = f": {', '.join(told)}" if told else ""
    return Lines((f"{kind} at {server['server']}{how}{f' (found by {by})' if by else ''}",))


def _postgresql(server: Payload) -> Iterator[Block]:
    yield _of("PostgreSQL", server)
    found = rows(server, "backends", "pid")
    body = tuple(
        (
            f"{one['pid']}{' (ours)' if one.get('ours') else ''}",
            _application(one),
            _state(one),
            ", ".join(text(pid) for pid in listing(one.get("blocked_by"))),
            span(one["transaction_s"]) if number(one.get("transaction_s")) is not None else "",
            text(one.get("query"))[:_QUERY],
        )
        for one in found[:_MAX_ROWS]
    )
    if body:
        head = ("pid", "application", "state", "blocked by", "transaction", "query")
        yield Table(head, body, len(found) - len(body) + missing(server, "backends"))


def _application(backend: Payload) -> str:
    who = [text(backend.get("application"), "no name"), text(backend.get("user"))]
    who.append(text(backend.get("client")))
    process = backend.get("client_process")
    if isinstance(process, dict):
        command = words(process.get("command_line"), 80) or text(process.get("name"))
        who.append(f"process {text(process.get('pid'))}: {command}")
    return ", ".join(part for part in who if part)


def _state(backend: Payload) -> str:
    since = number(backend.get("state_s"))
    parts = [text(backend.get("state"), "?") + (f" for {span(since)}" if since is not None else "")]
    if backend.get("wait"):
        parts.append(f"waits for {text(backend.get('wait_type'))} {backend['wait']}")
    return ", ".join(parts)


def _redis(server: Payload) -> Iterator[Block]:
    yield _of("Redis", server)
    clients = rows(server, "clients", "client")
    if clients:
        body = tuple(
            (
                f"{one['client']}{' (ours)' if one.get('ours') else ''}",
                text(one.get("name")),
                text(one.get("command")),
                span(one.get("idle_s")),
            )
            for one in clients[:_MAX_ROWS]
        )
        yield Table(("client", "name", "last command", "idle"), body, len(clients) - len(body))
    locks = rows(server, "locks", "key")
    if locks:
        held = tuple(
            (
                text(one["key"]),
                text(one.get("value")),
                "never" if one.get("ttl_s") is None else span(one["ttl_s"]),
            )
            for one in locks[:_MAX_ROWS]
        )
        yield Table(("lock", "held by", "ends in"), held, len(locks) - len(held))


def _sqlite(payload: Payload) -> Iterator[Block]:
    for file in rows(payload, "sqlite", "file"):
        journal = f", {file['journal']} journal" if file.get("journal") else ""
        holders = [
            f"held by {text(one.get('pid'))} {words(one.get('command_line'), 120)} "
            f"({text(one.get('kind'))})"
            for one in rows(file, "held_by", "pid")
        ]
        yield Lines((f"SQLite {file['file']}{journal}", *(f"  {one}" for one in holders)))


def _titles(payload: Payload) -> Iterator[Block]:
    found = rows(payload, "local_servers", "pid")
    if found:
        yield Lines(("server processes on this host at the other end of its sockets:",))
        yield Lines(
            tuple(f"{one['pid']} {text(one.get('title') or one.get('name'))}" for one in found)
        )


def _ended(payload: Payload) -> Iterator[Block]:
    for one in rows(payload, "postgresql", "pid"):
        what = "was ended" if one.get("ended") else f"could not be ended: {text(one.get('reason'))}"
        yield Lines(
            (f"the statement of backend {one['pid']} {what}: {text(one.get('query'))[:_QUERY]}",)
        )
