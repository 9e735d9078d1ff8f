"""The doorbell of the embedded store: a Unix datagram socket between processes of one host.

Secret kept here: the address, a hash of the store's real path in a directory only its user can
write (the path itself may be longer than the 108 bytes of an address). Invariants: ringing never
blocks and never fails; a ring carries a kind and no ids. Made by `open_bell`, `open_listener`.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from supervisor.errors import QueueUnavailable
from supervisor.model.record import Due
from supervisor.queue.bell import Heard, Kind

_KINDS = frozenset({"due", "cancel"})
_KIND_BYTES = 16

#: sockaddr_un.sun_path, its closing NUL included (unix(7)); nobody can listen at a longer one.
ADDRESS_BYTES = 108

#: Nobody listens, the listener is behind (Linux holds 11 datagrams), or it is another user's.
_NOT_HEARD = (
    BlockingIOError,
    FileNotFoundError,
    ConnectionRefusedError,
    PermissionError,
    NotADirectoryError,
)


class _End(ABC):
    """One end of the line, closed where its `with` ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give the socket back."""


class SocketBell(_End):
    """Rings at the node of one store, if it listens."""

    def __init__(self, store_url: str) -> None:
        paths = [str(place / _name(store_url)) for place in _places()]
        self._addresses = [path for path in paths if len(os.fsencode(path)) < ADDRESS_BYTES]
        self._socket = _datagram_socket()

    def ring(self, kind: Kind, dues: Sequence[Due] = ()) -> None:  # noqa: ARG002 - carries no ids
        """Say that something is due or that a stop mark was set; lost without harm."""
        for address in self._addresses if self._socket.fileno() >= 0 else ():
            with suppress(*_NOT_HEARD):
                self._socket.sendto(kind.encode(), address)

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()


class SocketListener(_End):
    """Hears the rings for one store; a later listener of the same store takes its place."""

    carries_ids = False
    away = ""

    def __init__(self, store_url: str) -> None:
        self._socket = _datagram_socket()
        try:
            self._path = _bind(self._socket, store_url)
            self._identity = _identity(self._path)
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the bell was rung."""
        return self._socket.fileno()

    def heard(self) -> Heard:
        """Take every ring that has come in; never waits."""
        kinds: set[str] = set()
        with suppress(BlockingIOError):
            while True:
                kinds.add(self._socket.recv(_KIND_BYTES).decode("ascii", "replace"))
        return Heard(_KINDS & kinds)

    def want(self, places: int) -> None:
        """Nothing to do: no ids come in."""

    def serve(self, queues: tuple[str, ...] | None, types: frozenset[str]) -> None:
        """Nothing to do: the table is asked for what the node may run."""

    def avoid(self, paused: frozenset[tuple[str, int]]) -> None:
        """Nothing to do: the table knows what is paused."""

    def close(self) -> None:
        """Stop listening; the address goes unless another listener has taken it."""
        self._socket.close()
        with suppress(FileNotFoundError):
            if _identity(self._path) == self._identity:
                self._path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_ino, status.st_ctime_ns  # an inode number alone is given out again at once


def _datagram_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def _name(store_url: str) -> str:
    path = os.path.realpath(unquote(urlsplit(store_url).path)[1:])
    return f"supervisor-{hashlib.sha256(path.encode()).hexdigest()[:24]}.sock"


def _places() -> list[Path]:
    # All, because the one who rings may run without XDG_RUNTIME_DIR (cron, sudo) or with another
    # TMPDIR; the last one is short enough for a socket's 108 bytes whatever the others say.
    own = f"task-supervisor-{os.getuid()}"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    places = [Path(runtime)] if runtime else []
    return list(dict.fromkeys([*places, Path(tempfile.gettempdir()) / own, Path("/tmp") / own]))  # noqa: S108 - a directory of our own, checked to be private


def _bind(made: socket.socket, store_url: str) -> Path:
    refused: list[str] = []
    for place in _places():
        path = place / _name(store_url)
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            _require_private(place)
            with suppress(FileNotFoundError):
                path.unlink()  # left by a node that was killed
            made.bind(str(path))
        except OSError as error:
            refused.append(f"{path}: {error}")
        else:
            return path
    raise QueueUnavailable(
        f"no place to listen for new work: {'; '.join(refused)}",
        remedy="Let XDG_RUNTIME_DIR or TMPDIR name a directory of your own that you can write.",
    )


def _require_private(place: Path) -> None:
    status = place.lstat()
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o022
    if not private or status.st_uid != os.getuid():
        raise PermissionError(f"{place} is not a directory that only its user can write")
