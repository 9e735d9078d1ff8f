"""Stores with very many rows, for tests of what a query reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import servers

from bench.bulk import Rows, fill


def filled_file(folder: Path, rows: Rows) -> Path:
    """Make a store in a file."""
    path = folder / "large.db"
    fill(f"sqlite:///{path}", rows)
    return path


@contextmanager
def filled_database(postgresql: servers.PostgreSQL, name: str, rows: Rows) -> Iterator[str]:
    """Make a store in a database of its own, which is gone after the block."""
    with psycopg.connect(postgresql.dsn, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        url = postgresql.url.removesuffix("postgres") + name
        fill(url, rows)
        yield url
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
