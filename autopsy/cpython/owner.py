"""Which variable of the program holds a large container: its module and name, or its call.

Secret: where it is looked for, breadth first: variables of the program's own calls and modules,
then what those hold. What is neither a container nor has a dict is read as words, so that a cache
inside of a decorator or a slot is found too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autopsy import clock
from autopsy.cpython import layout as at
from autopsy.cpython.heap import NOTICED
from autopsy.cpython.interpreter import Interpreter
from autopsy.cpython.objects import Type
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.section import Payload
from autopsy.source import is_own

_MAX_DEPTH = 3
_MAX_INSIDE = 50
_MAX_VARIABLES = 4096
_MAX_FRAMES = 200
_MAX_WORDS = 64
_MAX_KEY = 40
_PLAIN = at.FLAG_LONG | at.FLAG_TEXT | at.FLAG_BYTES
_ITEMS = at.FLAG_DICT | at.FLAG_LIST
_SETS = ("builtins.set", "builtins.frozenset", "collections.deque")


@dataclass(frozen=True, slots=True)
class _Place:
    """An object that is still to be looked into, and how it is reached."""

    address: int
    name: str
    depth: int


class Owners:
    """The names of the large containers of a program, the wanted ones among them."""

    def __init__(
        self,
        interpreter: Interpreter,
        wanted: set[int],
        seen_giant: Callable[[int, int], bool],
        until_mono: float,
    ) -> None:
        self._interpreter = interpreter
        self._objects = interpreter.objects
        self._wanted = wanted
        self._seen_giant = seen_giant
        self._until = until_mono
        self._queue: deque[_Place] = deque()
        self._seen: set[int] = set()
        self.found: dict[int, Payload] = {}

    def search(self) -> None:
        """Look until nothing is left or time is over; fills `found` by address."""
        try:
            self._begin()
            while self._queue and clock.mono() < self._until:
                place = self._queue.popleft()
                try:
                    self._look(place)
                except Unreadable:
                    continue  # it changes while it is read
            if not self._wanted <= self.found.keys():
                self._look_in_all_modules()
        except OutOfTime:
            return

    def _begin(self) -> None:
        for thread in self._interpreter.threads:
            for frame in [one for one in thread.calls[:_MAX_FRAMES] if is_own(one.code.file)]:
                if frame.code.name == "<module>":
                    continue  # its variables are those of the module
                where = f" in {frame.code.name} ({frame.code.file}:{frame.line})"
                try:
                    for name, address in frame.locals().items():
                        self._add(address, f"{name}{where}", 0)
                except Unreadable:
                    continue
        for module, variables in self._own_modules():
            for name, address in variables.items():
                self._add(address, f"{module}.{name}", 0)

    def _own_modules(self) -> Iterator[tuple[str, dict[str, int]]]:
        objects = self._objects
        for module in list(self._interpreter.modules):
            variables = self._interpreter.variables(module)
            # Without a file it is part of the interpreter, or typed at a prompt.
            file = objects.text_or(variables["__file__"]) if "__file__" in variables else ""
            if module == "__main__" or (file and is_own(file)):
                yield (
                    module,
                    {name: one for name, one in variables.items() if not name.startswith("__")},
                )

    def _look_in_all_modules(self) -> None:
        """Look for the wanted among the variables of libraries, too many to look into each."""
        objects, interpreter = self._objects, self._interpreter
        for name, module in list(interpreter.modules.items()):
            try:
                if not objects.is_a(module, "builtins.module"):
                    continue
                held = interpreter.memory.word(module + at.MODULE_DICT)
                for key, value in objects.items(held, _MAX_VARIABLES):
                    if value in self._wanted and value not in self.found:
                        kind = objects.type_of(value)
                        said = f"{name}.{objects.text_or(key, '…')}"
                        self._name(value, said, kind, self._length(value, kind))
            except Unreadable:
                continue

    def _add(self, address: int, name: str, depth: int) -> None:
        if address and address not in self._seen:
            self._seen.add(address)
            self._queue.append(_Place(address, name, depth))

    def _look(self, place: _Place) -> None:
        kind = self._objects.type_of(place.address)
        self._seen_giant(place.address, kind.address)
        if kind.flags & _PLAIN or kind.name in ("builtins.module", "builtins.NoneType"):
            return
        if self._is_container(kind):
            length = self._length(place.address, kind)
            if length >= NOTICED or place.address in self._wanted:
                self._name(place.address, place.name, kind, length)
        if place.depth < _MAX_DEPTH:
            for address, name in self._inside(place, kind):
                self._add(address, name, place.depth + 1)

    def _inside(self, place: _Place, kind: Type) -> Iterator[tuple[int, str]]:
        if kind.flags & (at.FLAG_DICT | at.FLAG_LIST | at.FLAG_TUPLE):
            yield from self._items(place, kind)
        elif kind.flags & at.FLAG_TYPE:
            if self._is_own_class(place):
                held = self._interpreter.memory.word(place.address + at.TYPE_DICT)
                yield from self._attributes(place, self._objects.named_items(held, _MAX_VARIABLES))
        elif kind.name == "builtins.function":
            yield from self._of_function(place)
        elif kind.name not in _SETS:
            yield from self._attributes(place, self._objects.attributes(place.address))
            self._words(place, kind)

    def _items(self, place: _Place, kind: Type) -> Iterator[tuple[int, str]]:
        head, space, tail = place.name.partition(" ")
        if kind.flags & at.FLAG_DICT:
            for key, value in self._objects.items(place.address, _MAX_INSIDE):
                yield value, f"{head}[{self._key(key)}]{space}{tail}"
        else:
            for index, value in enumerate(self._objects.elements(place.address, _MAX_INSIDE)):
                yield value, f"{head}[{index}]{space}{tail}"

    def _attributes(self, place: _Place, held: dict[str, int]) -> Iterator[tuple[int, str]]:
        head, space, tail = place.name.partition(" ")
        for attribute, value in held.items():
            yield value, f"{head}.{attribute}{space}{tail}"

    def _of_function(self, place: _Place) -> Iterator[tuple[int, str]]:
        """What a function has captured, and its defaults: the same objects at every call."""
        objects, memory = self._objects, self._interpreter.memory
        code = self._interpreter.frames.code(memory.word(place.address + at.FUNCTION_CODE))
        closure = memory.word(place.address + at.FUNCTION_CLOSURE)
        free = [
            name
            for name, kind in zip(code.slot_names, code.slot_kinds, strict=False)
            if kind & at.KIND_FREE
        ]
        for name, cell in zip(free, objects.elements(closure) if closure else [], strict=False):
            if objects.is_a(cell, "builtins.cell"):
                yield memory.word(cell + at.CELL_VALUE), f"{place.name}, its captured {name}"
        defaults = memory.word(place.address + at.FUNCTION_DEFAULTS)
        for value in objects.elements(defaults) if defaults else []:
            yield value, f"{place.name}, a default of its arguments"

    def _key(self, address: int) -> str:
        """A key that looks like a name is one; any other may be somebody's secret."""
        key = self._objects.text_or(address)
        return repr(key) if len(key) <= _MAX_KEY and key.isidentifier() else "…"

    def _is_own_class(self, place: _Place) -> bool:
        """Whether a class is defined where it was found; an imported one is another's."""
        module = self._objects.type_at(place.address).name.rpartition(".")[0]
        return place.name.startswith(f"{module}.")

    def _words(self, place: _Place, kind: Type) -> None:
        """Look for the wanted in an object whose inside has no names for us."""
        size = min(kind.basic_bytes // 8, _MAX_WORDS)
        for word in self._interpreter.memory.words(place.address, size)[2:]:
            if word in self._wanted and word not in self.found:
                inner = self._objects.type_of(word)
                said = f"{place.name}, inside of its {kind.name.removeprefix('builtins.')}"
                self._name(word, said, inner, self._length(word, inner))

    def _is_container(self, kind: Type) -> bool:
        return bool(kind.flags & _ITEMS) or not set(_SETS).isdisjoint(kind.bases)

    def _length(self, address: int, kind: Type) -> int:
        place = at.OBJECT_SIZE
        if kind.flags & at.FLAG_DICT:
            place = at.DICT_USED
        elif not {"builtins.set", "builtins.frozenset"}.isdisjoint(kind.bases):
            place = at.SET_USED
        return self._interpreter.memory.word(address + place)

    def _name(self, address: int, name: str, kind: Type, length: int) -> None:
        self.found.setdefault(
            address,
            {"name": name, "type": kind.name.removeprefix("builtins."), "length": length},
        )


def is_interned(interpreter: Interpreter, address: int) -> bool:
    """Return whether a dict is the interpreter's own of all names: each key is its own value."""
    try:
        pairs = list(interpreter.objects.items(address, _MAX_INSIDE))
    except (Unreadable, OutOfTime):
        return False
    return bool(pairs) and all(key == value for key, value in pairs)


def largest(found: Sequence[Payload], limit: int) -> list[Payload]:
    """Return the longest containers, those with a name before those without at equal length."""
    return sorted(found, key=lambda one: (-one["length"], not one["name"]))[:limit]
