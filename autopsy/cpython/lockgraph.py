"""Which thread waits for which lock, who holds it, and circles of them.

Secret: a waiter is known by the futex it sleeps in, which is the semaphore of its lock; a holder by
the owner field of the lock, by the `with` block it stands in, or by an `acquire()` that it has not
answered with a `release()`. Nothing is patched in the patient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from autopsy import clock
from autopsy.cpython.circle import circles
from autopsy.cpython.frame import Frame
from autopsy.cpython.held import Held, bound_to, held
from autopsy.cpython.interpreter import Interpreter, Thread
from autopsy.cpython.lock import RLOCK, SEMAPHORE, SEMLOCK, SIMPLE_QUEUE, Lock, Locks
from autopsy.cpython.orphan import keepers
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.cpython.result import RESULT, Results

_FUTEX_TIMEOUT = 3
# The call that waits may be one of the standard library's own.
_INNER_CALLS = 4
_IMPORTING = "importlib._bootstrap>"
_PRIVATE = ("/threading.py", _IMPORTING)
_SEARCH_S = 0.3
_LOOKS, _APART_S = 3, 0.0043


@dataclass(frozen=True, slots=True)
class Wait:
    """A thread and what it sleeps for; `owner` is the object it would name, a queue or an event."""

    thread: Thread
    purpose: str
    lock: int
    owner: int
    timed: bool
    joins: Thread | None
    joins_name: str


class Graph:
    """One look at the locks of all threads; the steps are to be taken in their order."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.objects = interpreter.objects
        self.threads = interpreter.threads
        self.locks = Locks(interpreter)
        self.waits: list[Wait] = []
        self.ends = self._ends()

    @cached_property
    def results(self) -> Results:
        return Results(self.interpreter)

    def _ends(self) -> dict[int, int]:
        """The lock that each thread releases when it ends → that thread's object."""
        found = {}
        for thread in self.interpreter.thread_objects.values():
            try:
                found[self.objects.attribute(thread, "_tstate_lock")] = thread
            except Unreadable:
                continue
            except OutOfTime:
                break
        return found

    # Waiters

    def find_waits(self) -> None:
        """Find every thread that sleeps in the semaphore of a lock."""
        unknown: list[tuple[Thread, int]] = []
        for thread in self.threads:
            futex = _futex_of(thread)
            if not futex or not thread.calls:
                continue
            try:
                found = self._slept_for(thread, futex)
                if found:
                    self._note_wait(thread, found)
                elif not thread.rest.arguments[_FUTEX_TIMEOUT]:
                    unknown.append((thread, futex))
            except Unreadable:
                continue
        if unknown:
            self._find_elsewhere(unknown)

    def _find_elsewhere(self, waiting: list[tuple[Thread, int]]) -> None:
        """Find what these threads sleep for among all the locks there are."""
        locks = self.locks.by_futex(clock.mono() + _SEARCH_S)
        for thread, futex in waiting:
            if futex in locks:
                self._note_wait(thread, locks[futex])

    def _note_wait(self, thread: Thread, address: int) -> None:
        # One that has moved meanwhile may wait for what it held when it was read.
        if self.interpreter.has_rested(thread):
            timed = bool(thread.rest.arguments[_FUTEX_TIMEOUT])
            self.waits.append(self._wait(thread, address, timed))

    def _slept_for(self, thread: Thread, futex: int) -> int:
        """Return the object whose semaphore is this futex, among what the calls work with."""
        for frame in thread.calls[:_INNER_CALLS]:
            for address in dict.fromkeys((*frame.stack(), *frame.locals().values())):
                # A block that is being entered has put the exit function in its lock's place.
                for one in (address, bound_to(self.objects, address)):
                    if self.locks.is_at(one, futex):
                        return one
        return 0

    def _wait(self, thread: Thread, address: int, timed: bool) -> Wait:
        purpose, owner = _purpose(thread.calls)
        joins, lock = self.ends.get(address, 0), 0
        kind = self.locks.kind(address)
        if joins:
            purpose, owner = "thread to end", joins
        elif kind == SIMPLE_QUEUE:
            purpose, owner = purpose or "queue item", address
        elif thread.calls[0].is_in(_IMPORTING, "acquire"):
            purpose, owner = "lock", thread.calls[0].local("self")
            lock = self.locks.note(owner).address
        elif purpose == "semaphore":
            lock = self.locks.note(owner).address
        elif kind == SEMLOCK and (between := _between_processes(thread.calls)):
            purpose, owner = between, thread.calls[0].local("self")
        elif not purpose or kind == SEMLOCK:
            if kind == SEMLOCK and not self.locks.is_exclusive(address):
                purpose = "semaphore"
            owner = owner or _wrapper(thread.calls[0]) or address
            purpose, lock = purpose or "lock", address
            self.locks.note(address).wrapper = owner
        target = next((one for one in self.threads if one.python == joins), None) if joins else None
        name = self.interpreter.thread_name(joins)
        if purpose == "condition":
            is_result, target = self.results.awaited_by(thread)
            purpose, name = RESULT if is_result else purpose, target.name if target else ""
        return Wait(thread, purpose, lock, owner, timed, target, name)

    # Holders

    def find_holds(self) -> None:
        """Find the thread that holds each lock; claims that contradict each other are dropped."""
        claims: dict[int, list[tuple[Thread, Held]]] = {}
        for thread in self.threads:
            for address, where in self.held_by(thread):
                claims.setdefault(address, []).append((thread, where))
        for wait in self.waits:
            lock = self.locks.known.get(wait.lock)
            if lock is not None and lock.holder is wait.thread and lock.kind == RLOCK:
                # It would have been let in: its ident is that of a thread which has ended.
                lock.holder = None
        wanted = {one.lock for one in self.waits}
        for address, claimed in claims.items():
            lock = self.locks.note(address)
            if lock.locked:
                waiting = {one.thread.tid for one in self.waits if one.lock == address}
                # A lock may serve as a signal: then who waits for it is the one that has taken it.
                _settle(
                    lock, [one for one in claimed if one[1].answered or one[0].tid not in waiting]
                )
            if lock.kind == SEMAPHORE and lock.holder is None:
                lock.holders = tuple({one.tid: (one, where) for one, where in claimed}.values())
            if not lock.locked or (lock.holder is None and address not in wanted):
                self.locks.known.pop(address)

    def find_keepers(self) -> None:
        """Find the suspended calls that keep the locks for which no thread was found."""
        known = self.locks.known
        waited = [known[one.lock] for one in self.waits if one.lock in known]
        wanted = {
            one.address for one in waited if one.locked and one.ident is None and not one.holders
        }
        if not wanted:
            return
        for keeper in keepers(self.interpreter, self.locks, wanted):
            lock = known[keeper.lock]
            lock.where, lock.keeper, lock.holder = keeper.where, keeper.name, keeper.thread
            lock.ident = keeper.thread.ident if keeper.thread else None
            lock.wrapper = lock.wrapper or keeper.where.address
            wanted.discard(keeper.lock)
        for address in self._left(wanted):
            known[address].left = True

    def _left(self, wanted: set[int]) -> set[int]:
        """Return those of these locks that stay locked and that no call holds in several looks."""
        left = set(wanted)
        for _ in range(_LOOKS if left else 0):
            clock.sleep(_APART_S)
            again = Graph(self.interpreter.again())
            if not all(thread.calls for thread in again.threads):
                return set()  # the calls of one that runs were torn
            for thread in again.threads:
                left -= {address for address, _ in again.held_by(thread)}
            left = {address for address in left if again.locks.note(address).locked}
        return left

    def held_by(self, thread: Thread) -> Iterator[tuple[int, Held]]:
        """Yield each lock a thread has taken, with where it took it."""
        given_away = self._given_away(thread)
        for frame in thread.calls:
            try:
                for where in held(self.interpreter.frames, frame):
                    # A condition takes a lock of its own for each that waits, and so on.
                    own = where.certain or not frame.code.file.endswith(_PRIVATE)
                    if own and where.address not in given_away:
                        yield from ((one, where) for one in self.locks.inside(where.address))
            except Unreadable:
                continue

    def _given_away(self, thread: Thread) -> set[int]:
        """Return the condition a thread waits for and its lock: it has released that meanwhile."""
        if not thread.calls or not thread.calls[0].is_in("threading.py", "wait"):
            return set()
        condition = thread.calls[0].local("self")
        try:
            return {condition, self.objects.attribute(condition, "_lock")}
        except Unreadable:
            return {condition}

    def cycles(self) -> list[list[int]]:
        """Return each circle of threads of which every one waits for the next."""
        targets = {wait.thread.tid: self._targets(wait) for wait in self.waits}
        stuck = {tid for tid, found in targets.items() if found}
        while freed := {tid for tid in stuck if not stuck.issuperset(targets[tid])}:
            stuck -= freed
        for wait in self.waits:
            lock = self.locks.known.get(wait.lock)
            if lock is not None and lock.holders and wait.thread.tid in stuck:
                # All that are in are stuck: any of them leads on.
                lock.holder, lock.where = lock.holders[0]
        return circles({tid: targets[tid][:1] for tid in targets if tid in stuck})

    def _targets(self, wait: Wait) -> list[int]:
        """Return the threads of which one must act before this one goes on."""
        lock = self.locks.known.get(wait.lock)
        if wait.joins is not None:
            return [wait.joins.tid]
        if lock is None:
            return []
        holders = [lock.holder] if lock.holder else [one for one, _ in lock.holders]
        return [one.tid for one in holders]


def _futex_of(thread: Thread) -> int:
    """Return the futex a thread sleeps in; 0 when it is elsewhere."""
    rest = thread.rest
    known = rest.syscall == "futex" and len(rest.arguments) > _FUTEX_TIMEOUT
    return rest.arguments[0] if known else 0


def _settle(lock: Lock, claimed: list[tuple[Thread, Held]]) -> None:
    """Decide who holds a lock: its own word first, then a block, then an `acquire()` gone past."""
    if lock.ident is not None or lock.kind == SEMLOCK:
        # A forked process has the calls of its parent below its own, not the locks they took.
        claimed = [one for one in claimed if one[0].ident == lock.ident]
    certain = [one for one in claimed if one[1].certain]
    owners = certain or claimed
    if len({thread.tid for thread, _ in owners}) == 1:
        lock.holder, lock.where = owners[-1]
        lock.ident, lock.count = lock.holder.ident, lock.count or 1
        lock.wrapper = lock.wrapper or lock.where.address


def _wrapper(frame: Frame) -> int:
    """Return the lock between processes, or the condition, whose own call takes the lock."""
    inner = frame.is_in("multiprocessing/synchronize.py", "__enter__", "acquire")
    inner = inner or frame.is_in("threading.py", "__enter__")
    return frame.local("self") if inner else 0


def _between_processes(calls: tuple[Frame, ...]) -> str:
    """Return what a semaphore between processes is waited for that is not taken as a lock."""
    if calls[0].is_in("multiprocessing/queues.py", "put"):
        return "queue item"
    waits = any(one.is_in("multiprocessing/synchronize.py", "wait") for one in calls[:2])
    return "condition" if waits else ""


def _purpose(calls: tuple[Frame, ...]) -> tuple[str, int]:
    """Return what the innermost calls wait for and the object of it; empty for a plain lock."""
    if calls[0].is_in("concurrent/futures/thread.py", "_worker"):
        return "work item", 0
    purpose, owner = "", 0
    for frame in calls[:_INNER_CALLS]:
        if frame.is_in("threading.py", "wait"):
            purpose, owner = "condition", frame.local("self")
        elif purpose and frame.is_in("/queue.py", "get", "put", "join"):
            purpose, owner = "queue item", frame.local("self")
        elif purpose and frame.is_in("threading.py", "acquire", "__enter__"):
            purpose, owner = "semaphore", frame.local("self")
        elif purpose and frame.is_in("concurrent/futures/_base.py", "result", "exception"):
            owner = frame.local("self")
            break
        elif not frame.is_in("threading.py", "wait_for", "_wait"):
            break
    return purpose, owner
