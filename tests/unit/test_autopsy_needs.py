"""Who must act before a thread can go on: as read in its interpreter, or told by the source."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import TIMED, frame, inside, lock, parked, seen, sleeps, thread, wait

from autopsy import needs
from autopsy.case import Case

THREADING = "/usr/lib/python3.11/threading.py"
POOL = "/usr/lib/python3.11/concurrent/futures/thread.py"
FUTURES = "/usr/lib/python3.11/concurrent/futures/_base.py"
TAKES = [frame("pay", source="with LOCK:")]
LINKS = list[tuple[int, int, float]]

KINDS = {
    "no stack": ([], "futex"),
    "join": ([frame("join", THREADING)], "thread to end"),
    "join inside": ([frame("_wait_for_tstate_lock", THREADING)], "thread to end"),
    "the end of the interpreter": ([frame("_shutdown", THREADING)], "thread to end"),
    "its own function called join": ([frame("join", source="rest()")], "lock or queue"),
    "condition": ([frame("wait", THREADING)], "condition"),
    "worker": ([frame("_worker", POOL)], "work item"),
    "queue": ([frame("pull", source="item = inbox.get()")], "queue item"),
    "future": ([frame("pull", source="future.result()")], "queue item"),
    "lock, though the line also gets": (
        [frame("pull", source="lock.acquire(); inbox.get()")],
        "lock",
    ),
    "with": ([frame("pay", source="with LOCK:")], "lock"),
    "acquire without source": ([frame("acquire")], "lock"),
    "enter": ([frame("Condition.__enter__", THREADING)], "lock"),
    "nothing to go by": ([frame("pull", source="x = y")], "lock or queue"),
}


@pytest.mark.parametrize(("stack", "kind"), KINDS.values(), ids=KINDS)
def test_the_source_tells_what_a_parked_thread_waits_for(
    stack: list[dict[str, Any]], kind: str
) -> None:
    case = Case(seen(parked(), stacks=[stack]))
    assert needs.kind_of_wait(case, case.threads[0]) == kind


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        ("condition", "condition"),
        ("queue item", "queue item"),
        ("thread to end", "thread to end"),
        ("work item", "work item"),
        ("semaphore", "lock"),
        ("unknown", "lock"),
        (None, "lock"),
    ],
)
def test_what_was_read_counts_more_than_the_source(read: str | None, kind: str) -> None:
    sections = seen(parked(), stacks=[TAKES], thread_locks=inside([], wait(**{"for": read})))
    case = Case(sections)
    assert needs.kind_of_wait(case, case.threads[0]) == kind


def under(*names: str) -> list[dict[str, Any]]:
    return [frame("hold", line=9, inside=list(names))]


def join(tid: int, target: int | None) -> dict[str, Any]:
    return wait(tid, None, **{"for": "thread to end", "joins_tid": target})


CHAINS: dict[str, tuple[dict[str, Any], LINKS]] = {
    "one that needs nobody": (seen(sleeps(), stacks=[TAKES]), []),
    "a holder that was read": (
        seen(parked(), sleeps(11), thread_locks=inside([lock("0x1", 11)], wait())),
        [(10, 11, 1.0)],
    ),
    "a timed wait is followed when it was read": (
        seen(
            thread(syscall="futex", args=TIMED),
            sleeps(11),
            thread_locks=inside([lock("0x1", 11)], wait()),
        ),
        [(10, 11, 1.0)],
    ),
    "a timed wait is not followed by its source": (
        seen(thread(syscall="futex", args=TIMED), sleeps(11), stacks=[TAKES, under("LOCK")]),
        [],
    ),
    "a chain over three": (
        seen(
            parked(10),
            parked(11),
            sleeps(12),
            thread_locks=inside([lock("0x1", 11), lock("0x2", 12)], wait(10), wait(11, "0x2")),
        ),
        [(10, 11, 1.0), (11, 12, 1.0)],
    ),
    "a chain into a circle of others ends where it closes": (
        seen(
            parked(10),
            parked(11),
            parked(12),
            thread_locks=inside(
                [lock("0x1", 11), lock("0x2", 12)], wait(10), wait(11, "0x2"), wait(12)
            ),
        ),
        [(10, 11, 1.0), (11, 12, 1.0), (12, 11, 1.0)],
    ),
    "a join that was read": (
        seen(parked(), sleeps(11), sleeps(12), thread_locks=inside([], join(10, 12))),
        [(10, 12, 1.0)],
    ),
    "a joined thread that is gone": (
        seen(parked(), sleeps(11), sleeps(12), thread_locks=inside([], join(10, 99))),
        [],
    ),
    "a join of an unknown thread, when one is left": (
        seen(parked(), sleeps(11), parked(12), thread_locks=inside([], join(10, None))),
        [(10, 11, 1.0)],
    ),
    "a join of an unknown thread, when two are left": (
        seen(parked(), sleeps(11), sleeps(12), stacks=[[frame("join", THREADING)], TAKES, TAKES]),
        [],
    ),
    "a lock whose holder nobody knows is not guessed by its name": (
        seen(
            parked(),
            sleeps(11),
            stacks=[TAKES, under("LOCK")],
            thread_locks=inside([lock()], wait()),
        ),
        [],
    ),
    "a lock that was not found is followed by its source": (
        seen(
            parked(),
            sleeps(11),
            stacks=[TAKES, under("LOCK")],
            thread_locks=inside([], wait(10, None)),
        ),
        [(10, 11, 1.0)],
    ),
    "a name in another file": (
        seen(
            parked(),
            sleeps(11),
            stacks=[TAKES, [frame("hold", "/app/other.py", inside=["LOCK"])]],
        ),
        [],
    ),
    "the future of a pool": (
        seen(parked(), sleeps(11), stacks=[[frame("result", FUTURES)], [frame("_worker", POOL)]]),
        [(10, 11, 1.0)],
    ),
    "the future of a pool whose workers are all parked": (
        seen(parked(), parked(11), stacks=[[frame("result", FUTURES)], [frame("_worker", POOL)]]),
        [],
    ),
}


@pytest.mark.parametrize(("sections", "links"), CHAINS.values(), ids=CHAINS)
def test_the_needs_of_the_main_thread_are_followed(sections: dict[str, Any], links: LINKS) -> None:
    case = Case(sections)
    found = needs.chain(case, case.threads[0])
    assert [(one.tid, need.thread.tid, need.sure) for one, need in found] == links


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (
            "a holder that was read",
            (
                "thread_locks: MainThread waits for the lock `lock 0x1`, "
                "which thread 11 (python) holds"
            ),
        ),
        (
            "a join that was read",
            "thread_locks: MainThread waits for thread 12 (python) to end",
        ),
        (
            "a join of an unknown thread, when one is left",
            "stacks: MainThread waits for a thread to end",
        ),
        (
            "a lock that was not found is followed by its source",
            "stacks: thread 11 (python) is inside a with block of a lock of that name",
        ),
        (
            "the future of a pool",
            "stacks: MainThread waits for what thread 11 (python) does in their pool",
        ),
    ],
)
def test_a_need_says_where_it_was_read(row: str, line: str) -> None:
    case = Case(CHAINS[row][0])
    found = needs.need_of(case, case.threads[0])
    assert found is not None
    assert found.evidence == (line,)


@pytest.mark.parametrize(
    ("other", "past"),
    [
        ([frame("write"), frame("pay", line=2)], True),
        ([frame("pay", line=1)], False),
        ([frame("pay", "/app/other.py", line=2)], False),
        ([frame("refund", line=2)], False),
    ],
    ids=["further on", "at the same line", "in another file", "in another function"],
)
def test_a_thread_further_on_in_the_function_may_hold_the_lock(
    other: list[dict[str, Any]], past: bool
) -> None:
    entered = [frame("__enter__", THREADING), *TAKES]
    case = Case(seen(parked(), sleeps(11), stacks=[entered, other]))
    found = [
        (one.tid, need.sure, need.evidence)
        for one, need in needs.perhaps_past(case, case.threads[0])
    ]
    line = "stacks: thread 11 (python) is past the line where MainThread takes the lock"
    assert found == ([(11, 0.7, (line,))] if past else [])
