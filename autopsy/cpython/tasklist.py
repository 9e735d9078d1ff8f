"""The `asyncio` section: the tasks of a process, those that tell most first.

Secret: which tasks are listed when there are many, and the few words for what each awaits.
"""

from __future__ import annotations

from collections import Counter

from autopsy import clock
from autopsy.cpython.coroutine import Chain
from autopsy.cpython.interpreter import Interpreter
from autopsy.cpython.naming import Names
from autopsy.cpython.reader import OutOfTime, Unreadable
from autopsy.cpython.task import Shape, Task, Tasks
from autopsy.cpython.waking import Wakers
from autopsy.section import Payload, Skipped

_MAX_LISTED, _MAX_SHAPES, _MAX_FRAMES = 200, 20, 50
_MAX_RESTING, _MAX_LOOKED_AT = 50, 500
# Not a divisor of what loops take for a turn.
_LOOKS, _APART_S = 4, 0.0037


def collect(interpreter: Interpreter) -> Payload:
    """Return the section.

    Shapes: state pending | ready | running; woken_by timer | io | signal | thread | nobody |
    unknown; cycles of task ids, each waiting for the next. Raises Skipped when there are no tasks.
    """
    if "asyncio.tasks" not in interpreter.modules:
        raise Skipped("asyncio is not loaded in it")
    found = Tasks(interpreter)
    if not found.tasks:
        raise Skipped("asyncio is loaded and has no tasks")
    wakers = Wakers(found)
    cycles = found.cycles(wakers.hopeless)
    listed = _most_telling(found, {address for cycle in cycles for address in cycle})
    cycles = _confirm(found, wakers, cycles)
    entries = _entries(found, listed, wakers)
    total = len(found.tasks) + found.unread
    return {
        "total": total,
        "loops": len(wakers.loops),
        "tasks": entries,
        "left_out": total - len(entries),
        "shapes": _shapes(found),
        "cycles": [[hex(address) for address in cycle] for cycle in cycles],
        "timers": sum(loop.timers for loop in wakers.loops.values()),
        "watched_fds": sum(loop.watched for loop in wakers.loops.values()),
    }


def _most_telling(found: Tasks, first: set[int]) -> list[Task]:
    """Those in circles, then one of every shape, then the others as they come."""
    seen: set[Shape] = set()
    order: list[tuple[int, Task]] = []
    for task in found.tasks.values():
        rank = 0 if task.address in first else 2 if task.shape in seen else 1
        seen.add(task.shape)
        order.append((rank, task))
    order.sort(key=lambda one: one[0])
    return [task for _, task in order[:_MAX_LISTED]]


def _shapes(found: Tasks) -> list[Payload]:
    counts = Counter(task.shape for task in found.tasks.values())
    examples = {task.shape: task.chain for task in found.tasks.values()}
    return [
        {"count": count, "stack": _stack(examples[shape])}
        for shape, count in counts.most_common(_MAX_SHAPES)
    ]


def _confirm(found: Tasks, wakers: Wakers, cycles: list[list[int]]) -> list[list[int]]:
    """Return the circles that more looks show as well, and let those be lost that always are.

    While a loop turns, tasks that were read one after the other may seem to wait for each other.
    More looks are spared when every thread has slept since before the first.
    """
    interpreter = found.interpreter
    if all(interpreter.has_rested(one) for one in interpreter.threads[:_MAX_RESTING]):
        return cycles
    lost = set(wakers.hopeless)
    in_circles = [address for cycle in cycles for address in cycle]
    suspects = list(dict.fromkeys([*in_circles, *lost, *found.tasks]))[:_MAX_LOOKED_AT]
    try:
        for _ in range(_LOOKS if lost or cycles else 0):
            clock.sleep(_APART_S)
            again = Tasks(interpreter.again(), only=suspects)
            now_lost = Wakers(again).hopeless
            lost &= now_lost
            circles = [set(one) for one in again.cycles(now_lost)]
            cycles = [one for one in cycles if set(one) in circles]
    except OutOfTime:
        lost, cycles = set(), []
    wakers.keep_only(lost)
    return cycles


def _entries(found: Tasks, listed: list[Task], wakers: Wakers) -> list[Payload]:
    names = _names(found, listed)
    entries: list[Payload] = []
    for task in listed:
        try:
            entries.append(_entry(found, task, names, wakers.of(task)))
        except OutOfTime:
            break  # those that are missing are counted as left out
    return entries


def _names(found: Tasks, listed: list[Task]) -> Names:
    wanted = {found.waited_object(task) for task in listed}
    wanted.update(lock for task in listed for lock, _ in task.holds)
    names = Names(found.objects, wanted - {0})
    try:
        names.gather(frame for task in listed for frame in task.chain.calls)
        for thread in found.interpreter.threads:
            names.gather(thread.calls)
    except OutOfTime:
        pass  # a task is worth more than its lock's name
    return names


def _entry(found: Tasks, task: Task, names: Names, woken_by: str) -> Payload:
    return {
        "id": hex(task.address),
        "name": found.name(task.address),
        "stack": _stack(task.chain),
        "awaits": _awaits(found, task),
        "awaits_task": hex(task.waiter) if task.waiter in found.tasks else None,
        "waits_lock": hex(task.wants) if task.wants else None,
        "waits_name": names.of(found.waited_object(task)),
        "holds": [
            {"id": hex(lock), "kind": kind, "name": names.of(lock)} for lock, kind in task.holds
        ],
        "state": found.state(task),
        "woken_by": woken_by,
    }


def _awaits(found: Tasks, task: Task) -> str:
    """Say in a few words what the innermost call awaits."""
    if task.chain.running or not (task.waiter or task.chain.end):
        return ""
    if task.waiter in found.tasks:
        return f"Task {found.name(task.waiter)}"
    called = _of_the_library(task.chain)
    if called:
        return called
    try:
        kind = found.objects.type_of(task.waiter or task.chain.end).short_name
        if kind == "_GatheringFuture":
            return f"gather of {len(found.tasks_of(task.waiter))}"
    except Unreadable:
        return ""
    return kind


def _of_the_library(chain: Chain) -> str:
    """Return which call of asyncio the program awaits: the last one it knows by name."""
    found = ""
    for frame in reversed(chain.calls):
        if "/asyncio/" not in frame.code.file:
            break
        if not found or not frame.code.name.startswith("_"):
            found = frame.code.qualname
    return found


def _stack(chain: Chain) -> list[Payload]:
    return [frame.payload() for frame in reversed(chain.calls[-_MAX_FRAMES:])]
