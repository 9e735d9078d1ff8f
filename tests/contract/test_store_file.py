"""The SQLite file: who may create it, what is said when it is broken, and how it is saved."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from ledger_scene import Scene

from supervisor.clock import SystemClock
from supervisor.errors import ConfigError, StoreUnavailable
from supervisor.model.spec import TaskSpec
from supervisor.store import Ledger, Reader, Store, open_store, store_path
from supervisor.store.schema import tasks


@pytest.fixture
def store_url(file_url: str) -> str:
    """Here the store is a file; the other kind has tests of its own."""
    return file_url


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_creating_makes_a_private_folder_and_file(tmp_path: Path) -> None:
    path = tmp_path / "state" / "supervisor" / "it's 100%?.db"
    store = open_store(f"sqlite:///{quote(str(path))}", create=True)
    try:
        assert store.path == path
        assert store_path(store.url) == path
        assert sorted(each.name for each in path.parent.iterdir()) == [
            path.name,
            f"{path.name}-shm",
            f"{path.name}-wal",
        ]
        assert (_mode(path.parent), _mode(path)) == (0o700, 0o600)
        assert _mode(Path(f"{path}-wal")) == 0o600
    finally:
        store.close()


def test_reading_creates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "tasks.db"
    with pytest.raises(StoreUnavailable, match=f"no store at {path}") as error:
        open_store(f"sqlite:///{path}", create=False)
    assert error.value.exit_code == 69
    assert "supervisor db upgrade" in error.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_tables_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.touch()
    with pytest.raises(StoreUnavailable, match="holds no task store"):
        open_store(f"sqlite:///{path}", create=False)
    open_store(f"sqlite:///{path}", create=True).close()
    open_store(f"sqlite:///{path}", create=False).close()


def test_opening_an_up_to_date_store_does_not_import_alembic(store_url: str) -> None:
    script = """
        import sys
        from supervisor.store import open_store
        open_store(sys.argv[1], create=True).close()
        sys.exit("alembic" in sys.modules)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script), store_url], timeout=60)
    assert run.returncode == 0


def test_a_store_that_is_there_is_not_created_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a read-only file system this open would fail, and say that it cannot create."""
    opened: list[str] = []
    real = os.open

    def spy(path: str | Path, *rest: int, **more: int) -> int:
        opened.append(str(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", spy)
    open_store(store_url, create=True).close()
    assert [path for path in opened if path == str(store_path(store_url))] == []


def _set_version(path: Path, version: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))


@pytest.mark.parametrize("create", [True, False])
def test_a_newer_schema_is_refused(store_url: str, create: bool) -> None:
    path = Path(store_url.removeprefix("sqlite:///"))
    _set_version(path, "0999")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE store_facts SET value = '0998' WHERE name = 'oldest_code'")
    with pytest.raises(ConfigError, match="has schema 0999") as error:
        open_store(store_url, create=create)
    assert "newer" in error.value.remedy


def test_a_newer_schema_that_we_survive_is_taken(store_url: str) -> None:
    path = Path(store_url.removeprefix("sqlite:///"))
    _set_version(path, "0999")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE store_facts SET value = '0002' WHERE name = 'oldest_code'")
    with closing(open_store(store_url, create=True)) as store:
        assert Reader(store).tasks().tasks == ()


def test_an_older_schema_is_not_read(store_url: str) -> None:
    _set_version(Path(store_url.removeprefix("sqlite:///")), "0000")
    with pytest.raises(StoreUnavailable, match="older schema 0000"):
        open_store(store_url, create=False)


def test_many_create_one_store_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    errors: list[BaseException] = []

    def create() -> None:
        try:
            open_store(url, create=True).close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_threads_that_create_stores_at_once_do_not_mix_them(tmp_path: Path) -> None:
    """Alembic keeps its context in a module: what one thread opens must not become another's."""
    failed: list[str] = []

    def create(number: int) -> None:
        try:
            with closing(open_store(f"sqlite:///{tmp_path}/{number}.db", create=True)) as made:
                query = sa.select(sa.func.count(tasks.c.task_id))
                with made.reading() as connection:
                    assert connection.execute(query).one() == (0,)
        except Exception as exc:
            failed.append(f"{number}: {exc!r}")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(StoreUnavailable, match="is not an SQLite database"):
        open_store(f"sqlite:///{path}", create=True)


def test_a_malformed_store_says_so(scene: Scene) -> None:
    scene.submit()
    path = scene.store.path
    scene.store.close()
    with path.open("r+b") as file:
        for page in range(4, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    with pytest.raises(StoreUnavailable, match="is malformed") as error:
        open_store(scene.store.url, create=False)
    assert "recover" in error.value.remedy


def test_a_store_locked_too_long_is_unavailable(scene: Scene) -> None:
    with closing(sqlite3.connect(scene.store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with (
            pytest.raises(StoreUnavailable, match="is locked by another process"),
            scene.store.writing(wait_s=0.05),
        ):
            pass
        assert 0.05 <= time.monotonic() - began < 2
        assert scene.reader.tasks().tasks == ()  # readers do not wait
        other.execute("ROLLBACK")
    scene.submit()


def test_a_full_disk_says_so_and_loses_nothing(scene: Scene) -> None:
    kept = scene.submit()
    with scene.store.writing() as session:
        pages = session._cursor.execute("PRAGMA page_count").fetchone()[0]
        session._cursor.execute(f"PRAGMA max_page_count = {pages}")
    with (
        pytest.raises(StoreUnavailable, match="the disk is full"),
        scene.ledger.transaction() as tx,
    ):
        tx.submit([TaskSpec(type="greet", params_json=f'"{"x" * 5000}"')] * 20, scene.now)
    assert scene.rows(tasks, "task_id") == [(kept,)]


def test_a_deleted_store_is_noticed_not_made_anew_and_can_be_rescued(
    scene: Scene, tmp_path: Path
) -> None:
    task_id = scene.submit()
    assert not scene.store.file_changed()
    for name in tmp_path.glob("tasks.db*"):
        name.unlink()
    assert scene.store.file_changed()
    target = tmp_path / "tasks.db.rescued"
    target.touch()
    assert scene.store.rescue(target) == tmp_path / "tasks.db.rescued.1"
    target.unlink()
    assert scene.store.rescue(target) == target
    assert _mode(target) == 0o600
    assert not scene.store.path.exists()
    saved = open_store(f"sqlite:///{target}", create=False)
    try:
        view = Reader(saved).task(task_id)
        assert view is not None
        assert view.task_id == task_id
    finally:
        saved.close()


def test_a_new_connection_to_a_deleted_store_fails(scene: Scene) -> None:
    scene.store.path.unlink()
    with (
        pytest.raises(StoreUnavailable, match="it is gone"),
        scene.store.reading(),
        scene.store.reading(),  # the pool has one connection at most
    ):
        pass
    assert not scene.store.path.exists()


def test_a_replaced_store_is_noticed(scene: Scene, empty_store_file: Path) -> None:
    copy = scene.store.path.with_suffix(".new")
    copy.write_bytes(empty_store_file.read_bytes())
    os.replace(copy, scene.store.path)
    assert scene.store.file_changed()


def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises(StoreUnavailable, match="read-only"), store.reading() as connection:
        connection.execute(tasks.delete())


def test_a_process_killed_in_a_transaction_leaves_nothing(scene: Scene) -> None:
    script = """
        import os, signal, sys
        from datetime import UTC, datetime
        from supervisor.clock import SystemClock
        from supervisor.model.spec import TaskSpec
        from supervisor.store import Ledger, open_store
        ledger = Ledger(open_store(sys.argv[1], create=False), SystemClock())
        now = datetime.now(UTC)
        with ledger.transaction() as tx:
            tx.submit([TaskSpec(type="greet", params_json='"' + "x" * 9000 + '"')] * 5000, now)
            tx.cancel([sys.argv[2]], by="anna", reason="crash test", now=now)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    task_id = scene.submit()
    before = scene.trail(task_id)
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), scene.store.url, task_id], timeout=60
    )
    assert killed.returncode == -9
    assert scene.trail(task_id) == before
    assert scene.rows(tasks, "task_id", "state") == [(task_id, "PENDING")]
    assert [claim.task_id for claim in scene.claim(5)] == [task_id]  # and nobody holds the lock


def test_submits_pass_between_the_commits_of_a_busy_node(scene: Scene) -> None:
    """A node that commits back to back, 1 ms apart, must not starve a client."""
    stop = threading.Event()

    def drain() -> None:
        while not stop.is_set():
            scene.claim(8)
            stop.wait(0.001)

    node = threading.Thread(target=drain)
    node.start()
    ledger = Ledger(scene.store, SystemClock())
    waits = []
    try:
        for _ in range(100):
            began = time.monotonic()
            with ledger.transaction() as tx:
                tx.submit([TaskSpec(type="greet")], scene.now)
            waits.append(time.monotonic() - began)
    finally:
        stop.set()
        node.join()
    assert sorted(waits)[90] < 0.5


def test_an_interrupt_of_a_reading_is_what_is_told(scene: Scene) -> None:
    """Ctrl-C in the middle of a statement leaves a connection that cannot roll back any more."""

    def read() -> None:
        with scene.store.reading() as connection:
            connection.invalidate()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    with scene.store.reading() as connection:
        assert connection.execute(sa.select(tasks.c.task_id)).all() == []
