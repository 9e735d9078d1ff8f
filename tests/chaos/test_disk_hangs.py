"""The disk under the store and the evidence hangs: whoever writes to it waits and cannot be killed.

A file system in a file, frozen by the kernel (collected only where one may be mounted). Nothing
here may read the store meanwhile: a reader would wait as well.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from disk import nodes_on, run
from harness import (
    RUNNING,
    SUCCESS,
    TIMEOUT,
    NodeUnderTest,
    Start,
    begun,
    eventually,
    loop_never_waited,
)

from supervisor.model.states import State
from supervisor.worker import tree

RETURNED = (RUNNING, SUCCESS, "node", "returned")
#: Whatever happens to the test, the disk goes on after this.
LONGEST_S = 40


class Disk:
    """A small file system that can be frozen."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._image = place.with_suffix(".img")
        place.mkdir()
        run("truncate", "--size=64M", str(self._image))
        run("mkfs.ext4", "-q", "-F", str(self._image))
        run("mount", "-o", "loop", str(self._image), str(place))

    @contextmanager
    def hanging(self) -> Iterator[None]:
        guard = subprocess.Popen(
            ["sh", "-c", f"sleep {LONGEST_S}; fsfreeze --unfreeze {self.place}"],
            start_new_session=True,
        )
        run("fsfreeze", "--freeze", str(self.place))
        try:
            yield
        finally:
            os.killpg(guard.pid, signal.SIGKILL)  # its sleep as well
            if guard.wait() == -signal.SIGKILL:  # else it has done it
                run("fsfreeze", "--unfreeze", str(self.place))

    def unmount(self) -> None:
        run("umount", str(self.place))


@pytest.fixture
def on_disk(start_node: Start) -> Iterator[Callable[[], tuple[NodeUnderTest, Disk]]]:
    """Start a node whose store is on a disk of its own."""
    with nodes_on(Disk, start_node) as start:
        yield start


def ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


def test_frozen_for_twelve_seconds(on_disk: Callable[[], tuple[NodeUnderTest, Disk]]) -> None:
    """The loop turns, limits hold without evidence, /readyz says why, and all is written after."""
    node, disk = on_disk()
    node.run("ok")
    running = [node.submit("sleep", s=s) for s in (0.5, 2.0, 14.0)]
    hopeless = node.submit("nap")
    for handle in (*running, hopeless):
        node.started(handle)
    waiting = [node.submit("ok", value=n) for n in range(20)]
    url = f"http://{node.listen}"
    node.app.client.close()
    with disk.hanging():
        began = time.monotonic()
        killed = eventually(lambda: node.events("worker.killed"), 1.5 + 4 + 4)
        assert [event["verdict"] for event in killed] == ["timeout"]
        eventually(lambda: ask(f"{url}/readyz")[0] == 503, 12)
        (reason,) = json.loads(ask(f"{url}/readyz")[1])["reasons"]
        assert reason == "store away: no answer for 7 s: does its disk hang?"
        while time.monotonic() - began < 12:
            assert ask(f"{url}/healthz")[0] == 200
            time.sleep(0.5)
    eventually(lambda: ask(f"{url}/readyz")[0] == 200, 10, "it takes tasks again by itself")
    for handle in [*running, *waiting]:
        assert handle.wait(15).state is State.SUCCESS
        assert node.moves(handle.task_id) == [*begun(), RETURNED]
    assert hopeless.wait(10).state is State.TIMEOUT
    assert node.endings(hopeless.task_id) == [(TIMEOUT, "timeout", "exited", True)]
    assert len(node.events("store.lost")) == len(node.events("store.recovered")) == 1
    assert [event["reason"] for event in node.events("worker.exited")] == ["killed"]
    assert node.query("PRAGMA integrity_check") == [("ok",)]
    loop_never_waited(node)


@pytest.mark.parametrize("s", [1.0, 0.0])
def test_stop_while_it_hangs(on_disk: Callable[[], tuple[NodeUnderTest, Disk]], s: float) -> None:
    """All but the thread that waits for the disk goes in time, with a word; the rest with 69.

    Also where nothing but the end of the node itself is left to be written.
    """
    node, disk = on_disk()
    node.run("ok")
    workers = node.worker_pids()
    assert len(workers) == 4
    handle = node.submit("sleep", s=s)
    node.started(handle) if s else handle.wait(10)
    node.app.client.close()
    with disk.hanging():
        time.sleep(1.5 if s else 0.0)
        node.signal(signal.SIGTERM)
        eventually(lambda: not any(tree.is_alive(pid) for pid in workers), 5)
        eventually(lambda: "unwritten: " in node.log_text(), 25)
    assert node.wait_exit(5) == 69
    node.start()
    assert handle.wait(10).state is State.SUCCESS
