"""What systemd is told: READY when a worker can take work, WATCHDOG while it turns, STOPPING."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import NodeUnderTest, eventually


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(20)
        yield listening


def test_the_service_manager_hears_ready_watchdog_and_stopping(
    start_node: Callable[..., NodeUnderTest], manager: socket.socket
) -> None:
    node = start_node(run=False)
    node.env["NOTIFY_SOCKET"] = manager.getsockname()
    node.start(wait=False)
    assert manager.recv(100) == b"READY=1"
    eventually(node.worker_pids, 5, "its workers are written down")
    assert manager.recv(100) == b"WATCHDOG=1"
    assert node.stop() == 0
    said = {manager.recv(100)}
    while b"STOPPING=1" not in said:
        said.add(manager.recv(100))
    assert said <= {b"WATCHDOG=1", b"STOPPING=1"}
