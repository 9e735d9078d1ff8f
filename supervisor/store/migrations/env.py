"""Alembic's entry: runs the migrations on the connection that `upgrade` was given."""

from __future__ import annotations

from alembic import context

from supervisor.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the caller holds the transaction
)
context.run_migrations()
