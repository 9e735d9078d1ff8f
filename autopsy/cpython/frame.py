"""The calls of threads and the suspended ones of coroutines: code, line, locals, value stack.

Secret: the interpreter's frames. Invariant: what is left over in a slot above the top of a running
frame's stack may be read as a value; who uses one asks what it is and whether it makes sense.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from autopsy.cpython import layout as at
from autopsy.cpython.bytecode import LockCall, lock_calls
from autopsy.cpython.codetable import Handler, guards, handlers, line_at
from autopsy.cpython.objects import Objects
from autopsy.cpython.reader import Unreadable
from autopsy.section import Payload

_MAX_SLOTS = 4096
_MAX_CODE = 1 << 20
# PUSH_EXC_INFO, WITH_EXCEPT_START: neither has a specialised form.
_WITH_HANDLER = (35, 49)
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
    _lines_known: dict[int, int] = field(default_factory=dict, repr=False, compare=False)
    _blocks_known: dict[int, tuple[Handler, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def handlers(self) -> list[Handler]:
        return handlers(self.exceptions)

    def line(self, offset: int) -> int:
        """Return the line of an instruction, or the first of the function when it has none."""
        known = self._lines_known.get(offset)
        if known is None:
            known = line_at(self.lines, self.first_line, offset) or self.first_line
            self._lines_known[offset] = known
        return known

    def blocks(self, offset: int) -> tuple[Handler, ...]:
        """Return the handlers of the `with` blocks around an instruction, innermost first."""
        known = self._blocks_known.get(offset)
        if known is None:
            around = guards(self.handlers, offset)
            known = tuple(one for one in around if self._begins(one.target, _WITH_HANDLER))
            self._blocks_known[offset] = known
        return known

    @cached_property
    def lock_calls(self) -> tuple[LockCall, ...]:
        return lock_calls(self.instructions, self.names, self.slot_names)

    def _begins(self, offset: int, opcodes: tuple[int, ...]) -> bool:
        found = self.instructions[offset : offset + 2 * len(opcodes) : 2]
        return tuple(found) == opcodes


class Frame:
    """One call: where it stands and what it can see."""

    __slots__ = ("_objects", "address", "code", "offset", "previous", "top")

    def __init__(
        self, objects: Objects, address: int, code: Code, offset: int, previous: int, top: int
    ) -> None:
        self._objects = objects
        self.address = address
        self.code = code
        self.offset = offset
        self.previous = previous
        self.top = top

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

    def values(self) -> tuple[int, ...]:
        """Return what a suspended call refers to: its variables as they lie, then its stack."""
        count = min(self.top, len(self.code.slot_names) + self.code.stack_size)
        start = self.address + at.FRAME_SLOTS
        return self._objects.memory.words(start, count) if count else ()

    def stack(self) -> list[int]:
        """Return the value stack from the bottom; in a running frame with left-overs on top."""
        base, depth = len(self.code.slot_names), self.code.stack_size
        if base <= self.top <= base + depth:
            depth = self.top - base
        start = self.address + at.FRAME_SLOTS + 8 * base
        return list(self._objects.memory.words(start, depth)) if depth > 0 else []

    def top_value(self) -> int:
        """Return what lies on top of the stack of a suspended call."""
        base = len(self.code.slot_names)
        if not base < self.top <= base + self.code.stack_size:
            raise Unreadable
        return self._objects.memory.word(self.address + at.FRAME_SLOTS + 8 * (self.top - 1))

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
        self.objects = objects
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
            address = frame.previous

    def frame(self, address: int) -> Frame:
        """Return the call whose frame lies at an address."""
        where, _, previous, instruction, top = self._memory.words(address + at.FRAME_CODE, 5)
        code = self._codes.get(where) or self.code(where)
        offset = instruction - where - at.CODE_BYTES
        if not -2 <= offset < len(code.instructions):
            raise Unreadable
        # The four bytes of the top are followed by flags; no top at all reads as a huge one.
        return Frame(self.objects, address, code, offset, previous, top & 0xFFFFFFFF)

    def suspended(self, generator: int) -> Frame:
        """Return the call of a generator or coroutine that waits to go on."""
        if self.state(generator) != at.STATE_SUSPENDED:
            raise Unreadable
        return self.frame(generator + at.GENERATOR_FRAME)

    def state(self, generator: int) -> int:
        """Return where a generator or coroutine is in its life, by the numbers of `layout`."""
        state = self._memory.byte(generator + at.GENERATOR_STATE)
        return state - 256 if state > 127 else state

    def code(self, address: int) -> Code:
        """Return a code object."""
        known = self._codes.get(address)
        if known is None:
            if not self.objects.is_a(address, "builtins.code"):
                raise Unreadable
            known = self._codes[address] = self._read_code(address)
        return known

    def _read_code(self, address: int) -> Code:
        objects, memory = self.objects, self._memory
        size = memory.word(address + at.CODE_SIZE) * 2
        slots = memory.int32(address + at.CODE_SLOTS)
        stack_size = memory.int32(address + at.CODE_STACK)
        if size > _MAX_CODE or not 0 <= slots < _MAX_SLOTS or not 0 <= stack_size < _MAX_SLOTS:
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
            stack_size=stack_size,
            lines=objects.binary(memory.word(address + at.CODE_LINES)),
            exceptions=objects.binary(memory.word(address + at.CODE_EXCEPTIONS)),
            instructions=memory.read(address + at.CODE_BYTES, size),
            names=self._texts(address + at.CODE_NAMES),
        )

    def _texts(self, field_address: int) -> tuple[str, ...]:
        objects = self.objects
        listed = objects.elements(self._memory.word(field_address), _MAX_SLOTS)
        return tuple(objects.text_or(one) for one in listed)
