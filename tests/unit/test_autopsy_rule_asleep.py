"""Sleeps, waits that give up, waits for a signal; and what a wait is worth beside other threads."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import (
    TIMED,
    codes,
    evidence,
    frame,
    inside,
    lock,
    motion,
    parked,
    seen,
    sleeps,
    socket,
    thread,
    wait,
)

LONG, SHORT = 1e6, 5.0
THREADING = "/usr/lib/python3.11/threading.py"
RESTS = [frame("rest")]
OTHER = [frame("other", line=7)]
WORKS = thread(11)
SIGTERM = "0000000000004000"


def turns(loop: str | None, switches: int = 1) -> dict[str, Any]:
    """Make a thread that woke in its short sleeps, in a loop with this head."""
    stack = [frame("rest"), frame("main", **({} if loop is None else {"loop": loop}))]
    return seen(
        sleeps(left_s=0.05), second=[sleeps(left_s=0.05, switches=switches)], stacks=[stack]
    )


def timed(left_s: float | None, switches: int = 0) -> dict[str, Any]:
    look = thread(syscall="futex", args=TIMED, timeout_left_s=left_s)
    return seen(look, second=[{**look, "switches": switches}], stacks=[RESTS])


def for_a_signal(caught: str, *others: dict[str, Any]) -> dict[str, Any]:
    sections = seen(
        thread(syscall="rt_sigsuspend"), *others, stacks=[RESTS, *([OTHER] * len(others))]
    )
    sections["process"]["status"]["SigCgt"] = caught
    return sections


def of_nothing(left_s: float | None, switches: int = 0) -> dict[str, Any]:
    """Make a thread that polls no descriptor."""
    look = thread(syscall="ppoll", timeout_left_s=left_s)
    return seen(look, second=[{**look, "switches": switches}], stacks=[RESTS])


TICKS = [("none.idle", 0.5), ("none.progressing", 0.45), ("blocked.polling", 0.4)]
SLEEPS = {
    "for an unknown time": (seen(sleeps(), stacks=[RESTS]), [("blocked.sleep", 0.55)]),
    "for days": (seen(sleeps(left_s=LONG), stacks=[RESTS]), [("blocked.sleep", 0.85)]),
    "for a minute, as many a loop does": (
        seen(sleeps(left_s=60.0), stacks=[RESTS]),
        [("blocked.sleep", 0.5)],
    ),
    "in the thread of an event loop": (
        seen(sleeps(left_s=SHORT), stacks=[[frame("rest"), frame("Loop.run_forever")]]),
        [("asyncio.loop_blocked", 0.85)],
    ),
    "in the thread of a loop that is not written in Python": (
        seen(
            sleeps(left_s=SHORT),
            stacks=[[frame("rest"), frame("Runner.run", "/lib/python3.11/asyncio/runners.py")]],
        ),
        [("asyncio.loop_blocked", 0.85)],
    ),
    "at two places": (
        seen(sleeps(), stacks=[RESTS, OTHER], moved=True),
        [("none.progressing", 0.45)],
    ),
    "with work in between": (
        seen(sleeps(), second=[sleeps(cpu_ticks=2)], stacks=[RESTS]),
        [("none.progressing", 0.5)],
    ),
    "in turns, nobody knows why": (turns(None), [("blocked.polling", 0.4)]),
    "in turns, until something": (turns("while not ready()"), [("blocked.polling", 0.6)]),
    "in turns, with a way out": (
        turns("while True (with a way out)"),
        [("blocked.polling", 0.6)],
    ),
    "in turns, for ever": (turns("while True"), TICKS),
    "in turns, for ever as in C": (turns("while 1"), TICKS),
    "in turns, often and for ever": (
        turns("while True", switches=5),
        [("none.progressing", 0.5), ("none.idle", 0.45), ("blocked.polling", 0.4)],
    ),
    "at two places of a loop that waits for something": (
        seen(
            sleeps(),
            stacks=[[frame("rest", loop="while not ready()")], OTHER],
            moved=True,
        ),
        [("blocked.polling", 0.6), ("none.progressing", 0.45)],
    ),
    "at two places of a loop that waits for nothing": (
        seen(sleeps(), stacks=[[frame("rest", loop="while True")], OTHER], moved=True),
        [("none.progressing", 0.45)],
    ),
    "at two places of a loop over something": (
        seen(sleeps(), stacks=[[frame("rest", loop="for row in rows")], OTHER], moved=True),
        [("none.progressing", 0.45)],
    ),
    "in a poll of nothing, for ever": (of_nothing(None), [("wait.no_waker", 0.6)]),
    "in a poll of nothing, for days": (of_nothing(LONG), [("blocked.sleep", 0.8)]),
    "in a poll of nothing, for seconds": (of_nothing(SHORT), [("blocked.sleep", 0.5)]),
    "in a poll of nothing, in turns": (of_nothing(SHORT, switches=1), [("unknown", 0.0)]),
}
GIVES_UP = {
    "at an unknown time": (timed(None), [("none.idle", 0.3)]),
    "soon": (timed(SHORT), [("none.idle", 0.3)]),
    "in days": (timed(LONG), [("wait.no_waker", 0.6), ("blocked.sleep", 0.55)]),
    "soon, for a lock that was read": (
        {**timed(SHORT), "thread_locks": inside([lock()], wait(timed=True))},
        [("blocked.polling", 0.45), ("deadlock.in_process", 0.42), ("none.idle", 0.3)],
    ),
    "soon, for something else that was read": (
        {**timed(SHORT), "thread_locks": inside([], wait(**{"for": "condition"}))},
        [("none.idle", 0.3)],
    ),
    "in days, but it moves": (timed(LONG, switches=5), [("none.idle", 0.3)]),
}
SIGNALS = {
    "nobody sends one": (
        for_a_signal("0"),
        [("wait.no_waker", 0.6), ("blocked.sleep", 0.55)],
    ),
    "SIGINT alone is handled": (
        for_a_signal("0000000000000002"),
        [("wait.no_waker", 0.6), ("blocked.sleep", 0.55)],
    ),
    "SIGTERM is handled": (
        for_a_signal(SIGTERM),
        [("none.idle", 0.55), ("wait.no_waker", 0.5)],
    ),
    "others may do the work": (for_a_signal(SIGTERM, WORKS), [("none.idle", 0.5)]),
}
EXTERNAL = {"sockets": {"sockets": [socket()]}}
RECEIVES = thread(11, syscall="recvfrom", args=[3])
BESIDE = {
    "the main thread sleeps, the work may be elsewhere": (
        seen(sleeps(left_s=LONG), RECEIVES, stacks=[RESTS, OTHER], **EXTERNAL),
        [("blocked.external", 0.77), ("blocked.sleep", 0.45)],
    ),
    "the main thread serves": (
        seen(thread(syscall="accept"), RECEIVES, stacks=[RESTS, OTHER], **EXTERNAL),
        [("none.idle", 0.55), ("blocked.external", 0.55)],
    ),
    "the main thread waits for an event": (
        seen(parked(), RECEIVES, stacks=[[frame("wait", THREADING)], OTHER], **EXTERNAL),
        [("blocked.external", 0.55)],
    ),
    "the main thread joins it": (
        seen(parked(), RECEIVES, stacks=[[frame("join", THREADING)], OTHER], **EXTERNAL),
        [("blocked.external", 0.9)],
    ),
    "the main thread computes": (
        seen(
            thread(state="R"),
            RECEIVES,
            stacks=[RESTS, OTHER, OTHER],
            moved=True,
            gil=(True, False),
            **EXTERNAL,
        ),
        [("busy.python", 0.8), ("blocked.external", 0.77)],
    ),
    "it is seen at work in many lines": (
        seen(
            thread(syscall="recvfrom", args=[3]),
            stacks=[OTHER],
            motion=motion(30, lines=4),
            **EXTERNAL,
        ),
        [("none.progressing", 0.6), ("blocked.external", 0.4)],
    ),
    "it uses the CPU between many waits": (
        seen(
            parked(),
            second=[parked(switches=5, cpu_ticks=2)],
            stacks=[[frame("wait", THREADING)]],
        ),
        [("none.progressing", 0.6)],
    ),
    "many short waits that nobody saw": (
        seen(thread(), second=[thread(switches=41)], stacks=[RESTS]),
        [("none.progressing", 0.45)],
    ),
}


def alone(source: str, function: str = "f", file: str = "/app/x.py") -> dict[str, Any]:
    """Make a thread of which the kernel tells nothing."""
    return seen(thread(), stacks=[[frame(function, file, source=source)]])


BY_STACK = {
    "it sleeps": (alone("time.sleep(9)"), [("blocked.sleep", 0.4)]),
    "it receives": (alone("data = sock.recv(9)"), [("blocked.external", 0.4)]),
    "it connects": (alone("sock.connect(peer)"), [("blocked.external", 0.4)]),
    "it takes a lock": (alone("with LOCK:"), [("deadlock.in_process", 0.3)]),
    "it wants an item": (alone("inbox.get()"), [("wait.no_waker", 0.3)]),
    "it waits": (alone("", "wait", THREADING), [("wait.no_waker", 0.3)]),
    "it does anything": (alone("x = y"), [("unknown", 0.0)]),
}
TABLE = {
    f"{group}: {row}": case
    for group, rows in (
        ("sleeps", SLEEPS),
        ("gives up", GIVES_UP),
        ("waits for a signal", SIGNALS),
        ("beside", BESIDE),
        ("by the stack alone", BY_STACK),
    )
    for row, case in rows.items()
}


@pytest.mark.parametrize(("sections", "expected"), TABLE.values(), ids=TABLE)
def test_how_it_rests_names_the_cause(
    sections: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    assert codes(sections) == expected


LINES = {
    "sleeps: for an unknown time": "process: for how long is unknown",
    "sleeps: for days": "process: its sleep ends in 1000000 s",
    "sleeps: for a minute, as many a loop does": (
        "process: its sleep ends in 60 s: it may be one turn of a loop that is well"
    ),
    "sleeps: in the thread of an event loop": "stacks: below the event loop",
    "sleeps: at two places": (
        "movement, stacks: 0 wake-ups, at another place in the second sample"
    ),
    "sleeps: with work in between": "movement: between its sleeps 8% CPU",
    "sleeps: in turns, until something": "stacks: in the loop `while not ready()`",
    "sleeps: in turns, for ever": (
        "stacks: its loop `while True` has no way out: it waits for nothing in particular"
    ),
    "gives up: soon": "process: the wait has a timeout",
    "gives up: in days": "process: it waits for another thread, at most 1000000 s more",
    "waits for a signal: nobody sends one": "process: only a signal ends this wait",
    "waits for a signal: SIGTERM is handled": (
        "process: it handles SIGHUP, SIGUSR1, SIGUSR2 or SIGTERM and waits for one"
    ),
    "waits for a signal: others may do the work": "process: its other threads may do the work",
    "beside: it is seen at work in many lines": (
        "motion: 30 of 100 looks on one instruction, 4 lines in all"
    ),
    "beside: the main thread waits for an event": (
        f"stacks: MainThread waits in {THREADING}:1, perhaps for thread 11 (python)"
    ),
    "sleeps: in a poll of nothing, for ever": "process: it waits for no descriptor",
    "sleeps: in a poll of nothing, for days": "process: it waits for nothing, for 1000000 s",
    "gives up: soon, for a lock that was read": (
        "process, thread_locks: it tries to take a lock, again and again if in a loop"
    ),
    "by the stack alone: it sleeps": (
        "process: the system call is not known, nor whether the wait has a timeout"
    ),
}


@pytest.mark.parametrize(("row", "line"), LINES.items(), ids=LINES)
def test_the_decisive_line_is_among_the_evidence(row: str, line: str) -> None:
    sections, expected = TABLE[row]
    assert line in evidence(sections, expected[0][0])
