"""The last log records of a process, in shared memory that outlives it.

Secret: the slot layout. A slot is head sequence, sealed record, trailing sequence; the head is zero
while it is written and a CRC covers the whole record, so a reader takes a slot whole or not at all,
whenever the writer is killed and whoever else writes. Light: imported inside the patient.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import mmap
import os
import struct
from dataclasses import dataclass
from zlib import crc32

from autopsy import memfd
from autopsy.errors import RingUnreadable

_MAGIC = 0x41554C32
_HEADER = struct.Struct("<IIII")  # magic, layout version, slots, bytes per slot
_LAYOUT = 1
_HEADER_BYTES = 4096  # slots start on a page
SLOT_BYTES = 2048
_SEQUENCE = struct.Struct("<Q")
_RECORD = struct.Struct("<dHHI")  # created, level, bytes of the logger's name, bytes of the text
_CHECK = struct.Struct("<I")
_ROOM = SLOT_BYTES - 2 * _SEQUENCE.size - _RECORD.size - _CHECK.size
_UNHEADED = struct.Struct("<QI")  # no head sequence, checksum
_TRAILING = SLOT_BYTES - _SEQUENCE.size
_LOGGER_ROOM = 128
_CUT = b" [cut] "


@dataclass(frozen=True, slots=True)
class LogRecordView:
    """One log record as it was read back; `seq` counts from 1 for the life of the ring."""

    seq: int
    created: float
    level: int
    logger: str
    text: str


def create_log_ring(slots: int) -> int:
    """Create the shared memory of a ring of `slots` records and return its descriptor.

    The descriptor is close-on-exec and sealed against any change of size.
    """
    if slots < 1:
        raise ValueError("a log ring needs at least one slot")
    fd = memfd.create_sealed(memfd.LOG_RING, _HEADER_BYTES + slots * SLOT_BYTES)
    os.pwrite(fd, _HEADER.pack(_MAGIC, _LAYOUT, slots, SLOT_BYTES), 0)
    return fd


class LogRing:
    """A mapped ring: written without a lock by the patient, read by anyone who can open it.

    The descriptor stays the caller's; a ring on a read-only descriptor can only be read.
    """

    def __init__(self, fd: int) -> None:
        self._slots = _check_header(fd)
        writable = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._map = mmap.mmap(fd, _HEADER_BYTES + self._slots * SLOT_BYTES, access=access)
        # next() on a count is one C call: atomic under the GIL, so threads never share a number.
        # Looking at slots takes memory for them: a new ring, which has no page yet, is not read.
        is_new = os.fstat(fd).st_blocks * 512 <= _HEADER_BYTES
        self._numbers = itertools.count(1 if is_new else self._highest_sequence() + 1)

    def write(self, created: float, level: int, logger: str, text: str) -> None:
        """Put one record in the next slot; what does not fit is cut in the middle and marked."""
        # On the way of every log call: each call saved here is a twentieth of its time.
        name = logger.encode("utf-8", "replace")[:_LOGGER_ROOM]
        payload = text.encode("utf-8", "replace")
        if len(payload) > _ROOM - len(name):
            payload = _fit(payload, _ROOM - len(name))
        if not 0 <= level <= 0xFFFF:
            level = min(max(level, 0), 0xFFFF)
        seq = next(self._numbers)
        start = _HEADER_BYTES + seq % self._slots * SLOT_BYTES
        record = _RECORD.pack(created, level, len(name), len(payload)) + name + payload
        # Takes the head away with the first bytes; a copy that is torn has a wrong checksum.
        unheaded = _UNHEADED.pack(0, crc32(record, seq & 0xFFFFFFFF)) + record
        self._map[start : start + len(unheaded)] = unheaded
        _SEQUENCE.pack_into(self._map, start + _TRAILING, seq)
        _SEQUENCE.pack_into(self._map, start, seq)

    def records(self, last: int) -> list[LogRecordView]:
        """Return up to `last` newest whole records, oldest first; torn slots are left out."""
        heads = sorted(
            ((self._head(index), index) for index in range(self._slots)),
            reverse=True,
        )
        views: list[LogRecordView] = []
        for seq, index in heads:
            if seq == 0 or len(views) >= last:
                break
            view = self._read(index, seq)
            if view is not None:
                views.append(view)
        return views[::-1]

    def close(self) -> None:
        """Unmap the ring; the shared memory itself lives on while anyone holds it open."""
        self._map.close()

    def _start(self, index: int) -> int:
        return _HEADER_BYTES + index * SLOT_BYTES

    def _head(self, index: int) -> int:
        return int(_SEQUENCE.unpack_from(self._map, self._start(index))[0])

    def _highest_sequence(self) -> int:
        return max(self._head(index) for index in range(self._slots))

    def _read(self, index: int, seq: int) -> LogRecordView | None:
        start = self._start(index)
        slot = self._map[start : start + SLOT_BYTES]
        if self._head(index) != seq or slot[:8] != slot[-8:] or slot[:8] != _SEQUENCE.pack(seq):
            return None
        body = slot[_SEQUENCE.size : -_SEQUENCE.size]
        (check,) = _CHECK.unpack_from(body)
        created, level, name_bytes, text_bytes = _RECORD.unpack_from(body, _CHECK.size)
        end = _CHECK.size + _RECORD.size + name_bytes + text_bytes
        if end > len(body) or _checksum(seq, body[_CHECK.size : end]) != check:
            return None
        name_start = _CHECK.size + _RECORD.size
        name = body[name_start : name_start + name_bytes].decode("utf-8", "replace")
        text = body[name_start + name_bytes : end].decode("utf-8", "replace")
        return LogRecordView(seq, created, level, name, text)


class RingHandler(logging.Handler):
    """A logging handler that writes to a ring, takes no lock and never raises.

    `lost` counts the records that could not be formatted. In a forked child it goes silent: the
    child shares the mapping and would mix its records with its parent's.
    """

    def __init__(self, ring: LogRing, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self.lost = 0
        self._ring: LogRing | None = ring
        os.register_at_fork(after_in_child=self._forked)

    def createLock(self) -> None:  # noqa: N802 - the name is logging's
        """Go without a lock: an interrupted holder would silence the whole process."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Write the record unless a filter refuses it."""
        if self.filters and not self.filter(record):
            return False
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record with its exception text; count it as lost if it cannot be formatted."""
        ring = self._ring
        if ring is None:
            return
        try:
            text = record.getMessage()
            if record.exc_info or record.exc_text:
                text += "\n" + _exception_of(record)
            ring.write(record.created, record.levelno, record.name, text)
        except Exception:  # a log call must not fail because its arguments do
            self.lost += 1

    def _forked(self) -> None:
        self._ring = None


def _check_header(fd: int) -> int:
    header = os.pread(fd, _HEADER.size, 0)
    if len(header) == _HEADER.size:
        magic, layout, slots, slot_bytes = _HEADER.unpack(header)
        size = _HEADER_BYTES + slots * SLOT_BYTES
        ours = (magic, layout, slot_bytes) == (_MAGIC, _LAYOUT, SLOT_BYTES)
        if ours and slots > 0 and os.fstat(fd).st_size >= size:
            return int(slots)
    raise RingUnreadable(
        f"descriptor {fd} is not a log ring of this version",
        remedy="Run the same version of autopsy in the patient and outside of it.",
    )


def _checksum(seq: int, record: bytes) -> int:
    return crc32(record, seq & 0xFFFFFFFF)


def _fit(text: bytes, room: int) -> bytes:
    """The start says what happened, the end of a traceback says where: keep both."""
    head = (room - len(_CUT)) // 3
    return text[:head] + _CUT + text[len(text) - (room - len(_CUT) - head) :]


def _exception_of(record: logging.LogRecord) -> str:
    if record.exc_text:
        return record.exc_text
    # Not stored on the record: other handlers may have formatters of their own.
    return logging.Formatter().formatException(record.exc_info)  # type: ignore[arg-type]
