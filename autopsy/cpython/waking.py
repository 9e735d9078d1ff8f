"""Who can wake a waiting task: a timer, a descriptor, a signal, a thread, or nobody.

Secret: the proof of nobody. Either a circle leads back, or only the task itself knows the future it
awaits, which the reference count tells, or its loop has nothing left to do and no thread to help.
"""

from __future__ import annotations

from autopsy.cpython import layout as at
from autopsy.cpython.eventloop import EventLoop, captured, read_loop
from autopsy.cpython.held import function_name
from autopsy.cpython.reader import Unreadable
from autopsy.cpython.task import Task, Tasks

TIMER, IO, SIGNAL, THREAD, NOBODY, UNKNOWN = "timer", "io", "signal", "thread", "nobody", "unknown"
# What `run_in_executor` and `wrap_future` leave at a future that a thread will complete.
_OF_A_THREAD = "_call_check_cancel"
_MAX_CALLBACKS = 100
_MAX_DEPTH = 500


class Wakers:
    """The wakers of the tasks of one process."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._objects = tasks.objects
        self._memory = tasks.memory
        addresses = {task.loop for task in tasks.tasks.values()}
        self.loops = {one: read_loop(tasks.objects, one) for one in addresses}
        self._known: dict[int, str] = {}
        self._lonely = len(tasks.interpreter.threads) == 1

    def of(self, task: Task, path: tuple[int, ...] = ()) -> str:
        """Return who can wake a task."""
        known = self._known.get(task.address)
        if known is None:
            if task.address in path:
                return NOBODY  # a circle
            known = UNKNOWN
            if len(path) < _MAX_DEPTH and self._tasks.state(task) == "pending":
                known = self._find(task, (*path, task.address))
            self._known[task.address] = known
        return known

    def _find(self, task: Task, path: tuple[int, ...]) -> str:
        loop = self.loops[task.loop]
        targets = {task.address, task.waiter}
        for woken, waker in (
            (loop.by_timer, TIMER),
            (loop.by_io, IO),
            (loop.by_signal, SIGNAL),
        ):
            if not targets.isdisjoint(woken):
                return waker
        try:
            others = self._tasks.awaited_by(task)
            if others:
                return self._of_all(others, path)
            awaited = [task.waiter, *self._shielded(task.waiter)]
            if any(self._by_thread(one) for one in awaited):
                return THREAD
            if self._nobody_else_knows(task) or self._is_at_rest(loop):
                return NOBODY
        except Unreadable:
            return UNKNOWN
        return UNKNOWN

    def _of_all(self, others: list[int], path: tuple[int, ...]) -> str:
        """All of them must end: one that never does is enough."""
        tasks = self._tasks.tasks
        found = {self.of(tasks[one], path) for one in others[:_MAX_CALLBACKS]}
        for waker in (NOBODY, UNKNOWN, THREAD, SIGNAL, IO):
            if waker in found:
                return waker
        return TIMER

    def _by_thread(self, future: int) -> bool:
        return any(
            function_name(self._objects, one) == _OF_A_THREAD for one in self._callbacks(future)
        )

    def _shielded(self, future: int) -> list[int]:
        """Return the futures that a shield, or a wait with a limit, has put this one before."""
        found: list[int] = []
        for callback in self._callbacks(future):
            if function_name(self._objects, callback) == "_outer_done_callback":
                found += captured(self._objects, callback)
        return [one for one in found if self._objects.is_a(one, "_asyncio.Future")]

    def _callbacks(self, future: int) -> list[int]:
        if not self._objects.is_a(future, "_asyncio.Future", "_asyncio.Task"):
            return []
        first = self._memory.word(future + at.FUTURE_CALLBACK)
        listed = self._memory.word(future + at.FUTURE_CALLBACKS)
        if not listed or not self._objects.is_a(listed, "builtins.list"):
            return [first]
        pairs = self._objects.elements(listed, _MAX_CALLBACKS)
        return [first, *(self._objects.elements(pair, 2)[0] for pair in pairs)]

    def _nobody_else_knows(self, task: Task) -> bool:
        """Whether the future is referred to by the task and its own calls alone."""
        if task.chain.end != task.waiter:
            return False
        own = 2  # by the task and by the iterator of its await
        for frame in task.chain.calls:
            own += list(frame.locals().values()).count(task.waiter)
        return self._memory.word(task.waiter) <= own

    def _is_at_rest(self, loop: EventLoop) -> bool:
        """Whether a loop waits for nothing at all, in a process without other threads."""
        nothing = not loop.timers and not loop.watched and not loop.ready and not loop.by_signal
        return loop.known and nothing and self._lonely
