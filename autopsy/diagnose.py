"""Why is it stuck: rules from what was collected to named causes, best first.

Secret: how the answers of the rules become one list. Pure. Invariants: every cause carries
evidence that names the section it was read in; a rule that cannot tell two causes apart says so
with its confidence; when nothing fits the answer is `unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from autopsy.case import Case
from autopsy.cause import Code, Diagnosis, hit
from autopsy.rule import busy, database, leak, lock, loop, wait, whole
from autopsy.section import Payload

# Read from system calls alone: what they mean in a program we do not know is a guess.
_FOREIGN_LIMIT = 0.5

# A cause this sure explains what it looks like; a symptom is worth no more than this.
_SURE, _SYMPTOM_LIMIT = 0.75, 0.3
_IN_A_SERVER = (Code.BLOCKED_EXTERNAL, Code.BLOCKED_POLLING, Code.NONE_IDLE)
_WHILE_IT_GROWS = (Code.BUSY_PYTHON, Code.BUSY_NATIVE_GIL, Code.NONE_PROGRESSING, Code.NONE_IDLE)
_LOOKS_LIKE: Mapping[str, tuple[Code, ...]] = MappingProxyType(
    {
        Code.BLOCKED_DB_LOCK: _IN_A_SERVER,
        Code.BLOCKED_DB_QUERY: _IN_A_SERVER,
        Code.DEADLOCK_DB_SELF: _IN_A_SERVER,
        Code.DEADLOCK_HYBRID: (*_IN_A_SERVER, Code.DEADLOCK_IN_PROCESS),
        Code.BLOCKED_DISTRIBUTED_LOCK: _IN_A_SERVER,
        Code.LEAK_DB_CONNECTIONS: _IN_A_SERVER,
        Code.LEAK_THREADS: (Code.WAIT_NO_WAKER, Code.BLOCKED_SLEEP, Code.BLOCKED_EXTERNAL),
        Code.LEAK_MEMORY_PYTHON: _WHILE_IT_GROWS,
        Code.LEAK_MEMORY_NATIVE: _WHILE_IT_GROWS,
        Code.LEAK_TASKS: (Code.ASYNCIO_PENDING_FOREVER,),
        Code.ASYNCIO_DEADLOCK: (Code.ASYNCIO_PENDING_FOREVER,),
        Code.BLOCKED_FILE_LOCK: (Code.BLOCKED_POLLING,),
    }
)

Rule = Callable[[Case], Iterator[Diagnosis]]

# Holds for any program: the kernel says so.
_FACTS: tuple[Rule, ...] = (whole.uninterruptible, whole.starved, leak.leaks)
_GUESSES: tuple[Rule, ...] = (wait.waits,)
_PYTHON: tuple[Rule, ...] = (
    busy.busy,
    busy.livelock,
    busy.handed_on,
    busy.gil_held_asleep,
    lock.locks,
    loop.loops,
    database.database,
    leak.memory,
    wait.works,
    wait.waits,
    wait.stack_alone,
)


def diagnose(sections: Mapping[str, Payload]) -> list[Diagnosis]:
    """Return the possible causes, best first; never empty.

    `sections` are payloads by section name; a missing or empty section is only less evidence.
    """
    case = Case(sections)
    certain = list(whole.as_a_whole(case))
    if certain:
        return certain
    found: dict[str, Diagnosis] = {}
    for one in _found(case):
        best = found.get(one.code)
        if best is None or one.confidence > best.confidence:
            found[one.code] = one
    if not found:
        return [hit(Code.UNKNOWN, 0.0, *_what_was_seen(case))]
    return sorted(map(_as_symptom(found), found.values()), key=lambda one: -one.confidence)


def runs_python(sections: Mapping[str, Payload]) -> bool | None:
    """Return whether the process examined is a Python process; None when nobody could look."""
    return Case(sections).is_python


def _as_symptom(found: Mapping[str, Diagnosis]) -> Callable[[Diagnosis], Diagnosis]:
    """Lower what only tells how a more exact cause looks to a rule that sees less of it."""
    explained = {
        symptom
        for code, symptoms in _LOOKS_LIKE.items()
        if code in found and found[code].confidence >= _SURE
        for symptom in symptoms
    }

    def seen(one: Diagnosis) -> Diagnosis:
        if one.code not in explained:
            return one
        return Diagnosis(one.code, min(one.confidence, _SYMPTOM_LIMIT), one.evidence)

    return seen


def _found(case: Case) -> Iterator[Diagnosis]:
    for rule in _FACTS:
        yield from rule(case)
    if case.is_python is not False:
        for rule in _PYTHON:
            yield from rule(case)
        return
    note = "process: not a Python process: what its system calls are for is a guess"
    for rule in _GUESSES:
        for one in rule(case):
            sure = min(one.confidence, _FOREIGN_LIMIT)
            yield Diagnosis(one.code, sure, (note, *one.evidence))


def _what_was_seen(case: Case) -> tuple[str, ...]:
    if not case.threads:
        return ("process: no living thread was seen",)
    if case.process.get("hidden"):
        return (
            "process: its system calls are hidden from us: needs SYS_PTRACE",
            *(
                f"process: thread {one.tid} ({one.name}) state {one.state}: {one.where}"
                for one in case.threads[:5]
            ),
        )
    return tuple(
        f"process: thread {one.tid} ({one.name}) state {one.state} in {one.syscall or 'no call'} "
        f"(wchan {one.wchan}), {one.cpu.got:.0%} CPU, {one.switches} switches: {one.where}"
        for one in case.threads[:5]
    )
