"""What a call has entered and not left: the objects of its `with` blocks.

Secret: the exit function that `with` leaves on the value stack, found exactly, by the depth that
the exception table states for the handler of the block. A call that stands on the entry of a block
is not yet guarded by it, so who waits for a lock is never taken for its holder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autopsy.cpython import layout as at
from autopsy.cpython.frame import Frame
from autopsy.cpython.objects import Objects
from autopsy.cpython.reader import Unreadable

EXITS = ("__exit__", "__aexit__")


@dataclass(frozen=True, slots=True)
class Entered:
    """An object whose block a call is in, and the line of that `with`."""

    address: int
    frame: Frame
    line: int


def entered(objects: Objects, frame: Frame) -> Iterator[Entered]:
    """Yield what the `with` blocks around the current instruction have entered, innermost first."""
    blocks = frame.code.blocks(frame.offset)
    if not blocks:
        return
    stack = frame.stack()
    for block in blocks:
        if not 0 < block.depth <= len(stack):
            continue
        owner = bound_to(objects, stack[block.depth - 1], *EXITS)
        if owner:
            yield Entered(owner, frame, frame.code.line(block.target))


def bound_to(objects: Objects, address: int, *names: str) -> int:
    """Return the object that a bound method of one of these names belongs to; 0 if it is none."""
    memory = objects.memory
    try:
        kind = objects.type_of(address).name
        if kind == "builtins.builtin_function_or_method":
            definition = memory.word(address + at.BUILTIN_DEFINITION)
            name = memory.string(memory.word(definition), 64)
            return memory.word(address + at.BUILTIN_SELF) if name in names else 0
        if kind == "builtins.method":
            function = memory.word(address + at.METHOD_FUNCTION)
            return (
                memory.word(address + at.METHOD_SELF)
                if function_name(objects, function) in names
                else 0
            )
    except Unreadable:
        return 0
    return 0


def function_name(objects: Objects, address: int) -> str:
    """Return the name of a Python function; empty when it is something else."""
    try:
        if not objects.is_a(address, "builtins.function"):
            return ""
        code = objects.memory.word(address + at.FUNCTION_CODE)
        return objects.text(objects.memory.word(code + at.CODE_NAME))
    except Unreadable:
        return ""
