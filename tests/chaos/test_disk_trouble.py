"""The disk under the store is full, or its folder refuses changes: nothing lost, nobody killed.

The store lies on a small file system of its own (collected only where one may be mounted).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from disk import nodes_on, run
from harness import (
    PENDING,
    RUNNING,
    SUCCESS,
    TIMEOUT,
    NodeUnderTest,
    Start,
    begun,
    eventually,
    loop_never_waited,
)

from supervisor import App
from supervisor.client import Handle
from supervisor.errors import StoreUnavailable
from supervisor.model.spec import TaskSpec
from supervisor.model.states import State

RETURNED = (RUNNING, SUCCESS, "node", "returned")
SIZE_BYTES = 16 * 2**20


class Disk:
    """A file system in memory whose size can be changed while it is in use."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "none", str(place))

    def fill(self) -> None:
        """Leave no free block."""
        eventually(self._shrunk, 2, "the disk is as small as what is on it")

    def _shrunk(self) -> bool:
        found = os.statvfs(self.place)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        words = ("mount", "-o", f"remount,size={used}", str(self.place))
        # refused when the node has written between the two
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    def free(self) -> None:
        run("mount", "-o", f"remount,size={SIZE_BYTES}", str(self.place))

    def set_immutable(self, *, on: bool) -> None:
        """Refuse new files, and to open those there are for writing."""
        names = [str(path) for path in self.place.iterdir() if path.is_file()]
        run("chattr", "+i" if on else "-i", str(self.place), *names)

    def set_read_only(self, *, on: bool) -> None:
        """Mount it read-only: refused while a file of it is open for writing."""
        run("mount", "-o", f"remount,{'ro' if on else 'rw'}", str(self.place))

    def unmount(self) -> None:
        run("umount", str(self.place))
        shutil.rmtree(self.place.parent)  # that of the node, which could not remove our place


@pytest.fixture
def on_disk(start_node: Start) -> Iterator[Callable[[], tuple[NodeUnderTest, Disk]]]:
    """Start a node whose store is on a disk of its own."""
    with nodes_on(Disk, start_node) as start:
        yield start


def nobody_paid(node: NodeUnderTest, handles: list[Handle]) -> None:
    """Every task returned in its first attempt, and no worker died."""
    for handle in handles:
        assert handle.wait(10).state is State.SUCCESS
        assert node.moves(handle.task_id) == [*begun(), RETURNED]
        assert node.endings(handle.task_id) == [(SUCCESS, "returned", "reported", False)]
    assert node.events("worker.killed") == []
    assert node.events("worker.exited") == []
    loop_never_waited(node)
    assert node.query("PRAGMA integrity_check") == [("ok",)]


def test_full_disk(on_disk: Callable[[], tuple[NodeUnderTest, Disk]]) -> None:
    """Claims stop and /readyz says why; what ends meanwhile is written when there is room."""
    node, disk = on_disk()
    node.run("ok")
    running = [node.submit("sleep", s=s) for s in (0.5, 1.0, 1.5, 3.5)]
    for handle in running:
        node.started(handle)
    waiting = [node.submit("ok", value=n) for n in range(50)]
    disk.fill()

    def says_why() -> bool:
        status, body = node.get("/readyz")
        return status == 503 and "the disk is full" in body

    eventually(says_why, 5, "readiness says that the disk is full")
    assert node.get("/healthz")[0] == 200
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        node.submit("ok")
    time.sleep(2.0)
    assert node.events("worker.exited") == []
    disk.free()
    eventually(lambda: node.get("/readyz")[0] == 200, 5, "it takes tasks again by itself")
    nobody_paid(node, [*running, *waiting])


def test_folder_that_refuses_changes(on_disk: Callable[[], tuple[NodeUnderTest, Disk]]) -> None:
    """For 3 s no file of the store can be made or opened for writing: what runs, runs on."""
    node, disk = on_disk()
    node.run("ok")
    running = [node.submit("sleep", s=s) for s in (0.5, 1.0, 2.0, 4.5)]
    for handle in running:
        node.started(handle)
    waiting = [node.submit("ok", value=n) for n in range(20)]
    disk.set_immutable(on=True)
    try:
        with (
            closing(App(store=node.url).client) as newcomer,
            pytest.raises(StoreUnavailable, match="is read-only"),
        ):
            newcomer.submit([TaskSpec(type="ok")])
        time.sleep(3.0)
        assert node.get("/healthz")[0] == 200
    finally:
        disk.set_immutable(on=False)
    eventually(lambda: node.get("/readyz")[0] == 200, 5)
    nobody_paid(node, [*running, *waiting, node.submit("ok")])


def test_start_on_a_read_only_disk(on_disk: Callable[[], tuple[NodeUnderTest, Disk]]) -> None:
    """Refused with what to do; once it can be written, what was in it goes on."""
    node, disk = on_disk()
    node.run("ok")
    later = node.submit("ok", spec={"run_after": "2999-01-01T00:00:00Z"})
    waiting = node.submit("sleep", s=0.2)
    assert node.stop() == 0
    node.app.client.close()
    disk.set_read_only(on=True)
    try:
        node.start(wait=False)
        assert node.wait_exit(10) == 69
        answer = node.cli("list")
    finally:
        disk.set_read_only(on=False)
    told = node.log_text().splitlines()[-2:]
    assert "its folder cannot be written" in told[0]
    assert "remedy: Check that the file exists, and owner and mode of its folder." in told[1]
    assert (answer.returncode, answer.stdout) == (69, "")
    node.start()
    assert waiting.wait(5).state is State.SUCCESS
    assert later.state() is State.PENDING


def test_limit_holds_on_a_full_disk(on_disk: Callable[[], tuple[NodeUnderTest, Disk]]) -> None:
    """There is no room for the evidence: the kill comes in time all the same, and is told."""
    node, disk = on_disk()
    node.run("ok")
    handle = node.submit("nap")
    node.started(handle)
    disk.fill()
    (killed,) = eventually(lambda: node.events("worker.killed"), 1.5 + 4 + 1)
    assert killed["verdict"] == "timeout"
    (failed,) = node.events("autopsy.failed")
    assert "No space left on device" in failed["error"]
    disk.free()
    view = handle.wait(10)
    assert (view.state, view.reason) == (State.TIMEOUT, "timeout")
    assert node.endings(handle.task_id) == [(TIMEOUT, "timeout", "exited", True)]
    assert node.moves(handle.task_id) == [*begun(), (RUNNING, TIMEOUT, "node", "timeout")]
    (record,) = node.reader.autopsies(handle.task_id)
    assert (record.status, record.bytes) == ("failed", 0)
    assert node.run("ok").state is State.SUCCESS


def test_stop_on_a_full_disk(on_disk: Callable[[], tuple[NodeUnderTest, Disk]]) -> None:
    """What could not be written is not claimed to be: exit 69, and the next node judges it."""
    node, disk = on_disk()
    node.run("ok")
    handle = node.submit("sleep", s=0.5)
    node.started(handle)
    disk.fill()
    eventually(lambda: node.events("store.lost"), 5)
    assert node.stop(20) == 69
    assert "unwritten: the store" in node.log_text()
    assert "remedy: Bring the store back" in node.log_text()
    disk.free()
    node.start()
    assert handle.wait(10).state is State.SUCCESS
    assert node.moves(handle.task_id) == [
        *begun(), (RUNNING, TIMEOUT, "node", "node_lost"), (TIMEOUT, PENDING, "node", "retry"),
        (PENDING, RUNNING, "node", "claimed"), RETURNED,
    ]  # fmt: skip
