"""Threads that only another thread can wake: locks, conditions, queues, joins.

Secret: what the graph of who waits for whom proves: a circle, a holder that has ended, a process
in which nobody is left to wake anybody. Nothing is patched in the patient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autopsy import needs
from autopsy.case import Case, Thread
from autopsy.cause import Code, Diagnosis, hit
from autopsy.rule.rest import LONG_S, only_rests, waits_for_signals

# The last duties of an interpreter that has nothing else to do any more.
_LEAVING = ("_shutdown", "_python_exit", "_exit_function", "_run_exitfuncs")
_FUTURE_WAITS = ("result", "exception", "wait", "as_completed", "result_iterator")
_MANY = 6


def locks(case: Case) -> Iterator[Diagnosis]:
    """Name threads parked in futexes: among themselves, or with other processes."""
    still = [one for one in case.threads if one.parked and one.still]
    yield from _shared(case, [one for one in still if _is_shared(case, one)])
    private = [one for one in still if not _is_shared(case, one)]
    if not private:
        return
    kinds = {one.tid: needs.kind_of_wait(case, one) for one in private}
    lines = tuple(_line(case, one, kinds[one.tid]) for one in private[:_MANY])
    yield from _loops_kept(private)
    proven = [*_circles(case, private), *_dead_holders(case, private)]
    yield from proven
    if len(private) == len(case.threads):
        if not proven:
            yield from _nobody_can_wake(case, private, kinds, lines)
        return
    waiting = [one for one in private if kinds[one.tid] == needs.LOCK]
    yield from _cannot_leave(case, private, lines)
    if not proven and waiting:
        yield from _held_by_somebody(case, waiting, lines)
    elif not proven:
        yield from _nobody_works(case, private, kinds, lines)


def _circles(case: Case, private: list[Thread]) -> Iterator[Diagnosis]:
    """Each waits for a lock that the next has: none of them will ever go on."""
    told: set[int] = set()
    for one in private:
        links = needs.chain(case, one)
        if one.tid in told or not links or links[-1][1].thread.tid != one.tid:
            continue
        told.update(member.tid for member, _ in links)
        exact = all(member.tid in case.lock_waits for member, _ in links)
        if not all(member.still for member, _ in links):
            continue
        lines = [line for _, need in links for line in need.evidence]
        where = [f"stacks: {member.called}: {member.where}" for member, _ in links[:_MANY]]
        come_back = f"stacks: {one.called} waits for itself in the end"
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.97 if exact else 0.75, *lines, come_back, *where)


def _loops_kept(private: list[Thread]) -> Iterator[Diagnosis]:
    """A coroutine waits as only a thread may: what it waits for may be its own loop's to do."""
    for one in private:
        if one.in_event_loop:
            note = f"stacks: {one.called} runs the event loop and waits for another thread"
            yield hit(Code.ASYNCIO_LOOP_BLOCKED, 0.86, note, f"stacks: {one.where}")


def _dead_holders(case: Case, private: list[Thread]) -> Iterator[Diagnosis]:
    """The owner of a lock is no thread any more, or has returned without giving it back."""
    for one in private:
        lock = case.lock(case.lock_waits.get(one.tid, {}).get("lock"))
        if lock.get("left") and one.still:
            name = lock.get("name") or lock["id"]
            line = f"thread_locks: {one.called} waits for {name}, which no call of any thread holds"
            note = "thread_locks: whoever took it has returned without giving it back, or has ended"
            yield hit(Code.DEADLOCK_IN_PROCESS, 0.78, line, note, f"stacks: {one.where}")
        if lock.get("holder_alive") is False and lock.get("locked"):
            name = lock.get("name") or lock["id"]
            line = f"thread_locks: {one.called} waits for {name}, whose owner is no living thread"
            yield hit(Code.DEADLOCK_IN_PROCESS, 0.93, line, f"stacks: {one.where}")


def _held_by_somebody(
    case: Case, waiting: list[Thread], lines: tuple[str, ...]
) -> Iterator[Diagnosis]:
    """Locks whose holder is alive or unknown, while other threads of the process are alive."""
    rooted = [one for one in waiting if needs.chain(case, one)]
    others = case.unparked
    if rooted:  # the cause is what the holder does
        held = [line for _, need in needs.chain(case, rooted[0]) for line in need.evidence]
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.2, *lines, *held)
    elif all(only_rests(case, one) for one in others):
        note = _only_wait(others)
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.78, *lines, note)
    else:
        note = f"process: {len(others)} other threads live; one may hold the lock"
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.5 if len(waiting) > 1 else 0.45, *lines, note)


def _only_wait(others: Sequence[Thread]) -> str:
    who = f"{len(others)} other threads" if len(others) != 1 else "one other thread"
    return f"process: the {who} only {'wait' if len(others) != 1 else 'waits'} for time or work"


def _cannot_leave(case: Case, private: list[Thread], lines: tuple[str, ...]) -> Iterator[Diagnosis]:
    """The main thread is done and waits for others, of which none moves."""
    main = next((one for one in private if one.main and one.within(*_LEAVING, depth=8)), None)
    if main is None or not all(one.still for one in case.unparked):
        return
    rests = all(_soon(case, one) for one in case.unparked)
    note = "stacks: the main thread is done and waits for the others to end; none of them moves"
    yield hit(Code.EXIT_HUNG_SHUTDOWN, 0.5 if rests else 0.8, note, *lines)


def _soon(case: Case, one: Thread) -> bool:
    return only_rests(case, one) and (one.timeout_left_s or 0) <= LONG_S


def _nobody_works(
    case: Case, private: list[Thread], kinds: dict[int, str], lines: tuple[str, ...]
) -> Iterator[Diagnosis]:
    """The main thread waits to be woken, and all who could do so only tick or wait for work."""
    main = next((one for one in private if one.main), None)
    others = case.unparked
    if main is None or not all(only_rests(case, one) for one in others):
        return
    if kinds[main.tid] in (needs.CONDITION, needs.QUEUE_ITEM) and not needs.chain(case, main):
        note = _only_wait(others)
        signal = _may_wait_for_a_signal(case, kinds)
        yield hit(Code.WAIT_NO_WAKER, 0.45 if signal else 0.6, *lines, note)
        yield hit(Code.NONE_IDLE, 0.5 if signal else 0.35, *lines, note)


def _is_shared(case: Case, one: Thread) -> bool:
    lock = case.lock(case.lock_waits.get(one.tid, {}).get("lock"))
    return case.is_shared(one.args[0]) or bool(lock.get("shared"))


def _shared(case: Case, waiting: list[Thread]) -> Iterator[Diagnosis]:
    for one in waiting:
        seen = f"process, memory: thread {one.tid} waits in memory shared with other processes"
        where = f"stacks: {one.where}"
        confidence, proof = _across(case, one)
        if confidence:
            yield hit(Code.DEADLOCK_CROSS_PROCESS, confidence, *proof, seen, where)
            continue
        # The workers of an idle pool queue up at the lock of the queue they are fed from.
        if one.within("get", "recv", file="multiprocessing/", depth=6):
            note = "stacks: it wants the next item of a queue between processes"
            yield hit(Code.NONE_IDLE, 0.5, seen, note, where)
            yield hit(Code.DEADLOCK_CROSS_PROCESS, 0.4, seen, note, where)
        else:
            yield hit(Code.DEADLOCK_CROSS_PROCESS, 0.75, seen, _others_alive(case), where)


def _across(case: Case, one: Thread) -> tuple[float, list[str]]:
    """What the processes that share its lock prove: a circle, or that the holder has died."""
    lock = case.lock(case.lock_waits.get(one.tid, {}).get("lock"))
    name = lock.get("name") or lock.get("id")
    if lock.get("orphaned"):
        note = "none of the processes that share it holds it: its holder has died"
        return 0.95, [f"thread_locks: {one.called} waits for {name}; {note}"]
    elsewhere = lock.get("elsewhere")
    circles = (case.sections.get("thread_locks") or {}).get("cycles_across") or []
    member = [case.pid, one.tid]
    if not elsewhere or not any(member in circle for circle in circles if isinstance(circle, list)):
        return 0.0, []
    at = elsewhere.get("at") or {}
    place = f" ({at.get('file')}:{at.get('line')})" if at else ""
    holder = f"{elsewhere.get('thread')} of process {elsewhere.get('pid')}{place}"
    return 0.97, [
        f"thread_locks: {one.called} waits for {name}, held by {holder}",
        "thread_locks: that one waits, over others or not, for a lock of this process",
    ]


def _others_alive(case: Case) -> str:
    living = [one for one in case.children if one["state"] not in "ZX"]
    named = ", ".join(f"{one['pid']} ({one['name']})" for one in living[:4])
    return f"children: {named or 'none is left alive'}"


def _nobody_can_wake(
    case: Case, parked: list[Thread], kinds: dict[int, str], lines: tuple[str, ...]
) -> Iterator[Diagnosis]:
    many = f"all {len(parked)} threads wait without a timeout and none moved"
    alone = "the only thread waits without a timeout and did not move"
    note = f"process, movement: {many if len(parked) > 1 else alone}"
    locked = [one for one in parked if kinds[one.tid] == needs.LOCK]
    if any(one.within(*_LEAVING, depth=8) for one in parked if one.main):
        if len(locked) >= 2:  # the cause; that the main thread cannot leave is its effect
            yield hit(Code.DEADLOCK_IN_PROCESS, 0.9, note, *lines)
        yield hit(Code.EXIT_HUNG_SHUTDOWN, 0.5 if len(locked) >= 2 else 0.93, note, *lines)
    elif any(_waits_for_its_own_pool(one) for one in parked):
        pool = "stacks: a thread of a pool waits for that pool"
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.9, note, pool, *lines)
    elif locked:
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.9, note, *lines)
    elif not {needs.UNCLEAR, "futex"}.isdisjoint(kinds.values()):
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.5, note, *lines)
        yield hit(Code.WAIT_NO_WAKER, 0.4, note, *lines)
    elif _may_wait_for_a_signal(case, kinds):
        signal = "process: it handles SIGTERM, SIGHUP or SIGUSR, whose handler may wake it"
        yield hit(Code.WAIT_NO_WAKER, 0.55, note, signal, *lines)
        yield hit(Code.NONE_IDLE, 0.4, note, signal, *lines)
    else:
        yield hit(Code.WAIT_NO_WAKER, 0.8, note, *lines)


def _line(case: Case, one: Thread, kind: str) -> str:
    wait = case.lock_waits.get(one.tid, {})
    name = f" `{wait['name']}`" if wait.get("name") else ""
    what = {
        needs.TO_END: f"for thread{name} to end" if name else "for a thread to end",
        needs.QUEUE_ITEM: f"for an item of queue{name}, or for room in it"
        if name
        else "at a queue",
    }.get(kind, f"for a {kind}{name}")
    who = f"thread {one.tid} ({one.name})"
    return f"process, stacks: {who} waits without a timeout {what} in {one.where}"


def _may_wait_for_a_signal(case: Case, kinds: dict[int, str]) -> bool:
    waits = any(one.main and kinds.get(one.tid) == needs.CONDITION for one in case.threads)
    return waits and waits_for_signals(case)


def _waits_for_its_own_pool(thread: Thread) -> bool:
    functions = {frame.function for frame in thread.frames if "concurrent/futures" in frame.file}
    return "_worker" in functions and not functions.isdisjoint(_FUTURE_WAITS)
