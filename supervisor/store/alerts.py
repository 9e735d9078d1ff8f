"""What Alertmanager has told, for people: what fires, and what has fired.

Invariant: read-only, each list along an index, newest first. Pages and API ask here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from supervisor.store.engine import Store
from supervisor.store.schema import alerts

FIRING_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """One time that an alert fired; `ends_at` is None while nobody has told that it is over."""

    fingerprint: str
    starts_at: datetime
    name: str
    severity: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    ends_at: datetime | None
    received_at: datetime


@dataclass(frozen=True, slots=True)
class AlertPage:
    """Alerts, newest first; `next_at` and `next_of` go on, None at the end."""

    alerts: tuple[AlertView, ...]
    next_at: datetime | None
    next_of: str | None


class AlertBook:
    """The alerts of one store. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def firing(self) -> list[AlertView]:
        """Return the alerts whose end nobody has told, newest first."""
        query = (
            sa.select(alerts)
            .where(alerts.c.ends_at.is_(None))
            .order_by(alerts.c.starts_at.desc())
            .limit(FIRING_MOST)
        )
        with self._store.reading() as connection:
            return [_view(row) for row in connection.execute(query)]

    def find(
        self,
        before_at: datetime | None = None,
        before_of: str = "",
        limit: int = 50,
        *,
        firing: bool = False,
    ) -> AlertPage:
        """Return one page of all alerts, or of those whose end nobody has told."""
        column = alerts.c
        query = sa.select(alerts).order_by(column.starts_at.desc(), column.fingerprint.desc())
        if firing:
            query = query.where(column.ends_at.is_(None))
        if before_at is not None:
            earlier = column.starts_at < before_at, column.fingerprint < before_of
            query = query.where(column.starts_at <= before_at, sa.or_(*earlier))
        with self._store.reading() as connection:
            found = [_view(row) for row in connection.execute(query.limit(limit + 1))]
        if len(found) <= limit:
            return AlertPage(tuple(found), None, None)
        last = found[limit - 1]
        return AlertPage(tuple(found[:limit]), last.starts_at, last.fingerprint)

    def has_any(self) -> bool:
        """Say whether anything was ever told."""
        with self._store.reading() as connection:
            return connection.execute(sa.select(alerts.c.name).limit(1)).first() is not None


def _view(row: Any) -> AlertView:
    fields = dict(row._mapping)
    for name in ("labels", "annotations"):
        fields[name] = json.loads(fields[name])
    return AlertView(**fields)
