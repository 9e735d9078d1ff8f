"""What a stack's files and source lines tell: whose code a frame is, and which locks it is under.

Secret: the marks of installed code and the look of `with`. Pure: text in, words out.
"""

from __future__ import annotations

import re

# The standard library, installed packages, the interpreter's own frozen modules.
# Neither is what calls the bodies of tasks, also where it is no installed package.
_FOREIGN = re.compile(
    r"/lib(?:64)?/python\d|/(?:site|dist)-packages/|^<frozen |python\d+\.zip/|/supervisor/worker/"
)
_BLOCK = re.compile(r"(?:async )?with (.+):")
_FUNCTION = ("def ", "async def ", "class ")
_LOOP = ("while ", "for ", "async for ")
# Heads of loops that end by nothing in their condition.
ENDLESS = ("while True", "while 1")
_WAY_OUT = " (with a way out)"
_LEAVES = re.compile(r"(?:^|[:;])\s*(break|return|raise)\b")
_MAX_LINES_UP = 400
_TAKEN = re.compile(r"(?:with |\()?\s*([A-Za-z_][\w.]*)\.acquire\(|^with ([A-Za-z_][\w.]*)")


def is_own(file: str) -> bool:
    """Return whether a Python file is the program's own, neither the library nor a package."""
    return not _FOREIGN.search(file)


def blocks_around(lines: list[str], number: int) -> list[str]:
    """Return what the `with` blocks around a line (from 1) have entered, innermost first."""
    if not 0 < number <= len(lines):
        return []
    found: list[str] = []
    depth = _depth(lines[number - 1])
    for line in reversed(lines[max(0, number - 1 - _MAX_LINES_UP) : number - 1]):
        text = line.strip()
        if not text or text.startswith("#") or _depth(line) >= depth:
            continue
        depth = _depth(line)
        entered = _BLOCK.fullmatch(text.partition("  #")[0].rstrip())
        if entered:
            found += [part.partition(" as ")[0].strip() for part in entered[1].split(",")][::-1]
        if text.startswith(_FUNCTION) or not depth:
            break
    return found


def loop_around(lines: list[str], number: int) -> str:
    """Return the head of the innermost loop around a line (from 1), without its colon.

    Of a `while True` that has a way out the head says so; empty when there is no loop.
    """
    if not 0 < number <= len(lines):
        return ""
    at, depth = number - 1, _depth(lines[number - 1])
    if not lines[at].strip().startswith(_LOOP):
        at = _loop_above(lines, at, depth)
    if at < 0:
        return ""
    head = re.split(r":(?:\s|$)", lines[at].strip())[0]
    return head + _WAY_OUT if head in ENDLESS and _has_way_out(lines, at) else head


def _loop_above(lines: list[str], at: int, depth: int) -> int:
    for index in range(at - 1, max(-1, at - _MAX_LINES_UP), -1):
        text = lines[index].strip()
        if not text or text.startswith("#") or _depth(lines[index]) >= depth:
            continue
        depth = _depth(lines[index])
        if text.startswith(_LOOP):
            return index
        if text.startswith(_FUNCTION) or not depth:
            return -1
    return -1


def _has_way_out(lines: list[str], at: int) -> bool:
    """Whether a `break`, `return` or `raise` leaves the loop whose head is at `at`."""
    if _LEAVES.search(lines[at].partition("#")[0].partition(":")[2]):
        return True
    # The loops and functions in it that a line is in; a `break` leaves the innermost loop only.
    around: list[tuple[int, bool]] = []
    for line in lines[at + 1 : at + _MAX_LINES_UP]:
        text, depth = line.partition("#")[0].strip(), _depth(line)
        if not text:
            continue
        if depth <= _depth(lines[at]):
            return False
        around = [one for one in around if one[0] < depth]
        if text.startswith((*_FUNCTION, *_LOOP)):
            around.append((depth, text.startswith(_FUNCTION)))
        leaves = set(_LEAVES.findall(text)) - ({"break"} if around else set())
        if leaves and not any(is_function for _, is_function in around):
            return True
    return False


def lock_taken(line: str) -> str:
    """Return the name of the lock that a source line takes; empty when it names none."""
    match = _TAKEN.search(line)
    return (match[1] or match[2]) if match else ""


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
