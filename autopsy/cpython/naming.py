"""Names for objects that have none: what the program calls a lock.

Secret: where a name is looked for and which of several is the best: a module's variable, then an
attribute of an object, then an element of a container, then whatever a function calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autopsy.cpython import layout as at
from autopsy.cpython.frame import Frame
from autopsy.cpython.objects import Objects
from autopsy.cpython.reader import Unreadable
from autopsy.source import is_own

_GLOBAL, _GLOBAL_ELEMENT, _ATTRIBUTE, _ELEMENT, _LOCAL, _INNER = range(6)
_MAX_ELEMENTS = 1000
_MAX_FRAMES = 2000
_PLAIN = at.FLAG_LONG | at.FLAG_TEXT | at.FLAG_BYTES | at.FLAG_TYPE
_CONTAINERS = at.FLAG_LIST | at.FLAG_TUPLE | at.FLAG_DICT
# Their attributes are not names that the program gave.
_INNER_TYPES = ("threading.", "queue.", "asyncio.", "multiprocessing.", "logging.")
# What a function calls its object says nothing.
_UNTOLD = ("self", "cls")
_SKIPPED = ("builtins.function", "builtins.module", "builtins.code", "builtins.NoneType")
_SKIPPED_MODULES = "concurrent.futures."


class Names:
    """Names of wanted addresses, gathered from the variables that some calls can see."""

    def __init__(self, objects: Objects, wanted: set[int]) -> None:
        self._objects = objects
        self._wanted = wanted
        self._best: dict[int, tuple[int, str]] = {}
        self._seen: set[tuple[int, int]] = set()

    def of(self, *addresses: int) -> str:
        """Return the best name found of one of these; empty when there is none."""
        found = [self._best[one] for one in addresses if one in self._best]
        return min(found, key=lambda one: one[0])[1] if found else ""

    def gather(self, calls: Iterable[Frame]) -> None:
        """Look through the variables of these calls and of their modules."""
        if not self._wanted:
            return
        for number, frame in enumerate(calls):
            if number >= _MAX_FRAMES:
                break
            try:
                self._look(frame.locals(), _LOCAL)
                if is_own(frame.code.file):
                    self._look_in_module(frame.globals)
            except Unreadable:
                continue

    def _look_in_module(self, variables: int) -> None:
        if (variables, _GLOBAL) not in self._seen:
            self._seen.add((variables, _GLOBAL))
            self._look(self._objects.named_items(variables), _GLOBAL)

    def _look(self, variables: dict[str, int], rank: int) -> None:
        for name, address in variables.items():
            if name not in _UNTOLD:
                self._offer(address, rank, name)
            if (address, rank) in self._seen:
                continue
            self._seen.add((address, rank))
            try:
                for inner, inner_rank, inner_name in self._inside(address, name, rank):
                    self._offer(inner, inner_rank, inner_name)
            except Unreadable:
                continue

    def _inside(self, address: int, name: str, outer_rank: int) -> Iterator[tuple[int, int, str]]:
        """Yield what an object holds, each with the rank and the name that it gives."""
        kind = self._objects.type_of(address)
        element = _GLOBAL_ELEMENT if outer_rank == _GLOBAL else _ELEMENT
        if kind.flags & _PLAIN or kind.name in _SKIPPED or kind.name.startswith(_SKIPPED_MODULES):
            return
        if kind.flags & _CONTAINERS:
            yield from self._elements(address, name, element)
        elif kind.name.startswith(_INNER_TYPES):
            # What the library keeps inside of a queue is called after the queue.
            outer = kind.short_name if name in _UNTOLD else name
            rank = _INNER if name in _UNTOLD else element
            for value in self._objects.attributes(address).values():
                yield value, rank, outer
        else:
            for attribute, value in self._objects.attributes(address).items():
                inner = f"{kind.short_name}.{attribute}"
                yield value, _ATTRIBUTE, inner
                if self._is_container(value):
                    yield from self._elements(value, inner, _ELEMENT)

    def _elements(self, address: int, name: str, rank: int) -> Iterator[tuple[int, int, str]]:
        objects = self._objects
        if objects.type_of(address).flags & at.FLAG_DICT:
            for key, value in objects.items(address, _MAX_ELEMENTS):
                if value in self._wanted:
                    yield value, rank, f"{name}[{self._key(key)}]"
        else:
            for index, value in enumerate(objects.elements(address, _MAX_ELEMENTS)):
                if value in self._wanted:
                    yield value, rank, f"{name}[{index}]"

    def _is_container(self, address: int) -> bool:
        try:
            return bool(self._objects.type_of(address).flags & _CONTAINERS)
        except Unreadable:
            return False

    def _key(self, address: int) -> str:
        try:
            return repr(self._objects.text(address, 40))
        except Unreadable:
            pass
        try:
            return str(self._objects.integer(address))
        except Unreadable:
            return "…"

    def _offer(self, address: int, rank: int, name: str) -> None:
        if address in self._wanted:
            known = self._best.get(address)
            if known is None or rank < known[0]:
                self._best[address] = rank, name
