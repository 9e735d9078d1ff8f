"""What this process has used so far: CPU, storage and network, with the children it waited for.

Secret kept here: where the kernel says so, and what looking costs. One call tells CPU and storage,
and follows every attempt; children and connections are looked at only after attempts that ran long
enough to have any. Bytes of a connection are those seen while it was open: a lower bound.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import stat
import struct
import threading

from supervisor.worker.wire import Spent

#: An attempt that was shorter has waited for no child, and is not worth a look at connections.
CHILDREN_AFTER_S, NETWORK_AFTER_S = 0.001, 0.01
#: Descriptors looked at for connections.
DESCRIPTORS_MOST = 1000
# Source: struct rusage, getrusage(2): storage is counted in blocks of 512 bytes.
_BLOCK_BYTES = 512
# Source: struct tcp_info of linux/tcp.h: tcpi_bytes_acked and tcpi_bytes_received, from byte 120.
_TCP_INFO_BYTES = 136
_ACKED_RECEIVED = struct.Struct("=QQ")

#: How far a connection is: (inode of its socket) → bytes received and sent.
_Seen = dict[int, tuple[int, int]]


def spent_of(usage: resource.struct_rusage) -> Spent:
    """Return what the kernel counts of a process; the network is not in it."""
    return Spent(
        usage.ru_utime,
        usage.ru_stime,
        usage.ru_inblock * _BLOCK_BYTES,
        usage.ru_oublock * _BLOCK_BYTES,
    )


class Spending:
    """The sums of this process; all of them only grow."""

    def __init__(self) -> None:
        self._children = (0.0, 0.0, 0, 0)
        self._open: _Seen = {}
        self._received = self._sent = 0
        self._looking = threading.Lock()
        self.max_rss_bytes = 0

    def look(self, ran_s: float) -> Spent:
        """Look at what has grown, after an attempt (or a part of it) of that length."""
        with self._looking:  # the pulse thread looks too
            return self._look(ran_s)

    def _look(self, ran_s: float) -> Spent:
        if ran_s >= NETWORK_AFTER_S:
            self._look_at_connections()
        if ran_s >= CHILDREN_AFTER_S:
            gone = resource.getrusage(resource.RUSAGE_CHILDREN)
            self._children = gone.ru_utime, gone.ru_stime, gone.ru_inblock, gone.ru_oublock
        user_s, system_s, read, written = self._children
        own = resource.getrusage(resource.RUSAGE_SELF)
        self.max_rss_bytes = own.ru_maxrss * 1024
        return Spent(
            own.ru_utime + user_s,
            own.ru_stime + system_s,
            (own.ru_inblock + read) * _BLOCK_BYTES,
            (own.ru_oublock + written) * _BLOCK_BYTES,
            self._received,
            self._sent,
        )

    def _look_at_connections(self) -> None:
        before, self._open = self._open, _connections()
        for inode, (received, sent) in self._open.items():
            was_received, was_sent = before.get(inode, (0, 0))
            self._received += max(0, received - was_received)
            self._sent += max(0, sent - was_sent)


def _connections() -> _Seen:
    found: _Seen = {}
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return found  # none is left to list them with
    for name in names[:DESCRIPTORS_MOST]:
        try:
            status = os.fstat(int(name))
        except OSError:
            continue  # the one that lists them, or closed meanwhile
        if stat.S_ISSOCK(status.st_mode) and (passed := _passed(int(name))) is not None:
            found[status.st_ino] = passed
    return found


def _passed(fd: int) -> tuple[int, int] | None:
    """Return the bytes that a TCP connection has received and sent; None if it is none.

    Not by a socket object: making one may change how the descriptor blocks, for everybody.
    """
    told = ctypes.create_string_buffer(_TCP_INFO_BYTES)
    size = ctypes.c_uint(_TCP_INFO_BYTES)
    asked = (fd, socket.IPPROTO_TCP, socket.TCP_INFO, told, ctypes.byref(size))
    # The C library is reached through what ctypes holds already: a newborn loads nothing.
    if ctypes.pythonapi.getsockopt(*asked) != 0 or size.value < _TCP_INFO_BYTES:
        return None
    acked, received = _ACKED_RECEIVED.unpack_from(told, _TCP_INFO_BYTES - _ACKED_RECEIVED.size)
    return received, max(0, acked - 1)  # whoever opened it has the handshake counted as a byte
