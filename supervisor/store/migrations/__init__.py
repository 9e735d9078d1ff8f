"""Bringing the tables up to date with Alembic.

Secret kept here: how Alembic is driven without an ini file, inside a transaction of the caller.
Only the store's engine calls it; importing it costs 0.2 s.
"""

from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

#: Alembic keeps its context in a module: two threads at once would migrate each other's database.
_TURN = threading.Lock()


def upgrade(connection: sa.Connection) -> None:
    """Run every migration the database has not seen; the caller commits."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _TURN:
        command.upgrade(config, "head")
