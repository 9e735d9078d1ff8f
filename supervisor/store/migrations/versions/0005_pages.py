"""What the pages need: orders to nodes, vitals of nodes, acts on many tasks, alerts that were told;
which params nobody may be shown.

Only new tables, two indexes and a column that may be empty, so nodes and clients of older versions
may run at once.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from supervisor.store.schema import Moment

revision = "0005"
down_revision = "0004"

_BY_PEOPLE = "operator <> 'supervisor' AND reason <> 'submitted'"


def upgrade() -> None:
    _orders()
    _vitals()
    _bulk_acts()
    _alerts()
    # In the order in which nodes write, or each could wait for what the other holds.
    _open("tasks_by_parent", "tasks", ["parent_id", "task_id"], "parent_id IS NOT NULL")
    _open("audit_of_people", "audit_log", ["id"], _BY_PEOPLE)
    op.add_column("task_types", sa.Column("secret_params", sa.Text(), nullable=True))


def _open(name: str, table: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)


def _orders() -> None:
    op.create_table(
        "node_orders",
        sa.Column("order_id", sa.String(length=64), nullable=False),
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("operator", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("answered_at", Moment(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("order_id"),
    )
    _open("node_orders_open", "node_orders", ["node_id", "created_at"], "answered_at IS NULL")
    op.create_index("node_orders_of_task", "node_orders", ["task_id", "created_at"], unique=False)
    op.create_index("node_orders_of_node", "node_orders", ["node_id", "created_at"], unique=False)


def _vitals() -> None:
    op.create_table(
        "vitals",
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("at", Moment(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "at"),
        sqlite_with_rowid=False,
    )
    op.create_index("vitals_by_time", "vitals", ["at"], unique=False)


def _bulk_acts() -> None:
    op.create_table(
        "bulk_acts",
        sa.Column("bulk_id", sa.String(length=64), nullable=False),
        sa.Column("verb", sa.String(length=20), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("operator", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("answers", sa.Text(), nullable=False),
        sa.Column("next_id", sa.String(length=64), nullable=True),
        sa.Column("holder", sa.String(length=64), nullable=True),
        sa.Column("held_until", Moment(), nullable=True),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.Column("ended_by", sa.String(length=200), nullable=True),
        sa.PrimaryKeyConstraint("bulk_id"),
    )
    _open("bulk_acts_open", "bulk_acts", ["created_at"], "ended_at IS NULL")
    op.create_index("bulk_acts_by_time", "bulk_acts", ["created_at"], unique=False)


def _alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("starts_at", Moment(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("severity", sa.String(length=40), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("annotations", sa.Text(), nullable=False),
        sa.Column("ends_at", Moment(), nullable=True),
        sa.Column("received_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", "starts_at"),
        sqlite_with_rowid=False,
    )
    op.create_index("alerts_by_time", "alerts", ["starts_at"], unique=False)
    _open("alerts_firing", "alerts", ["starts_at"], "ends_at IS NULL")
