"""`supervisor db`: make the store or bring it up to date."""

from __future__ import annotations

import click

from supervisor.cli.call import Call, command


@click.group(short_help="Prepare the store.")
def db() -> None:
    """Prepare the store."""


@command(example="supervisor db upgrade --store sqlite:////var/lib/tasks/supervisor.db", group=db)
def upgrade(call: Call) -> None:
    """Make the store if there is none, and bring its tables up to this version."""
    from contextlib import closing

    from supervisor.store import open_store
    from supervisor.store.schema import SCHEMA_VERSION

    with closing(open_store(call.settings.store, create=True)) as store:
        document = {"store": store.url, "schema": SCHEMA_VERSION}
    call.answer(document, lambda: [f"{document['store']} is ready (schema {SCHEMA_VERSION})"])
