"""Threads on the CPU: Python, native code with and without the GIL, livelocks, a starved host."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import codes, evidence, frame, motion, parked, seen, thread

SPIN = [frame("spin")]
ON = [frame("spin", line=2)]
RUNS = thread(state="R")
SECOND = 250_000_000  # nanoseconds of the window between the looks
ALWAYS, NEVER, ONCE = True, False, (True, False)
C_CODE = frame("sre_match", "/usr/lib/_sre.so", native=True)
LIBC = frame("memcpy", "/usr/lib/libc.so.6", native=True)
BUSY_LOOKS_ALIKE = [("busy.python", 0.55), ("busy.native_gil", 0.45)]


def ran(cpu: int = 25, switches: int = 0) -> list[dict[str, Any]]:
    """Make the second look: 25 ticks of CPU are all of the window."""
    return [{**RUNS, "cpu_ticks": cpu, "switches": switches}]


def moving(most: int, gil: bool | tuple[bool, bool], **changes: Any) -> dict[str, Any]:
    return seen(RUNS, second=ran(), stacks=[SPIN], gil=gil, motion=motion(most, lines=2, **changes))


def throttled(share: float, sections: dict[str, Any]) -> dict[str, Any]:
    return {**sections, "host": {"cgroup": {"cpu": {"throttled_ratio": share}}}}


def native(
    *stacks: list[dict[str, Any]], gil: bool = ALWAYS, under: list[dict[str, Any]] = SPIN
) -> dict[str, Any]:
    """Add samples that show the C functions of the thread."""
    sections = seen(RUNS, stacks=[SPIN], gil=gil)
    taken = sections["stacks"]
    for stack in stacks:
        taken["stacks"].append([*stack, *under])
        looked = {**taken["samples"][0]["threads"][0], "stack": len(taken["stacks"]) - 1}
        taken["samples"].append({**taken["samples"][0], "threads": [looked]})
    return sections


MOTION = {
    "steps of one function": (moving(30, ALWAYS), [("busy.python", 0.85)]),
    "steps of one function, the GIL shared": (moving(30, ONCE), [("busy.python", 0.85)]),
    "steps, never seen with the GIL": (moving(30, NEVER), [("busy.python", 0.85)]),
    "steps of many functions": (moving(30, ALWAYS, functions=4), [("busy.python", 0.7)]),
    "steps between sleeps": (
        seen(RUNS, second=ran(12, 2), stacks=[SPIN], gil=ALWAYS, motion=motion(30)),
        [("busy.python", 0.55)],
    ),
    "steps of one that is kept off the CPU": (
        throttled(0.1, moving(30, ALWAYS)),
        [("busy.python", 0.55)],
    ),
    "on one instruction, which cannot be a call": (
        moving(100, ALWAYS, calls=False),
        [("busy.python", 0.85)],
    ),
    "mostly on one instruction, with the GIL": (
        moving(90, ALWAYS),
        [("busy.native_gil", 0.5), ("busy.python", 0.48)],
    ),
    "mostly on one instruction, once with the GIL": (
        moving(90, ONCE),
        [("busy.native_gil", 0.5), ("busy.python", 0.48)],
    ),
    "mostly on one instruction, without the GIL": (
        moving(90, NEVER),
        [("busy.native", 0.5), ("busy.python", 0.48)],
    ),
    "on one instruction, with the GIL": (moving(100, ALWAYS), [("busy.native_gil", 0.9)]),
    "on one instruction, once with the GIL": (
        moving(100, ONCE),
        [("busy.native", 0.55), ("busy.native_gil", 0.5)],
    ),
    "on one instruction, without the GIL": (moving(100, NEVER), [("busy.native", 0.88)]),
    "too few looks to tell": (moving(9, ALWAYS, looks=9), BUSY_LOOKS_ALIKE),
}
STACKS = {
    "no stack": (seen(RUNS), [("busy.python", 0.3)]),
    "one place, without the GIL": (seen(RUNS, stacks=[SPIN]), [("busy.native", 0.85)]),
    "one place, without the GIL, waiting for it": (
        seen(RUNS, second=ran(25, 6), stacks=[SPIN]),
        [("busy.python", 0.5)],
    ),
    "one place, with the GIL": (seen(RUNS, stacks=[SPIN], gil=ALWAYS), BUSY_LOOKS_ALIKE),
    "one place, once with the GIL": (
        seen(RUNS, stacks=[SPIN], gil=ONCE),
        [("busy.python", 0.8)],
    ),
    "two places, with the GIL": (
        seen(RUNS, stacks=[SPIN, ON], moved=True, gil=ALWAYS),
        [("busy.python", 0.8)],
    ),
    "two places, without the GIL": (
        seen(RUNS, stacks=[SPIN, ON], moved=True),
        [("busy.python", 0.5)],
    ),
    "two places, many waits": (
        seen(RUNS, second=ran(4, 26), stacks=[SPIN, ON], moved=True, gil=ALWAYS),
        [("busy.python", 0.5)],
    ),
    "in C, with the GIL": (
        native([C_CODE], [LIBC, C_CODE]),
        [("busy.native_gil", 0.5), ("busy.python", 0.45)],
    ),
    "in C, and once not": (native([C_CODE], []), BUSY_LOOKS_ALIKE),
    "in the C library alone": (native([LIBC]), BUSY_LOOKS_ALIKE),
    "in the C library, and nothing else is seen": (native([LIBC], under=[]), BUSY_LOOKS_ALIKE),
    "in C, without the GIL": (native([C_CODE], gil=NEVER), [("busy.native", 0.85)]),
    "asleep half of the time": (
        seen(
            thread(10),
            thread(11),
            second=[thread(10, cpu_ticks=10), thread(11, cpu_ticks=10)],
            stacks=[SPIN, ON, SPIN],
            moved=True,
            gil=ALWAYS,
        ),
        [("busy.python", 0.8), ("none.progressing", 0.6)],
    ),
    "a third of the CPU alone": (
        seen(thread(), second=[thread(cpu_ticks=9)], stacks=[SPIN], gil=ONCE),
        [("unknown", 0.0)],
    ),
}


def at_locks(switches: int, cpu: int = 0, lines: int = 2, count: int = 2) -> dict[str, Any]:
    """Make threads that wake at the places where they take locks."""
    tids = range(10, 10 + count)
    stacks = [[frame("swap", line=tid % lines, source="LOCK.acquire()")] for tid in tids]
    return seen(
        *(parked(tid) for tid in tids),
        second=[parked(tid, switches=switches, cpu_ticks=cpu) for tid in tids],
        stacks=stacks,
    )


LOCKS = {
    "two that wake each other": (at_locks(30), [("busy.livelock", 0.5)]),
    "two that do nothing else": (
        at_locks(200, 5),
        [("busy.livelock", 0.78), ("none.progressing", 0.45)],
    ),
    "two that wake very often and use no CPU": (at_locks(200), [("busy.livelock", 0.5)]),
    "very often at one line": (at_locks(200, 1, lines=1), [("busy.livelock", 0.5)]),
    "a convoy at one line": (at_locks(100, lines=1, count=3), [("none.progressing", 0.6)]),
    "one alone is woken": (at_locks(30, count=1), [("none.progressing", 0.6)]),
    "woken now and then": (at_locks(5), [("none.progressing", 0.6)]),
    "woken by our own look": (at_locks(2), [("deadlock.in_process", 0.9)]),
}


def queued(share: float, cpu: int = 0, others_cpu: int | None = None) -> dict[str, Any]:
    """Make a thread that stood in the queue for a CPU for this share of the window."""
    first = [thread(run_delay_ns=0, state="R")]
    after = [thread(run_delay_ns=int(share * SECOND), state="R", cpu_ticks=cpu)]
    if others_cpu is not None:
        first.append(thread(11, run_delay_ns=0))
        after.append(thread(11, run_delay_ns=0, cpu_ticks=others_cpu))
    return seen(*first, second=after)


STARVED = {
    "nearly always": (queued(0.9), [("starved.host", 0.5), ("busy.python", 0.3)]),
    "often": (queued(0.7), [("starved.host", 0.35), ("busy.python", 0.3)]),
    "half of the time": (queued(0.55, 4), [("busy.python", 0.4)]),
    "nearly always, behind its own threads": (
        queued(0.9, others_cpu=5),
        [("starved.host", 0.35), ("busy.python", 0.3)],
    ),
    "often, and on the CPU for the rest": (queued(0.61, 12), [("busy.python", 0.4)]),
    "its limit is used up": (
        throttled(0.6, moving(30, ALWAYS)),
        [("starved.host", 0.7), ("busy.python", 0.55)],
    ),
    "its limit was used up while it rests": (
        throttled(0.6, seen(thread(), stacks=[SPIN])),
        [("unknown", 0.0)],
    ),
}
ASLEEP = {
    "with the GIL": (seen(thread(syscall="poll"), stacks=[SPIN], gil=ALWAYS),
                     [("blocked.native_gil", 0.9)]),
    "once with the GIL": (seen(thread(syscall="wait4"), stacks=[SPIN], gil=ONCE),
                          [("blocked.child_process", 0.9)]),
    "with the GIL, and it moves": (
        seen(thread(syscall="wait4"), second=[thread(switches=5)], stacks=[SPIN], gil=ALWAYS),
        [("unknown", 0.0)],
    ),
}  # fmt: skip
TABLE = {
    f"{group}: {row}": case
    for group, rows in (
        ("by motion", MOTION),
        ("by stacks", STACKS),
        ("at locks", LOCKS),
        ("in the queue", STARVED),
        ("asleep", ASLEEP),
    )
    for row, case in rows.items()
}


@pytest.mark.parametrize(("sections", "expected"), TABLE.values(), ids=TABLE)
def test_how_it_moves_names_the_cause(
    sections: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    assert codes(sections) == expected


LINES = {
    "by motion: steps of one function": (
        "motion: 30 of 100 looks on one instruction, 2 lines in all"
    ),
    "by motion: on one instruction, with the GIL": "stacks: the GIL held throughout",
    "by motion: on one instruction, once with the GIL": "stacks: the GIL held now and then",
    "by motion: on one instruction, without the GIL": "stacks: the GIL held never",
    "by stacks: no stack": "stacks: none, so Python and native look alike",
    "by stacks: in C, with the GIL": (
        "stacks: native code sre_match (/usr/lib/_sre.so), the GIL held throughout"
    ),
    "by stacks: one place, with the GIL": (
        "stacks: a one-line loop and one long operation of the interpreter look alike"
    ),
    "by stacks: one place, without the GIL": (
        "stacks: spin (/app/x.py:1), without the GIL in both samples"
    ),
    "at locks: two that wake each other": "movement: thread 11, 30 wake-ups",
    "at locks: woken now and then": "movement: MainThread was woken 5 times",
    "in the queue: nearly always": (
        "process, movement: thread 10 was ready to run and waited for a CPU for 90% of the time"
    ),
    "in the queue: its limit is used up": (
        "host: its control group was out of CPU time in 60% of the periods"
    ),
    "asleep: with the GIL": ("stacks: it holds the GIL in both samples, in spin (/app/x.py:1)"),
}


@pytest.mark.parametrize(("row", "line"), LINES.items(), ids=LINES)
def test_the_decisive_line_is_among_the_evidence(row: str, line: str) -> None:
    sections, expected = TABLE[row]
    assert line in evidence(sections, expected[0][0])
