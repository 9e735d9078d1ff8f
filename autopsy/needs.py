"""Who must act before a thread can go on: the holder of its lock, the thread it joins, its pool.

Secret: where that is read: exactly, in the lock objects of the interpreter (`thread_locks`), or by
the source when their memory could not be read. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autopsy.case import Case, Frame, Thread
from autopsy.section import Payload
from autopsy.source import lock_taken

LOCK, CONDITION, QUEUE_ITEM = "lock", "condition", "queue item"
TO_END, WORK_ITEM, UNCLEAR = "thread to end", "work item", "lock or queue"
RESULT, SEMAPHORE = "result", "semaphore"
_LOCK_WORDS = ("with ", "acquire(", "async with ")
_QUEUE_WORDS = (".get(", ".wait(", ".join(", ".result(")
_POOLS = ("concurrent/futures/", "multiprocessing/pool.py")
# The same function may have taken the lock of another object, or given it back.
_IS_PAST = 0.7
_ENTERING = ("acquire", "__enter__")


@dataclass(frozen=True, slots=True)
class Need:
    """The thread that must act next, how sure that is (0 to 1), and what shows it."""

    thread: Thread
    sure: float
    evidence: tuple[str, ...]


def kind_of_wait(case: Case, thread: Thread) -> str:
    """Return in words what a parked thread waits for."""
    wait = case.lock_waits.get(thread.tid, {})
    known = wait.get("for")
    if known == SEMAPHORE and case.lock(wait.get("lock")).get("holder_tid") is not None:
        return LOCK  # nobody that it has let in can leave
    if known in (LOCK, CONDITION, QUEUE_ITEM, TO_END, WORK_ITEM):
        return str(known)
    return _kind_by_source(thread)


def need_of(case: Case, thread: Thread) -> Need | None:
    """Return the thread that this one waits for; None when it waits for none, or nobody knows."""
    wait = case.lock_waits.get(thread.tid)
    if wait is not None:
        exact = _exact(case, thread, wait)
        if exact is not None:
            return exact
    if not thread.parked:
        return None
    kind = kind_of_wait(case, thread)
    if kind == LOCK and (wait is None or not wait.get("lock")):
        return _holder_by_source(case, thread)
    return _partner(case, thread, kind)


def chain(case: Case, thread: Thread) -> list[tuple[Thread, Need]]:
    """Follow the needs from a thread to the one that waits for none, or back into a circle."""
    found: list[tuple[Thread, Need]] = []
    seen = {thread.tid}
    need = need_of(case, thread)
    while need is not None:
        found.append((thread, need))
        thread = need.thread
        if thread.tid in seen:
            break
        seen.add(thread.tid)
        need = need_of(case, thread)
    return found


def perhaps_past(case: Case, waiter: Thread) -> Iterator[tuple[Thread, Need]]:
    """Yield threads that are further on in the function in which this one takes its lock."""
    for one in case.threads:
        if one is not waiter and _is_past(one, waiter):
            line = f"stacks: {one.called} is past the line where {waiter.called} takes the lock"
            yield one, Need(one, _IS_PAST, (line,))


def place_of(wait: Payload) -> str:
    """Return `file:line` of the `at` or `held_at` of a wait or a lock."""
    return f"{wait.get('file', '?')}:{wait.get('line', '?')}"


def _exact(case: Case, thread: Thread, wait: Payload) -> Need | None:
    lock = case.lock(wait.get("lock"))
    kind = wait.get("for")
    joins = kind in (TO_END, RESULT)
    target = wait.get("joins_tid") if joins else lock.get("holder_tid")
    # Who has taken a lock that is free has just given it back.
    if (
        kind not in (TO_END, RESULT, LOCK, SEMAPHORE)
        or target is None
        or lock.get("locked") is False
    ):
        return None
    other = case.thread(int(target))
    if other is None:
        return None
    if kind == TO_END:
        line = f"thread_locks: {thread.called} waits for {other.called} to end"
        return Need(other, 1.0, (line,))
    if kind == RESULT:
        line = f"thread_locks: {thread.called} waits for a result that {other.called} has to bring"
        return Need(other, 1.0, (line,))
    name = wait.get("name") or lock.get("name")
    named = f"the lock `{name}`" if name else lock.get("id", "a lock")
    line = f"thread_locks: {thread.called} waits for {named}, which {other.called} holds"
    if lock.get("held_at"):
        line += f" since {place_of(lock['held_at'])}"
    return Need(other, 1.0, (line,))


def _kind_by_source(thread: Thread) -> str:
    if not thread.frames:
        return "futex"
    leaf = thread.frames[0]
    if "threading" in leaf.file and leaf.function in ("_wait_for_tstate_lock", "_shutdown", "join"):
        return TO_END
    if "threading" in leaf.file and leaf.function == "wait":
        return CONDITION
    if leaf.function == "_worker" and leaf.file.endswith("concurrent/futures/thread.py"):
        return WORK_ITEM
    if any(word in leaf.source for word in _QUEUE_WORDS) and "acquire(" not in leaf.source:
        return QUEUE_ITEM
    if leaf.function in _ENTERING or any(word in leaf.source for word in _LOCK_WORDS):
        return LOCK
    return UNCLEAR


def _holder_by_source(case: Case, waiter: Thread) -> Need | None:
    """The one thread whose source is inside the lock that this one waits for, by name.

    A dotted name may be another object's lock, so with one a thread is not its own holder.
    """
    frame = waiter.own_frame
    name = lock_taken(frame.source) if frame else ""
    if frame is None or not name:
        return None
    found = [
        one
        for one in case.threads
        if (one is not waiter or "." not in name) and _is_inside(one, frame, name)
    ]
    if len(found) != 1:
        return None
    line = f"stacks: {found[0].called} is inside a with block of a lock of that name"
    return Need(found[0], 1.0, (line,))


def _is_inside(one: Thread, taking: Frame, name: str) -> bool:
    return any(call.file == taking.file and name in call.inside for call in one.frames)


def _is_past(one: Thread, waiter: Thread) -> bool:
    taking = [call for call in waiter.frames if call.function not in _ENTERING]
    return bool(taking) and any(
        (call.file, call.function) == (taking[0].file, taking[0].function)
        and call.line > taking[0].line
        for call in one.frames
    )


def _partner(case: Case, thread: Thread, kind: str) -> Need | None:
    """The other side of a pool, or the only other thread that is not parked as well."""
    others = [one for one in case.unparked if one is not thread]
    working = [one for one in others if _work_together(thread, one)]
    if working:
        line = f"stacks: {thread.called} waits for what {working[0].called} does in their pool"
        return Need(working[0], 1.0, (line,))
    if kind == TO_END and len(others) == 1:
        return Need(others[0], 1.0, (f"stacks: {thread.called} waits for a thread to end",))
    return None


def _work_together(main: Thread, one: Thread) -> bool:
    """Both are in the code of one pool: the one waits for results, the other brings them."""
    return any(
        any(pool in frame.file for frame in main.frames)
        and any(pool in frame.file for frame in one.frames)
        for pool in _POOLS
    )
