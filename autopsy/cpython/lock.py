"""Which thread waits for which lock, and who holds it.

Secret: a waiter is known by the futex it sleeps in, which is the semaphore of its lock; a holder by
the owner field of the lock or by the `with` block it stands in. Nothing is patched in the patient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autopsy.collect import procfs
from autopsy.cpython import layout as at
from autopsy.cpython.frame import Frame
from autopsy.cpython.held import EXITS, Entered, bound_to, entered
from autopsy.cpython.interpreter import Interpreter, Thread
from autopsy.cpython.naming import Names
from autopsy.cpython.reader import Unreadable
from autopsy.section import Payload
from autopsy.source import is_own

LOCK, RLOCK, SEMLOCK, SEMAPHORE = "Lock", "RLock", "SemLock", "Semaphore"
_PRIMITIVES = {
    "_thread.lock": LOCK,
    "_thread.RLock": RLOCK,
    "_multiprocessing.SemLock": SEMLOCK,
    "_queue.SimpleQueue": "SimpleQueue",
}
_FUTEX_TIMEOUT = 3
_MAX_LOCKS, _MAX_WAITS = 500, 4000
# The call that waits may be one of the standard library's own.
_INNER_CALLS = 4
# Where a wrapper keeps the lock it wraps; anything else must be its only lock.
_WRAPPED = ("_lock", "_semlock", "lock", "mutex", "_cond")


@dataclass(slots=True)
class Lock:
    """A lock and who has it; `holder` None with an ident means that its owner is gone.

    `wrapper` is the object that the program takes instead of it: a condition, a queue's lock.
    """

    address: int
    kind: str
    locked: bool
    holder: Thread | None = None
    ident: int | None = None
    count: int = 0
    where: Entered | None = None
    wrapper: int = 0


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


def collect(interpreter: Interpreter) -> Payload:
    """Return the `thread_locks` section."""
    scan = _Scan(interpreter)
    scan.find_waits()
    scan.find_holds()
    names = scan.names()
    waits = [scan.wait_entry(one, names) for one in scan.waits[:_MAX_WAITS]]
    locks = list(scan.locks.values())
    return {
        "python": interpreter.version,
        "locks": [scan.lock_entry(one, names) for one in locks[:_MAX_LOCKS]],
        "waits": waits,
        "cycles": scan.cycles(),
        "threads": [
            {"tid": one.tid, "ident": one.ident, "name": one.name, "daemon": one.daemon}
            for one in interpreter.threads
        ],
        "left_out": max(0, len(locks) - _MAX_LOCKS),
    }


class _Scan:
    """One look at the locks of all threads."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.objects = interpreter.objects
        self.memory = interpreter.memory
        self.threads = interpreter.threads
        self.by_ident = {one.ident: one for one in self.threads}
        self.waits: list[Wait] = []
        self.locks: dict[int, Lock] = {}
        self.joined = self._joined()

    def _joined(self) -> dict[int, int]:
        """The lock that each thread releases when it ends → that thread's object."""
        found = {}
        for thread in self.interpreter.thread_objects.values():
            try:
                found[self.objects.attribute(thread, "_tstate_lock")] = thread
            except Unreadable:
                continue
        return found

    # Waiters

    def find_waits(self) -> None:
        """Find every thread that sleeps in the semaphore of a lock."""
        for thread in self.threads:
            path = f"/proc/{self.interpreter.pid}/task/{thread.tid}/syscall"
            syscall, args = procfs.current_syscall(path)
            if syscall != "futex" or len(args) <= _FUTEX_TIMEOUT or not thread.calls:
                continue
            try:
                found = self._slept_for(thread, args[0])
                if found:
                    self.waits.append(self._wait(thread, found, bool(args[_FUTEX_TIMEOUT])))
            except Unreadable:
                continue

    def _slept_for(self, thread: Thread, futex: int) -> int:
        """Return the object whose semaphore is this futex, among what the calls work with."""
        for frame in thread.calls[:_INNER_CALLS]:
            for address in dict.fromkeys((*frame.stack(), *frame.locals().values())):
                # On its entry a block has replaced its lock by the exit function of it.
                for one in (address, bound_to(self.objects, address, *EXITS)):
                    if self.kind(one) and self.memory.word(one + at.LOCK_SEMAPHORE) == futex:
                        return one
        return 0

    def kind(self, address: int) -> str:
        """Return which primitive lies at an address; empty when it is none."""
        try:
            return _PRIMITIVES.get(self.objects.type_of(address).name, "") if address else ""
        except Unreadable:
            return ""

    def _wait(self, thread: Thread, address: int, timed: bool) -> Wait:
        purpose, owner = purpose_of(thread.calls)
        joins = self.joined.get(address, 0)
        kind = self.kind(address)
        lock = 0
        if joins:
            purpose, owner = "thread to end", joins
        elif kind == "SimpleQueue":
            purpose, owner = purpose or "queue item", address
        elif purpose == "semaphore":
            lock = owner
            self.locks.setdefault(owner, Lock(owner, SEMAPHORE, locked=True))
        elif not purpose or kind == SEMLOCK:
            owner = owner or self._wrapper(thread.calls[0]) or address
            purpose, lock = purpose or "lock", address
            self._lock(address).wrapper = owner
        target = next((one for one in self.threads if one.python == joins), None) if joins else None
        name = self.interpreter.thread_name(joins)
        return Wait(thread, purpose, lock, owner, timed, target, name)

    def _wrapper(self, frame: Frame) -> int:
        """Return the lock between processes, or the condition, whose own call takes the lock."""
        inner = frame.is_in("multiprocessing/synchronize.py", "__enter__", "acquire")
        inner = inner or frame.is_in("threading.py", "__enter__")
        return frame.local("self") if inner else 0

    # Holders

    def _lock(self, address: int) -> Lock:
        """Return the lock at an address as it says of itself, known from now on."""
        known = self.locks.get(address)
        if known is None:
            known = self.locks[address] = self._read_lock(address, self.kind(address))
        return known

    def _read_lock(self, address: int, kind: str) -> Lock:
        memory = self.memory
        if kind == LOCK:
            return Lock(address, kind, bool(memory.byte(address + at.LOCK_LOCKED)))
        if kind == RLOCK:
            count = memory.word(address + at.RLOCK_COUNT)
            ident = memory.word(address + at.RLOCK_OWNER) if count else None
        else:
            count = memory.int32(address + at.SEMLOCK_COUNT)
            ident = memory.word(address + at.SEMLOCK_IDENT) if count > 0 else None
        free = kind == SEMLOCK and memory.int32(memory.word(address + at.SEMLOCK_HANDLE)) > 0
        holder = self.by_ident.get(ident or 0)
        locked = not free if kind == SEMLOCK else bool(count)
        return Lock(address, kind, locked, holder, ident, count)

    def find_holds(self) -> None:
        """Find the thread in whose `with` block each lock is; two would contradict each other."""
        claims: dict[int, list[tuple[Thread, Entered]]] = {}
        for thread in self.threads:
            for address, where in self._held_by(thread):
                claims.setdefault(address, []).append((thread, where))
        for address, claimed in claims.items():
            lock = self._lock(address)
            owners = [one for one in claimed if lock.ident in (None, one[0].ident)]
            if lock.locked and len({one[0].tid for one in owners}) == 1:
                lock.holder, lock.where = owners[-1]
                lock.ident, lock.count = lock.holder.ident, lock.count or len(owners)
                lock.wrapper = lock.wrapper or lock.where.address
            elif not lock.locked and not any(one.lock == address for one in self.waits):
                del self.locks[address]

    def _held_by(self, thread: Thread) -> Iterator[tuple[int, Entered]]:
        """Yield each lock a thread has taken by `with`, with the block."""
        waiting = {
            frame.local("self") for frame in thread.calls[:1] if frame.is_in("threading.py", "wait")
        }
        for frame in thread.calls:
            try:
                for where in entered(self.objects, frame):
                    # A condition gives its lock away while it waits.
                    if where.address not in waiting:
                        yield from ((one, where) for one in self._inside(where.address))
            except Unreadable:
                continue

    def _inside(self, address: int) -> Iterator[int]:
        """Yield the locks that entering an object takes: itself, or the one it wraps."""
        if self.kind(address):
            yield address
            return
        if address in self.locks:  # a semaphore that somebody waits for
            yield address
            return
        for name in _WRAPPED:
            try:
                inner = self.objects.attribute(address, name)
            except Unreadable:
                return
            if inner and self.kind(inner):
                yield inner
                return

    # What was found

    def names(self) -> Names:
        """Name every lock and every object that is waited for."""
        wanted = {*self.locks, *(one.owner for one in self.waits)}
        wanted.update(one.wrapper for one in self.locks.values())
        names = Names(self.objects, wanted - {0})
        interesting = [one.thread for one in self.waits]
        interesting += [one.holder for one in self.locks.values() if one.holder]
        for thread in {one.tid: one for one in interesting}.values():
            names.gather(thread.calls)
        return names

    def lock_entry(self, lock: Lock, names: Names) -> Payload:
        """Return a lock as the section shows it."""
        holder = lock.holder
        return {
            "id": hex(lock.address),
            "kind": lock.kind,
            "name": names.of(lock.address, lock.wrapper),
            "locked": lock.locked,
            "holder_tid": holder.tid if holder else None,
            "holder_ident": lock.ident,
            "holder_name": holder.name if holder else "",
            "holder_alive": None if lock.ident is None else holder is not None,
            "held_at": lock.where.frame.payload(lock.where.line) if lock.where else None,
            "count": lock.count,
            "shared": lock.kind == SEMLOCK,
        }

    def wait_entry(self, wait: Wait, names: Names) -> Payload:
        """Return a wait as the section shows it."""
        calls = wait.thread.calls
        where = next((one for one in calls if is_own(one.code.file)), calls[0])
        return {
            "tid": wait.thread.tid,
            "thread": wait.thread.name,
            "for": wait.purpose,
            "lock": hex(wait.lock) if wait.lock else None,
            "name": wait.joins_name
            or names.of(wait.lock, wait.owner)
            or self._type_name(wait.owner),
            "timed": wait.timed,
            "joins_tid": wait.joins.tid if wait.joins else None,
            "joins": wait.joins_name or None,
            "at": where.payload(),
        }

    def _type_name(self, address: int) -> str:
        try:
            return self.objects.type_of(address).short_name if address else ""
        except Unreadable:
            return ""

    def cycles(self) -> list[list[int]]:
        """Return each circle of threads of which every one waits for the next."""
        following: dict[int, int] = {}
        for wait in self.waits:
            lock = self.locks.get(wait.lock)
            target = wait.joins or (lock.holder if lock else None)
            if target is not None:
                following[wait.thread.tid] = target.tid
        return circles(following)


def circles(following: dict[int, int]) -> list[list[int]]:
    """Return the circles of a graph in which everything has at most one successor."""
    found: list[list[int]] = []
    done: set[int] = set()
    for start in following:
        path: list[int] = []
        one: int | None = start
        while one is not None and one not in done:
            done.add(one)
            path.append(one)
            one = following.get(one)
        if one in path:
            found.append(path[path.index(one) :])
    return found


def purpose_of(calls: tuple[Frame, ...]) -> tuple[str, int]:
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
        elif not frame.is_in("threading.py", "wait_for", "_wait"):
            break
    return purpose, owner
