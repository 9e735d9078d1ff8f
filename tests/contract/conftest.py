"""The stores a contract runs over: a file, and a database of a server that all tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from ledger_scene import Scene, emptied
from servers import PostgreSQL

from supervisor.store import Store, open_store

BACKENDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def empty_store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file to copy: migrating takes 0.1 s."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    open_store(f"sqlite:///{path}", create=True).close()
    return path


@pytest.fixture(scope="session")
def database_url(postgresql: PostgreSQL) -> str:
    """The URL of a database with tables, which tests take turns in."""
    with psycopg.connect(postgresql.dsn, autocommit=True) as server:
        server.execute("CREATE DATABASE contract")
    url = f"postgresql+psycopg://postgres@127.0.0.1:{postgresql.port}/contract"
    open_store(url, create=True).close()
    return url


@pytest.fixture(params=BACKENDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store with tables and no rows."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("database_url")
        with closing(open_store(url, create=False)) as shared:
            emptied(shared)
        return url
    path = tmp_path / "tasks.db"
    shutil.copy(request.getfixturevalue("empty_store_file"), path)
    return f"sqlite:///{path}"


@pytest.fixture
def file_url(tmp_path: Path, empty_store_file: Path) -> str:
    """The URL of a store in a file, for what only files have."""
    shutil.copy(empty_store_file, tmp_path / "tasks.db")
    return f"sqlite:///{tmp_path / 'tasks.db'}"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url, create=False)
    yield opened
    opened.close()


@pytest.fixture
def scene(store: Store) -> Scene:
    return Scene(store)
