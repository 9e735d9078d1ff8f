"""Threads parked at locks: circles, dead holders, shared memory, and who else could wake them."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import (
    TIMED,
    child,
    codes,
    evidence,
    frame,
    inside,
    lock,
    parked,
    seen,
    sleeps,
    socket,
    thread,
    wait,
)

THREADING = "/usr/lib/python3.11/threading.py"
POOL = "/usr/lib/python3.11/concurrent/futures/thread.py"
FUTURES = "/usr/lib/python3.11/concurrent/futures/_base.py"
QUEUES = "/usr/lib/python3.11/multiprocessing/queues.py"
TAKES = [frame("pay", source="with LOCK:")]
WAITS = [frame("wait", THREADING), frame("main")]
LEAVES = [frame("_shutdown", THREADING)]
OF_A_POOL = [frame("_worker", POOL)]
WORKS = [frame("beat", line=9)]
LONG, SHORT = 1e6, 5.0
SIGTERM = {"TracerPid": "0", "SigCgt": "0000000000004002"}


def takes(name: str, *under: str) -> list[dict[str, Any]]:
    """Make the stack of a thread that takes a lock inside `with` blocks of others."""
    return [frame("pay", source=f"with {name}:", inside=list(under))]


def circle(size: int, **changes: Any) -> dict[str, Any]:
    """Make threads that each wait for the lock of the next, as their interpreter says."""
    tids = range(10, 10 + size)
    return seen(
        *(parked(tid) for tid in tids),
        stacks=[TAKES] * size,
        thread_locks=inside(
            [lock(f"0x{tid}", tid, **changes) for tid in tids],
            *(wait(tid, f"0x{10 + (tid - 9) % size}") for tid in tids),
        ),
    )


def beside(other: dict[str, Any], stack: list[dict[str, Any]], **sections: Any) -> dict[str, Any]:
    """Make a main thread that waits for a lock of an unknown holder, and one other thread."""
    return seen(parked(), other, stacks=[TAKES, stack], **sections)


def leaving(other: dict[str, Any], stack: list[dict[str, Any]], **sections: Any) -> dict[str, Any]:
    return seen(parked(), other, stacks=[LEAVES, stack], **sections)


def handles(sections: dict[str, Any]) -> dict[str, Any]:
    """Let the process handle SIGTERM."""
    sections["process"]["status"] = SIGTERM
    return sections


CIRCLES = {
    "a thread waits for the lock it holds": (circle(1), [("deadlock.in_process", 0.97)]),
    "two threads in a circle": (circle(2), [("deadlock.in_process", 0.97)]),
    "three threads in a circle": (circle(3), [("deadlock.in_process", 0.97)]),
    "a circle that only the source shows": (
        seen(parked(10), parked(11), stacks=[takes("B", "A"), takes("A", "B")]),
        [("deadlock.in_process", 0.75)],
    ),
    "a circle half read and half by source": (
        seen(
            parked(10),
            parked(11),
            stacks=[takes("B", "A"), takes("A", "B")],
            thread_locks=inside([lock("0x1", 11)], wait(10)),
        ),
        [("deadlock.in_process", 0.75)],
    ),
    "a lock taken twice, beside a heartbeat": (
        seen(parked(), sleeps(11, SHORT), stacks=[takes("A", "A"), WORKS]),
        [("deadlock.in_process", 0.75), ("blocked.sleep", 0.5)],
    ),
    "the lock of another object may have that name": (
        seen(parked(), stacks=[takes("self.lock", "self.lock")]),
        [("deadlock.in_process", 0.9)],
    ),
    "two threads may be the holder, so the source names none": (
        seen(
            parked(10),
            parked(11),
            parked(12),
            stacks=[takes("A"), takes("B", "A"), takes("B", "A")],
        ),
        [("deadlock.in_process", 0.9)],
    ),
    "a circle in which one has moved is none": (
        seen(
            parked(10),
            parked(11),
            second=[parked(10), parked(11, switches=40)],
            stacks=[takes("B", "A"), takes("A", "B")],
        ),
        [("none.progressing", 0.6), ("deadlock.in_process", 0.2)],
    ),
    "the owner of the lock is dead": (
        seen(
            parked(),
            stacks=[TAKES],
            thread_locks=inside([lock(holder=99, holder_alive=False)], wait()),
        ),
        [("deadlock.in_process", 0.93)],
    ),
    "the owner is dead and others work": (
        beside(
            sleeps(11, SHORT),
            WORKS,
            thread_locks=inside([lock(holder=99, holder_alive=False)], wait()),
        ),
        [("deadlock.in_process", 0.93), ("blocked.sleep", 0.5)],
    ),
    "a dead owner of a free lock proves nothing": (
        seen(
            parked(),
            stacks=[TAKES],
            thread_locks=inside([lock(holder=99, holder_alive=False, locked=False)], wait()),
        ),
        [("deadlock.in_process", 0.9)],
    ),
}
BYSTANDERS = {
    "a timed wait": (
        beside(thread(11, syscall="futex", args=TIMED), WORKS),
        [("deadlock.in_process", 0.78), ("none.idle", 0.3)],
    ),
    "a worker of a pool": (beside(parked(11), OF_A_POOL), [("deadlock.in_process", 0.9)]),
    "a thread that accepts": (
        beside(thread(11, syscall="accept4", args=[3]), WORKS),
        [("deadlock.in_process", 0.78), ("none.idle", 0.55)],
    ),
    "a short sleep": (
        beside(sleeps(11, SHORT), WORKS),
        [("deadlock.in_process", 0.78), ("blocked.sleep", 0.5)],
    ),
    "a long sleep, in which it may hold the lock": (
        beside(sleeps(11, LONG), WORKS),
        [("blocked.sleep", 0.55), ("deadlock.in_process", 0.45)],
    ),
    "a thread that computes": (
        beside(thread(11, state="R"), WORKS),
        [("busy.native", 0.85), ("deadlock.in_process", 0.45)],
    ),
    "a wait for a signal": (
        beside(thread(11, syscall="pause"), WORKS),
        [("deadlock.in_process", 0.78), ("none.idle", 0.5)],
    ),
    "a poll of nothing that is connected": (
        beside(thread(11, syscall="poll", waits_on=[3]), WORKS),
        [("deadlock.in_process", 0.78)],
    ),
    "a poll of a connection": (
        beside(thread(11, syscall="poll", waits_on=[3]), WORKS, sockets={"sockets": [socket()]}),
        [("blocked.external", 0.55), ("deadlock.in_process", 0.45)],
    ),
    "a poll for a datagram": (
        beside(
            thread(11, syscall="poll", waits_on=[3]),
            WORKS,
            sockets={"sockets": [socket(kind="udp", state="", peer="")]},
        ),
        [("blocked.external", 0.55), ("deadlock.in_process", 0.45)],
    ),
    "two wait for locks, one waits for an answer": (
        seen(
            parked(10),
            parked(11),
            thread(12, syscall="recvfrom", args=[3]),
            stacks=[TAKES, TAKES, WORKS],
            sockets={"sockets": [socket()]},
        ),
        [("blocked.external", 0.55), ("deadlock.in_process", 0.5)],
    ),
    "the holder is known and waits for an answer": (
        beside(
            thread(11, syscall="recvfrom", args=[3]),
            WORKS,
            sockets={"sockets": [socket()]},
            thread_locks=inside([lock("0x1", 11)], wait()),
        ),
        [("blocked.external", 0.9), ("deadlock.in_process", 0.2)],
    ),
}
SHUTDOWN = {
    "the other sleeps for long": (
        leaving(sleeps(11, LONG), WORKS),
        [("blocked.sleep", 0.85), ("exit.hung_shutdown", 0.8)],
    ),
    "the other may be about to end": (
        leaving(sleeps(11, SHORT), WORKS),
        [("exit.hung_shutdown", 0.5), ("blocked.sleep", 0.5)],
    ),
    "the other gives up soon": (
        leaving(thread(11, syscall="futex", args=TIMED, timeout_left_s=SHORT), WORKS),
        [("exit.hung_shutdown", 0.5), ("none.idle", 0.3)],
    ),
    "the other gives up in days": (
        leaving(thread(11, syscall="futex", args=TIMED, timeout_left_s=LONG), WORKS),
        [("exit.hung_shutdown", 0.8), ("wait.no_waker", 0.6), ("blocked.sleep", 0.55)],
    ),
    "nobody is left to end": (leaving(parked(11), WAITS), [("exit.hung_shutdown", 0.93)]),
    "two are in a deadlock, which is the cause": (
        seen(parked(10), parked(11), parked(12), stacks=[LEAVES, TAKES, TAKES]),
        [("deadlock.in_process", 0.9), ("exit.hung_shutdown", 0.5)],
    ),
}
NO_WAKER = {
    "all wait for a condition": (seen(parked(), stacks=[WAITS]), [("wait.no_waker", 0.8)]),
    "a handler of a signal may wake it": (
        handles(seen(parked(), stacks=[WAITS])),
        [("wait.no_waker", 0.55), ("none.idle", 0.4)],
    ),
    "the others only tick": (
        seen(parked(), sleeps(11, SHORT), stacks=[WAITS, WORKS]),
        [("wait.no_waker", 0.6), ("blocked.sleep", 0.5), ("none.idle", 0.35)],
    ),
    "the others only tick, and a signal may wake it": (
        handles(seen(parked(), sleeps(11, SHORT), stacks=[WAITS, WORKS])),
        [("none.idle", 0.5), ("blocked.sleep", 0.5), ("wait.no_waker", 0.45)],
    ),
    "another may bring it after a long sleep": (
        seen(parked(), sleeps(11, LONG), stacks=[WAITS, WORKS]),
        [("blocked.sleep", 0.55)],
    ),
    "it runs the event loop": (
        seen(parked(), stacks=[[*WAITS, frame("BaseEventLoop._run_once")]]),
        [("asyncio.loop_blocked", 0.86), ("wait.no_waker", 0.8)],
    ),
    "a pool waits for itself": (
        seen(
            parked(10),
            parked(11),
            stacks=[WAITS, [frame("wait", THREADING), frame("result", FUTURES), *OF_A_POOL]],
        ),
        [("deadlock.in_process", 0.9)],
    ),
    "it cannot be seen what the wait is for": (
        seen(parked(), stacks=[[frame("pull")]]),
        [("deadlock.in_process", 0.5), ("wait.no_waker", 0.4)],
    ),
    "no stack at all": (
        seen(parked()),
        [("deadlock.in_process", 0.5), ("wait.no_waker", 0.4)],
    ),
}
ALL_SHARED = {"shared_mappings": [{"start": 0, "end": 0x2000}]}
SHARED = {
    "a lock in shared memory": (
        seen(parked(), stacks=[TAKES], memory=ALL_SHARED),
        [("deadlock.cross_process", 0.75)],
    ),
    "a semaphore that the interpreter calls shared": (
        seen(
            parked(),
            stacks=[TAKES],
            thread_locks=inside([lock(kind="SemLock", shared=True)], wait()),
        ),
        [("deadlock.cross_process", 0.75)],
    ),
    "the worker of an idle pool": (
        seen(parked(), stacks=[[frame("get", QUEUES)]], memory=ALL_SHARED),
        [("none.idle", 0.5), ("deadlock.cross_process", 0.4)],
    ),
    "memory of its own": (
        seen(parked(), stacks=[TAKES], memory={"shared_mappings": [{"start": 0, "end": 0x1000}]}),
        [("deadlock.in_process", 0.9)],
    ),
}
TABLE = {**CIRCLES, **BYSTANDERS, **SHUTDOWN, **NO_WAKER, **SHARED}


@pytest.mark.parametrize(("sections", "expected"), TABLE.values(), ids=TABLE)
def test_who_waits_for_whom_names_the_cause(
    sections: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    assert codes(sections) == expected


def test_a_circle_is_told_link_by_link() -> None:
    sections = circle(2, held_at=frame("take", "/app/bank.py", 4))
    assert evidence(sections, "deadlock.in_process") == (
        (
            "thread_locks: MainThread waits for the lock `lock 0x11`, "
            "which thread 11 (python) holds "
            "since /app/bank.py:4"
        ),
        (
            "thread_locks: thread 11 (python) waits for the lock `lock 0x10`, "
            "which MainThread holds "
            "since /app/bank.py:4"
        ),
        "stacks: MainThread waits for itself in the end",
        "stacks: MainThread: pay (/app/x.py:1)",
        "stacks: thread 11 (python): pay (/app/x.py:1)",
    )


def test_a_dead_owner_is_said_in_words() -> None:
    sections, _ = CIRCLES["the owner of the lock is dead"]
    assert evidence(sections, "deadlock.in_process") == (
        "thread_locks: MainThread waits for lock 0x1, whose owner is no living thread",
        "stacks: pay (/app/x.py:1)",
    )


@pytest.mark.parametrize(
    ("children", "line"),
    [
        ([], "children: none is left alive"),
        ([child(state="Z")], "children: none is left alive"),
        ([child(78, name="worker"), child(state="X")], "children: 78 (worker)"),
    ],
    ids=["no child", "a dead child", "one lives"],
)
def test_the_processes_that_may_hold_a_shared_lock_are_named(
    children: list[dict[str, Any]], line: str
) -> None:
    sections = seen(parked(), stacks=[TAKES], memory=ALL_SHARED, children={"children": children})
    assert evidence(sections, "deadlock.cross_process")[1] == line


@pytest.mark.parametrize(
    ("row", "code", "line"),
    [
        (
            BYSTANDERS["a short sleep"],
            "deadlock.in_process",
            "process: the one other thread only waits for time or work",
        ),
        (
            BYSTANDERS["a poll of a connection"],
            "deadlock.in_process",
            "process: 1 other threads live; one may hold the lock",
        ),
        (
            BYSTANDERS["the holder is known and waits for an answer"],
            "blocked.external",
            (
                "thread_locks: MainThread waits for the lock `lock 0x1`, "
                "which thread 11 (python) holds"
            ),
        ),
        (
            SHUTDOWN["the other sleeps for long"],
            "exit.hung_shutdown",
            "stacks: the main thread is done and waits for the others to end; none of them moves",
        ),
        (
            NO_WAKER["it runs the event loop"],
            "asyncio.loop_blocked",
            "stacks: MainThread runs the event loop and waits for another thread",
        ),
        (
            NO_WAKER["a pool waits for itself"],
            "deadlock.in_process",
            "stacks: a thread of a pool waits for that pool",
        ),
        (
            NO_WAKER["a handler of a signal may wake it"],
            "wait.no_waker",
            "process: it handles SIGTERM, SIGHUP or SIGUSR, whose handler may wake it",
        ),
    ],
    ids=["rest", "live", "holder", "shutdown", "loop", "pool", "signal"],
)
def test_the_decisive_line_is_among_the_evidence(
    row: tuple[dict[str, Any], Any], code: str, line: str
) -> None:
    assert line in evidence(row[0], code)


def test_a_name_that_was_read_is_in_the_line_of_the_thread() -> None:
    sections = seen(
        parked(),
        stacks=[WAITS],
        thread_locks=inside([], wait(10, None, **{"for": "queue item", "name": "INBOX"})),
    )
    assert evidence(sections, "wait.no_waker")[-1] == (
        "process, stacks: thread 10 (python) waits without a timeout for an item of queue "
        f"`INBOX`, or for room in it in main (/app/x.py:1), there in wait ({THREADING}:1)"
    )
