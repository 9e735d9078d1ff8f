"""Threads that use the CPU, and threads that keep the interpreter from the others.

Secret: how Python, native code with and without the GIL, and livelock are told apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from autopsy.case import Case, Frame, Thread
from autopsy.cause import Code, Diagnosis, hit

_TOTAL_HOT, _SHARE_HOT, _SOME = 0.7, 0.2, 0.05
# In the movement window: a thread that waits for the GIL wakes every 5 ms.
_GIL_WAITER_SWITCHES = 6
_RESTLESS_SWITCHES = 25
# Several threads that switch this often and share the CPU do nothing else.
_FRANTIC_SWITCHES, _FRANTIC_CPU = 150, 0.3
# Nearly all looks at one instruction: a loop of Python is never on one of them for so long.
_ALL_NATIVE = 0.97
# So many looks at instructions that nothing can sleep in: it waited for the GIL there, if at all.
_MOSTLY_INSTANT = 0.5
# A thread that nobody wakes has at most the switches of our own looks.
_WOKEN_SWITCHES = 2
# Functions of its own in which a thread with one endless loop is seen.
_FEW = 3
_C_LIBRARIES = ("libc.", "libc-", "ld-", "[vdso]", "libpthread", "libm.")


def busy(case: Case) -> Iterator[Diagnosis]:
    """Name threads that are on the CPU."""
    for one in case.threads:
        if (one.running or _shares_the_gil(case, one)) and one not in _restless(case):
            yield from _one_busy(case, one)


def _shares_the_gil(case: Case, one: Thread) -> bool:
    """Whether it takes turns with others that want a CPU: it sleeps while they have the GIL."""
    total = sum(each.cpu.got for each in case.threads)
    if total > _TOTAL_HOT and one.cpu.got > _SHARE_HOT:
        return True
    # Beside other processes, who has the GIL waits for the CPU with it, and nobody gets much.
    others = sum(each.cpu.ready for each in case.threads if each is not one)
    gil_or_cpu = one.syscall in (None, "futex") and one.motion.instant_ratio > _MOSTLY_INSTANT
    return (
        gil_or_cpu
        and min(others, one.cpu.ready) > _SHARE_HOT
        and (others + one.cpu.ready > _TOTAL_HOT)
    )


def _one_busy(case: Case, one: Thread) -> Iterator[Diagnosis]:
    seen = (
        f"process, movement: thread {one.tid} state {one.state}, then {one.state_after}, "
        f"{one.switches} switches, {one.cpu.told(limited=case.throttled > 0)}"
    )
    place = f"motion: mostly in {one.motion.place}" if one.motion.place else ""
    where = place if place and not one.frames else f"stacks: {one.where}"
    leaf_fixed = bool(one.frames) and one.frames[:1] == one.frames_after[:1]
    native = _native_leaf(case, one)
    if one.motion.known and (one.owns_gil or one.motion.steps):
        yield from _by_motion(case, one, seen, where)
    elif not one.frames or not one.owns_gil:
        # It asks for more than it gets, and gets something.
        sure = 0.4 if one.cpu.wanted > _TOTAL_HOT and one.cpu.got > _SOME else 0.3
        yield hit(Code.BUSY_PYTHON, sure, seen, "stacks: none, so Python and native look alike")
    elif not any(one.owns_gil) and leaf_fixed and one.switches < _GIL_WAITER_SWITCHES:
        yield hit(Code.BUSY_NATIVE, 0.85, seen, f"{where}, without the GIL in both samples")
    elif native and leaf_fixed and all(one.owns_gil):
        held = f"stacks: {native}, the GIL held throughout"
        yield hit(Code.BUSY_NATIVE_GIL, 0.5, seen, held, where)
        yield hit(
            Code.BUSY_PYTHON, 0.45, seen, where, "stacks: or a one-line loop of short C calls"
        )
    elif leaf_fixed and all(one.owns_gil):
        note = "stacks: a one-line loop and one long operation of the interpreter look alike"
        yield hit(Code.BUSY_PYTHON, 0.55, seen, where, note)
        yield hit(Code.BUSY_NATIVE_GIL, 0.45, seen, where, note)
    else:
        # Many short waits, or never the GIL: it may be the calls that keep it busy.
        waits = one.switches > _RESTLESS_SWITCHES and one.cpu.wanted < _SHARE_HOT
        sure = 0.5 if waits or not any(one.owns_gil) else 0.8
        yield hit(Code.BUSY_PYTHON, sure, seen, f"{where}, elsewhere or without the GIL once")


def _by_motion(case: Case, one: Thread, seen: str, where: str) -> Iterator[Diagnosis]:
    """Python steps from instruction to instruction, native code stays on one."""
    motion = f"motion: {one.motion}"
    held = "throughout" if all(one.owns_gil) else "now and then" if any(one.owns_gil) else "never"
    gil = f"stacks: the GIL held {held}"
    if one.motion.steps:
        # Many places of its own may well be work that gets on.
        sure = 0.85 if one.motion.functions <= _FEW else 0.7
        slept = one.switches > 1 and one.cpu.wanted < _TOTAL_HOT
        kept_off = case.throttled > 0 or one.cpu.got < _SHARE_HOT
        yield hit(Code.BUSY_PYTHON, 0.55 if slept or kept_off else sure, seen, motion, where)
    elif one.motion.steady < _ALL_NATIVE:
        native = Code.BUSY_NATIVE_GIL if any(one.owns_gil) else Code.BUSY_NATIVE
        yield hit(native, 0.5, seen, motion, gil, where)
        yield hit(Code.BUSY_PYTHON, 0.48, seen, motion, where)
    elif all(one.owns_gil):
        # One that hardly ran was on one instruction because it hardly ran.
        sure = 0.9 if one.cpu.got > _SHARE_HOT else 0.6
        yield hit(Code.BUSY_NATIVE_GIL, sure, seen, motion, gil, where)
    elif any(one.owns_gil):
        yield hit(Code.BUSY_NATIVE, 0.55, seen, motion, gil, where)
        yield hit(Code.BUSY_NATIVE_GIL, 0.5, seen, motion, gil, where)
    else:
        yield hit(Code.BUSY_NATIVE, 0.88, seen, motion, gil, where)


def livelock(case: Case) -> Iterator[Diagnosis]:
    """Name threads that wake each other at locks all the time."""
    restless = _restless(case)[:4]
    if restless:
        lines = (f"movement: thread {one.tid}, {one.switches} wake-ups" for one in restless)
        where = (f"stacks: {one.where}" for one in restless)
        frantic = sum(one.cpu.wanted for one in restless) > _FRANTIC_CPU
        frantic = frantic and all(one.switches > _FRANTIC_SWITCHES for one in restless)
        yield hit(Code.BUSY_LIVELOCK, 0.78 if frantic else 0.5, *lines, *where)


def handed_on(case: Case) -> Iterator[Diagnosis]:
    """Name threads that others wake again and again: locks change hands, items are passed on."""
    woken = [
        one
        for one in case.threads
        if one.parked and one.switches > _WOKEN_SWITCHES and one not in _restless(case)
    ]
    if woken:
        lines = (f"movement: {one.called} was woken {one.switches} times" for one in woken[:4])
        yield hit(Code.NONE_PROGRESSING, 0.6, *lines, f"stacks: {woken[0].where}")


def _restless(case: Case) -> list[Thread]:
    """Threads that keep waking each other at locks; one alone is no such thing.

    Those of a convoy take turns at one lock, and whoever has it sleeps or works.
    """
    found = [
        one
        for one in case.threads
        if one.switches > _RESTLESS_SWITCHES
        and (_at_a_lock(one.frames) or _at_a_lock(one.frames_after) or _frantic(one))
    ]
    return found if len(found) > 1 and not _take_turns(found) else []


def _frantic(one: Thread) -> bool:
    return one.switches > _FRANTIC_SWITCHES


def _take_turns(found: list[Thread]) -> bool:
    """Whether they are all at one line: many workers of one kind at one lock."""
    places = {str(one.own_frame) for one in found}
    return len(places) == 1 and all(one.switches < _FRANTIC_SWITCHES for one in found)


def _at_a_lock(frames: tuple[Frame, ...]) -> bool:
    near = frames[:4]
    return any("acquire(" in one.source or one.function in ("acquire", "_enter") for one in near)


def gil_held_asleep(case: Case) -> Iterator[Diagnosis]:
    """Name a thread asleep with the GIL."""
    for one in case.threads:
        if len(one.owns_gil) > 1 and all(one.owns_gil) and one.still and one.state != "R":
            yield hit(
                Code.BLOCKED_NATIVE_GIL,
                0.9,
                f"process, movement: thread {one.tid} asleep in {one.syscall} (wchan {one.wchan})",
                f"stacks: it holds the GIL in both samples, in {one.where}",
            )


def _native_leaf(case: Case, thread: Thread) -> str:
    """The C function the thread is in, in every native sample; empty when it is in none."""
    later = range(2, len(case.samples))
    found = [_c_function(case.stack_in(number, thread.tid)) for number in later]
    if not found or "" in found:
        return ""
    return f"native code {found[0]}"


def _c_function(stack: tuple[Frame, ...]) -> str:
    """The innermost one beyond the C library, which a loop of Python calls calls too."""
    for frame in stack:
        if not frame.native:
            return ""
        if not frame.file.rpartition("/")[2].startswith(_C_LIBRARIES):
            return f"{frame.function} ({frame.file})"
    return ""
