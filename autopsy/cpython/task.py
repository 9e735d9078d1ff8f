"""The tasks of asyncio: what each awaits, what it holds, who waits for whom in a circle.

Secret: how the library keeps its tasks, futures and locks. The event loop need not turn: a loop
that is blocked, deadlocked or stopped is read all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from autopsy import clock
from autopsy.cpython import layout as at
from autopsy.cpython.circle import circles
from autopsy.cpython.coroutine import Chain, follow
from autopsy.cpython.held import captured, function_name, held
from autopsy.cpython.interpreter import Interpreter
from autopsy.cpython.reader import OutOfTime, Unreadable

TASK, FUTURE, GATHER = "_asyncio.Task", "_asyncio.Future", "asyncio.tasks._GatheringFuture"
_LOCKS = {
    "asyncio.locks.Lock": "Lock",
    "asyncio.locks.Semaphore": "Semaphore",
    "asyncio.locks.BoundedSemaphore": "BoundedSemaphore",
    "asyncio.locks.Condition": "Condition",
}
_MAX_LISTED, _MAX_CYCLES = 200, 50
_MAX_TASKS = 200_000
_MAX_CALLBACKS = 100
_SHARE = 0.6

# Where the calls of a task stand: the address of each code and the offset in it.
Shape = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Task:
    """A task that is not done; `waiter` is the future it waits for, 0 when it is ready to run."""

    address: int
    loop: int
    waiter: int
    chain: Chain
    shape: Shape
    holds: list[tuple[int, str]] = field(default_factory=list)
    wants: int = 0


class Tasks:
    """All tasks of a process at one moment."""

    def __init__(self, interpreter: Interpreter, only: Iterable[int] | None = None) -> None:
        self.interpreter = interpreter
        self.objects = interpreter.objects
        self.memory = interpreter.memory
        self.tasks: dict[int, Task] = {}
        # Some were not read in time.
        self.unread = 0
        self._read_all(list(dict.fromkeys(self._addresses() if only is None else only)))
        self.holders = self._holders()

    def _read_all(self, addresses: list[int]) -> None:
        # The rest is for what they tell together.
        until = clock.mono() + _SHARE * (self.memory.deadline_mono - clock.mono())
        for number, address in enumerate(addresses):
            if clock.mono() > until:
                self.unread = len(addresses) - number
                return
            try:
                task = self._read(address)
            except Unreadable:
                continue
            if task is not None:
                self.tasks[address] = task

    def _addresses(self) -> Iterator[int]:
        """Yield the tasks that the library keeps in a weak set."""
        kept = self.interpreter.variables("asyncio.tasks").get("_all_tasks", 0)
        if not kept:
            return
        references = self.objects.attribute(kept, "data")
        for reference in self.objects.elements(references, _MAX_TASKS):
            try:
                address = self.memory.word(reference + at.WEAKREF_OBJECT)
            except Unreadable:
                continue
            if self.objects.is_a(address, TASK):
                yield address

    def _read(self, address: int) -> Task | None:
        """Return a task; None when it is done."""
        if self.memory.int32(address + at.FUTURE_STATE) != at.PENDING:
            return None
        waiter, coroutine = self.memory.words(address + at.TASK_WAITER, 2)
        chain = follow(self.interpreter, coroutine)
        if not chain.calls:
            return None
        shape = tuple((one.code.address, one.offset) for one in chain.calls)
        task = Task(address, self.memory.word(address + at.FUTURE_LOOP), waiter, chain, shape)
        innermost = chain.calls[-1]
        if innermost.is_in("asyncio/locks.py", "acquire"):
            task.wants = innermost.local("self")
        task.holds = list(self._held_by(chain))
        return task

    def _held_by(self, chain: Chain) -> Iterator[tuple[int, str]]:
        for frame in chain.calls:
            for block in held(self.interpreter.frames, frame):
                lock = block.address
                kind = _LOCKS.get(self.objects.type_of(lock).name)
                if kind == "Condition":
                    lock, kind = self.objects.attribute(lock, "_lock"), "Lock"
                if kind and self._is_taken(lock, kind):
                    yield lock, kind

    def _is_taken(self, lock: int, kind: str) -> bool:
        """Whether a lock is locked: a condition gives its own away while it waits."""
        locked = self.objects.attribute(lock, "_locked")
        return kind != "Lock" or bool(locked and self.objects.integer(locked))

    def _holders(self) -> dict[int, list[int]]:
        """The lock → the tasks that are in its block: one, of a semaphore perhaps several."""
        found: dict[int, list[int]] = {}
        for task in self.tasks.values():
            for lock in dict.fromkeys(lock for lock, _ in task.holds):
                found.setdefault(lock, []).append(task.address)
        return found

    def let_in(self, task: Task) -> list[int]:
        """Return the tasks that a semaphore has let in of which one must leave for this one."""
        return self.holders.get(task.wants, [])

    # What waits for what

    def awaited_by(self, task: Task) -> list[int]:
        """Return the tasks that must all end, or let go, before this one goes on."""
        let_in = self.let_in(task)
        found = list(let_in) if len(let_in) == 1 else []
        found += self.tasks_of(task.waiter) + self.shielded(task.waiter)
        innermost = task.chain.calls[-1]
        if innermost.is_in("asyncio/taskgroups.py", "__aexit__"):
            group = innermost.local("self")
            found += self.objects.elements(self.objects.attribute(group, "_tasks"), _MAX_LISTED)
        elif innermost.is_in("asyncio/tasks.py", "wait_for"):
            found.append(innermost.local("fut"))
        return [one for one in found if one in self.tasks]

    def waited_object(self, task: Task) -> int:
        """Return the lock, queue or event of the library that a task waits in; 0 without one."""
        innermost = task.chain.calls[-1]
        inside = innermost.code.file.endswith(("asyncio/locks.py", "asyncio/queues.py"))
        return innermost.local("self") if inside else 0

    def tasks_of(self, future: int) -> list[int]:
        """Return the tasks that a future stands for: itself, or those that it gathers."""
        try:
            if future in self.tasks:
                return [future]
            if self.objects.is_a(future, GATHER):
                children = self.objects.attribute(future, "_children")
                return self.objects.elements(children, _MAX_TASKS)
        except Unreadable:
            return []
        return []

    def shielded(self, future: int) -> list[int]:
        """Return the futures that a shield has put this one before."""
        found: list[int] = []
        for callback in self.callbacks(future):
            if function_name(self.objects, callback) == "_outer_done_callback":
                found += captured(self.objects, callback)
        return [one for one in found if self.objects.is_a(one, FUTURE, TASK)]

    def callbacks(self, future: int) -> list[int]:
        """Return what is called when a future is done."""
        if not self.objects.is_a(future, FUTURE, TASK):
            return []
        first = self.memory.word(future + at.FUTURE_CALLBACK)
        listed = self.memory.word(future + at.FUTURE_CALLBACKS)
        if not listed or not self.objects.is_a(listed, "builtins.list"):
            return [first]
        pairs = self.objects.elements(listed, _MAX_CALLBACKS)
        return [first, *(self.objects.element(pair, 0) for pair in pairs)]

    def cycles(self, hopeless: set[int]) -> list[list[int]]:
        """Return circles of tasks of which each waits for the next.

        A semaphore's waiter is in one when none of those that are in can leave.
        """
        following: dict[int, list[int]] = {}
        for address, task in self.tasks.items():
            try:
                after = self.awaited_by(task)
                if not after and hopeless.issuperset(self.let_in(task)):
                    after = self.let_in(task)
            except Unreadable:
                continue
            except OutOfTime:
                break
            if after:
                following[address] = after
        return circles(following)[:_MAX_CYCLES]

    def name(self, address: int) -> str:
        """Return the name of a task."""
        try:
            return self.objects.text_or(self.memory.word(address + at.TASK_NAME))
        except Unreadable:
            return ""

    def state(self, task: Task) -> str:
        if task.chain.running:
            return "running"
        return "ready" if not task.waiter or self.is_done(task.waiter) else "pending"

    def is_done(self, future: int) -> bool:
        """Return whether a future has its result, so that who waits for it is about to run."""
        try:
            if not self.objects.is_a(future, FUTURE, TASK):
                return False
            return self.memory.int32(future + at.FUTURE_STATE) != at.PENDING
        except Unreadable:
            return False
