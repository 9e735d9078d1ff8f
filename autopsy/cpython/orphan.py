"""Locks that no running call holds but a suspended one: a task between two awaits, a generator.

Secret: where suspended calls are found. Only a lock that is waited for and has no holder yet is
worth the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autopsy import clock
from autopsy.cpython.census import find
from autopsy.cpython.frame import Frame
from autopsy.cpython.held import Held, held
from autopsy.cpython.interpreter import Interpreter, Thread
from autopsy.cpython.lock import Locks
from autopsy.cpython.reader import Unreadable
from autopsy.cpython.task import Tasks

_TYPES = ("GeneratorType", "CoroutineType", "AsyncGeneratorType")
_SEARCH_S = 0.3


@dataclass(frozen=True, slots=True)
class Keeper:
    """A suspended call that holds a lock; `thread` is the one that would let it go on, if known."""

    lock: int
    where: Held
    thread: Thread | None
    name: str


def keepers(interpreter: Interpreter, locks: Locks, wanted: set[int]) -> Iterator[Keeper]:
    """Yield who keeps each of these locks, as far as it is found."""
    left = set(wanted)
    if "asyncio.tasks" in interpreter.modules:
        for keeper in _tasks(interpreter, locks):
            if keeper.lock in left:
                left.discard(keeper.lock)
                yield keeper
    if left:
        for keeper in _generators(interpreter, locks):
            if keeper.lock in left:
                left.discard(keeper.lock)
                yield keeper


def _tasks(interpreter: Interpreter, locks: Locks) -> Iterator[Keeper]:
    found = Tasks(interpreter)
    for task in found.tasks.values():
        for frame in task.chain.calls:
            for lock, where in _locks_of(interpreter, locks, frame):
                thread = interpreter.thread_of_loop(task.loop)
                yield Keeper(lock, where, thread, f"task {found.name(task.address)}")


def _generators(interpreter: Interpreter, locks: Locks) -> Iterator[Keeper]:
    kinds = interpreter.variables("types")
    wanted = {kinds[one] for one in _TYPES if one in kinds}
    for address in find(interpreter, wanted, clock.mono() + _SEARCH_S).objects:
        try:
            frame = interpreter.frames.suspended(address)
        except Unreadable:
            continue  # it has ended, not begun, or runs
        for lock, where in _locks_of(interpreter, locks, frame):
            yield Keeper(lock, where, None, f"suspended {frame.code.qualname}")


def _locks_of(interpreter: Interpreter, locks: Locks, frame: Frame) -> Iterator[tuple[int, Held]]:
    try:
        for where in held(interpreter.frames, frame):
            for lock in locks.inside(where.address):
                yield lock, where
    except Unreadable:
        return
