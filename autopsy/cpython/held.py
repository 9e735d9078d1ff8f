"""What a call has entered and not left, what it has taken and not given back.

Secret: the exit function that `with` leaves on the value stack, found exactly, by the depth that
the exception table states for the handler of the block. A call that stands on the entry of a block
is not yet guarded by it, so who waits for a lock is never taken for its holder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autopsy.cpython import layout as at
from autopsy.cpython.bytecode import GIVING, LockCall, standing
from autopsy.cpython.frame import Frame, Frames
from autopsy.cpython.objects import Objects
from autopsy.cpython.reader import Unreadable

EXITS = ("__exit__", "__aexit__")
_GENERATOR_MANAGERS = (
    "contextlib._GeneratorContextManager",
    "contextlib._AsyncGeneratorContextManager",
)
_STACKS = ("contextlib.ExitStack", "contextlib.AsyncExitStack")
_MAX_CALLBACKS = 100
_MAX_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Held:
    """An object that a call holds, and the line where it took it.

    `certain` when it is in the object's `with` block; else it went past an `acquire()` of it, which
    is `answered` by a `release()` further on, or is not.
    """

    address: int
    frame: Frame
    line: int
    certain: bool = True
    answered: bool = True


def entered(objects: Objects, frame: Frame) -> Iterator[Held]:
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
            yield Held(owner, frame, frame.code.line(block.target))


def held(frames: Frames, frame: Frame, depth: int = 0) -> Iterator[Held]:
    """Yield all that a call holds, also through managers of contexts that hold something."""
    for block in entered(frames.objects, frame):
        yield block
        for address, certain in _within(frames, block.address, depth):
            yield Held(address, frame, block.line, certain)
    for call in standing(frame.code.lock_calls, frame.offset):
        address = _resolve(frames.objects, frame, call)
        if address:
            line = frame.code.line(call.offset)
            yield Held(address, frame, line, certain=False, answered=call.answered)


def _within(frames: Frames, manager: int, depth: int) -> Iterator[tuple[int, bool]]:
    """Yield what a stack of exits or a generator with `@contextmanager` holds in its turn."""
    objects = frames.objects
    if depth >= _MAX_DEPTH:
        return
    try:
        if objects.is_a(manager, *_GENERATOR_MANAGERS):
            generator = frames.suspended(objects.attribute(manager, "gen"))
            for one in held(frames, generator, depth + 1):
                yield one.address, one.certain
        elif objects.is_a(manager, *_STACKS):
            callbacks = objects.attribute(manager, "_exit_callbacks")
            for pair in objects.elements(callbacks, _MAX_CALLBACKS):
                owner = _owner_of_exit(objects, objects.element(pair, 1))
                yield owner, True
                yield from _within(frames, owner, depth + 1)
    except Unreadable:
        return


def _owner_of_exit(objects: Objects, callback: int) -> int:
    """Return whose exit a callback is: the method of a manager, or a wrapped `lock.release`."""
    owner = bound_to(objects, callback, *EXITS)
    if not owner and objects.is_a(callback, "builtins.function"):
        freed = (bound_to(objects, one, *GIVING) for one in captured(objects, callback))
        owner = next((one for one in freed if one), 0)
    return owner


def _resolve(objects: Objects, frame: Frame, call: LockCall) -> int:
    """Return the object that the expression of a call names where it stands; 0 without one."""
    try:
        first, *attributes = call.path
        address = 0 if call.is_global else frame.locals().get(first, 0)
        if call.is_global:
            address = objects.lookup(frame.globals, first)
        for name in attributes:
            address = objects.attribute(address, name) if address else 0
    except Unreadable:
        return 0
    return address


def bound_to(objects: Objects, address: int, *names: str) -> int:
    """Return the object that a bound method of one of these names belongs to; 0 if it is none.

    Without names, that of any method.
    """
    memory = objects.memory
    try:
        if objects.is_a(address, "builtins.builtin_function_or_method"):
            definition = memory.word(address + at.BUILTIN_DEFINITION)
            name = memory.string(memory.word(definition), 64)
            return memory.word(address + at.BUILTIN_SELF) if not names or name in names else 0
        if objects.is_a(address, "builtins.method"):
            function = memory.word(address + at.METHOD_FUNCTION)
            matches = not names or function_name(objects, function) in names
            return memory.word(address + at.METHOD_SELF) if matches else 0
    except Unreadable:
        return 0
    return 0


def function_name(objects: Objects, address: int) -> str:
    """Return the name of a function, also of one that C code defines for a type."""
    try:
        if objects.is_a(address, "builtins.function"):
            code = objects.memory.word(address + at.FUNCTION_CODE)
            return objects.text(objects.memory.word(code + at.CODE_NAME))
        if objects.is_a(address, "builtins.method_descriptor", "builtins.wrapper_descriptor"):
            return objects.text(objects.memory.word(address + at.DESCRIPTOR_NAME))
    except Unreadable:
        return ""
    return ""


def captured(objects: Objects, function: int) -> list[int]:
    """Return what a function has captured from the functions around it."""
    closure = objects.memory.word(function + at.FUNCTION_CLOSURE)
    cells = objects.elements(closure, _MAX_CALLBACKS) if closure else []
    return [objects.memory.word(cell + at.CELL_VALUE) for cell in cells]
