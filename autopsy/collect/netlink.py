"""The kernel's own tables of sockets, asked over netlink: ages, queues, timers and unix peers.

Secret: the messages of sock_diag(7). Invariant: a kernel without them, or another network
namespace that we may not enter, is an OSError for the caller, who has tables in /proc as well.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass

_SOCK_DIAG, _BY_FAMILY = 4, 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_CLONE_NEWNET = 0x40000000
_TIMEOUT_S = 0.3
_BUFFER_BYTES = 1 << 18
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
# Every state but TIME_WAIT: those belong to no process any more, and there can be many.
_STATES = 0xFFF & ~(1 << 6)
_WANT_TCP_INFO, _TCP_INFO = 1 << 1, 2
_SHOW_NAME, _SHOW_PEER, _SHOW_QUEUE = 1, 4, 16
_NAME, _PEER, _QUEUE = 0, 2, 4
_MAPPED = b"\0" * 10 + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class Internet:
    """One TCP or UDP socket. `ends` = local then remote end, as the kernel packs them.

    Units: ages in milliseconds since the last data went out or came in, None if unknown.
    """

    inode: int
    state: int
    timer: int
    expires_ms: int
    retransmits: int
    local: str
    peer: str
    receive_queue: int
    send_queue: int
    sent_ms: int | None = None
    silent_ms: int | None = None
    acked_bytes: int | None = None
    received_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Local:
    """One unix socket: its kind, state, name, the inode at its other end and its queues."""

    inode: int
    kind: int
    state: int
    name: str
    peer: int | None
    receive_queue: int
    send_queue: int


@dataclass(frozen=True, slots=True)
class Table:
    """The wanted internet sockets by inode, and the inode behind every pair of ends."""

    wanted: dict[int, Internet]
    by_ends: dict[bytes, int]
    ends: dict[int, bytes]


def connected(pid: int) -> socket.socket:
    """Return a netlink socket in the network namespace of a process.

    Raises OSError when the kernel has no sock_diag or does not let us into that namespace.
    """
    namespace = f"/proc/{pid}/ns/net"
    if os.readlink(namespace) == os.readlink("/proc/self/ns/net"):
        return _opened()
    # A thread enters alone and ends; the socket stays in the namespace it was made in.
    made: list[socket.socket | OSError] = []

    def enter() -> None:
        try:
            fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(fd, _CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            finally:
                os.close(fd)
            made.append(_opened())
        except OSError as exc:
            made.append(exc)

    thread = threading.Thread(target=enter, name="autopsy-namespace", daemon=True)
    thread.start()
    thread.join()
    (result,) = made
    if isinstance(result, OSError):
        raise result
    return result


def internet(asked: socket.socket, family: int, protocol: int, wanted: set[int]) -> Table:
    """Read all sockets of a family and protocol, in full those of the wanted inodes.

    Raises OSError when the kernel refuses.
    """
    request = struct.pack("=BBBBI", family, protocol, _WANT_TCP_INFO, 0, _STATES) + bytes(48)
    table = Table({}, {}, {})
    for message in _dump(asked, request):
        (inode,) = struct.unpack_from("=I", message, 68)
        ends = _ends(family, message)
        table.by_ends[ends] = inode
        if inode in wanted:
            table.ends[inode] = ends
            table.wanted[inode] = _internet(family, protocol, inode, message)
    return table


def swapped(ends: bytes) -> bytes:
    """Return the ends as the socket on the other side has them."""
    half = len(ends) // 2
    return ends[half:] + ends[:half]


def local(asked: socket.socket) -> dict[int, Local]:
    """Return all unix sockets by inode. Raises OSError when the kernel refuses."""
    show = _SHOW_NAME | _SHOW_PEER | _SHOW_QUEUE
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, show, 0, 0)
    return {one.inode: one for one in map(_local, _dump(asked, request))}


def _opened() -> socket.socket:
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)
    made.settimeout(_TIMEOUT_S)
    return made


def _dump(asked: socket.socket, request: bytes) -> Iterator[bytes]:
    """Yield the messages that answer; the last of a dump is always read, or the next would be it.

    The attributes of a message are at its end, each with its own length.
    """
    size = _HEADER.size + len(request)
    asked.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
    while True:
        answer = asked.recv(_BUFFER_BYTES)
        at = 0
        while at + _HEADER.size <= len(answer):
            length, kind, *_ = _HEADER.unpack_from(answer, at)
            if kind == _DONE:
                return
            if kind == _ERROR:
                (number,) = struct.unpack_from("=i", answer, at + _HEADER.size)
                raise OSError(-number, os.strerror(-number))
            yield answer[at + _HEADER.size : at + length]
            at += (length + 3) & ~3


def _attributes(message: bytes, at: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size:
            break
        found[kind] = message[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return found


def _ends(family: int, message: bytes) -> bytes:
    """Both ends, an IPv4 address in IPv6 form as plain IPv4: the other side may have it so."""
    own, other = message[8:24], message[24:40]
    if family == socket.AF_INET:
        own, other = own[:4], other[:4]
    elif own.startswith(_MAPPED):
        own, other = own[12:], other[12:]
    return message[4:6] + own + message[6:8] + other


def _internet(family: int, protocol: int, inode: int, message: bytes) -> Internet:
    state, timer, retransmits = message[1], message[2], message[3]
    own_port, peer_port = struct.unpack_from("!HH", message, 4)
    expires, received, sent = struct.unpack_from("=III", message, 52)
    known = _attributes(message, 72).get(_TCP_INFO, b"") if protocol == socket.IPPROTO_TCP else b""
    # Before a connection is there the kernel's moments are no moments.
    is_aged = len(known) >= 60 and state not in (2, 10)
    counted = is_aged and len(known) >= 136
    return Internet(
        inode,
        state,
        timer,
        expires,
        retransmits,
        printed(family, message[8:24], own_port),
        printed(family, message[24:40], peer_port),
        received,
        sent,
        struct.unpack_from("=I", known, 44)[0] if is_aged else None,
        struct.unpack_from("=I", known, 52)[0] if is_aged else None,
        struct.unpack_from("=Q", known, 120)[0] if counted else None,
        struct.unpack_from("=Q", known, 128)[0] if counted else None,
    )


def printed(family: int, packed: bytes, port: int) -> str:
    """Return `host:port`, an IPv4 address in IPv6 form as plain IPv4."""
    if family == socket.AF_INET or packed.startswith(_MAPPED):
        plain = packed[:4] if family == socket.AF_INET else packed[12:16]
        return f"{socket.inet_ntop(socket.AF_INET, plain)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, packed)}]:{port}"


def _local(message: bytes) -> Local:
    kind, state = message[1], message[2]
    (inode,) = struct.unpack_from("=I", message, 4)
    found = _attributes(message, 16)
    peer, queue = found.get(_PEER), found.get(_QUEUE)
    received, sent = struct.unpack_from("=II", queue) if queue else (0, 0)
    name = found.get(_NAME, b"").rstrip(b"\0")
    return Local(
        inode,
        kind,
        state,
        # A name that begins with a zero byte is in no file system.
        name.replace(b"\0", b"@").decode("utf-8", "replace"),
        struct.unpack_from("=I", peer)[0] if peer else None,
        received,
        sent,
    )
