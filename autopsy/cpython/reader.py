"""The memory of a patient, read in blocks that are each read once.

Secret: the cache, which makes reading quick and lets one section see one moment. Invariants: an
address that cannot be read is Unreadable, never garbage; past the deadline everything is OutOfTime.
"""

from __future__ import annotations

import os
import struct
import weakref

from autopsy import clock

# A block costs one system call of about 10 µs; what belongs together often lies together.
_BLOCK_BITS = 16
_BLOCK = 1 << _BLOCK_BITS
_PAGE = 4096
# More than the structures of any program need; a census of the heap has an allowance of its own.
_MAX_BLOCKS = 4096
_USER_SPACE_END = 1 << 47
_WORD = struct.Struct("<Q")
_INT = struct.Struct("<i")


class Unreadable(Exception):
    """Nothing is mapped there, or what lies there is not what was looked for.

    An ordinary answer about a process that runs on; it never leaves this package.
    """


class OutOfTime(Exception):
    """The time for reading is over; what was read until now stands."""


class Memory:
    """Read-only memory of one process; `deadline_mono` ends all reading.

    Raises PermissionError or another OSError when the kernel does not let us look.
    """

    def __init__(self, pid: int, deadline_mono: float) -> None:
        self.deadline_mono = deadline_mono
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        # Sections read in threads that may be left behind: the last one to go closes it.
        self.close = weakref.finalize(self, os.close, self._fd)
        self._blocks: dict[int, bytes | None] = {}
        self._pages: dict[int, bytes] = {}
        self._layouts: dict[int, struct.Struct] = {}

    def word(self, address: int) -> int:
        """Return the 8 bytes at an address as a number."""
        block = self._blocks.get(address >> _BLOCK_BITS)
        offset = address & _BLOCK - 1
        if block is None or offset > _BLOCK - 8:
            return int.from_bytes(self.read(address, 8), "little")
        number: int = _WORD.unpack_from(block, offset)[0]
        return number

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return `count` numbers of 8 bytes each."""
        layout = self._layouts.get(count)
        if layout is None:
            layout = self._layouts[count] = struct.Struct(f"<{count}Q")
        block, offset = self._blocks.get(address >> _BLOCK_BITS), address & _BLOCK - 1
        if block is None or offset + layout.size > _BLOCK:
            return layout.unpack(self.read(address, layout.size))
        return layout.unpack_from(block, offset)

    def signed(self, address: int) -> int:
        """Return the 8 bytes at an address as a signed number."""
        return int.from_bytes(self.read(address, 8), "little", signed=True)

    def int32(self, address: int) -> int:
        """Return the C int at an address."""
        number: int = _INT.unpack(self.read(address, 4))[0]
        return number

    def byte(self, address: int) -> int:
        """Return one byte."""
        return self.read(address, 1)[0]

    def string(self, address: int, limit: int = 256) -> str:
        """Return the C string at an address, up to `limit` bytes."""
        found = b""
        while len(found) < limit:
            # Up to the end of its page: the next one need not be there.
            piece = self.read(address, min(limit - len(found), _PAGE - address % _PAGE))
            head, end, _ = piece.partition(b"\0")
            found += head
            address += len(piece)
            if end:
                break
        return found.decode("utf-8", "replace")

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes at an address.

        Raises Unreadable, OutOfTime.
        """
        if address < _PAGE or size < 0 or address + size > _USER_SPACE_END:
            raise Unreadable
        number, offset = address >> _BLOCK_BITS, address & _BLOCK - 1
        if offset + size <= _BLOCK:
            block = self._block(number)
            if block is not None:
                return block[offset : offset + size]
        return b"".join(self._pieces(address, size))

    def _pieces(self, address: int, size: int) -> list[bytes]:
        if size > _BLOCK * 256:
            raise Unreadable  # no single object is that large; a length was torn
        pieces = []
        while size > 0:
            offset = address % _PAGE
            piece = self._page(address // _PAGE)[offset : offset + size]
            pieces.append(piece)
            address += len(piece)
            size -= len(piece)
        return pieces

    def _block(self, number: int) -> bytes | None:
        """Return a block; None when only some of its pages are there."""
        if number in self._blocks:
            return self._blocks[number]
        self.must_go_on()
        if len(self._blocks) >= _MAX_BLOCKS:
            raise OutOfTime
        found = self.fetch(number << _BLOCK_BITS, _BLOCK)
        block = found if len(found) == _BLOCK else None
        self._blocks[number] = block
        return block

    def _page(self, number: int) -> bytes:
        block = self._block(number * _PAGE >> _BLOCK_BITS)
        if block is not None:
            offset = number * _PAGE & _BLOCK - 1
            return block[offset : offset + _PAGE]
        page = self._pages.get(number)
        if page is None:
            self.must_go_on()
            page = self._pages[number] = self.fetch(number * _PAGE, _PAGE)
        if not page:
            raise Unreadable
        return page

    def fetch(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes past the cache; fewer when not all of them are mapped."""
        try:
            return os.pread(self._fd, size, address)
        except (OSError, OverflowError):
            return b""

    def forget(self) -> None:
        """Read everything anew from now on."""
        self._blocks.clear()
        self._pages.clear()

    def must_go_on(self) -> None:
        """Raise OutOfTime once the deadline has passed."""
        if clock.mono() > self.deadline_mono:
            raise OutOfTime
