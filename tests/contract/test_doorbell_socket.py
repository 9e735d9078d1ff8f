"""The doorbell of a file: heard by the listener of the same store, harmless for everybody else."""

from __future__ import annotations

import os
import select
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.errors import QueueUnavailable
from supervisor.queue.socket import SocketBell, SocketListener


@pytest.fixture
def short(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A temporary directory whose name leaves room for an address; pytest's own is too long."""
    tmp_path_factory.getbasetemp()  # settled before the temporary directory moves
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="bell") as name:
        monkeypatch.setattr("tempfile.tempdir", name)
        yield Path(name)


@pytest.fixture(autouse=True)
def runtime(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory of the test's own."""
    place = short / "run"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    return place


URL = f"sqlite:////{'very/long/' * 40}tasks.db"


def test_rings_wake_the_listener_and_are_taken_together() -> None:
    with SocketListener(URL) as listener, SocketBell(URL) as bell:
        assert listener.heard().kinds == set()
        bell.ring("due")
        bell.ring("cancel")
        bell.ring("due")
        assert select.select([listener], [], [], 5)[0] == [listener]
        assert listener.heard().kinds == {"due", "cancel"}
        assert listener.heard().kinds == set()


def test_ringing_without_a_listener_or_past_its_buffer_is_no_error(runtime: Path) -> None:
    with SocketBell(URL) as bell:
        bell.ring("due")
        with SocketListener(URL) as listener:
            for _ in range(500):
                bell.ring("due")
            assert listener.heard().kinds == {"due"}
        bell.ring("due")
        (runtime / "left").touch()
    assert [path.name for path in runtime.iterdir()] == ["left"]


def test_another_store_hears_nothing() -> None:
    with SocketListener(URL) as listener, SocketBell("sqlite:////another.db") as bell:
        bell.ring("due")
        assert listener.heard().kinds == set()


def test_two_names_of_one_file_are_one_bell(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with (
        SocketListener(f"sqlite:///{tmp_path}/real/tasks.db") as listener,
        SocketBell(f"sqlite:///{tmp_path}/link/tasks.db") as bell,
    ):
        bell.ring("due")
        assert listener.heard().kinds == {"due"}


def test_a_killed_nodes_address_is_taken_over(runtime: Path) -> None:
    left = SocketListener(URL)
    left._socket.close()  # as a kill would leave it
    with SocketListener(URL) as listener, SocketBell(URL) as bell:
        left.close()  # must not take away the address of its successor
        bell.ring("due")
        assert listener.heard().kinds == {"due"}
    assert list(runtime.iterdir()) == []


def test_a_bell_without_the_runtime_variable_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with SocketListener(URL) as listener:
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
        with SocketBell(URL) as bell:
            bell.ring("cancel")
        assert listener.heard().kinds == {"cancel"}


def test_the_own_directory_is_private(monkeypatch: pytest.MonkeyPatch, short: Path) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with SocketListener(URL):
        place = short / f"task-supervisor-{os.getuid()}"
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
    place.chmod(0o777)
    with SocketListener(URL):
        assert list(place.iterdir()) == []  # it listens at another place
    monkeypatch.setattr("supervisor.queue.socket._places", lambda: [place])
    with pytest.raises(QueueUnavailable, match="only its user can write") as error:
        SocketListener(URL)
    assert error.value.remedy


def test_a_strange_datagram_is_not_a_ring(runtime: Path) -> None:
    with SocketListener(URL) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        (path,) = runtime.iterdir()
        other.sendto(b"\xff" * 100, str(path))
        other.sendto(b"", str(path))
        assert listener.heard().kinds == set()


def test_a_runtime_directory_with_too_long_a_name_is_passed_over(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = short / ("long" * 30)
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    with SocketListener(URL) as listener, SocketBell(URL) as bell:
        bell.ring("due")
        assert listener.heard().kinds == {"due"}
    assert list(place.iterdir()) == []
