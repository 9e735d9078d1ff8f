"""Event loops at rest: what their tasks await, in circles, for nobody, for input or for a pool."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import child, codes, evidence, frame, seen, sleeps, socket, task, thread

ASYNCIO = "/usr/lib/python3.11/asyncio"
IDLE = [frame("_run_once", f"{ASYNCIO}/base_events.py")]
CALLS = frame("get", line=7)
READS = (frame("StreamReader._wait_for_data", f"{ASYNCIO}/streams.py"), CALLS)
SHIELD = (frame("shield", f"{ASYNCIO}/tasks.py"), CALLS)
OF_A_CHILD = (frame("Process.wait", f"{ASYNCIO}/subprocess.py"), CALLS)
SERVES = (frame("Server.serve_forever", f"{ASYNCIO}/base_events.py"), frame("main"))
POOL = "/usr/lib/python3.11/concurrent/futures/thread.py"
LISTENS = {"sockets": [socket(3, state="LISTEN", peer="")]}
CONNECTED = {"sockets": [socket(3)]}
SERVED = {
    "sockets": [
        socket(3, local="10.0.0.1:80"),
        socket(9, state="LISTEN", local="0.0.0.0:80", peer=""),
    ]
}


def idle(*tasks: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Make an event loop that waits in the kernel, and its tasks."""
    waits = thread(syscall="epoll_wait", waits_on=[3])
    listed = {"total": len(tasks), "tasks": list(tasks)}
    return seen(waits, **{"stacks": [IDLE], "asyncio": listed, **sections})


def with_executor(stack: list[dict[str, Any]], *tasks: dict[str, Any]) -> dict[str, Any]:
    """Make an event loop beside a thread of its pool of threads."""
    return seen(
        thread(syscall="epoll_wait", waits_on=[3]),
        sleeps(11, 1e6),
        stacks=[IDLE, stack],
        asyncio={"tasks": list(tasks)},
    )


def crowd(total: int, *counts: int) -> dict[str, Any]:
    shapes = [{"count": count, "stack": [CALLS]} for count in counts]
    return seen(thread(), asyncio={"total": total, "shapes": shapes})


def circle(*ids: str) -> dict[str, Any]:
    first = task("0xa", CALLS, waits_name="B", holds=[{"id": "0x1", "name": "A"}])
    second = task("0xb", CALLS, waits_lock="0x1", holds=[{"id": "0x2", "name": ""}])
    sections = idle(first, second)
    sections["asyncio"]["cycles"] = [list(ids)]
    return sections


FOREVER = "asyncio.pending_forever"
NOBODY = task("0xa", CALLS, woken_by="nobody")
TIMER = task("0xb", frame("sleep", f"{ASYNCIO}/tasks.py"), CALLS, woken_by="timer")
TABLE = {
    "very many tasks of one kind": (crowd(5000, 4500), [("leak.tasks", 0.9)]),
    "very many tasks that pause": (
        {**(many := crowd(5000, 4500)), "asyncio": {**many["asyncio"], "tasks": [TIMER]}},
        [("leak.tasks", 0.55)],
    ),
    "many tasks of one kind": (crowd(1000, 800), [("leak.tasks", 0.78)]),
    "many tasks of two kinds": (crowd(1000, 400, 400, 100), [("leak.tasks", 0.78)]),
    "many tasks of many kinds": (crowd(1000, 300, 300, 300), [("unknown", 0.0)]),
    "very many tasks of one kind in an idle loop": (
        idle(asyncio=crowd(5000, 4500)["asyncio"]),
        [("leak.tasks", 0.9), (FOREVER, 0.3)],
    ),
    "some tasks": (crowd(999, 999), [("unknown", 0.0)]),
    "many tasks whose stacks nobody saw": (crowd(5000), [("unknown", 0.0)]),
    "a circle": (circle("0xa", "0xb"), [("asyncio.deadlock", 0.96)]),
    "a circle of which one task was read": (circle("0xa", "0xf"), [("asyncio.deadlock", 0.96)]),
    "a circle of tasks that were not read": (circle("0xe", "0xf"), [(FOREVER, 0.65)]),
    "no task was read": (idle(), [(FOREVER, 0.5)]),
    "no task was read, and it listens": (
        idle(sockets=LISTENS),
        [("none.idle", 0.5), (FOREVER, 0.4)],
    ),
    "a future that nobody completes": (idle(NOBODY), [(FOREVER, 0.85)]),
    "a shield around what nobody completes": (
        idle(task("0xa", *SHIELD, awaits_task="0xb"), task("0xb", CALLS, woken_by="nobody")),
        [(FOREVER, 0.85)],
    ),
    "a gather of a timer and of what nobody completes": (
        idle(task("0xm", frame("main"), awaits="gather", woken_by="timer"), TIMER, NOBODY),
        [(FOREVER, 0.85)],
    ),
    "a gather of timers": (
        idle(task("0xm", frame("main"), awaits="gather", woken_by="timer"), TIMER),
        [("none.idle", 0.6)],
    ),
    "a future that nobody completes, beside a listener": (
        idle(NOBODY, sockets=LISTENS),
        [(FOREVER, 0.6)],
    ),
    "nobody knows who wakes it": (idle(task("0xa", CALLS)), [(FOREVER, 0.65)]),
    "it waits for a lock, beside a listener": (
        idle(task("0xa", CALLS, waits_lock="0x1"), sockets=LISTENS),
        [(FOREVER, 0.65), ("none.idle", 0.5)],
    ),
    "it serves": (idle(task("0xa", *SERVES), sockets=LISTENS), [("none.idle", 0.6)]),
    "it is about to run": (idle(task("0xa", CALLS, state="ready")), [("none.idle", 0.6)]),
    "it reads from a server": (
        idle(task("0xa", *READS, woken_by="io"), sockets=CONNECTED),
        [(FOREVER, 0.65), ("blocked.external", 0.6)],
    ),
    "it reads from a client of its own": (
        idle(task("0xa", *READS, woken_by="io"), sockets=SERVED),
        [(FOREVER, 0.65)],
    ),
    "a connection nobody reads from": (
        idle(task("0xa", CALLS), sockets=CONNECTED),
        [(FOREVER, 0.65)],
    ),
    "it waits for a child": (
        idle(task("0xa", *OF_A_CHILD), children={"children": [child()]}),
        [(FOREVER, 0.65), ("blocked.child_process", 0.6)],
    ),
    "it waits for a child that nobody sees": (idle(task("0xa", *OF_A_CHILD)), [(FOREVER, 0.65)]),
    "a thread of its executor is in a call": (
        with_executor([CALLS, frame("_WorkItem.run", POOL)], task("0xa", CALLS)),
        [("blocked.sleep", 0.72), (FOREVER, 0.4)],
    ),
    "a thread of its executor is in a call, and nobody wakes it": (
        with_executor([CALLS, frame("_WorkItem.run", POOL)], NOBODY),
        [("blocked.sleep", 0.72), (FOREVER, 0.4)],
    ),
    "a thread of its executor rests": (
        with_executor([frame("_worker", POOL)], NOBODY),
        [(FOREVER, 0.85), ("blocked.sleep", 0.72)],
    ),
}


@pytest.mark.parametrize(("sections", "expected"), TABLE.values(), ids=TABLE)
def test_what_the_tasks_await_names_the_cause(
    sections: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    assert codes(sections) == expected


def test_a_loop_that_moves_is_not_idle() -> None:
    sections = idle(NOBODY)
    look = sections["process"]["threads"][0]
    sections["movement"]["threads"] = [{**look, "switches": 9}]
    assert codes(sections) == [("none.progressing", 0.4)]


SEEN = "process: thread 10 (python) is an idle event loop in epoll_wait"
LINES = {
    "many tasks of one kind": ("asyncio: 1000 tasks, 800 of them in get (/app/x.py:7)",),
    "a circle": (
        "asyncio: task task 0xa awaits Future, wants B, holds A in get (/app/x.py:7)",
        "asyncio: task task 0xb awaits Future, wants 0x1, holds 0x2 in get (/app/x.py:7)",
    ),
    "no task was read": (
        SEEN,
        "stacks: which coroutine waits cannot be seen from outside the process",
        f"stacks: _run_once ({ASYNCIO}/base_events.py:1)",
    ),
    "a shield around what nobody completes": (
        SEEN,
        "asyncio: task task 0xa awaits Future in get (/app/x.py:7)",
        "asyncio: task task 0xb awaits Future in get (/app/x.py:7)",
    ),
    "a gather of a timer and of what nobody completes": (
        SEEN,
        "asyncio: task task 0xa awaits Future in get (/app/x.py:7)",
    ),
    "it serves": (SEEN, "asyncio: task task 0xa awaits Future in main (/app/x.py:1)"),
}


@pytest.mark.parametrize(("row", "lines"), LINES.items(), ids=LINES)
def test_the_tasks_are_the_evidence(row: str, lines: tuple[str, ...]) -> None:
    sections, expected = TABLE[row]
    assert evidence(sections, expected[0][0]) == lines


@pytest.mark.parametrize(
    ("row", "code", "line"),
    [
        (
            "it reads from a server",
            "blocked.external",
            "sockets: descriptor 3 ESTABLISHED, peer 10.0.0.9:5432",
        ),
        ("it waits for a child", "blocked.child_process", "children: 77 (yes) state S"),
        ("no task was read, and it listens", "none.idle", "sockets: it also listens"),
    ],
)
def test_what_an_idle_loop_is_connected_to_is_told(row: str, code: str, line: str) -> None:
    assert line in evidence(TABLE[row][0], code)
