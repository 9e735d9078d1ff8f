"""What is read of locks beyond their holder: those left locked, those that processes share."""

from __future__ import annotations

from typing import Any

from handmade import codes, evidence, frame, inside, lock, parked, seen, thread, wait

SHARED = {"shared_mappings": [{"start": 0x1000, "end": 0x2000, "name": "/dev/shm/sem"}]}
TAKES = [frame("pay", source="with LOCK:")]
WORKS = [frame("count", line=9)]
ELSEWHERE = {
    "pid": 77,
    "tid": 77,
    "thread": "MainThread",
    "at": {"function": "work", "file": "/app/y.py", "line": 7},
}


def beside_one_that_works(**changes: Any) -> dict[str, Any]:
    busy = thread(11, state="R", cpu_ticks=30)
    known = inside([lock(locked=True, holder_alive=None, **changes)], wait())
    return seen(parked(), busy, stacks=[TAKES, WORKS], thread_locks=known)


def shared_with(circles: list[Any], **changes: Any) -> dict[str, Any]:
    known = inside([lock(shared=True, holder_alive=None, **changes)], wait())
    return seen(
        parked(),
        stacks=[TAKES],
        memory=SHARED,
        thread_locks={**known, "cycles_across": circles},
    )


def test_a_lock_that_no_call_holds_was_left_locked() -> None:
    found = dict(codes(beside_one_that_works(left=True)))
    assert found["deadlock.in_process"] == 0.78
    lines = evidence(beside_one_that_works(left=True), "deadlock.in_process")
    assert "which no call of any thread holds" in lines[0]
    assert dict(codes(beside_one_that_works(left=False)))["deadlock.in_process"] < 0.6


def test_a_shared_lock_whose_holder_has_died() -> None:
    sections = shared_with([], elsewhere=None, orphaned=True)
    assert codes(sections)[0] == ("deadlock.cross_process", 0.95)
    assert "its holder has died" in evidence(sections, "deadlock.cross_process")[0]


def test_a_circle_across_processes() -> None:
    sections = shared_with([[[10, 10], [77, 77]]], elsewhere=ELSEWHERE, orphaned=False)
    assert codes(sections)[0] == ("deadlock.cross_process", 0.97)
    first = evidence(sections, "deadlock.cross_process")[0]
    assert first.endswith("held by MainThread of process 77 (/app/y.py:7)")


def test_a_shared_lock_that_another_process_holds() -> None:
    sections = shared_with([[[5, 5], [77, 77]]], elsewhere=ELSEWHERE, orphaned=False)
    assert codes(sections)[0] == ("deadlock.cross_process", 0.75)
