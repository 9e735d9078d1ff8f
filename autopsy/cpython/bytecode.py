"""Which locks a function takes and gives back by `acquire()` and `release()`, by its bytecode.

Secret: the instructions of 3.11, in the specialised forms that a running program's code has too.
Pure: what a call looks like is decided here, which object it is about by who can see the frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

_EXTENDED_ARG = 144
_LOAD_FAST, _LOAD_DEREF, _LOAD_CLASSDEREF, _LOAD_GLOBAL, _LOAD_NAME = 124, 137, 148, 116, 101
_LOAD_ATTR, _LOAD_METHOD, _CALL, _GET_AWAITABLE = 106, 160, 171, 131
_LOCALS = (_LOAD_FAST, _LOAD_DEREF, _LOAD_CLASSDEREF)
# The forms that the interpreter puts in the place of an instruction once it runs often.
_SPECIALISED = {
    25: (17, 18, 19, 20, 21),
    60: (168, 169, 170),
    92: (177, 178, 179, 180),
    95: (153, 154, 158, 159),
    106: (39, 40, 41, 42, 43),
    107: (26, 27, 28, 29),
    116: (47, 48, 55),
    122: (3, 4, 5, 6, 7, 8, 13, 14, 16),
    124: (45, 46),
    144: (34,),
    160: (56, 57, 58, 59, 62, 63),
    166: (64, 65, 66, 67, 72, 73, 76, 77, 78, 79, 80, 81, 113, 121, 127, 141, 143),
    171: (22, 23, 24),
}
# Loads of what is there, jumps and the like, specialised forms too: over in a moment, always.
_INSTANT = frozenset(
    b"\x00\x02\x09\x26\x2c\x2d\x2e\x2f\x30\x37\x63\x64\x6e\x6f\x70\x72\x73\x74\x75\x78\x7c"
    b"\x80\x81\x86\x88\x89\x8c\x96\x97\xad\xae\xaf\xb0"
)
# How many code units of cache follow each; the others have none.
_CACHES = {25: 4, 60: 1, 92: 1, 95: 4, 106: 4, 107: 2, 116: 5, 122: 1, 160: 10, 166: 1, 171: 4}
_PLAIN_FORM = {form: plain for plain, forms in _SPECIALISED.items() for form in forms}
# From the call of a coroutine function to the end of the loop that awaits it.
_AWAIT_BYTES = 14
# Arguments of `acquire` stand between its name and its call.
_MAX_ARGUMENTS = 12
TAKING, GIVING = ("acquire", "__enter__"), ("release", "__exit__")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction in its plain form; `end` is where the next one begins."""

    offset: int
    end: int
    opcode: int
    argument: int


@dataclass(frozen=True, slots=True)
class LockCall:
    """A call that takes (or gives back) what an expression like `self.account.lock` names.

    It is over when the code has reached `done`. `answered` when the same code also gives it back.
    """

    takes: bool
    offset: int
    done: int
    is_global: bool
    path: tuple[str, ...]
    answered: bool = False


def is_instant(code: bytes, offset: int) -> bool:
    """Return whether the instruction at an offset can never take long: no call, no operator."""
    return 0 <= offset < len(code) and code[offset] in _INSTANT


def instructions(code: bytes) -> Iterator[Instruction]:
    """Yield the instructions, without their caches, extended arguments put together."""
    offset, start, argument = 0, 0, 0
    while offset + 1 < len(code):
        opcode = _PLAIN_FORM.get(code[offset], code[offset])
        argument = argument << 8 | code[offset + 1]
        offset += 2
        if opcode == _EXTENDED_ARG:
            continue
        offset += 2 * _CACHES.get(opcode, 0)
        yield Instruction(start, offset, opcode, argument)
        start, argument = offset, 0


def lock_calls(
    code: bytes, names: tuple[str, ...], slot_names: tuple[str, ...]
) -> tuple[LockCall, ...]:
    """Return the calls of `acquire` and the like on a named object, in the order of the code."""
    if names and not set(TAKING).isdisjoint(names):
        found = list(_lock_calls(list(instructions(code)), names, slot_names))
        given = {(one.is_global, one.path) for one in found if not one.takes}
        return tuple(replace(one, answered=(one.is_global, one.path) in given) for one in found)
    return ()


def _lock_calls(
    listed: list[Instruction], names: tuple[str, ...], slot_names: tuple[str, ...]
) -> Iterator[LockCall]:
    for index, one in enumerate(listed):
        verb = _name(names, one.argument) if one.opcode == _LOAD_METHOD else ""
        if verb not in TAKING and verb not in GIVING:
            continue
        path = _path(listed, index, names, slot_names)
        following = listed[index : index + _MAX_ARGUMENTS]
        call = next((each for each in following if each.opcode == _CALL), None)
        if not path or call is None:
            continue
        after = next((each for each in listed[index:] if each.offset == call.end), None)
        awaited = after is not None and after.opcode == _GET_AWAITABLE
        yield LockCall(
            takes=verb in TAKING,
            offset=one.offset,
            done=call.end + (_AWAIT_BYTES if awaited else 0),
            is_global=path[0],
            path=path[1],
        )


def _path(
    listed: list[Instruction], index: int, names: tuple[str, ...], slot_names: tuple[str, ...]
) -> tuple[bool, tuple[str, ...]] | None:
    """Return the expression loaded before an instruction, if it is made of names and dots."""
    attributes: list[str] = []
    for one in reversed(listed[:index]):
        if one.opcode == _LOAD_ATTR:
            attributes.insert(0, _name(names, one.argument))
        elif one.opcode in _LOCALS:
            return False, (_name(slot_names, one.argument), *attributes)
        elif one.opcode == _LOAD_GLOBAL:
            # Its lowest bit says whether a NULL is pushed first.
            return True, (_name(names, one.argument >> 1), *attributes)
        elif one.opcode == _LOAD_NAME:
            return True, (_name(names, one.argument), *attributes)
        else:
            return None
    return None


def _name(names: tuple[str, ...], index: int) -> str:
    return names[index] if index < len(names) else ""


def standing(calls: tuple[LockCall, ...], offset: int) -> list[LockCall]:
    """Return the calls that have taken something which none up to an offset has given back."""
    taken: dict[tuple[bool, tuple[str, ...]], LockCall] = {}
    for call in calls:
        if call.done > offset:
            break
        key = call.is_global, call.path
        if call.takes:
            taken[key] = call
        else:
            taken.pop(key, None)
    return list(taken.values())
