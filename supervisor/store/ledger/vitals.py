"""Vital signs of nodes: a document every few seconds, kept for an hour.

Invariant: nothing depends on a row being there; a node that cannot write one goes on. Called
through `Transaction`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import bindparam, delete, literal_column, select

from supervisor.store.schema import vitals
from supervisor.store.session import Ordered, Session, insert_into, ordered

#: How long rows are kept.
KEPT_FOR = timedelta(hours=1)
#: Rows removed at a time: twice those that ten nodes write between two rounds of one of them.
REMOVED_MAX = 240


class Vitals:
    """The verbs about vital signs, within one open transaction."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def write(self, node_id: str, at: datetime, document: str) -> None:
        """Write down what a node saw; a second row of the same moment replaces the first."""
        moment = self._session.encode(at)
        self._session.write(_delete_row, node_id, moment)
        self._session.write(_insert_row, node_id, moment, document)

    def remove_old(self, now: datetime) -> int:
        """Remove some rows that are too old, of any node; return how many."""
        before = self._session.encode(now - KEPT_FOR)
        old = self._session.rows(_select_old, before, REMOVED_MAX)
        self._session.write_many(_delete_row, [tuple(row) for row in old])
        return len(old)


def _insert_row() -> Ordered:
    return insert_into(vitals)


def _delete_row() -> Ordered:
    column = vitals.c
    return ordered(
        delete(vitals).where(
            column.node_id == bindparam("the_node"), column.at == bindparam("at_")
        ),
        "the_node",
        "at_",
    )


def _select_old() -> Ordered:
    column = vitals.c
    return ordered(
        select(column.node_id, column.at)
        .where(column.at < bindparam("before"))
        .order_by(column.at)
        .limit(bindparam("limit"))
        .offset(literal_column("0"))
        .with_for_update(skip_locked=True),  # another node removes those
        "before",
        "limit",
    )
