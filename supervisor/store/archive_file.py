"""A cold file: records as compressed JSON lines, with their index behind them in the same file.

Secret kept here: the format. A file is a row of gzip members (so `zcat` prints all of it): blocks
of records, a head, an index, and an empty member of fixed size that tells where those two begin.
A record is found by its id with four short reads. Only the archive's modules use it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from supervisor.errors import ArchiveBroken

FORMAT = 1
#: A file bears the longer name until all it holds is deleted from the store.
SUFFIX, MOVING_SUFFIX, PARTIAL_SUFFIX = ".jsonl.gz", ".moving.jsonl.gz", ".partial"
#: Uncompressed bytes of a block: what one look-up decompresses.
BLOCK_BYTES = 128 * 2**10
LEVEL = 6
_CHUNK = 64 * 2**10
#: An empty gzip member whose extra field (RFC 1952) `TS` holds two offsets.
_END = struct.Struct("<4s4x2sH2sHQQ2s8x")
_END_FIXED = (b"\x1f\x8b\x08\x04", b"\x00\xff", 20, b"TS", 16)
_EMPTY = b"\x03\x00"

T = TypeVar("T")


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Where a record lies, and what is looked for most often.

    `kind` is task (all of it) or audit (some rows, of a task that stayed in the store or of none).
    Times are the task's submission and end, or those of the first and last row.
    """

    task_id: str | None
    kind: str
    type: str | None
    state: str | None
    created_at: datetime
    ended_at: datetime
    offset: int
    line: int


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of one task, as its line has it; rows are dicts without their empty columns."""

    task_id: str | None
    kind: str
    type: str | None
    state: str | None
    created_at: datetime
    ended_at: datetime
    body: dict[str, Any]


class Head(msgspec.Struct, frozen=True, kw_only=True, tag="head", tag_field="kind"):
    """What a file says of itself; the checksum is of its records, uncompressed."""

    format: int
    store: str
    written_at: datetime
    records: int
    tasks: int
    audit_rows: int
    first_id: str
    last_id: str
    sha256: str


class _Index(msgspec.Struct, frozen=True, kw_only=True, tag="index", tag_field="kind"):
    entries: list[Entry]


_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class ColdWriter:
    """A file that is being written; nobody reads it before it has its name."""

    path: Path
    store: str
    entries: list[Entry] = field(default_factory=list)
    tasks: int = 0
    audit_rows: int = 0
    _file: BinaryIO = field(init=False)
    _block: list[bytes] = field(default_factory=list)
    _block_bytes: int = 0
    _sum: Any = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb")

    @property
    def size(self) -> int:
        """How many bytes it has so far."""
        return self._file.tell()

    def add(self, record: Record) -> None:
        """Append a record."""
        line = _encode(record.body) + b"\n"
        self._sum.update(line)
        self.entries.append(
            Entry(
                record.task_id,
                record.kind,
                record.type,
                record.state,
                record.created_at,
                record.ended_at,
                self._file.tell(),
                len(self._block),
            )
        )
        self.tasks += record.kind == "task"
        self.audit_rows += len(record.body["audit"])
        self._block.append(line)
        self._block_bytes += len(line)
        if self._block_bytes >= BLOCK_BYTES:
            self._flush()

    def finish(self, now: datetime) -> None:
        """Write head, index and end, and wait until the disk has all of it."""
        self._flush()
        ids = [entry.task_id for entry in self.entries if entry.task_id is not None]
        head = Head(
            format=FORMAT,
            store=self.store,
            written_at=now,
            records=len(self.entries),
            tasks=self.tasks,
            audit_rows=self.audit_rows,
            first_id=min(ids, default=""),
            last_id=max(ids, default=""),
            sha256=self._sum.hexdigest(),
        )
        at_head = self._member(_encode(head) + b"\n")
        at_index = self._member(_encode(_Index(entries=self.entries)) + b"\n")
        self._file.write(_END.pack(*_END_FIXED, at_head, at_index, _EMPTY))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def drop(self) -> None:
        """Close and remove what was written so far."""
        with suppress(OSError):  # a full disk: what could not be written is dropped anyway
            self._file.close()
        self.path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._block:
            self._member(b"".join(self._block))
            self._block.clear()
            self._block_bytes = 0

    def _member(self, content: bytes) -> int:
        offset = self._file.tell()
        self._file.write(gzip.compress(content, LEVEL, mtime=0))
        return offset


class ColdFile:
    """A file that is there; it may be given its last name while it is looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def head(self) -> Head:
        """Return what it says of itself. Raises: ArchiveBroken, FileNotFoundError."""
        with self._open() as file:
            return _head(file)

    def entries(self) -> list[Entry]:
        """Return its index, in the order of the records. Raises: ArchiveBroken."""
        with self._open() as file:
            return _entries(file)

    def bodies(self, wanted: Sequence[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """Return the lines of these entries; each block is read once.

        Raises: ArchiveBroken.
        """
        with self._open() as file:
            offset, lines = -1, []
            for entry in sorted(wanted, key=lambda entry: (entry.offset, entry.line)):
                if entry.offset != offset:
                    offset, lines = entry.offset, _member(file, entry.offset).splitlines()
                if entry.line >= len(lines):
                    raise _broken(self.path, "its index names a record that is not there")
                yield entry, lines[entry.line]

    def verify(self) -> Head:
        """Read all of it back and compare count and checksum. Raises: ArchiveBroken."""
        with self._open() as file:
            head, entries = _head(file), _entries(file)
            found, checksum = 0, hashlib.sha256()
            for offset in dict.fromkeys(entry.offset for entry in entries):
                content = _member(file, offset)
                checksum.update(content)
                found += content.count(b"\n")
        if (found, len(entries)) != (head.records, head.records):
            raise _broken(self.path, f"{found} of its {head.records} records can be read")
        if checksum.hexdigest() != head.sha256:
            raise _broken(self.path, "its checksum is not that of its records")
        return head

    def _open(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            name = self.path.name
            if not name.endswith(MOVING_SUFFIX):
                raise
            self.path = self.path.with_name(name.removesuffix(MOVING_SUFFIX) + SUFFIX)
            return self.path.open("rb")


def decode_body(line: bytes) -> dict[str, Any]:
    """Return a record's line as its rows."""
    body: dict[str, Any] = msgspec.json.decode(line)
    return body


def _head(file: BinaryIO) -> Head:
    return _decoded(file, _offsets(file)[0], Head)


def _entries(file: BinaryIO) -> list[Entry]:
    return _decoded(file, _offsets(file)[1], _Index).entries


def _decoded(file: BinaryIO, offset: int, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(_member(file, offset), type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise _broken(Path(file.name), str(error)) from error


def _offsets(file: BinaryIO) -> tuple[int, int]:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END.size))
    last = file.read(_END.size)
    if len(last) == _END.size:
        *fixed, head, index, empty = _END.unpack(last)
        if (*fixed, empty) == (*_END_FIXED, _EMPTY):
            return head, index
    raise _broken(Path(file.name), "its end is missing")


def _member(file: BinaryIO, offset: int) -> bytes:
    """Return the content of the gzip member that begins there."""
    file.seek(offset)
    unpack = zlib.decompressobj(wbits=31)
    pieces = []
    try:
        while not unpack.eof:
            chunk = file.read(_CHUNK)
            if not chunk:
                raise _broken(Path(file.name), "it ends in the middle of a block")
            pieces.append(unpack.decompress(chunk))
    except zlib.error as error:
        raise _broken(Path(file.name), str(error)) from error
    return b"".join(pieces)


def _broken(path: Path, why: str) -> ArchiveBroken:
    return ArchiveBroken(
        f"the cold file {path} cannot be read: {why}",
        remedy="Put back a copy of this file; all other files are searched without it.",
        path=str(path),
    )
