"""Who may sign in at the pages: users, sessions, API tokens.

Only new tables, so nodes and clients of older versions may run at once.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from supervisor.store.schema import Moment

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "web_users",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("password", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=10), nullable=False),
        sa.Column("sees_autopsies", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("changed_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "web_sessions",
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("user_name", sa.String(length=64), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("ends_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("key_hash"),
    )
    op.create_index("web_sessions_of_user", "web_sessions", ["user_name"], unique=False)
    op.create_index("web_sessions_by_end", "web_sessions", ["ends_at"], unique=False)
    op.create_table(
        "api_tokens",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=10), nullable=False),
        sa.Column("sees_autopsies", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("ends_at", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_index("api_tokens_by_hash", "api_tokens", ["token_hash"], unique=True)
