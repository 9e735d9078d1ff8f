"""The calls of threads and the suspended ones of coroutines: code, line, locals, value stack.

Secret: the interpreter's frames. Invariant: what is left over in a slot above the top of a running
frame's stack may be read as a value; who uses one asks what it is and whether it makes sense.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from autopsy.cpython import layout as at
from autopsy.cpython.codetable import Handler, guards, handlers, line_at
from autopsy.cpython.objects import Objects
from autopsy.cpython.reader import Unreadable
from autopsy.section import Payload

_MAX_SLOTS = 4096
_MAX_CODE = 1 << 20
# What a suspended call waits for is asked of the one that it awaits, and so on.
MAX_AWAITED = 200


@dataclass(frozen=True)
class Code:
    """A code object; offsets in it are in bytes."""

    address: int
    name: str
    qualname: str
    file: str
    first_line: int
    flags: int
    slot_names: tuple[str, ...]
    slot_kinds: bytes
    stack_size: int
    lines: bytes
    exceptions: bytes
    instructions: bytes
    names: tuple[str, ...]
    _line_cache: dict[int, int] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def handlers(self) -> list[Handler]:
        return handlers(self.exceptions)

    def line(self, offset: int) -> int:
        """Return the line of an instruction, or the first of the function when it has none."""
        known = self._line_cache.get(offset)
        if known is None:
            known = line_at(self.lines, self.first_line, offset) or self.first_line
            self._line_cache[offset] = known
        return known

    def opcode(self, offset: int) -> int:
        """Return the instruction at an offset; -1 outside of the code."""
        inside = 0 <= offset < len(self.instructions)
        return self.instructions[offset] if inside else -1


class Frame:
    """One call: where it stands and what it can see."""

    __slots__ = ("_objects", "address", "code", "offset")

    def __init__(self, objects: Objects, address: int, code: Code, offset: int) -> None:
        self._objects = objects
        self.address = address
        self.code = code
        self.offset = offset

    @property
    def line(self) -> int:
        """The line it stands on."""
        return self.code.line(self.offset)

    @property
    def globals(self) -> int:
        """The dict of its module."""
        return self._objects.memory.word(self.address + at.FRAME_GLOBALS)

    def is_in(self, file: str, *functions: str) -> bool:
        """Return whether it is one of these functions of a file that ends so."""
        return self.code.name in functions and self.code.file.endswith(file)

    def locals(self) -> dict[str, int]:
        """Return the local and captured variables that are set."""
        objects, code = self._objects, self.code
        count = len(code.slot_names)
        slots = objects.memory.words(self.address + at.FRAME_SLOTS, count) if count else ()
        found: dict[str, int] = {}
        for name, value, kind in zip(code.slot_names, slots, code.slot_kinds, strict=False):
            held = value
            if kind & (at.KIND_CELL | at.KIND_FREE) and objects.is_a(value, "builtins.cell"):
                held = objects.memory.word(value + at.CELL_VALUE)
            if held:
                found[name] = held
        if not count:  # a module or the body of a class
            held = objects.memory.word(self.address + at.FRAME_LOCALS)
            return objects.named_items(held) if held else {}
        return found

    def local(self, name: str) -> int:
        """Return a local variable; 0 when it is unset or unreadable."""
        try:
            return self.locals().get(name, 0)
        except Unreadable:
            return 0

    def stack(self) -> list[int]:
        """Return the value stack from the bottom; in a running frame with left-overs on top."""
        memory, base = self._objects.memory, len(self.code.slot_names)
        top = memory.int32(self.address + at.FRAME_STACKTOP)
        depth = top - base if top >= base else self.code.stack_size
        if depth > _MAX_SLOTS:
            raise Unreadable
        start = self.address + at.FRAME_SLOTS + 8 * base
        return list(memory.words(start, depth)) if depth > 0 else []

    def guards(self) -> list[Handler]:
        """Return the handlers it stands under, innermost first."""
        return guards(self.code.handlers, self.offset)

    def payload(self, line: int = 0) -> Payload:
        """Return it as the sections write it, at another line if one is given."""
        return {
            "function": self.code.qualname,
            "file": self.code.file,
            "line": line or self.line,
        }


class Frames:
    """The frames in one memory."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._memory = objects.memory
        self._codes: dict[int, Code] = {}

    def calls(self, address: int, limit: int) -> Iterator[Frame]:
        """Yield a running call and those it was called from, innermost first."""
        seen: set[int] = set()
        while address and address not in seen and len(seen) < limit:
            seen.add(address)
            frame = self.frame(address)
            # One whose first instruction has not run has no variables yet.
            if frame.offset >= 0:
                yield frame
            address = self._memory.word(address + at.FRAME_PREVIOUS)

    def frame(self, address: int) -> Frame:
        """Return the call whose frame lies at an address."""
        code = self.code(self._memory.word(address + at.FRAME_CODE))
        instruction = self._memory.word(address + at.FRAME_INSTRUCTION)
        offset = instruction - code.address - at.CODE_BYTES
        if not -2 <= offset < len(code.instructions):
            raise Unreadable
        return Frame(self._objects, address, code, offset)

    def code(self, address: int) -> Code:
        """Return a code object."""
        known = self._codes.get(address)
        if known is None:
            if not self._objects.is_a(address, "builtins.code"):
                raise Unreadable
            known = self._codes[address] = self._read_code(address)
        return known

    def _read_code(self, address: int) -> Code:
        objects, memory = self._objects, self._memory
        size = memory.word(address + at.CODE_SIZE) * 2
        slots = memory.int32(address + at.CODE_SLOTS)
        if size > _MAX_CODE or not 0 <= slots < _MAX_SLOTS:
            raise Unreadable
        return Code(
            address=address,
            name=objects.text(memory.word(address + at.CODE_NAME)),
            qualname=objects.text(memory.word(address + at.CODE_QUALNAME)),
            file=objects.text(memory.word(address + at.CODE_FILE)),
            first_line=memory.int32(address + at.CODE_FIRST_LINE),
            flags=memory.int32(address + at.CODE_FLAGS),
            slot_names=self._texts(address + at.CODE_SLOT_NAMES),
            slot_kinds=objects.binary(memory.word(address + at.CODE_SLOT_KINDS)),
            stack_size=memory.int32(address + at.CODE_STACK),
            lines=objects.binary(memory.word(address + at.CODE_LINES)),
            exceptions=objects.binary(memory.word(address + at.CODE_EXCEPTIONS)),
            instructions=memory.read(address + at.CODE_BYTES, size),
            names=self._texts(address + at.CODE_NAMES),
        )

    def _texts(self, field_address: int) -> tuple[str, ...]:
        objects = self._objects
        listed = objects.elements(self._memory.word(field_address), _MAX_SLOTS)
        return tuple(objects.text_or(one) for one in listed)
