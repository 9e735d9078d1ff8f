"""Threads that only another thread can wake: locks, conditions, queues, joins.

Secret: who waits for whom, inferred from stacks, `with` blocks and futexes; nothing is patched.
"""

from __future__ import annotations

from collections.abc import Iterator

from autopsy.case import Case, Thread
from autopsy.cause import Code, Diagnosis, hit
from autopsy.source import lock_taken

_LOCK_WORDS = ("with ", "acquire(", "async with ")
_QUEUE_WORDS = (".get(", ".wait(", ".join(", ".result(")
_TO_END = "thread to end"
# SIGHUP, SIGUSR1, SIGUSR2, SIGTERM: what a main thread that waits for a signal handles.
_WAKING_SIGNALS = (1, 10, 12, 15)


def locks(case: Case) -> Iterator[Diagnosis]:
    """Name threads parked in futexes: among themselves, or with other processes."""
    still = [one for one in case.threads if one.parked and one.still]
    yield from _shared([one for one in still if case.is_shared(one.args[0])])
    private = [one for one in still if not case.is_shared(one.args[0])]
    if not private:
        return
    kinds = {one.tid: kind_of_wait(one) for one in private}
    lines = tuple(
        f"process, stacks: thread {one.tid} ({one.name}) waits without a timeout "
        f"for a {kinds[one.tid]} in {one.where}"
        for one in private[:6]
    )
    if len(private) == len(case.threads):
        yield from _nobody_can_wake(case, private, kinds, lines)
        return
    waiting = [one for one in private if kinds[one.tid] == "lock"]
    circle = next((one for one in waiting if _waits_for_itself(case, one)), None)
    if circle is not None:
        note = f"stacks: {circle.called} comes back to itself along the with blocks of its lock"
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.75, *lines, note)
    elif len(waiting) >= 2:
        note = f"process: {len(case.threads) - len(private)} other threads live; one may hold them"
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.5, *lines, note)
    elif waiting:
        held_by = holder(case, waiting[0])
        note = "process: another thread may hold the lock"
        if held_by is not None:
            note = f"stacks: {held_by.called} is inside a with block of a lock of that name"
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.2 if held_by else 0.45, *lines, note)


def kind_of_wait(thread: Thread) -> str:
    """Return in words what a parked thread waits for, by its innermost call."""
    if not thread.frames:
        return "futex"
    leaf = thread.frames[0]
    if "threading" in leaf.file and leaf.function in ("_wait_for_tstate_lock", "_shutdown", "join"):
        return _TO_END
    if "threading" in leaf.file and leaf.function == "wait":
        return "condition"
    if leaf.function == "_worker" and leaf.file.endswith("concurrent/futures/thread.py"):
        return "work item"
    if any(word in leaf.source for word in _QUEUE_WORDS) and "acquire(" not in leaf.source:
        return "queue item"
    if leaf.function in ("acquire", "__enter__") or any(
        word in leaf.source for word in _LOCK_WORDS
    ):
        return "lock"
    return "lock or queue"


def waits_for_thread(thread: Thread) -> bool:
    """Return whether it waits for another thread to end."""
    return kind_of_wait(thread) == _TO_END


def holder(case: Case, waiter: Thread) -> Thread | None:
    """Return the one thread whose source is inside the lock that this one waits for, by name.

    A dotted name may be another object's lock, so with one a thread is not its own holder.
    """
    frame = waiter.own_frame
    name = lock_taken(frame.source) if frame else ""
    if frame is None or not name:
        return None
    found = [
        one
        for one in case.threads
        if (one is not waiter or "." not in name)
        and any(call.file == frame.file and name in call.inside for call in one.frames)
    ]
    return found[0] if len(found) == 1 else None


def is_past(one: Thread, waiter: Thread) -> bool:
    """Return whether a thread is further on in the function in which the other takes the lock."""
    taking = [call for call in waiter.frames if call.function not in ("acquire", "__enter__")]
    return bool(taking) and any(
        (call.file, call.function) == (taking[0].file, taking[0].function)
        and call.line > taking[0].line
        for call in one.frames
    )


def _waits_for_itself(case: Case, waiter: Thread) -> bool:
    seen: list[Thread] = []
    one: Thread | None = waiter
    while one is not None and one not in seen:
        seen.append(one)
        one = holder(case, one) if one.parked and kind_of_wait(one) == "lock" else None
    return one is waiter


def _shared(waiting: list[Thread]) -> Iterator[Diagnosis]:
    for one in waiting:
        seen = f"process, memory: thread {one.tid} waits in memory shared with other processes"
        where = f"stacks: {one.where}"
        # The workers of an idle pool queue up at the lock of the queue they are fed from.
        if one.within("get", "recv", file="multiprocessing/", depth=6):
            note = "stacks: it wants the next item of a queue between processes"
            yield hit(Code.NONE_IDLE, 0.5, seen, note, where)
            yield hit(Code.DEADLOCK_CROSS_PROCESS, 0.4, seen, note, where)
        else:
            yield hit(Code.DEADLOCK_CROSS_PROCESS, 0.8, seen, where)


def _nobody_can_wake(
    case: Case, parked: list[Thread], kinds: dict[int, str], lines: tuple[str, ...]
) -> Iterator[Diagnosis]:
    note = f"process, movement: all {len(parked)} threads wait without a timeout and none moved"
    if any(one.within("_shutdown", file="threading", depth=3) for one in parked if one.main):
        deadlocked = sum(kind == "lock" for kind in kinds.values()) >= 2
        if deadlocked:  # the cause; that the main thread cannot leave is its effect
            yield hit(Code.DEADLOCK_IN_PROCESS, 0.9, note, *lines)
        yield hit(Code.EXIT_HUNG_SHUTDOWN, 0.5 if deadlocked else 0.93, note, *lines)
    elif any(_waits_for_its_own_pool(one) for one in parked):
        pool = "stacks: a thread of a pool waits for that pool"
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.9, note, pool, *lines)
    elif "lock" in kinds.values():
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.9, note, *lines)
    elif not {"lock or queue", "futex"}.isdisjoint(kinds.values()):
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.5, note, *lines)
        yield hit(Code.WAIT_NO_WAKER, 0.4, note, *lines)
    elif _may_wait_for_a_signal(case, kinds):
        signal = "process: it handles SIGTERM, SIGHUP or SIGUSR, whose handler may wake it"
        yield hit(Code.WAIT_NO_WAKER, 0.55, note, signal, *lines)
        yield hit(Code.NONE_IDLE, 0.4, note, signal, *lines)
    else:
        yield hit(Code.WAIT_NO_WAKER, 0.8, note, *lines)


def _may_wait_for_a_signal(case: Case, kinds: dict[int, str]) -> bool:
    caught = int((case.process.get("status") or {}).get("SigCgt", "0"), 16)
    handles = any(caught >> (number - 1) & 1 for number in _WAKING_SIGNALS)
    return handles and any(one.main and kinds.get(one.tid) == "condition" for one in case.threads)


def _waits_for_its_own_pool(thread: Thread) -> bool:
    functions = [frame.function for frame in thread.frames if "concurrent/futures" in frame.file]
    return "result" in functions and "_worker" in functions
