"""`supervisor db`: make the store or bring it up to date."""

from __future__ import annotations

import click

from supervisor.cli.call import Call, command
from supervisor.settings import without_password


@click.group(short_help="Prepare the store.")
def db() -> None:
    """Prepare the store."""


@command(example="supervisor db upgrade --store postgresql://tasks@db.internal/tasks", group=db)
def upgrade(call: Call) -> None:
    """Make the store if there is none, and bring its tables up to this version.

    On a server the database must exist and its user may make tables in it. Nodes of the version
    before go on meanwhile.
    """
    from contextlib import closing

    from supervisor.store import open_store
    from supervisor.store.schema import SCHEMA_VERSION

    with closing(open_store(call.settings.store, create=True)) as store:
        document = {"store": without_password(store.url), "schema": SCHEMA_VERSION}
    call.answer(document, lambda: [f"{document['store']} is ready (schema {SCHEMA_VERSION})"])
