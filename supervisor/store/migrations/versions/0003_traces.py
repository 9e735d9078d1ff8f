"""Traces: whose child a task is, and which span each attempt is.

Only additions that may be empty, so nodes and clients of both versions may run at once.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("traceparent", sa.String(length=55), nullable=True))
    op.add_column("attempts", sa.Column("traceparent", sa.String(length=55), nullable=True))
