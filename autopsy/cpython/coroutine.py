"""The chain of awaits of a suspended coroutine, from the outermost call to what all of it awaits.

Secret: a suspended call keeps what it awaits on top of its value stack, through the wrappers that
`await` puts around coroutines, futures and asynchronous generators.
"""

from __future__ import annotations

from dataclasses import dataclass

from autopsy.cpython import layout as at
from autopsy.cpython.frame import MAX_AWAITED, Frame
from autopsy.cpython.interpreter import Interpreter

_CALLS = ("builtins.coroutine", "builtins.generator", "builtins.async_generator")
# What stands between a call and the one that it awaits; all keep it in the same place.
_WRAPPERS = (
    "builtins.coroutine_wrapper",
    "builtins.async_generator_asend",
    "builtins.async_generator_athrow",
    "_asyncio.FutureIter",
)


@dataclass(frozen=True, slots=True)
class Chain:
    """The calls of a coroutine, outermost first, and the object that the innermost one awaits.

    `end` is 0 when it runs, has not begun or has ended.
    """

    calls: tuple[Frame, ...]
    end: int
    running: bool


def follow(interpreter: Interpreter, coroutine: int) -> Chain:
    """Return the chain that begins with a coroutine."""
    objects, memory = interpreter.objects, interpreter.memory
    calls: list[Frame] = []
    one = coroutine
    for _ in range(MAX_AWAITED):
        if not one:
            break
        name = objects.type_of(one).name
        if name in _WRAPPERS:
            one = memory.word(one + at.WRAPPED)
            continue
        if name not in _CALLS:
            return Chain(tuple(calls), one, running=False)
        state = interpreter.frames.state(one)
        if state > at.STATE_EXECUTING:
            break  # it has ended
        calls.append(interpreter.frames.frame(one + at.GENERATOR_FRAME))
        if state == at.STATE_EXECUTING:
            inner = _running_inside(interpreter, calls[-1].address)
            return Chain((*calls, *inner), 0, running=True)
        one = calls[-1].top_value() if state == at.STATE_SUSPENDED else 0
    return Chain(tuple(calls), 0, running=False)


def _running_inside(interpreter: Interpreter, address: int) -> tuple[Frame, ...]:
    """Return the calls that a running one has made, outermost first."""
    for thread in interpreter.threads:
        for index, frame in enumerate(thread.calls):
            if frame.address == address:
                return thread.calls[:index][::-1]
    return ()
