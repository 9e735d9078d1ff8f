"""Stores with very many rows, for tests of what a query reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
import servers
import statements
from statements import Wire

from bench.bulk import Rows, count, fill
from supervisor.store import Store, open_store


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


@contextmanager
def asked_on_file(
    patch: pytest.MonkeyPatch, large: Path, folder: Path, *, counted: bool
) -> Iterator[tuple[Store, Wire]]:
    """Open a copy of a store, with what is sent to it; after the block the plans are known."""
    path = folder / "asked.db"
    path.write_bytes(large.read_bytes())
    url = f"sqlite:///{path}"
    if counted:
        count(url)
    with statements.on_file(patch) as wire, closing(open_store(url, create=False)) as store:
        yield store, wire
    statements.explain_on_file(str(path), wire.sent)


@contextmanager
def asked_on_server(
    patch: pytest.MonkeyPatch, url: str, *, counted: bool
) -> Iterator[tuple[Store, Wire]]:
    """Open a store, with what is sent to it and how it was carried out."""
    if counted:
        count(url)
    with statements.on_server(patch) as wire, closing(open_store(url, create=False)) as store:
        yield store, wire
