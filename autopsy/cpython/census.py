"""Finding objects by their class, among all that the garbage collector keeps in its lists.

Secret: the walk along those lists, some 0.2 µs an object, so that a million take a quarter of a
second. A list torn by the patient ends early, which `partial` tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from autopsy import clock
from autopsy.cpython import layout as at
from autopsy.cpython.interpreter import Interpreter
from autopsy.cpython.reader import Memory, Unreadable

_BITS = 16
_BLOCK = 1 << _BITS
# Kept until there are so many; neighbours in a list are mostly neighbours in memory.
_MAX_VIEWS = 2048
_MAX_OBJECTS = 100_000_000
_LOOK_AT_CLOCK = 1 << 12
_MAX_FOUND = 10_000
_MAX_SUBCLASSES = 1000


@dataclass(slots=True)
class Found:
    """The objects of some classes; `seen` is how many of all kinds were passed."""

    objects: list[int] = field(default_factory=list)
    seen: int = 0
    partial: bool = False


def find(interpreter: Interpreter, classes: Iterable[int], until_mono: float) -> Found:
    """Find the objects of exactly these classes until then; oldest generation first."""
    found = Found()
    wanted = frozenset(classes)
    if not wanted:
        return found
    walk = _Walk(interpreter.memory, wanted, min(until_mono, interpreter.memory.deadline_mono))
    for head in reversed(interpreter.generations):
        walk.along(head, found)
    return found


def with_subclasses(interpreter: Interpreter, kind: int) -> set[int]:
    """Return a class and those derived from it."""
    objects, found, todo = interpreter.objects, set[int](), [kind]
    while todo and len(found) < _MAX_SUBCLASSES:
        one = todo.pop()
        if one in found:
            continue
        found.add(one)
        derived = interpreter.memory.word(one + at.TYPE_SUBCLASSES)
        if derived:
            references = (value for _, value in objects.items(derived))
            todo += [interpreter.memory.word(value + at.WEAKREF_OBJECT) for value in references]
    return found


class _Walk:
    """One walk, with the blocks of memory that it passes."""

    def __init__(self, memory: Memory, wanted: frozenset[int], until_mono: float) -> None:
        self._memory = memory
        self._wanted = wanted
        self._until_mono = until_mono
        self._views: dict[int, memoryview] = {}

    def along(self, head: int, found: Found) -> None:
        """Follow one list from its head around to it."""
        wanted, view, current, last = self._wanted, memoryview(b""), -1, -1
        try:
            node = self._memory.word(head)
            seen, start = found.seen, found.seen
            while node != head and seen - start < _MAX_OBJECTS:
                if node >> _BITS != current:
                    current = node >> _BITS
                    view = self._view(current)
                    last = len(view) - 4
                index = (node & _BLOCK - 1) >> 3
                # The head of an object: next, previous; then its count and its type.
                if index <= last:
                    following, kind = view[index], view[index + 3]
                else:
                    following, _, _, kind = self._memory.words(node, 4)
                if kind in wanted:
                    found.objects.append(node + at.GC_HEAD_BYTES)
                seen += 1
                if not seen % _LOOK_AT_CLOCK and self._is_over(found):
                    found.partial = True
                    break
                # While it collects, the collector uses the lowest bits for marks.
                node = following & ~3
            found.seen = seen
        except Unreadable:
            found.partial = True

    def _is_over(self, found: Found) -> bool:
        return clock.mono() > self._until_mono or len(found.objects) > _MAX_FOUND

    def _view(self, number: int) -> memoryview:
        view = self._views.get(number)
        if view is None:
            if len(self._views) >= _MAX_VIEWS:
                self._views.clear()
            block = self._memory.fetch(number << _BITS, _BLOCK)
            view = self._views[number] = memoryview(block[: len(block) & ~7]).cast("Q")
        return view
