"""The stores a contract runs over. One backend now; PostgreSQL joins by adding its name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_scene import Scene

from supervisor.store import Store, open_store

BACKENDS = ("sqlite",)


@pytest.fixture(scope="session")
def empty_store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file to copy: migrating takes 0.1 s."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    open_store(f"sqlite:///{path}", create=True).close()
    return path


@pytest.fixture(params=BACKENDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path, empty_store_file: Path) -> str:
    """The URL of a store with tables and no rows."""
    assert request.param == "sqlite"
    path = tmp_path / "tasks.db"
    shutil.copy(empty_store_file, path)
    return f"sqlite:///{path}"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url, create=False)
    yield opened
    opened.close()


@pytest.fixture
def scene(store: Store) -> Scene:
    return Scene(store)
