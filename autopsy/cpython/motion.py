"""Where threads are at many moments: what moves, and what stands on one instruction all the time.

Secret: a look past the cache at the interpreter's own pointers, some 20 µs per thread. Two stacks a
quarter of a second apart cannot tell a loop of one line from one endless C call; the instruction
that the interpreter stands on can.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from autopsy import clock
from autopsy.cpython import layout as at
from autopsy.cpython.bytecode import is_instant
from autopsy.cpython.frame import Code
from autopsy.cpython.interpreter import Interpreter, Thread
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.section import Payload
from autopsy.source import is_own

LOOKS = 24
# Not a divisor of the 5 ms in which the GIL changes hands.
_APART_S = 0.0087
_MAX_THREADS = 64
_MAX_CALLS = 16
_MAX_PLACES = 6
_FRAME_BYTES = 72

# A call as it is seen in passing: the address of its code and of its instruction.
Place = tuple[int, int]


@dataclass(slots=True)
class _Track:
    """What was seen of one thread."""

    thread: Thread
    stacks: Counter[tuple[Place, ...]] = field(default_factory=Counter)


def collect(interpreter: Interpreter) -> Payload:
    """Look at every thread many times.

    Shapes: threads (tid, looks, instructions = distinct innermost ones, stacks = distinct ones,
    most = looks at the instruction seen most often, calls = whether that one can run native code
    for long, instant = looks at instructions that cannot, places = the program's own lines with
    looks).
    """
    tracks = [_Track(one) for one in interpreter.threads[:_MAX_THREADS]]
    try:
        for _ in range(LOOKS):
            interpreter.memory.must_go_on()
            for track in tracks:
                stack = _look(interpreter, track.thread.address)
                if stack:
                    track.stacks[stack] += 1
            clock.sleep(_APART_S)
    except OutOfTime:
        pass  # fewer looks; how many they were is told
    return {"threads": [_entry(interpreter, track) for track in tracks if track.stacks]}


def _look(interpreter: Interpreter, thread: int) -> tuple[Place, ...]:
    """Return where a thread is right now, innermost first; torn ends are cut off."""
    fetch = interpreter.memory.fetch
    cframe = int.from_bytes(fetch(thread + at.THREAD_CFRAME, 8), "little")
    frame = int.from_bytes(fetch(cframe + at.CFRAME_FRAME, 8), "little")
    found: list[Place] = []
    while frame and len(found) < _MAX_CALLS:
        packed = fetch(frame, _FRAME_BYTES)
        if len(packed) < _FRAME_BYTES:
            break
        code, previous, instruction = (
            int.from_bytes(packed[where : where + 8], "little")
            for where in (at.FRAME_CODE, at.FRAME_PREVIOUS, at.FRAME_INSTRUCTION)
        )
        found.append((code, instruction))
        frame = previous
    return tuple(found)


def _entry(interpreter: Interpreter, track: _Track) -> Payload:
    codes = {code: _code(interpreter, code) for stack in track.stacks for code, _ in stack}
    # What was torn names a code that is none.
    whole = {stack: n for stack, n in track.stacks.items() if codes[stack[0][0]] is not None}
    innermost: Counter[Place] = Counter()
    own: Counter[tuple[str, str, int]] = Counter()
    for stack, count in whole.items():
        innermost[stack[0]] += count
        place = _own_place(stack, codes)
        if place is not None:
            own[place] += count
    instant = sum(
        count
        for (code, instruction), count in innermost.items()
        if not _can_take_long(codes[code], instruction)
    )
    best, most = next(iter(innermost.most_common(1)), ((0, 0), 0))
    return {
        "tid": track.thread.tid,
        "looks": sum(whole.values()),
        "instructions": len(innermost),
        "stacks": len(whole),
        "most": most,
        "instant": instant,
        "calls": _can_take_long(codes.get(best[0]), best[1]),
        "places": [
            {"function": function, "file": file, "line": line, "looks": count}
            for (function, file, line), count in own.most_common(_MAX_PLACES)
        ],
    }


def _can_take_long(code: Code | None, instruction: int) -> bool:
    """Whether the interpreter may be in native code in this instruction: a call, an operator."""
    if code is None:
        return True
    return not is_instant(code.instructions, instruction - code.address - at.CODE_BYTES)


def _own_place(
    stack: tuple[Place, ...], codes: dict[int, Code | None]
) -> tuple[str, str, int] | None:
    for address, instruction in stack:
        code = codes[address]
        if code is not None and is_own(code.file):
            offset = instruction - code.address - at.CODE_BYTES
            inside = -2 <= offset < len(code.instructions)
            return code.qualname, code.file, code.line(offset) if inside else code.first_line
    return None


def _code(interpreter: Interpreter, address: int) -> Code | None:
    try:
        return interpreter.frames.code(address)
    except (Unreadable, OutOfTime):
        return None
