"""Leases, by the store's own clock: until when a node owns what it runs, and who leads.

Invariants: a lease that is over is never renewed, only given anew to a node on which nothing runs
any more; of two nodes that ask for a role one gets it, and each change of hands has a higher term.
Called through `Transaction`, on a store that nodes share.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import text

from supervisor.store.ledger.audit import NoteReason, write_general_note
from supervisor.store.session import Ordered, Session, ordered


def renew(session: Session, node_id: str, lease_s: float, skew_s: float) -> bool:
    """Renew a node's lease; False when it was over or the node's end is written down."""
    return session.write(_renew, lease_s, skew_s, node_id) == 1


def revive(session: Session, node_id: str, lease_s: float, skew_s: float) -> bool:
    """Give a node a new lease, after everything that ran on it has ended.

    False when the store does not know it: its database was replaced under the node.
    """
    row = session.row(_revive, lease_s, skew_s, node_id)
    if row is None:
        return False
    now: datetime = session.decode(row[0])
    text_ = f"{node_id}: its lease was over; what ran on it has ended, and it takes tasks again"
    write_general_note(session, now, NoteReason.NODE_RETURNED, text_)
    return True


def lead(session: Session, role: str, node_id: str, lease_s: float) -> int | None:
    """Take or keep a role; return the term, or None while another node holds it."""
    row = session.row(_lead, role, node_id, lease_s)
    return None if row is None else int(row[0])


def lapsed_nodes(session: Session) -> list[str]:
    """Return the nodes whose lease is over and whose end nobody has written down.

    It stays like that until the transaction ends: none of them comes back meanwhile.
    """
    return [node_id for (node_id,) in session.rows(_select_lapsed)]


def own_time(session: Session) -> datetime:
    """Return the time by the clock that leases are given and end by."""
    now: datetime = session.decode(session.row(_select_time)[0])
    return now


# The time of the lease is the one at which the statement runs, not the one at which its transaction
# began: a transaction that waited for a lock must not hand out what is over.
_NOW = "clock_timestamp()"


def _renew() -> Ordered:
    return ordered(
        text(
            f"UPDATE nodes SET lease_until = {_NOW} + make_interval(secs => :lease),"
            f" renewed_at = {_NOW}, skew_s = :skew"
            f" WHERE node_id = :the_node AND ended_at IS NULL AND lease_until > {_NOW}"
        ),
        "lease",
        "skew",
        "the_node",
    )


def _revive() -> Ordered:
    return ordered(
        text(
            f"UPDATE nodes SET lease_until = {_NOW} + make_interval(secs => :lease),"
            f" renewed_at = {_NOW}, skew_s = :skew, ended_at = NULL, note = NULL"
            f" WHERE node_id = :the_node RETURNING {_NOW}"
        ),
        "lease",
        "skew",
        "the_node",
    )


def _select_time() -> Ordered:
    return ordered(text(f"SELECT {_NOW}"))


def _select_lapsed() -> Ordered:
    return ordered(
        text(
            "SELECT node_id FROM nodes"
            f" WHERE ended_at IS NULL AND lease_until < {_NOW} FOR UPDATE SKIP LOCKED"
        )
    )


def _lead() -> Ordered:
    return ordered(
        text(
            "INSERT INTO leaders AS old (role, node_id, term, lease_until)"
            f" VALUES (:the_role, :the_node, 1, {_NOW} + make_interval(secs => :lease))"
            " ON CONFLICT (role) DO UPDATE SET node_id = excluded.node_id,"
            " lease_until = excluded.lease_until,"
            " term = old.term + (old.node_id <> excluded.node_id)::int"
            f" WHERE old.node_id = excluded.node_id OR old.lease_until < {_NOW}"
            # one that has ended, by its own word or a proof, leads nobody for the rest of its lease
            " OR EXISTS (SELECT 1 FROM nodes"
            " WHERE nodes.node_id = old.node_id AND nodes.ended_at IS NOT NULL)"
            " RETURNING term"
        ),
        "the_role",
        "the_node",
        "lease",
    )
