"""What the door of the pages asks the store: who somebody is, and who may come in at all.

Invariants: read-only, each question over a primary key or a unique index; who was removed, and a
session or token that is over, is not found. Called by the web process and the command line.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from supervisor.model.access import Person, Role
from supervisor.store.engine import Store
from supervisor.store.ledger.access import KEY_FACT
from supervisor.store.record import TokenRecord, UserRecord
from supervisor.store.schema import api_tokens, store_facts, web_sessions, web_users


class AccessBook:
    """Users, sessions and tokens of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def has_users(self) -> bool:
        """Say whether anybody may sign in."""
        with self._store.reading() as connection:
            return connection.execute(sa.select(web_users.c.name).limit(1)).first() is not None

    def users(self) -> list[UserRecord]:
        """Return all users, by name."""
        with self._store.reading() as connection:
            query = sa.select(web_users).order_by(web_users.c.name)
            return [_user(row) for row in connection.execute(query)]

    def user(self, name: str) -> UserRecord | None:
        """Return one user; None if there is none of this name."""
        with self._store.reading() as connection:
            row = connection.execute(sa.select(web_users).where(web_users.c.name == name)).first()
            return None if row is None else _user(row)

    def of_session(self, key_hash: str, now: datetime) -> Person | None:
        """Return whose session this is; None when it is over or there never was one."""
        query = (
            sa.select(web_users.c.name, web_users.c.role, web_users.c.sees_autopsies)
            .join(web_sessions, web_sessions.c.user_name == web_users.c.name)
            .where(web_sessions.c.key_hash == key_hash, web_sessions.c.ends_at > now)
        )
        return self._person(query)

    def of_token(self, token_hash: str, now: datetime) -> Person | None:
        """Return as whom a token acts; None when it is over, revoked or never was one."""
        column = api_tokens.c
        ends_later = sa.or_(column.ends_at.is_(None), column.ends_at > now)
        query = sa.select(
            sa.literal("token:").concat(column.name).label("name"),
            column.role,
            column.sees_autopsies,
        ).where(column.token_hash == token_hash, ends_later)
        return self._person(query)

    def tokens(self) -> list[TokenRecord]:
        """Return all tokens that were not revoked, by name."""
        with self._store.reading() as connection:
            query = sa.select(api_tokens).order_by(api_tokens.c.name)
            return [_token(row) for row in connection.execute(query)]

    def web_key(self) -> str | None:
        """Return the key of the store's web processes; None before the first of them."""
        query = sa.select(store_facts.c.value).where(store_facts.c.name == KEY_FACT)
        with self._store.reading() as connection:
            return connection.execute(query).scalar()

    def _person(self, query: sa.Select[Any]) -> Person | None:
        with self._store.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else Person(row[0], Role(row[1]), bool(row[2]))


def _user(row: Any) -> UserRecord:
    return UserRecord(**{**row._mapping, "sees_autopsies": bool(row.sees_autopsies)})


def _token(row: Any) -> TokenRecord:
    return TokenRecord(**{**row._mapping, "sees_autopsies": bool(row.sees_autopsies)})
