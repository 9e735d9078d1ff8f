"""Who can wake a waiting task: a timer, a descriptor, a signal, a thread, or nobody.

Secret: the proof of nobody. All references to what a task waits for are counted; when each of them
is a variable of a task that itself can never go on, nobody is left. In doubt it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from autopsy.cpython.eventloop import EventLoop, read_loop
from autopsy.cpython.held import entered, function_name
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.cpython.task import Task, Tasks

TIMER, IO, SIGNAL, THREAD, NOBODY, UNKNOWN = "timer", "io", "signal", "thread", "nobody", "unknown"
# The weakest of the wakers of those that must all end decides.
_WEAKEST_FIRST = (NOBODY, UNKNOWN, THREAD, SIGNAL, IO, TIMER)
# What `run_in_executor` and `wrap_future` leave at a future that a thread will complete.
_OF_A_THREAD = "_call_check_cancel"
_MAX_CALLBACKS = 100
# Beyond, what cannot be told at once stays unknown.
_MAX_JUDGED = 3000


@dataclass(slots=True)
class _Prospect:
    """What a task's waking depends on: a waker of its own, all of some tasks, or any of some."""

    waker: str = ""
    all_of: list[int] = field(default_factory=list)
    any_of: list[int] = field(default_factory=list)

    def judge(self, hopeless: set[int]) -> str:
        """Return the waker as far as these tasks are without hope; empty while there may be one."""
        if self.waker:
            return self.waker
        if not hopeless.isdisjoint(self.all_of):
            return NOBODY
        if self.any_of:
            return NOBODY if hopeless.issuperset(self.any_of) else UNKNOWN
        return "" if self.all_of else UNKNOWN


class Wakers:
    """The wakers of the tasks of one process."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._objects = tasks.objects
        self._memory = tasks.memory
        self.loops = self._read_loops()
        self._lonely = len(tasks.interpreter.threads) == 1
        judged = list(tasks.tasks.values())[:_MAX_JUDGED]
        self._knowers = self._who_knows(judged) if len(tasks.tasks) <= _MAX_JUDGED else {}
        self._prospects = self._all_prospects(judged)
        self.hopeless = self._without_hope()

    def of(self, task: Task, depth: int = 0) -> str:
        """Return who can wake a task."""
        prospect = self._prospects.get(task.address)
        if prospect is None or depth > 50:
            return UNKNOWN
        found = prospect.judge(self.hopeless)
        if found:
            return found
        tasks = self._tasks.tasks
        wakers = {self.of(tasks[one], depth + 1) for one in prospect.all_of[:_MAX_CALLBACKS]}
        return next(one for one in _WEAKEST_FIRST if one in wakers)

    def keep_only(self, lost: set[int]) -> None:
        """Take for lost only these: the others are not, nor are those whom they can save."""
        for one in self.hopeless - lost:
            self._prospects[one] = _Prospect(UNKNOWN)
        self.hopeless = self._without_hope()

    def _without_hope(self) -> set[int]:
        """Take all for lost, then save those for whom somebody is left, until none is saved."""
        hopeless = set(self._prospects)
        while True:
            saved = {one for one in hopeless if self._prospects[one].judge(hopeless) != NOBODY}
            if not saved:
                return hopeless
            hopeless -= saved

    def _read_loops(self) -> dict[int, EventLoop]:
        found: dict[int, EventLoop] = {}
        for address in {task.loop for task in self._tasks.tasks.values()}:
            try:
                found[address] = read_loop(self._objects, address)
            except OutOfTime:
                break
        return found

    def _all_prospects(self, judged: list[Task]) -> dict[int, _Prospect]:
        """Those that can be told in time; of the others nothing is known."""
        found: dict[int, _Prospect] = {}
        for task in judged:
            try:
                found[task.address] = self._prospect(task)
            except OutOfTime:
                break
        return found

    # The prospects of one task

    def _prospect(self, task: Task) -> _Prospect:
        try:
            return self._find(task)
        except Unreadable:
            return _Prospect(UNKNOWN)

    def _find(self, task: Task) -> _Prospect:
        loop = self.loops.get(task.loop)
        if loop is None or self._tasks.state(task) != "pending":
            return _Prospect(UNKNOWN)
        targets = {task.address, task.waiter}
        reached = ((loop.by_timer, TIMER), (loop.by_io, IO), (loop.by_signal, SIGNAL))
        waker = next((one for woken, one in reached if not targets.isdisjoint(woken)), "")
        if waker:
            return _Prospect(waker)
        shielded = self._tasks.shielded(task.waiter)
        if any(self._by_thread(one) for one in (task.waiter, *shielded)):
            return _Prospect(THREAD)
        all_of = self._tasks.awaited_by(task)
        if all_of:
            return _Prospect(all_of=all_of)
        nothing = not (loop.timers or loop.watched or loop.ready or loop.by_signal)
        if loop.known and nothing and self._lonely:
            return _Prospect(NOBODY)
        return _Prospect(
            any_of=self._first_of(task) or self._tasks.let_in(task) or self._only_known_to(task)
        )

    def _first_of(self, task: Task) -> list[int]:
        """Return the tasks of which `asyncio.wait` awaits one or all."""
        innermost = task.chain.calls[-1]
        if not innermost.is_in("asyncio/tasks.py", "_wait"):
            return []
        awaited = self._objects.elements(innermost.local("fs"), _MAX_CALLBACKS)
        tasks = [one for one in awaited if one in self._tasks.tasks]
        return tasks if len(tasks) == len(awaited) else []

    def _only_known_to(self, task: Task) -> list[int]:
        """Return the tasks that alone can reach what this one waits for; empty when others can."""
        awaited = self._tasks.waited_object(task)
        if not awaited:
            if task.chain.end != task.waiter:
                return []
            awaited = task.waiter
        knowers = self._knowers.get(awaited, {})
        counted = sum(knowers.values())
        if awaited == task.waiter:
            counted += 2  # by the task itself and by the iterator of its await
            knowers = {**knowers, task.address: 1}
        return list(knowers) if self._memory.word(awaited) <= counted else []

    def _who_knows(self, judged: Iterable[Task]) -> dict[int, dict[int, int]]:
        """What tasks wait for → how often the variables of each task refer to it."""
        wanted = {task.waiter for task in judged}
        wanted.update(self._tasks.waited_object(task) for task in judged)
        known: dict[int, dict[int, int]] = {}
        for task in judged:
            for frame in task.chain.calls:
                try:
                    values = [*frame.values()]
                    # An exit function on the stack refers to the object of its block.
                    values += [one.address for one in entered(self._objects, frame)]
                except Unreadable:
                    continue
                except OutOfTime:
                    return {}  # half a count proves nothing
                for value in values:
                    if value in wanted:
                        counts = known.setdefault(value, {})
                        counts[task.address] = counts.get(task.address, 0) + 1
        return known

    # Callbacks

    def _by_thread(self, future: int) -> bool:
        return any(
            function_name(self._objects, one) == _OF_A_THREAD
            for one in self._tasks.callbacks(future)
        )
