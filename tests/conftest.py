"""Fixtures of the tests that run real nodes, and the guard that lets nothing stay behind.

The guard acts in integration/ and chaos/ only: unit and contract tests do no such I/O.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import monitoring_servers
import pytest
import servers
import stores
from harness import NodeUnderTest, Start, eventually

from supervisor.worker import tree

GUARDED = {"integration", "chaos"}
#: Takes longest of all.
FIRST = "test_failpoints.py"
#: Of files that take a moment each: they fill up the end.
SHORT = "unit"
#: Take half a minute or more, and would keep one process at work when all others are done.
LONG = {
    "test_archive_killed.py", "test_autopsy_troubles.py", "test_bench_large.py",
    "test_cli_node.py", "test_clock_jumps.py", "test_compose.py", "test_crash_points.py",
    "test_disk_hangs.py", "test_every_page.py", "test_frozen_nodes.py", "test_many_nodes.py",
    "test_many_tasks.py", "test_node_life.py", "test_partition.py", "test_pooler.py",
    "test_query_plans.py", "test_refreshing.py", "test_servers_fail.py",
    "test_statements_of_the_dead.py", "test_two_versions.py",
}  # fmt: skip

S = TypeVar("S", bound=servers.Server)


class Nursery:
    """Every node that a test session has made and not closed."""

    def __init__(self) -> None:
        self.nodes: list[NodeUnderTest] = []
        self.places = stores.Places()

    def make(
        self,
        app: str | None,
        settings: dict[str, Any],
        *,
        store: str = stores.FILE,
        place: stores.Place | None = None,
    ) -> NodeUnderTest:
        """Make a node on a new store of this kind, or on a place that is there."""
        root = Path(tempfile.mkdtemp(prefix="node-"))
        place = place or self.place(store, root)
        node = NodeUnderTest(root, *([] if app is None else [app]), place=place, **settings)
        self.nodes.append(node)
        return node

    def place(self, store: str, root: Path) -> stores.Place:
        """Make a new store of this kind; a file lies in `root`."""
        try:
            return self.places.make(store, root)
        except servers.ServerMissing as exc:
            root.rmdir()
            pytest.skip(str(exc))

    def close(self, node: NodeUnderTest) -> list[str]:
        """Close a node; return what it left behind."""
        self.nodes.remove(node)
        node.close()
        left: list[str] = []
        try:
            eventually(lambda: not node.processes(), 3, "no process of the node is left")
        except AssertionError:
            left += [f"process {one}" for one in node.end_strays()]
        left += [f"file {one}" for one in node.leftover_files()]
        left += [f"socket {one}" for one in node.root.rglob("*.sock")]
        if all(other.place is not node.place for other in self.nodes):
            node.place.remove()
        node.forget_files()
        return left


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A pass for one mark reads only the files that speak of it: to import all takes a while."""
    mark = config.option.markexpr
    is_module = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if mark in ("alone", "light") and is_module:
        return f"mark.{mark}" not in collection_path.read_text() or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Side by side, what takes long begins first, and what fills the machine beside what waits.

    Each process orders the same tests the same way; the tests of a file stay together.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    files: dict[str, list[Path]] = {}
    for path in dict.fromkeys(item.path for item in items):
        files.setdefault(path.parent.name, []).append(path)
    places: dict[Path, float] = {}
    for folder, paths in files.items():
        late = 1 if folder == SHORT else 0
        at = {path: number / len(paths) for number, path in enumerate(paths)}
        places |= {path: late + at[path] / (2 if path.name in LONG else 1) for path in paths}
    items.sort(key=lambda item: (item.path.name != FIRST, places[item.path], str(item.path)))


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """All nodes of this session, with a runtime directory that client and node share."""
    runtime = tempfile.mkdtemp(prefix="sv-")
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = runtime
    made = Nursery()
    yield made
    for node in list(made.nodes):
        made.close(node)
    made.places.close()
    sockets = [path.name for path in Path(runtime).iterdir()]
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before
    shutil.rmtree(runtime)
    assert sockets == [], "doorbells of stopped nodes were left behind"


@pytest.fixture(scope="module")
def node(nursery: Nursery, request: pytest.FixtureRequest) -> Iterator[NodeUnderTest]:
    """One running node for all tests of a module; its NODE_SETTINGS changes the limits."""
    module = request.module
    made = nursery.make(getattr(module, "NODE_APP", None), getattr(module, "NODE_SETTINGS", {}))
    made.start()
    yield made
    left = nursery.close(made)
    assert left == []


@pytest.fixture
def start_node(nursery: Nursery, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Make nodes of the test's own: `start_node(app=None, run=True, **settings)`.

    `store` is the kind of a new store, if not the one that the test is run with (on_both_stores);
    `shares` is a node whose store this one uses, too, and `place` a store that the test has made.
    """
    mine: list[NodeUnderTest] = []
    usual = getattr(request, "param", stores.FILE)

    def start(
        app: str | None = None,
        *,
        run: bool = True,
        store: str = usual,
        shares: NodeUnderTest | None = None,
        place: stores.Place | None = None,
        **settings: Any,
    ) -> NodeUnderTest:
        place = place if shares is None else shares.place
        made = nursery.make(app, settings, store=store, place=place)
        mine.append(made)
        if run:
            made.start()
        return made

    yield start
    left = [what for made in reversed(mine) for what in nursery.close(made)]
    assert left == []


@pytest.fixture(scope="session")
def postgresql() -> Iterator[servers.PostgreSQL]:
    """A PostgreSQL server that all tests share: each names its tables and connections itself."""
    with _started(servers.start_postgresql) as one:
        yield one


@pytest.fixture(scope="session")
def redis_server() -> Iterator[servers.Redis]:
    """A Redis server that all tests share: each names its keys and connections itself."""
    with _started(servers.start_redis) as one:
        yield one


@pytest.fixture(scope="session")
def monitoring() -> Iterator[monitoring_servers.Monitoring]:
    """A Prometheus, an Alertmanager and a receiver: what listens at its `listen` is scraped."""
    try:
        with monitoring_servers.monitoring() as pair:
            yield pair
    except servers.ServerMissing as exc:
        pytest.skip(str(exc))


@contextmanager
def _started(start: Callable[[], S]) -> Iterator[S]:
    try:
        one = start()
    except servers.ServerMissing as exc:
        pytest.skip(str(exc))
    try:
        yield one
    finally:
        one.stop()


@pytest.fixture(autouse=True)
def leave_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process: a child of ours, or one below a node that runs on."""
    if request.path.parent.name not in GUARDED:
        yield
        return
    before = set(tree.children(os.getpid()))
    yield
    nursery = request.getfixturevalue("nursery") if _uses_nodes(request) else None
    running = [made for made in nursery.nodes if made.running] if nursery else []
    ours = {made.pid for made in running} | (nursery.places.pids if nursery else set())
    new = [p for p in tree.children(os.getpid()) if p not in before | ours and tree.is_alive(p)]
    assert new == [], "the test left a child process"
    for made in running:
        eventually(lambda m=made: not m.extra_processes(), 5, "only zygote and workers are left")


def _uses_nodes(request: pytest.FixtureRequest) -> bool:
    return "nursery" in request.fixturenames
