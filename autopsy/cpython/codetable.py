"""The two tables of a code object of 3.11: which line an instruction is on, which `try` guards it.

Secret: their variable-length encodings. Pure: bytes in, numbers out; a torn table ends early.
Source: Objects/locations.md and Objects/exception_handling_notes.txt of CPython 3.11.
"""

from __future__ import annotations

from dataclasses import dataclass

# Location codes: what follows the first byte of an entry.
_TWO_COLUMNS, _SAME_LINE_LONG, _LONG, _NONE = 10, 13, 14, 15
_MAX_NESTING = 64


@dataclass(frozen=True, slots=True)
class Handler:
    """Where control goes when a guarded instruction raises: `target` in bytes of code.

    `depth` is how many values stay on the stack; a `with` keeps its exit function as the last.
    """

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


def line_at(table: bytes, first_line: int, offset: int) -> int:
    """Return the line of the instruction at an offset in bytes; 0 when it has none."""
    line, position, at = first_line, 0, 0
    while at < len(table):
        head = table[at]
        if not head & 0x80:
            return 0  # not the beginning of an entry: torn
        code, end = head >> 3 & 15, position + 2 * ((head & 7) + 1)
        line += _line_delta(table, at + 1, code)
        if position <= offset < end:
            return 0 if code == _NONE else line
        position, at = end, at + 1
        while at < len(table) and not table[at] & 0x80:
            at += 1
    return 0


def _line_delta(table: bytes, at: int, code: int) -> int:
    if code in (_SAME_LINE_LONG, _LONG):
        value, shift = 0, 0
        for byte in table[at : at + 6]:
            value |= (byte & 63) << shift
            shift += 6
            if not byte & 64:
                break
        return -(value >> 1) if value & 1 else value >> 1
    return code - _TWO_COLUMNS if _TWO_COLUMNS <= code < _SAME_LINE_LONG else 0


def handlers(table: bytes) -> list[Handler]:
    """Return every entry of an exception table, in the order of the code."""
    found: list[Handler] = []
    at = 0
    while at < len(table):
        numbers = []
        for _ in range(4):
            value, at = _number(table, at)
            numbers.append(value)
        start, length, target, depth = numbers
        found.append(
            Handler(2 * start, 2 * (start + length), 2 * target, depth >> 1, bool(depth & 1))
        )
    return found


def _number(table: bytes, at: int) -> tuple[int, int]:
    """Return a number of six bits a byte, the highest first, and where the next one begins."""
    value = 0
    while at < len(table):
        byte = table[at]
        at += 1
        value = value << 6 | byte & 63
        if not byte & 64:
            break
    return value, at


def guards(found: list[Handler], offset: int) -> list[Handler]:
    """Return the handlers an instruction stands under, innermost first."""
    chain: list[Handler] = []
    while len(chain) < _MAX_NESTING:
        handler = next((one for one in found if one.start <= offset < one.end), None)
        if handler is None or handler in chain:
            break
        chain.append(handler)
        # A handler is guarded by what is around its block, and nothing else is.
        offset = handler.target
    return chain
