"""One examination of a process at a time, on this host, whoever does it.

Secret: the lock, an abstract Unix socket named after the pid and its start time. The kernel frees
it with its holder, so a dead one never blocks; it names the holder, and by it an examination before
a kill makes a diagnostic one stop touching the process. Called by `examine`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autopsy import clock
from autopsy.errors import AlreadyExamined

#: Longest wait before a kill for an examination that lets live to give way.
GIVE_WAY_S = 0.5
_ANSWER_S = 0.2
_POLL_S = 0.005
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_UNKNOWN = _CREDENTIALS.pack(-1, 0, 0)  # so many wait at the door that nobody gets there
_URGENT = b"before a kill"


@dataclass(frozen=True, slots=True)
class Visit:
    """Who wants to examine: which process, until when, and whether it is killed afterwards."""

    pid: int
    start_ticks: int
    deadline_mono: float
    before_kill: bool = False

    @property
    def address(self) -> bytes:
        """The lock's name; abstract, so it is no file that somebody has to remove."""
        return f"\0autopsy-{self.pid}-{self.start_ticks}".encode()


@dataclass(frozen=True, slots=True)
class _Holder:
    """Who has the lock: its pid and user by the kernel's word, the rest by its own."""

    pid: int
    uid: int
    told: dict[str, Any]


@contextlib.contextmanager
def sole_examiner(visit: Visit, give_way: Callable[[], None]) -> Iterator[str]:
    """Be the only one to examine this process; yields a remark, '' when there is none.

    `give_way` is called from another thread when somebody has to examine before a kill. Before a
    kill nobody is waited for longer than GIVE_WAY_S. Raises AlreadyExamined.
    """
    door, remark = _enter(visit)
    if door is None:
        yield remark
        return
    answering = threading.Thread(
        target=_answer, args=(door, visit, give_way), name="autopsy-door", daemon=True
    )
    answering.start()
    try:
        yield remark
    finally:
        _shut(door)
        answering.join(_ANSWER_S)


def _enter(visit: Visit) -> tuple[socket.socket | None, str]:
    until = clock.mono() + GIVE_WAY_S
    holder: _Holder | None = None
    while True:
        try:
            door = _bound(visit.address)
        except OSError:  # no such sockets here: a lock that cannot be had must not cost the answer
            return None, ""
        if door is not None:
            return door, ""
        asked = _asked(visit)
        holder = asked or holder
        if asked is not None:
            if not _is_trusted(asked, visit.pid):
                return None, ""  # a name taken by somebody who may not examine it anyway
            if not visit.before_kill:
                raise _already(visit.pid, asked)
        if clock.mono() >= until:
            return None, "" if holder is None else f"{_named(holder)} examined it as well"
        clock.sleep(_POLL_S)


def _bound(address: bytes) -> socket.socket | None:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        door.bind(address)
        door.listen(8)
    except OSError as exc:
        door.close()
        if exc.errno == errno.EADDRINUSE:
            return None
        raise
    return door


def _asked(visit: Visit) -> _Holder | None:
    """Ask who holds the lock, and to give way before a kill; None if nobody does any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.settimeout(_ANSWER_S)
        packed = _UNKNOWN
        try:
            line.connect(visit.address)
            packed = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            line.send(_URGENT if visit.before_kill else b"who?")
            told = _parsed(line.recv(4096))
        except (TimeoutError, BlockingIOError):
            told = {}  # it is stopped or stuck, and still the holder
        except OSError:
            return None  # it left meanwhile
    pid, uid, _ = _CREDENTIALS.unpack(packed)
    return _Holder(pid, uid, told)


def _parsed(answer: bytes) -> dict[str, Any]:
    try:
        told = json.loads(answer)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _answer(door: socket.socket, visit: Visit, give_way: Callable[[], None]) -> None:
    """Tell whoever knocks who is here, and leave for one who comes before a kill."""
    since = clock.now().isoformat(timespec="seconds")
    while True:
        try:
            line, _ = door.accept()
        except OSError:
            return  # the door was shut
        with line:
            left_s = max(0.0, visit.deadline_mono - clock.mono())
            try:
                line.settimeout(_ANSWER_S)
                line.send(json.dumps({"since": since, "left_s": round(left_s, 1)}).encode())
                urgent = line.recv(64) == _URGENT
            except OSError:
                continue
        if urgent and not visit.before_kill:
            give_way()
            _shut(door)
            return


def _shut(door: socket.socket) -> None:
    # Closing alone leaves the name to the accept that still waits on it.
    with contextlib.suppress(OSError):
        door.shutdown(socket.SHUT_RDWR)
    door.close()


def _is_trusted(holder: _Holder, pid: int) -> bool:
    try:
        owner = Path(f"/proc/{pid}").stat().st_uid  # of the directory: nothing that can hang
    except OSError:
        owner = 0
    return holder.uid in (0, os.geteuid(), owner)


def _named(holder: _Holder) -> str:
    if holder.pid < 0:
        return "somebody"
    return f"pid {holder.pid}" if holder.pid else "a process of another container"


def _already(pid: int, holder: _Holder) -> AlreadyExamined:
    since, left = holder.told.get("since"), holder.told.get("left_s")
    when = f" since {since}" if isinstance(since, str) else ""
    soon = f"{max(1.0, left):.0f} s" if isinstance(left, int | float) else "a few seconds"
    return AlreadyExamined(
        f"process {pid} is already being examined by {_named(holder)}{when}",
        remedy=f"Try again in {soon}; two at once would disturb each other.",
    )
