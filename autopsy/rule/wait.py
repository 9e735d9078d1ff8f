"""Threads that wait for something outside, and what that means for the process as a whole.

Secret: which rule reads which system call, and how far the main thread needs the thread in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from autopsy import needs
from autopsy.case import Case, Thread
from autopsy.cause import Code, Diagnosis, hit
from autopsy.rule import asleep, peer
from autopsy.rule.rest import ACCEPT_CALLS, POLL_CALLS, SIGNAL_CALLS, SLEEP_CALLS, may_work

Reading = Callable[[Case, Thread, str], Iterator[Diagnosis]]

# What a thread waits for when it is in one of these system calls.
_MEANT_BY: tuple[tuple[frozenset[str], Reading], ...] = (
    (frozenset({"wait4", "waitid"}), peer.for_a_child),
    (frozenset({"flock", "fcntl"}), peer.for_a_file_lock),
    (frozenset({"open", "openat"}), peer.for_a_partner),
    (frozenset({"semop", "semtimedop"}), peer.at_a_semaphore),
    (frozenset({"msgrcv", "msgsnd", "mq_timedreceive", "mq_timedsend"}), peer.at_a_queue),
    (ACCEPT_CALLS, peer.for_a_connection),
    (peer.TRANSFER_CALLS, peer.at_a_descriptor),
    (POLL_CALLS, peer.poll),
    (SLEEP_CALLS, asleep.sleep),
    (SIGNAL_CALLS, asleep.for_a_signal),
    (frozenset({"futex"}), asleep.timed),
)
_SOCKET_WORDS = (".recv(", ".recv_into(", ".connect(", ".sendall(", ".accept(")
# What a side thread waits for says less than what the main thread waits for.
_SIDE = 0.85
# This much CPU between this many waits is work.
_WORKS, _TURNS, _TURNS_MANY = 0.06, 4, 40
# What a thread does between two pieces of work says little.
_BETWEEN = 0.4
_RESTING = (Code.NONE_IDLE, Code.NONE_PROGRESSING)
# Nothing shows that the main thread needs this one: a heartbeat or a listener waits as well.
_MAY_BE = 0.55
# Many a main thread sleeps while its threads work: what those wait for comes first.
_RESTS = 0.45


def waits(case: Case) -> Iterator[Diagnosis]:
    """Name what each thread waits for outside the process, as far as the main thread needs it."""
    found = [
        (one, each)
        for one in case.threads
        # One that holds the GIL in its sleep has a rule of its own.
        if not one.running and one.syscall is not None and not (one.owns_gil and all(one.owns_gil))
        for each in one_wait(case, one)
    ]
    crowds = Counter((each.code, one.where) for one, each in found)
    for one, each in found:
        many = crowds[each.code, one.where]
        crowd = (f"stacks: {many} threads wait there, first {one.name}",) if many > 1 else ()
        limit, relation = _standing(case, one, each)
        if one.gets_on and each.code not in _RESTING:
            limit = min(limit, _BETWEEN)
        sure = limit * each.confidence if limit == _SIDE else min(limit, each.confidence)
        yield hit(Code(each.code), sure, *each.evidence, *crowd, *relation)


def works(case: Case) -> Iterator[Diagnosis]:
    """Name threads that are seen at work in several places, now running, now waiting."""
    for one in case.threads:
        in_turns = one.cpu.wanted > _WORKS and one.switches > _TURNS
        many = _TURNS if one.cpu.kept_off else _TURNS_MANY
        in_turns = in_turns or (one.syscall is None and one.switches > many)
        if (one.gets_on or in_turns) and not one.running:
            sure = 0.6 if one.gets_on else 0.45
            seen = f"movement: {one.switches} wake-ups, {one.cpu.told(limited=case.throttled > 0)}"
            motion = f"motion: {one.motion}"
            yield hit(Code.NONE_PROGRESSING, sure, seen, motion, f"stacks: {one.where}")


def stack_alone(case: Case) -> Iterator[Diagnosis]:
    """When the kernel does not show system calls: what the innermost call is named, guessed."""
    for one in case.threads:
        if one.syscall is not None or one.running or not one.frames_after or not one.still:
            continue
        kind, source = needs.kind_of_wait(case, one), one.frames[0].source
        note = "process: the system call is not known, nor whether the wait has a timeout"
        if "sleep(" in source:
            yield hit(Code.BLOCKED_SLEEP, 0.4, f"stacks: {one.where}", note)
        elif any(word in source for word in _SOCKET_WORDS):
            yield hit(Code.BLOCKED_EXTERNAL, 0.4, f"stacks: {one.where}", note)
        elif kind == needs.LOCK:
            yield hit(Code.DEADLOCK_IN_PROCESS, 0.3, f"stacks: {one.where}", note)
        elif kind in (needs.CONDITION, needs.QUEUE_ITEM):
            yield hit(Code.WAIT_NO_WAKER, 0.3, f"stacks: {one.where}", note)


def _standing(case: Case, one: Thread, each: Diagnosis) -> tuple[float, tuple[str, ...]]:
    """How sure the wait of a thread can be the cause, and how the main thread depends on it."""
    main = next((other for other in case.threads if other.main), None)
    if one.main and each.code == Code.BLOCKED_SLEEP and any(map(may_work, case.threads)):
        return _RESTS, ("process: other threads live, and the work may be theirs",)
    if main is None or one.main:
        return 1.0, ()
    links = needs.chain(case, main)
    if links and links[-1][1].thread is one:
        told = tuple(line for _, need in links for line in need.evidence)
        return min(need.sure for _, need in links), told
    if not main.parked:
        idle = any(each.code == Code.NONE_IDLE for each in one_wait(case, main))
        return (_MAY_BE if idle else _SIDE), ()
    place = main.own_frame or (main.frames[0] if main.frames else None)
    at = f"{place.file}:{place.line}" if place else "an unknown place"
    line = f"stacks: MainThread waits in {at}, perhaps for {one.called}"
    if needs.kind_of_wait(case, main) != needs.LOCK:
        return _MAY_BE, (line,)
    for past, need in needs.perhaps_past(case, main):
        if past is one:
            return need.sure, (line, *need.evidence)
    return _MAY_BE, (f"stacks: MainThread waits for a lock in {at}; {one.called} may hold it",)


def one_wait(case: Case, one: Thread) -> Iterator[Diagnosis]:
    """Yield what the system call that a thread is in says by itself."""
    seen = f"process: thread {one.tid} ({one.name}) state {one.state} in {one.syscall}"
    seen += f" (wchan {one.wchan})"
    for calls, read in _MEANT_BY:
        if one.syscall in calls:
            yield from read(case, one, seen)
