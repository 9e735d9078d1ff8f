"""The rules on handmade sections: each cause with its evidence, and `unknown` when nothing fits."""

from __future__ import annotations

from typing import Any

import pytest

from autopsy.cause import Diagnosis
from autopsy.diagnose import diagnose

UNTIMED = [0x1000, 0x189, 0, 0, 0, 0]
TIMED = [0x1000, 0x189, 0, 0x7F00, 0, 0]


def thread(tid: int = 10, **changes: Any) -> dict[str, Any]:
    return {
        "tid": tid,
        "name": "python",
        "state": "S",
        "cpu_ticks": 0,
        "switches": 0,
        "wchan": "",
        "syscall": None,
        "args": [],
        "waits_on": [],
        **changes,
    }


def frame(
    function: str, file: str = "/app/x.py", line: int = 1, source: str = ""
) -> dict[str, Any]:
    return {"function": function, "file": file, "line": line, "source": source}


def seen(
    *first: dict[str, Any],
    second: list[dict[str, Any]] | None = None,
    stacks: list[list[dict[str, Any]]] | None = None,
    moved: bool = False,
    gil: bool = False,
    **sections: Any,
) -> dict[str, Any]:
    """Sections of a capture: thread n has stack n (in the second sample n + 1 if moved)."""
    samples = [
        {
            "at_ms": at,
            "method": "py-spy",
            "reason": "",
            "threads": [
                {"tid": one["tid"], "name": "", "owns_gil": gil, "active": gil, "stack": n + shift}
                for n, one in enumerate(first)
            ],
        }
        for at, shift in ((0, 0), (250, int(moved)))
    ]
    return {
        "process": {"at_ms": 0.0, "threads": list(first), "status": {"TracerPid": "0"}},
        "movement": {
            "at_ms": 250.0,
            "alive": True,
            "reaped": False,
            "threads": list(first) if second is None else second,
        },
        "stacks": {"samples": samples if stacks else [], "stacks": stacks or []},
        **sections,
    }


def best(sections: dict[str, Any]) -> tuple[str, float]:
    found = diagnose(sections)[0]
    return found.code, found.confidence


WAITS_FOR_LOCK = [frame("transfer", source="with second:")]
SOCKET = {
    "fd": 3,
    "inode": 1,
    "kind": "tcp",
    "state": "ESTABLISHED",
    "local": "127.0.0.1:1",
    "peer": "10.0.0.9:5432",
    "send_queue_bytes": 0,
    "receive_queue_bytes": 0,
}


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (seen(thread(state="T")), ("stopped.signal", 1.0)),
        (seen(thread(state="Z")), ("zombie.process", 1.0)),
        (seen(thread(state="D", wchan="io_schedule")), ("uninterruptible", 0.95)),
        (seen(thread(wchan="request_wait_answer", syscall="read")), ("uninterruptible", 0.9)),
        (
            seen(thread(syscall="futex", args=UNTIMED), stacks=[WAITS_FOR_LOCK]),
            ("deadlock.in_process", 0.9),
        ),
        (
            seen(
                thread(10, syscall="futex", args=UNTIMED),
                thread(11, syscall="futex", args=UNTIMED),
                thread(12, syscall="clock_nanosleep", switches=0),
                second=[thread(10), thread(11), thread(12, switches=9)],
                stacks=[WAITS_FOR_LOCK, WAITS_FOR_LOCK, [frame("beat")]],
            ),
            ("deadlock.in_process", 0.5),
        ),
        (
            seen(
                thread(syscall="futex", args=UNTIMED),
                stacks=[[frame("wait", "/lib/threading.py"), frame("get", "/lib/queue.py")]],
            ),
            ("wait.no_waker", 0.8),
        ),
        (
            seen(
                thread(syscall="futex", args=UNTIMED),
                stacks=[[frame("pull", source="item = inbox.get()")]],
            ),
            ("wait.no_waker", 0.8),
        ),
        (seen(thread(syscall="futex", args=TIMED), stacks=[WAITS_FOR_LOCK]), ("none.idle", 0.3)),
        (seen(thread(syscall="clock_nanosleep"), stacks=[[frame("nap")]]), ("blocked.sleep", 0.55)),
        (seen(thread(syscall="clock_nanosleep", sleep_left_s=1e6)), ("blocked.sleep", 0.85)),
        (seen(thread(syscall="clock_nanosleep", sleep_left_s=5.0)), ("blocked.sleep", 0.5)),
        (
            seen(
                thread(syscall="clock_nanosleep"),
                stacks=[[frame("nap"), frame("BaseEventLoop._run_once")]],
            ),
            ("asyncio.loop_blocked", 0.85),
        ),
        (seen(thread(syscall="wait4")), ("blocked.child_process", 0.9)),
        (
            seen(thread(syscall="recvfrom", args=[3, 0]), sockets={"sockets": [SOCKET]}),
            ("blocked.external", 0.9),
        ),
        (
            seen(
                thread(state="R"),
                stacks=[[frame("spin", line=1)], [frame("spin", line=2)]],
                moved=True,
                gil=True,
            ),
            ("busy.python", 0.8),
        ),
        (seen(thread(state="R"), stacks=[[frame("fft")]]), ("busy.native", 0.85)),
        (
            seen(thread(syscall="pause"), stacks=[[frame("hog")]], gil=True),
            ("blocked.native_gil", 0.9),
        ),
        (seen(thread(), fds={"count": 1000, "limit": 1024, "fds": []}), ("leak.fds", 0.9)),
    ],
)
def test_a_cause_is_named(sections: dict[str, Any], expected: tuple[str, float]) -> None:
    assert best(sections) == expected


def test_evidence_names_the_section_and_what_was_read() -> None:
    sections = seen(
        thread(syscall="recvfrom", args=[3, 0], wchan="wait_woken"),
        stacks=[[frame("fetch", line=7)]],
        sockets={"sockets": [SOCKET]},
    )
    assert diagnose(sections) == [
        Diagnosis(
            "blocked.external",
            0.9,
            (
                "process: thread 10 (python) state S in recvfrom (wchan wait_woken)",
                (
                    "sockets: descriptor 3 is tcp ESTABLISHED, peer 10.0.0.9:5432, "
                    "0 bytes not taken by it"
                ),
                "stacks: fetch (/app/x.py:7)",
            ),
        )
    ]


def test_a_thread_that_moves_is_no_deadlock() -> None:
    sections = seen(
        thread(syscall="futex", args=UNTIMED),
        second=[thread(switches=40)],
        stacks=[WAITS_FOR_LOCK],
    )
    assert best(sections) == ("unknown", 0.0)


def test_a_wait_that_may_be_for_a_lock_or_a_queue_gets_both_names() -> None:
    sections = seen(
        thread(10, syscall="futex", args=UNTIMED),
        thread(11, syscall="futex", args=UNTIMED),
        stacks=[[frame("_wait_for_tstate_lock", "/lib/threading.py")], [frame("pull")]],
    )
    assert [(one.code, one.confidence) for one in diagnose(sections)] == [
        ("deadlock.in_process", 0.5),
        ("wait.no_waker", 0.4),
    ]


def test_a_patient_that_left_between_the_looks_has_exited() -> None:
    sections = seen(thread(), second=[])
    sections["movement"].update(alive=False, reaped=True)
    assert diagnose(sections) == [
        Diagnosis("none.exited", 1.0, ("movement: the process is gone; it was alive before",))
    ]


def test_the_supervisors_own_threads_do_not_count() -> None:
    sections = seen(
        thread(10, syscall="futex", args=UNTIMED),
        thread(11, syscall="recvfrom", args=[3, 0]),
        stacks=[WAITS_FOR_LOCK, [frame("listen")]],
    )
    for sample in sections["stacks"]["samples"]:
        sample["threads"][1]["name"] = "supervisor-wire"
    assert best(sections) == ("deadlock.in_process", 0.9)


@pytest.mark.parametrize(
    "sections",
    [{}, {"process": {}}, {"process": {"threads": []}}, {"stacks": {"cut": "left out"}}],
)
def test_without_evidence_the_answer_is_unknown(sections: dict[str, Any]) -> None:
    assert best(sections) == ("unknown", 0.0)
