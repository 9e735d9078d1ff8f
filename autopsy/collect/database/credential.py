"""Ways into a server, the best first: what we were told, what the patient was told, what is usual.

Secret: where such addresses are looked for. Invariant: a password goes to no server but the one
it was written down for; it is neither shown nor kept.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from autopsy.collect import procfs
from autopsy.collect.database.address import (
    PORTS,
    POSTGRESQL,
    REDIS,
    Access,
    found_in,
    is_literal,
    is_loopback,
    of_variables,
)
from autopsy.collect.database.server import Server

_ENVIRONMENT_LIMIT = 1 << 18
# Each refused attempt is a line in the server's log.
_MAX_TRIES = 4
_SUPERUSER = _MAINTENANCE = "postgres"
# A password of something else must not match.
_OF_REDIS = ("REDIS", "VALKEY", "CACHE")
_FAMILY = re.compile(
    r"((?:\w+_)?(DB|DATABASE|POSTGRES|POSTGRESQL|PG|SQL|REDIS|VALKEY|CACHE)_)(?:PASSWORD|PASS|PW)\Z"
)
_TITLE = re.compile(r"postgres: (?:[^:]*: )?(\S+) (\S+) (?:\S+\(\d+\)|\[local\])")


def given(addresses: Iterable[str]) -> list[Access]:
    """Return the addresses of the caller that could be read."""
    return [one for text in addresses for one in found_in(text)]


def of_patient(pid: int) -> list[Access]:
    """Return the addresses in the environment and the command line of a process."""
    environment = _environment(pid)
    found = [one for value in environment.values() for one in found_in(value)]
    for argument in procfs.command_line(pid):
        found += found_in(argument) or found_in(argument.partition("=")[2])
    variables = of_variables(environment)
    return [*found, *([] if variables is None else [variables]), *_of_families(environment)]


def _of_families(environment: Mapping[str, str]) -> list[Access]:
    """Return what variables say together: DB_HOST, DB_USER, DB_PASSWORD and the like."""
    found = []
    for name, password in environment.items():
        family = _FAMILY.match(name)
        if family is None:
            continue

        def of(*ends: str, prefix: str = family[1]) -> str:
            return next((v for end in ends if (v := environment.get(prefix + end))), "")

        host, port = of("HOST", "HOSTNAME", "SERVER"), of("PORT")
        if host and password:
            found.append(
                Access(
                    REDIS if family[2] in _OF_REDIS else POSTGRESQL,
                    host,
                    int(port) if port.isdecimal() else 0,
                    of("USER", "USERNAME"),
                    password,
                    of("DB", "DATABASE", "DBNAME", "NAME"),
                )
            )
    return found


def ways_into(server: Server, told: Sequence[Access], patients: Sequence[Access]) -> list[Access]:
    """Return up to four ways into a server, in the order they are to be tried.

    May look names up: not for the thread that must not wait.
    """
    named = [one for one in (*told, *patients) if one.kind == server.kind and _names(one, server)]
    found = named if server.kind != POSTGRESQL else _with_databases(server, named)
    return list({_key(one): one for one in found}.values())[:_MAX_TRIES] or [Access(server.kind)]


def _environment(pid: int) -> dict[str, str]:
    block = procfs.read_text(f"/proc/{pid}/environ", _ENVIRONMENT_LIMIT) or ""
    pairs = (entry.partition("=") for entry in block.split("\0"))
    return {name: value for name, _, value in pairs}


def _names(access: Access, server: Server) -> bool:
    """Say whether an address leads to this server and no other."""
    port = access.port or PORTS[access.kind]
    if server.path:
        is_directory = access.kind == POSTGRESQL
        path = f"{access.host}/.s.PGSQL.{port}" if is_directory else access.host
        return path == server.path or (is_directory and not access.host and port == server.port)
    if port != server.port or access.host.startswith(("/", "@")):
        return False
    if access.host == server.host:
        return True
    if access.host in ("", "localhost"):
        return is_loopback(server.host)
    return server.host in ({access.host} if is_literal(access.host) else _looked_up(access.host))


def _looked_up(name: str) -> set[str]:
    with suppress(OSError, UnicodeError):
        return {str(one[4][0]) for one in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    return set()


def _with_databases(server: Server, named: Sequence[Access]) -> list[Access]:
    """Return ways into a PostgreSQL, each to the database that the patient uses if that is known.

    Any would do for the sessions, but relations have names in their own database only.
    """
    titles = (_TITLE.match(line.title) for line in server.lines)
    user, database = next(((one[1], one[2]) for one in titles if one), ("", ""))
    known = database or next((one.database for one in named if one.database), _MAINTENANCE)
    usual = [user, _SUPERUSER] if server.is_here else []
    return [
        *(replace(one, database=one.database or known) for one in named),
        *(Access(POSTGRESQL, user=one, database=known) for one in usual if one),
    ]


def _key(access: Access) -> tuple[str, str, str]:
    return access.user, access.password, access.database


def located(access: Access, server: Server) -> Access:
    """Return a way in that surely leads to this server: the patient's own peer."""
    if server.path:
        host = server.path.rpartition("/")[0] if access.kind == POSTGRESQL else server.path
        return replace(access, host=host, port=server.port)
    is_name = access.host and not access.host.startswith(("/", "@"))
    return replace(access, host=access.host if is_name else server.host, port=server.port)
