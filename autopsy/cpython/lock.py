"""The locks of a process: their state, and which lock an object stands for that wraps one.

Secret: the fields of the four kinds of locks, and that a class takes by `with` what its own
`__enter__` or `acquire` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autopsy.cpython import layout as at
from autopsy.cpython.census import find
from autopsy.cpython.held import Held
from autopsy.cpython.interpreter import Interpreter, Thread
from autopsy.cpython.reader import Unreadable

LOCK, RLOCK, SEMLOCK = "Lock", "RLock", "SemLock"
SEMAPHORE, MODULE_LOCK, SIMPLE_QUEUE = "Semaphore", "ModuleLock", "SimpleQueue"
_PRIMITIVES = {
    "_thread.lock": LOCK,
    "_thread.RLock": RLOCK,
    "_multiprocessing.SemLock": SEMLOCK,
    "_queue.SimpleQueue": SIMPLE_QUEUE,
}
_MODULE_LOCK, _INT = "_frozen_importlib._ModuleLock", "builtins.int"
_TAKING = ("__enter__", "acquire")
_MAX_DEPTH, _MAX_BASES = 2, 20


@dataclass(slots=True)
class Lock:
    """A lock and who has it; an ident without a holder means that its owner is gone.

    `wrapper` is the object that the program takes instead of it: a condition, a queue's lock.
    `keeper` names the task or generator that keeps it while it does not run. `left` when all calls
    were searched and none holds it: the one that took it has returned, or its thread has ended.
    `holders` are all of a semaphore that lets in several.
    """

    address: int
    kind: str
    locked: bool
    holder: Thread | None = None
    ident: int | None = None
    count: int = 0
    where: Held | None = None
    wrapper: int = 0
    keeper: str = ""
    left: bool = False
    holders: tuple[tuple[Thread, Held], ...] = ()


class Locks:
    """The locks that matter: those that are waited for or held."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._objects = interpreter.objects
        self._memory = interpreter.memory
        self._by_ident = {one.ident: one for one in interpreter.threads}
        self._taken_by: dict[int, tuple[str, ...]] = {}
        self.known: dict[int, Lock] = {}

    def kind(self, address: int) -> str:
        """Return which primitive lies at an address; empty when it is none."""
        try:
            return _PRIMITIVES.get(self._objects.type_of(address).name, "") if address else ""
        except Unreadable:
            return ""

    def is_exclusive(self, address: int) -> bool:
        """Return whether a semaphore between processes lets in one at a time, as a lock does."""
        return self._memory.int32(address + at.SEMLOCK_MOST) == 1

    def is_at(self, address: int, futex: int) -> bool:
        """Return whether an object is a lock that sleeps in this futex."""
        if not self.kind(address):
            return False
        return self._memory.word(address + at.LOCK_SEMAPHORE) == futex

    def note(self, address: int) -> Lock:
        """Return the lock at an address as it says of itself, known from now on."""
        found = self.known.get(address)
        if found is None:
            is_module_lock = self._objects.is_a(address, _MODULE_LOCK)
            kind = self.kind(address) or (MODULE_LOCK if is_module_lock else SEMAPHORE)
            found = self.known[address] = self._read(address, kind)
        return found

    def by_futex(self, until_mono: float) -> dict[int, int]:
        """Return every lock there is, by the futex that who waits for it sleeps in."""
        variables = self._interpreter.variables("_thread")
        kinds = [variables[one] for one in ("LockType", "RLock") if one in variables]
        found = find(self._interpreter, kinds, until_mono).objects
        return {self._memory.word(one + at.LOCK_SEMAPHORE): one for one in found}

    def _read(self, address: int, kind: str) -> Lock:
        memory = self._memory
        if kind == SEMAPHORE:
            value = self._objects.attribute(address, "_value")
            return Lock(address, kind, locked=not (value and self._objects.integer(value)))
        if kind == MODULE_LOCK:
            owner = self._objects.attribute(address, "owner")
            ident = self._objects.integer(owner) if self._objects.is_a(owner, _INT) else None
            return Lock(address, kind, ident is not None, self._by_ident.get(ident or 0), ident, 1)
        if kind == LOCK:
            return Lock(address, kind, bool(memory.byte(address + at.LOCK_LOCKED)))
        if kind == RLOCK:
            count = memory.word(address + at.RLOCK_COUNT)
            ident = memory.word(address + at.RLOCK_OWNER) if count else None
            return Lock(address, kind, bool(count), self._by_ident.get(ident or 0), ident, count)
        # Others are taken by one process and given back by another: who took it says nothing.
        count = memory.int32(address + at.SEMLOCK_COUNT) if self.is_exclusive(address) else 0
        count = max(0, count)
        ident = memory.word(address + at.SEMLOCK_IDENT) if count else None
        # Its value is in memory shared with the other processes that use it.
        free = memory.int32(memory.word(address + at.SEMLOCK_HANDLE))
        return Lock(address, kind, free == 0, self._by_ident.get(ident or 0), ident, count)

    def inside(self, address: int, depth: int = 0) -> Iterator[int]:
        """Yield the locks that taking an object takes: itself, or those that it wraps."""
        if not address or depth > _MAX_DEPTH:
            return
        if self.kind(address) or address in self.known:
            yield address
            return
        try:
            for name in self._names_taken(address):
                inner = self._objects.attribute(address, name)
                if inner:
                    yield from self.inside(inner, depth + 1)
        except Unreadable:
            return

    def _names_taken(self, address: int) -> tuple[str, ...]:
        """Return the attributes that the class of an object uses when it is taken."""
        kind = self._objects.type_of(address)
        known = self._taken_by.get(kind.address)
        if known is None:
            known = self._taken_by[kind.address] = tuple(
                dict.fromkeys(self._read_names(kind.address))
            )
        return known

    def _read_names(self, kind: int) -> Iterator[str]:
        objects, memory = self._objects, self._memory
        for base in objects.elements(memory.word(kind + at.TYPE_MRO), _MAX_BASES):
            variables = memory.word(base + at.TYPE_DICT)
            for verb in _TAKING:
                function = objects.lookup(variables, verb) if variables else 0
                if objects.is_a(function, "builtins.function"):
                    code = memory.word(function + at.FUNCTION_CODE)
                    yield from self._interpreter.frames.code(code).names
