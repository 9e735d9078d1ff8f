"""The values of Python objects: texts, numbers, containers, attributes.

Secret: how each builtin type stores what it holds. Invariant: a length or pointer that cannot be
right is Unreadable; every loop is bounded by what was asked for.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from autopsy.cpython import layout as at
from autopsy.cpython.reader import Memory, Unreadable

_MAX_TEXT = 4096
_MAX_BYTES = 1 << 20
_MAX_ITEMS = 1 << 22
_MAX_BASES = 64
_CHUNK = 4096
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_MAX_DIGITS = 8
_DOUBLE = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its full name, those of its bases (itself first), and how its instances look."""

    address: int
    name: str
    bases: tuple[str, ...]
    flags: int
    basic_bytes: int
    item_bytes: int
    dict_offset: int
    shared_keys: int

    @property
    def short_name(self) -> str:
        """The name without its module."""
        return self.name.rpartition(".")[2]


class Objects:
    """The objects in one memory, by address."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._types: dict[int, Type | None] = {}
        self._asked: set[tuple[int, int]] = set()
        self._shared_names: dict[int, dict[str, int]] = {}
        self._slots: dict[tuple[int, str], int] = {}
        self._texts: dict[int, str] = {}

    # Types

    def type_of(self, address: int) -> Type:
        """Return the type of the object at an address; Unreadable when none lies there."""
        return self.type_at(self.memory.word(address + at.OBJECT_TYPE))

    def type_at(self, address: int) -> Type:
        """Return the type that lies at an address itself."""
        if address not in self._types:
            self._types[address] = self._type_or_none(address)
        found = self._types[address]
        if found is None:
            raise Unreadable
        return found

    def _type_or_none(self, address: int) -> Type | None:
        """Read a type; None when none lies there.

        Torn memory can make a type a part of itself. Sections read in threads of their own, so
        each is stopped only by what it is itself about to read.
        """
        asked = threading.get_ident(), address
        if asked in self._asked:
            raise Unreadable
        self._asked.add(asked)
        try:
            return self._read_type(address)
        except Unreadable:
            return None
        finally:
            self._asked.discard(asked)

    def is_a(self, address: int, *names: str) -> bool:
        """Return whether the object is of one of these types or of one derived from them."""
        if not address:
            return False
        try:
            return not set(names).isdisjoint(self.type_of(address).bases)
        except Unreadable:
            return False

    def _read_type(self, address: int) -> Type:
        memory = self.memory
        flags = memory.word(address + at.TYPE_FLAGS)
        meta = memory.word(address + at.OBJECT_TYPE)
        if not memory.word(meta + at.TYPE_FLAGS) & at.FLAG_TYPE:
            raise Unreadable
        basic = memory.signed(address + at.TYPE_BASIC_BYTES)
        name = self._type_name(address, flags)
        if not 0 < basic < 1 << 20 or not name.isprintable() or not name:
            raise Unreadable
        return Type(
            address=address,
            name=name,
            bases=(name, *self._base_names(address)),
            flags=flags,
            basic_bytes=basic,
            item_bytes=memory.signed(address + at.TYPE_ITEM_BYTES),
            dict_offset=memory.signed(address + at.TYPE_DICT_OFFSET),
            shared_keys=memory.word(address + at.TYPE_SHARED_KEYS)
            if flags & at.FLAG_HEAP_TYPE
            else 0,
        )

    def _type_name(self, address: int, flags: int) -> str:
        memory = self.memory
        if not flags & at.FLAG_HEAP_TYPE:
            name = memory.string(memory.word(address + at.TYPE_NAME))
            return name if "." in name else f"builtins.{name}"
        name = self.text(memory.word(address + at.TYPE_QUALNAME))
        module = self.lookup(memory.word(address + at.TYPE_DICT), "__module__")
        try:
            return f"{self.text(module)}.{name}"
        except Unreadable:  # a property or nothing at all
            return name

    def _base_names(self, address: int) -> list[str]:
        """Names of every type it is derived from, in the order of lookup."""
        mro = self.memory.word(address + at.TYPE_MRO)
        if not mro:
            return []
        size = self.memory.word(mro + at.OBJECT_SIZE)
        if size > _MAX_BASES:
            raise Unreadable
        bases = self.memory.words(mro + at.TUPLE_ITEMS, size)[1:]
        return [self._type_name(one, self.memory.word(one + at.TYPE_FLAGS)) for one in bases]

    # Plain values

    def text(self, address: int, limit: int = _MAX_TEXT) -> str:
        """Return a str, up to `limit` characters."""
        known = self._texts.get(address)
        if known is not None:
            return known
        if not self.type_of(address).flags & at.FLAG_TEXT:
            raise Unreadable
        length = self.memory.word(address + at.TEXT_LENGTH)
        state = self.memory.int32(address + at.TEXT_STATE)
        kind, compact, ascii_only = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if kind not in _ENCODINGS or length > _MAX_ITEMS * 64:
            raise Unreadable
        start = address + (at.TEXT_ASCII_START if ascii_only else at.TEXT_START)
        if not compact:
            start = self.memory.word(address + at.TEXT_START)
        raw = self.memory.read(start, min(length, limit) * kind)
        found = raw.decode(_ENCODINGS[kind], "replace")
        if length <= limit:
            self._texts[address] = found
        return found

    def text_or(self, address: int, otherwise: str = "") -> str:
        """Return a str, or something else when there is none."""
        try:
            return self.text(address)
        except Unreadable:
            return otherwise

    def integer(self, address: int) -> int:
        """Return an int (or a bool) of up to 240 bits."""
        if not self.type_of(address).flags & at.FLAG_LONG:
            raise Unreadable
        size = self.memory.signed(address + at.OBJECT_SIZE)
        if abs(size) > _MAX_DIGITS:
            raise Unreadable
        number = 0
        for index in range(abs(size)):
            digit = self.memory.int32(address + at.LONG_DIGITS + 4 * index)
            number |= digit << at.LONG_SHIFT * index
        return -number if size < 0 else number

    def real(self, address: int) -> float:
        """Return a float."""
        if not self.is_a(address, "builtins.float"):
            raise Unreadable
        number: float = _DOUBLE.unpack(self.memory.read(address + at.FLOAT_VALUE, 8))[0]
        return number

    def binary(self, address: int) -> bytes:
        """Return a bytes object."""
        if not self.type_of(address).flags & at.FLAG_BYTES:
            raise Unreadable
        size = self.memory.word(address + at.OBJECT_SIZE)
        if size > _MAX_BYTES:
            raise Unreadable
        return self.memory.read(address + at.BYTES_START, size)

    # Containers

    def items(self, address: int, limit: int = _MAX_ITEMS) -> Iterator[tuple[int, int]]:
        """Yield the key and value addresses of a dict."""
        if not self.type_of(address).flags & at.FLAG_DICT:
            raise Unreadable
        keys = self.memory.word(address + at.DICT_KEYS)
        values = self.memory.word(address + at.DICT_VALUES)
        yield from self._entries(keys, values, limit)

    def _entries(self, keys: int, values: int, limit: int) -> Iterator[tuple[int, int]]:
        memory = self.memory
        log2_bytes = memory.byte(keys + at.KEYS_LOG2_INDEX_BYTES)
        kind = memory.byte(keys + at.KEYS_KIND)
        count = memory.word(keys + at.KEYS_ENTRIES)
        if log2_bytes > 40 or kind > 2 or count > _MAX_ITEMS:
            raise Unreadable
        start = keys + at.KEYS_INDEX + (1 << log2_bytes)
        width = 3 if kind == at.KIND_GENERAL else 2
        count = min(count, limit)
        for first in range(0, count, _CHUNK):
            some = min(_CHUNK, count - first)
            words = memory.words(start + 8 * width * first, width * some)
            found = words[width - 1 :: width]
            if values:
                found = memory.words(values + 8 * first, some)
            for key, value in zip(words[width - 2 :: width], found, strict=True):
                if key and value:
                    yield key, value

    def lookup(self, address: int, name: str) -> int:
        """Return the value under a text key of a dict; 0 when there is none."""
        length = len(name)
        for key, value in self.items(address):
            # Most keys differ in length: only the others are worth reading.
            if self.memory.word(key + at.TEXT_LENGTH) == length and self.text_or(key) == name:
                return value
        return 0

    def named_items(self, address: int, limit: int = _CHUNK) -> dict[str, int]:
        """Return the items of a dict whose keys are texts."""
        found: dict[str, int] = {}
        for key, value in self.items(address, limit):
            name = self.text_or(key)
            if name:
                found[name] = value
        return found

    def elements(self, address: int, limit: int = _MAX_ITEMS) -> list[int]:
        """Return the elements of a list, tuple, set, frozenset or deque."""
        kind = self.type_of(address)
        if kind.flags & at.FLAG_TUPLE:
            return self._array(address + at.TUPLE_ITEMS, self._size(address), limit)
        if kind.flags & at.FLAG_LIST:
            start = self.memory.word(address + at.LIST_ITEMS)
            return self._array(start, self._size(address), limit)
        if "collections.deque" in kind.bases:
            return self._deque(address, limit)
        if not {"builtins.set", "builtins.frozenset"}.isdisjoint(kind.bases):
            return self._set(address, limit)
        raise Unreadable

    def element(self, address: int, index: int) -> int:
        """Return one element of a list or tuple."""
        found = self.elements(address, index + 1)
        if len(found) <= index:
            raise Unreadable
        return found[index]

    def length(self, address: int) -> int:
        """Return how many elements a list, tuple, deque or dict holds."""
        kind = self.type_of(address)
        if kind.flags & at.FLAG_DICT:
            return self.memory.word(address + at.DICT_USED)
        return self._size(address)

    def _size(self, address: int) -> int:
        size = self.memory.word(address + at.OBJECT_SIZE)
        if size > _MAX_ITEMS:
            raise Unreadable
        return size

    def _array(self, start: int, size: int, limit: int) -> list[int]:
        return list(self.memory.words(start, min(size, limit))) if size else []

    def _set(self, address: int, limit: int) -> list[int]:
        used = self.memory.word(address + at.SET_USED)
        slots = self.memory.word(address + at.SET_MASK) + 1
        if used > slots or slots > _MAX_ITEMS:
            raise Unreadable
        table = self.memory.word(address + at.SET_TABLE)
        words = self.memory.words(table, 2 * slots)
        # An emptied slot keeps a mark whose hash is -1, which no object has.
        pairs = zip(words[::2], words[1::2], strict=True)
        return [key for key, hashed in pairs if key and hashed != (1 << 64) - 1][:limit]

    def _deque(self, address: int, limit: int) -> list[int]:
        left = min(self._size(address), limit)
        block = self.memory.word(address + at.DEQUE_LEFT)
        index = self.memory.word(address + at.DEQUE_LEFT_INDEX)
        found: list[int] = []
        while left > 0:
            if index >= at.DEQUE_BLOCK_ITEMS:
                raise Unreadable
            some = min(left, at.DEQUE_BLOCK_ITEMS - index)
            found += self.memory.words(block + 8 * (1 + index), some)
            block = self.memory.word(block + 8 * (1 + at.DEQUE_BLOCK_ITEMS))
            left, index = left - some, 0
        return found

    # Attributes

    def attribute(self, address: int, name: str) -> int:
        """Return an attribute kept in an instance's dict, values or slots; 0 when unset."""
        kind = self.type_of(address)
        if kind.flags & at.FLAG_MANAGED_DICT:
            values = self.memory.word(address + at.INLINE_VALUES)
            if values:
                index = self._names_of(kind.shared_keys).get(name)
                found = 0 if index is None else self.memory.word(values + 8 * index)
                return found or self._slot(address, kind, name)
        held = self._dict_of(address, kind)
        return (self.lookup(held, name) if held else 0) or self._slot(address, kind, name)

    def attributes(self, address: int) -> dict[str, int]:
        """Return what an instance's dict or inline values hold."""
        kind = self.type_of(address)
        if kind.flags & at.FLAG_MANAGED_DICT:
            values = self.memory.word(address + at.INLINE_VALUES)
            if values:
                names = self._names_of(kind.shared_keys)
                found = self.memory.words(values, 1 + max(names.values(), default=-1))
                return {name: found[index] for name, index in names.items() if found[index]}
        held = self._dict_of(address, kind)
        return self.named_items(held) if held else {}

    def _dict_of(self, address: int, kind: Type) -> int:
        if kind.flags & at.FLAG_MANAGED_DICT:
            return self.memory.word(address + at.MANAGED_DICT)
        offset = kind.dict_offset
        if offset < 0:  # after the items of an object of variable size
            items = abs(self.memory.signed(address + at.OBJECT_SIZE)) * kind.item_bytes
            offset += (kind.basic_bytes + items + 7) & ~7
        return self.memory.word(address + offset) if offset > 0 else 0

    def _names_of(self, keys: int) -> dict[str, int]:
        """The names of the inline values of a class's instances, with their places."""
        if not keys:
            return {}
        count = self.memory.word(keys + at.KEYS_ENTRIES)
        known = self._shared_names.get(keys)
        if known is None:
            log2_bytes = self.memory.byte(keys + at.KEYS_LOG2_INDEX_BYTES)
            if count > 64 or log2_bytes > 16:
                raise Unreadable
            start = keys + at.KEYS_INDEX + (1 << log2_bytes)
            listed = self.memory.words(start, 2 * count)[::2] if count else ()
            known = {self.text_or(key): place for place, key in enumerate(listed)}
            self._shared_names[keys] = known
        return known

    def _slot(self, address: int, kind: Type, name: str) -> int:
        offset = self._slots.get((kind.address, name))
        if offset is None:
            offset = self._slots[kind.address, name] = self._slot_offset(kind, name)
        return self.memory.word(address + offset) if offset else 0

    def _slot_offset(self, kind: Type, name: str) -> int:
        mro = self.memory.word(kind.address + at.TYPE_MRO)
        for base in self.elements(mro, _MAX_BASES) if mro else []:
            held = self.memory.word(base + at.TYPE_DICT)
            found = self.lookup(held, name) if held else 0
            if found and self.is_a(found, "builtins.member_descriptor"):
                member = self.memory.word(found + at.DESCRIPTOR_MEMBER)
                offset = self.memory.signed(member + at.MEMBER_OFFSET)
                return offset if 0 < offset < kind.basic_bytes else 0
        return 0
