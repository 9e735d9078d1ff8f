"""Finding exported symbols of the programs and libraries mapped into a patient.

Secret: the ELF dynamic section, read from memory. No file is opened: it may be deleted, lie in
another container or on a file system that does not answer.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from autopsy.collect import procfs
from autopsy.cpython.reader import Memory, Unreadable

_MAPS_LIMIT = 16 << 20
_MAPPING = re.compile(r"^(\w+)-\w+ \S+ 00000000 \S+ \d+ +(/.+)$", re.MULTILINE)
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 5, 6, 0x6FFFFEF5
_SYMBOL_BYTES = 24
_MAX_PROGRAM_HEADERS = 64
_MAX_CHAIN = 64


def find_images(pid: int) -> Iterator[tuple[int, str]]:
    """Yield where each mapped file begins and its path, those that may be Python first."""
    text = procfs.read_text(f"/proc/{pid}/maps", _MAPS_LIMIT) or ""
    first: dict[str, int] = {}
    for start, path in _MAPPING.findall(text):
        first.setdefault(path, int(start, 16))
    program = next(iter(first), "")
    for path in sorted(first, key=lambda one: ("libpython" not in one, one != program)):
        # Another library never defines the interpreter; a program that embeds it may.
        if path == program or "python" in path.rpartition("/")[2]:
            yield first[path], path


def find_symbols(memory: Memory, image: int, names: tuple[str, ...]) -> dict[str, int]:
    """Return the addresses of those of the names that the image at this address exports.

    Raises Unreadable when it is no ELF image.
    """
    bias, dynamic = _headers(memory, image)
    table = _dynamic_table(memory, dynamic, bias)
    found = {name: _lookup(memory, table, name, bias) for name in names}
    return {name: address for name, address in found.items() if address}


def _headers(memory: Memory, image: int) -> tuple[int, int]:
    """Return what to add to the addresses of the image and where its dynamic section lies."""
    head = memory.read(image, 64)
    if head[:6] != b"\x7fELF\x02\x01":
        raise Unreadable
    offset, count = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
    first_load, dynamic = None, 0
    for number in range(min(count, _MAX_PROGRAM_HEADERS)):
        header = memory.read(image + offset + 56 * number, 56)
        kind, _flags, _offset, virtual = struct.unpack_from("<IIQQ", header)
        if kind == _PT_LOAD and first_load is None:
            first_load = virtual
        elif kind == _PT_DYNAMIC:
            dynamic = virtual
    if first_load is None or not dynamic:
        raise Unreadable
    bias = image - (first_load & ~0xFFF)
    return bias, bias + dynamic


def _dynamic_table(memory: Memory, address: int, bias: int) -> dict[int, int]:
    """Return the pointers of the dynamic section; glibc has relocated them in place, musl not."""
    found: dict[int, int] = {}
    for number in range(256):
        tag, value = memory.words(address + 16 * number, 2)
        if not tag:
            break
        found[tag] = value if value >= bias else value + bias
    if not found.keys() >= {_DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH}:
        raise Unreadable
    return found


def _lookup(memory: Memory, table: dict[int, int], name: str, bias: int) -> int:
    """Return the address of a symbol by the GNU hash table; 0 when it is not exported."""
    wanted = _gnu_hash(name)
    base = table[_DT_GNU_HASH]
    buckets, first, bloom, _shift = struct.unpack("<4I", memory.read(base, 16))
    if not buckets:
        return 0
    chains = base + 16 + 8 * bloom + 4 * buckets
    index = memory.int32(base + 16 + 8 * bloom + 4 * (wanted % buckets))
    for _ in range(_MAX_CHAIN):
        if index < first:
            return 0
        hashed = memory.int32(chains + 4 * (index - first)) & 0xFFFFFFFF
        if hashed | 1 == wanted | 1:
            text, _info, _other, section, value = struct.unpack(
                "<IBBHQ", memory.read(table[_DT_SYMTAB] + _SYMBOL_BYTES * index, 16)
            )
            if section and memory.string(table[_DT_STRTAB] + text, len(name) + 1) == name:
                return int(value) + bias
        if hashed & 1:
            return 0
        index += 1
    return 0


def _gnu_hash(name: str) -> int:
    number = 5381
    for letter in name.encode():
        number = (number * 33 + letter) & 0xFFFFFFFF
    return number
