"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from supervisor.store.schema import Moment

revision = "0001"
down_revision = None


def upgrade() -> None:
    _tasks()
    _task_indexes()
    _attempts()
    _attempt_logs()
    _checkpoints()
    _audit_log()
    _outbox()
    _queues()
    _nodes()
    _task_types()
    _workers()
    _autopsies()


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("type", sa.String(length=200), nullable=False),
        sa.Column("queue", sa.String(length=200), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("reason", sa.String(length=40), nullable=False),
        sa.Column("run_after", Moment(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("retry_count", sa.Integer(), nullable=False),
        sa.Column("crash_count", sa.Integer(), nullable=False),
        sa.Column("quarantined", sa.Boolean(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.Column("timeout", sa.Float(), nullable=True),
        sa.Column("soft_timeout", sa.Float(), nullable=True),
        sa.Column("max_retries", sa.Integer(), nullable=True),
        sa.Column("dedup_key", sa.String(length=512), nullable=True),
        sa.Column("dedup_held", sa.Boolean(), nullable=False),
        sa.Column("dedup_ttl", sa.Float(), nullable=True),
        sa.Column("dedup_until", Moment(), nullable=True),
        sa.Column("submitted_by", sa.String(length=200), nullable=True),
        sa.Column("tags", sa.Text(), nullable=True),
        sa.Column("parent_id", sa.String(length=64), nullable=True),
        sa.Column("mark_kind", sa.String(length=10), nullable=True),
        sa.Column("mark_by", sa.String(length=200), nullable=True),
        sa.Column("mark_reason", sa.Text(), nullable=True),
        sa.Column("mark_at", Moment(), nullable=True),
        sa.Column("params", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "state IN ('PENDING', 'RUNNING', 'SUCCESS', 'FAILED', 'CANCELED', 'TIMEOUT')",
            name="tasks_state_known",
        ),
        sa.PrimaryKeyConstraint("task_id"),
        sqlite_with_rowid=False,
    )


def _task_indexes() -> None:
    op.create_index("tasks_by_state", "tasks", ["state", "task_id"], unique=False)
    op.create_index("tasks_by_type", "tasks", ["type", "task_id"], unique=False)
    op.create_index(
        "tasks_dedup",
        "tasks",
        ["dedup_key"],
        unique=True,
        sqlite_where=sa.text("dedup_held"),
        postgresql_where=sa.text("dedup_held"),
    )
    op.create_index(
        "tasks_due",
        "tasks",
        ["queue", "priority", "type", "run_after", "task_id", "state"],
        unique=False,
        sqlite_where=sa.text("state = 'PENDING'"),
        postgresql_where=sa.text("state = 'PENDING'"),
    )
    op.create_index(
        "tasks_marked",
        "tasks",
        ["mark_kind"],
        unique=False,
        sqlite_where=sa.text("mark_kind IS NOT NULL AND state = 'RUNNING'"),
        postgresql_where=sa.text("mark_kind IS NOT NULL AND state = 'RUNNING'"),
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("start_ticks", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at", Moment(), nullable=False),
        sa.Column("started_at", Moment(), nullable=True),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.Column("timeout", sa.Float(), nullable=True),
        sa.Column("soft_timeout", sa.Float(), nullable=True),
        sa.Column("outcome", sa.String(length=10), nullable=True),
        sa.Column("reason", sa.String(length=40), nullable=True),
        sa.Column("error_type", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("usage", sa.Text(), nullable=True),
        sa.Column("proof", sa.Text(), nullable=True),
        sa.Column("effects_unknown", sa.Boolean(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("task_id", "attempt"),
        sqlite_with_rowid=False,
    )


def _attempt_logs() -> None:
    op.create_table(
        "attempt_logs",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("log_tail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "attempt"),
    )


def _checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "attempt"),
    )


def _audit_log() -> None:
    op.create_table(
        "audit_log",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("task_id", sa.String(length=64), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("at", Moment(), nullable=False),
        sa.Column("from_state", sa.String(length=10), nullable=True),
        sa.Column("to_state", sa.String(length=10), nullable=True),
        sa.Column("operator", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.String(length=40), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("audit_of_task", "audit_log", ["task_id", "id"], unique=False)


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("event_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("event_type", sa.String(length=40), nullable=False),
        sa.Column("run_after", Moment(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "event_id"),
        sqlite_with_rowid=False,
    )


def _queues() -> None:
    op.create_table(
        "queues",
        sa.Column("queue", sa.String(length=200), nullable=False),
        sa.Column("priority", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("by", sa.String(length=200), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("queue", "priority"),
        sqlite_with_rowid=False,
    )


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("node_name", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("start_ticks", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("pid_ns", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("listen", sa.Text(), nullable=False),
        sa.Column("started_at", Moment(), nullable=False),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("node_id"),
    )


def _task_types() -> None:
    op.create_table(
        "task_types",
        sa.Column("type", sa.String(length=200), nullable=False),
        sa.Column("queue", sa.String(length=200), nullable=True),
        sa.Column("node_id", sa.String(length=64), nullable=True),
        sa.Column("seen_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("type"),
        sqlite_with_rowid=False,
    )


def _workers() -> None:
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("start_ticks", sa.BigInteger(), nullable=False),
        sa.Column("started_at", Moment(), nullable=False),
        sa.Column("ended_at", Moment(), nullable=True),
        sa.Column("exit", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("worker_id"),
    )
    op.create_index("workers_of_node", "workers", ["node_id", "started_at"], unique=False)


def _autopsies() -> None:
    op.create_table(
        "autopsies",
        sa.Column("autopsy_id", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("verdict", sa.String(length=40), nullable=True),
        sa.Column("diagnosis", sa.String(length=40), nullable=True),
        sa.Column("diagnosis_json", sa.Text(), nullable=True),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("ms", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("autopsy_id"),
    )
    op.create_index("autopsies_by_time", "autopsies", ["created_at"], unique=False)
    op.create_index("autopsies_of_task", "autopsies", ["task_id", "created_at"], unique=False)
