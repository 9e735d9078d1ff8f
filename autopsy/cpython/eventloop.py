"""What an event loop would do next: its timers, the descriptors it watches, and whom those wake.

Secret: the library's loop, and how far a callback is followed into the objects that it works with.
A loop of another make (uvloop) keeps its timers where we cannot see them: it is not `known`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from autopsy.cpython import layout as at
from autopsy.cpython.held import captured, function_name
from autopsy.cpython.objects import Objects, Type
from autopsy.cpython.reader import Unreadable

_FUTURES = frozenset({"_asyncio.Future", "_asyncio.Task", "asyncio.futures.Future"})
_PLAIN = at.FLAG_LONG | at.FLAG_TEXT | at.FLAG_BYTES | at.FLAG_TYPE
_LISTS = frozenset({"builtins.list", "builtins.tuple", "builtins.set", "collections.deque"})
_OPAQUE = frozenset({"builtins.module", "builtins.code", "builtins.NoneType", "builtins.float"})
_MAX_HANDLES = 100_000
# A callback leads to a transport, its protocol, a reader and there to the future of who reads.
_DEPTH, _WIDTH = 8, 64
_NODES_EACH, _NODES_ALL = 400, 6000
_ITS_OWN_WAKING = "_read_from_self"


@dataclass(slots=True)
class EventLoop:
    """One loop: how many timers and descriptors, and which futures and tasks each may wake."""

    known: bool = False
    timers: int = 0
    watched: int = 0
    ready: int = 0
    by_timer: set[int] = field(default_factory=set)
    by_io: set[int] = field(default_factory=set)
    by_signal: set[int] = field(default_factory=set)


def read_loop(objects: Objects, address: int) -> EventLoop:
    """Return what a loop has in hand."""
    found = EventLoop()
    try:
        if not objects.is_a(address, "asyncio.base_events.BaseEventLoop"):
            return found
        explorer = _Explorer(objects, address)
        held = objects.attributes(address)
        found.ready = objects.length(held["_ready"])
        timers = [one for one in _elements(objects, held["_scheduled"]) if _is_due(objects, one)]
        watchers = list(_watchers(objects, held.get("_selector", 0)))
        signals = [handle for _, handle in objects.items(held.get("_signal_handlers", 0))]
    except (Unreadable, KeyError):
        return found
    found.known = True
    found.timers, found.watched = len(timers), len(watchers)
    found.by_io = explorer.woken_by(watchers)
    found.by_signal = explorer.woken_by(signals)
    found.by_timer = explorer.woken_by(timers)
    return found


def _elements(objects: Objects, address: int) -> list[int]:
    return objects.elements(address, _MAX_HANDLES)


def _is_due(objects: Objects, handle: int) -> bool:
    """Whether a timer has not been cancelled; a cancelled one stays in the list for a while."""
    return not objects.integer(objects.attribute(handle, "_cancelled"))


def _watchers(objects: Objects, selector: int) -> Iterator[int]:
    """Yield the handles of the watched descriptors, without the loop's own waking pipe."""
    keys = objects.attribute(selector, "_fd_to_key")
    for _, key in objects.items(keys, _MAX_HANDLES):
        for handle in _elements(objects, objects.element(key, 3)):
            if not objects.is_a(handle, "asyncio.events.Handle"):
                continue
            callback = objects.attribute(handle, "_callback")
            if not objects.is_a(callback, "builtins.method"):
                yield handle
                continue
            function = objects.memory.word(callback + at.METHOD_FUNCTION)
            if function_name(objects, function) != _ITS_OWN_WAKING:
                yield handle


class _Explorer:
    """Follows callbacks to the futures they can reach, within an allowance for all of them."""

    def __init__(self, objects: Objects, loop: int) -> None:
        self._objects = objects
        self._loop = loop
        self._left = _NODES_ALL

    def woken_by(self, handles: Iterable[int]) -> set[int]:
        """Return the futures and tasks that the callbacks of these and their arguments lead to."""
        found: set[int] = set()
        for handle in handles:
            found |= self._woken_by(handle)
        return found

    def _woken_by(self, handle: int) -> set[int]:
        objects = self._objects
        try:
            callback = objects.attribute(handle, "_callback")
            arguments = objects.elements(objects.attribute(handle, "_args"), _WIDTH)
        except Unreadable:
            return set()
        # What `sleep` and most of the library do: the future is an argument.
        plain = {one for one in arguments if objects.is_a(one, *_FUTURES)}
        if plain or self._left <= 0:
            return plain
        return self._reach([callback, *arguments])

    def _reach(self, roots: list[int]) -> set[int]:
        found: set[int] = set()
        seen = {self._loop, 0}
        todo = deque((one, 0) for one in roots)
        nodes = 0
        while todo and nodes < _NODES_EACH and self._left > 0:
            address, depth = todo.popleft()
            if address in seen:
                continue
            seen.add(address)
            nodes, self._left = nodes + 1, self._left - 1
            try:
                kind = self._objects.type_of(address)
                if not _FUTURES.isdisjoint(kind.bases):
                    found.add(address)
                elif depth < _DEPTH:
                    todo.extend((one, depth + 1) for one in self._inside(address, kind))
            except Unreadable:
                continue
        return found

    def _inside(self, address: int, kind: Type) -> Iterable[int]:
        objects, word = self._objects, self._objects.memory.word
        if kind.flags & _PLAIN or kind.name in _OPAQUE:
            return ()
        if kind.name == "builtins.method":
            return word(address + at.METHOD_SELF), word(address + at.METHOD_FUNCTION)
        if kind.name == "builtins.builtin_function_or_method":
            return (word(address + at.BUILTIN_SELF),)
        if kind.name == "builtins.function":
            return captured(objects, address)
        if kind.name == "functools.partial":
            return word(address + at.PARTIAL_FUNCTION), word(address + at.PARTIAL_ARGUMENTS)
        if kind.name == "weakref.ReferenceType":
            return (word(address + at.WEAKREF_OBJECT),)
        if kind.flags & at.FLAG_DICT:
            return [value for _, value in objects.items(address, _WIDTH)]
        if not _LISTS.isdisjoint(kind.bases):
            return objects.elements(address, _WIDTH)
        return list(objects.attributes(address).values())[:_WIDTH]
