"""Threads that wait for time or for a signal: long sleeps, short ones in turns, waits that give up.

Secret: how long is too long, and what tells a loop that asks for something from one that does
something now and then.
"""

from __future__ import annotations

from collections.abc import Iterator

from autopsy.case import Case, Thread
from autopsy.cause import Code, Diagnosis, hit
from autopsy.rule.rest import LONG_S, may_work, waits_for_signals
from autopsy.source import ENDLESS

# A loop that only asks for something uses next to no CPU between two sleeps.
_WORKS = 0.06
# More wake-ups than this in the window are more than the ticking of something idle.
_OFTEN = 4


def sleep(_: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """A sleep: one long one, or one of many short ones."""
    where = f"stacks: {one.where}"
    if one.stack_moved and _loop_of(one).startswith("while ") and not _is_endless(one):
        yield from _in_turns(one, seen, where)
    if one.stack_moved:
        note = f"movement, stacks: {one.switches} wake-ups, at another place in the second sample"
        yield hit(Code.NONE_PROGRESSING, 0.45, seen, note, where)
    elif one.cpu.wanted > _WORKS:
        note = f"movement: between its sleeps {one.cpu.told(limited=False)}"
        yield hit(Code.NONE_PROGRESSING, 0.5, seen, note, where)
    elif one.switches > 0:
        yield from _in_turns(one, seen, where)
    elif one.in_event_loop:
        yield hit(Code.ASYNCIO_LOOP_BLOCKED, 0.85, seen, "stacks: below the event loop", where)
    else:
        yield _one_sleep(one, seen, where)


def _in_turns(one: Thread, seen: str, where: str) -> Iterator[Diagnosis]:
    """Short sleeps again and again: it asks for something, or it does something at times."""
    woke = f"movement: {one.switches} wake-ups"
    loop = _loop_of(one)
    if loop in ENDLESS or one.within("run", "_main_loop", "run_pending", file="sched"):
        note = f"stacks: its loop `{loop}` has no way out: it waits for nothing in particular"
        if loop not in ENDLESS:
            note = "stacks: a scheduler sleeps until the next of its calls is due"
        often = one.switches > _OFTEN
        yield hit(Code.NONE_PROGRESSING, 0.5 if often else 0.45, seen, woke, note, where)
        yield hit(Code.NONE_IDLE, 0.45 if often else 0.5, seen, woke, note, where)
        yield hit(Code.BLOCKED_POLLING, 0.4, seen, woke, note, where)
    else:
        until = (f"stacks: in the loop `{loop}`",) if loop else ()
        yield hit(Code.BLOCKED_POLLING, 0.6 if loop else 0.4, seen, woke, *until, where)


def _loop_of(one: Thread) -> str:
    """The head of the innermost loop of the program's own around where it sleeps."""
    return next((frame.loop for frame in one.frames if frame.loop), "")


def _is_endless(one: Thread) -> bool:
    return _loop_of(one) in ENDLESS


def poll_of_nothing(one: Thread, seen: str) -> Iterator[Diagnosis]:
    """A poll of no descriptor: a sleep in disguise, or one that never ends."""
    where, left = f"stacks: {one.where}", one.timeout_left_s
    if left is None:
        yield hit(Code.WAIT_NO_WAKER, 0.6, seen, "process: it waits for no descriptor", where)
    elif one.switches == 0:
        length = f"process: it waits for nothing, for {left:.0f} s"
        yield hit(Code.BLOCKED_SLEEP, 0.8 if left > LONG_S else 0.5, seen, length, where)


def _one_sleep(one: Thread, seen: str, where: str) -> Diagnosis:
    if one.sleep_left_s is None:
        sure, length = 0.55, "process: for how long is unknown"
    else:
        sure = 0.85 if one.sleep_left_s > LONG_S else 0.5
        length = f"process: its sleep ends in {one.sleep_left_s:.0f} s"
        if sure < 0.55:
            length += ": it may be one turn of a loop that is well"
    return hit(Code.BLOCKED_SLEEP, sure, seen, "movement: not one wake-up", length, where)


def timed(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """A wait for another thread that gives up by itself, soon or in days."""
    where, left = f"stacks: {one.where}", one.timeout_left_s
    if one.parked:
        return
    if case.lock_waits.get(one.tid, {}).get("for") == "lock":
        note = "process, thread_locks: it tries to take a lock, again and again if in a loop"
        yield hit(Code.BLOCKED_POLLING, 0.45, seen, note, where)
        yield hit(Code.DEADLOCK_IN_PROCESS, 0.42, seen, note, where)
    if left is None or left <= LONG_S or not one.still:
        yield hit(Code.NONE_IDLE, 0.3, seen, "process: the wait has a timeout", where)
        return
    length = f"process: it waits for another thread, at most {left:.0f} s more"
    yield hit(Code.WAIT_NO_WAKER, 0.6, seen, length, where)
    yield hit(Code.BLOCKED_SLEEP, 0.55, seen, length, where)


def for_a_signal(case: Case, one: Thread, seen: str) -> Iterator[Diagnosis]:
    """Only a signal ends it: a server's main thread at rest, or a program that nobody signals."""
    where = f"stacks: {one.where}"
    if any(may_work(other) for other in case.threads):
        yield hit(Code.NONE_IDLE, 0.5, seen, "process: its other threads may do the work", where)
    elif waits_for_signals(case):
        note = "process: it handles SIGHUP, SIGUSR1, SIGUSR2 or SIGTERM and waits for one"
        yield hit(Code.NONE_IDLE, 0.55, seen, note, where)
        yield hit(Code.WAIT_NO_WAKER, 0.5, seen, note, where)
    else:
        yield hit(Code.WAIT_NO_WAKER, 0.6, seen, "process: only a signal ends this wait", where)
        yield hit(Code.BLOCKED_SLEEP, 0.55, seen, where)
