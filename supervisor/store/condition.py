"""What a database server is like that is to be a store: looked at before a start, never on the way.

Secret kept here: where PostgreSQL says such things. Works on a database without our tables, too.
Only `supervisor check` asks; nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from supervisor.store.engine import schema_version
from supervisor.store.postgresql import ServerStore
from supervisor.store.schema import audit_log, metadata, queues
from supervisor.store.session import Ordered

#: Settings that PostgreSQL keeps its word with, and what is at stake when they are off.
_SAFE = {
    "fsync": "the database may be lost",
    "full_page_writes": "the database may be lost",
    "synchronous_commit": "tasks that were acknowledged may be lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """How a server is. `schema` is None where there are no tables of ours.

    `at_stake` are settings that are off, with what a power cut may cost then; `lacking` are tables
    that our user may not fully use.
    """

    version: str
    major: int
    encoding: str
    is_replica: bool
    is_pooled: bool
    skew_s: float
    may_create: bool
    connections_left: int
    at_stake: dict[str, str]
    schema: str | None
    lacking: tuple[str, ...]


def examine(store: ServerStore) -> Condition:
    """Ask a server what it is like. Raises: StoreUnavailable."""
    with store.reading() as connection:
        row = connection.execute(_FACTS).one()
        values = connection.execute(_SETTINGS, {"names": list(_SAFE)}).all()
        schema = schema_version(connection)
        lacking = _lacking(connection) if schema is not None else ()
    return Condition(
        version=row.version.split(" ")[0],
        major=row.version_num // 10_000,
        encoding=row.encoding,
        is_replica=row.is_replica,
        is_pooled=store.is_pooled,
        skew_s=store.skew_s,
        may_create=row.may_create,
        connections_left=row.connections_left,
        at_stake={name: _SAFE[name] for name, value in values if value in ("off", "local")},
        schema=schema,
        lacking=lacking,
    )


def prove_writable(store: ServerStore) -> None:
    """Write nothing, in a transaction that may write. Raises: StoreUnavailable."""
    with store.writing() as session:
        session.write(_touch_nothing)


_FACTS: Any = sa.text(
    "SELECT current_setting('server_version') AS version,"
    " current_setting('server_version_num')::int AS version_num,"
    " current_setting('server_encoding') AS encoding,"
    " pg_is_in_recovery() AS is_replica,"
    " coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,"
    " current_setting('max_connections')::int - (SELECT count(*) FROM pg_stat_activity"
    "  WHERE backend_type = 'client backend') AS connections_left"
)
_SETTINGS: Any = sa.text("SELECT name, setting FROM pg_settings WHERE name = ANY(:names)")
_DENIED: Any = sa.text(
    "SELECT name FROM unnest(CAST(:names AS text[])) AS name"
    " WHERE to_regclass(name) IS NOT NULL AND NOT ("
    " has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT')"
    " AND (name = :only_grows OR has_table_privilege(name, 'UPDATE')))"
)


def _lacking(connection: sa.Connection) -> tuple[str, ...]:
    given = {"names": sorted(metadata.tables), "only_grows": audit_log.name}
    return tuple(connection.execute(_DENIED, given).scalars())


def _touch_nothing() -> Ordered:
    return Ordered(sa.update(queues).where(sa.false()).values(paused=queues.c.paused), ())
