"""Many nodes on one store: leases, leaders, what is true of the store as a whole.

Only additions that code of schema 0001 does not see, so nodes of both versions may run at once.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

from supervisor.store.schema import Moment

revision = "0002"
down_revision = "0001"

#: Rows that die on each of these tables are many more than those that stay.
_BUSY = ("tasks", "outbox", "attempts")


def upgrade() -> None:
    op.add_column("nodes", sa.Column("lease_until", Moment(), nullable=True))
    op.add_column("nodes", sa.Column("renewed_at", Moment(), nullable=True))
    op.add_column("nodes", sa.Column("skew_s", sa.Float(), nullable=True))
    unended = sa.text("ended_at IS NULL")
    for name, table in (("nodes_unended", "nodes"), ("workers_living", "workers")):
        op.create_index(
            name,
            table,
            ["started_at"],
            unique=False,
            sqlite_where=unended,
            postgresql_where=unended,
        )
    op.create_index("workers_by_start", "workers", ["started_at"], unique=False)
    op.create_table(
        "leaders",
        sa.Column("role", sa.String(length=40), nullable=False),
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("role"),
    )
    op.create_table(
        "node_types",
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("type", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "type"),
        sqlite_with_rowid=False,
    )
    _facts()
    if op.get_context().dialect.name == "postgresql":
        for table in _BUSY:
            op.execute(
                f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.05,"
                " autovacuum_vacuum_threshold = 20000)"
            )
        # The end of an attempt touches no index: with room left on its page it stays there.
        op.execute("ALTER TABLE attempts SET (fillfactor = 70)")


def _facts() -> None:
    table = op.create_table(
        "store_facts",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.bulk_insert(
        table,
        [
            {"name": "identity", "value": secrets.token_hex(8)},
            {"name": "oldest_code", "value": "0001"},
        ],
    )
