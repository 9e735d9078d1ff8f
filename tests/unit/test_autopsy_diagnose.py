"""The rules on handmade sections: each cause with its evidence, and `unknown` when nothing fits."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import SOCKET, TIMED, UNTIMED, best, frame, seen, thread

from autopsy.cause import Diagnosis
from autopsy.diagnose import diagnose

WAITS_FOR_LOCK = [frame("transfer", source="with second:")]


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
            ("deadlock.in_process", 0.78),
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
    assert best(sections) == ("none.progressing", 0.6)


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


def found_in(sections: dict[str, Any], code: str) -> Diagnosis:
    (one,) = [one for one in diagnose(sections) if one.code == code]
    return one


PAYS = frame("pay", "/app/shop.py", 7, "with LOCK:")
HELD = {**frame("hold", "/app/shop.py", 3, "rest(9)"), "inside": ["LOCK"]}
BEATS = frame("beat", "/app/shop.py", 20, "rest(9)")


def waiting_main(other: dict[str, Any], stack: list[dict[str, Any]]) -> dict[str, Any]:
    return seen(thread(10, syscall="futex", args=UNTIMED), other, stacks=[[PAYS], stack])


def test_the_waiting_main_thread_and_the_holder_of_its_lock_are_both_named() -> None:
    asleep = thread(11, syscall="clock_nanosleep", sleep_left_s=1e6)
    held = waiting_main(asleep, [HELD])
    relation = "stacks: thread 11 (python) is inside a with block of a lock of that name"
    assert [(one.code, one.confidence) for one in diagnose(held)] == [
        ("blocked.sleep", 0.85),
        ("deadlock.in_process", 0.2),
    ]
    assert found_in(held, "blocked.sleep").evidence[-1] == relation
    unknown_holder = waiting_main(asleep, [BEATS])
    assert [(one.code, one.confidence) for one in diagnose(unknown_holder)] == [
        ("blocked.sleep", 0.55),
        ("deadlock.in_process", 0.45),
    ]
    assert found_in(unknown_holder, "blocked.sleep").evidence[-1] == (
        "stacks: MainThread waits for a lock in /app/shop.py:7; thread 11 (python) may hold it"
    )


def test_a_lock_taken_twice_is_a_deadlock_beside_a_heartbeat() -> None:
    asleep = thread(11, syscall="clock_nanosleep", sleep_left_s=4.0)
    sections = seen(
        thread(10, syscall="futex", args=UNTIMED), asleep, stacks=[[PAYS, HELD], [BEATS]]
    )
    assert best(sections) == ("deadlock.in_process", 0.75)


@pytest.mark.parametrize(
    ("main", "other", "confidence"),
    [
        (frame("wait", "/lib/threading.py"), frame("recv"), 0.55),
        (frame("join", "/lib/threading.py"), frame("recv"), 0.9),
        (
            frame("result", "/x/concurrent/futures/_base.py", source="c.wait()"),
            frame("_worker", "/x/concurrent/futures/thread.py"),
            0.9,
        ),
    ],
)
def test_a_side_thread_counts_as_far_as_the_main_thread_needs_it(
    main: dict[str, Any], other: dict[str, Any], confidence: float
) -> None:
    sections = seen(
        thread(10, syscall="futex", args=UNTIMED),
        thread(11, syscall="recvfrom", args=[3, 0]),
        stacks=[[main], [other]],
        sockets={"sockets": [SOCKET]},
    )
    assert best(sections) == ("blocked.external", confidence)


def test_user_code_is_named_first() -> None:
    library = frame("readinto", "/usr/lib/python3.11/socket.py", 706)
    package = frame("send", "/venv/lib/python3.11/site-packages/requests/api.py", 9)
    sections = seen(thread(syscall="wait4"), stacks=[[library, package, frame("fetch", line=3)]])
    assert diagnose(sections)[0].evidence[-1] == (
        "stacks: fetch (/app/x.py:3), there in readinto (/usr/lib/python3.11/socket.py:706)"
    )


def test_threads_in_the_same_wait_are_counted() -> None:
    threads = [thread(tid, syscall="recvfrom", args=[3, 0]) for tid in (10, 11, 12)]
    sections = seen(*threads, stacks=[[frame("fetch")]] * 3, sockets={"sockets": [SOCKET]})
    assert "stacks: 3 threads wait there, first python" in diagnose(sections)[0].evidence


def test_coroutines_are_said_to_be_out_of_sight() -> None:
    sections = seen(thread(syscall="epoll_wait"), stacks=[[frame("_run_once")]])
    assert best(sections) == ("asyncio.pending_forever", 0.5)
    unseen = "stacks: which coroutine waits cannot be seen from outside the process"
    assert unseen in diagnose(sections)[0].evidence
    listening = {**SOCKET, "state": "LISTEN"}
    served = seen(
        thread(syscall="epoll_wait", waits_on=[3]),
        stacks=[[frame("_run_once")]],
        sockets={"sockets": [listening]},
    )
    assert [(one.code, one.confidence) for one in diagnose(served)] == [
        ("none.idle", 0.5),
        ("asyncio.pending_forever", 0.4),
    ]


def child(**changes: Any) -> dict[str, Any]:
    return {
        "pid": 77,
        "depth": 1,
        "name": "yes",
        "state": "S",
        "wchan": "pipe_write",
        "syscall": "write",
        "pipes": ["pipe:[5]"],
        **changes,
    }


PIPE = {"count": 1, "limit": 1024, "fds": [{"fd": 4, "target": "pipe:[5]"}]}
FULL = (
    "children: a child blocks writing into a pipe that this process does not read: "
    "77 (yes), pipe:[5]"
)


@pytest.mark.parametrize(
    ("looks", "children", "said"),
    [
        (thread(syscall="wait4"), [child()], True),
        (thread(syscall="wait4"), [child(syscall=None, wchan="anon_pipe_write")], True),
        (thread(syscall="wait4"), [child(syscall="read", wchan="anon_pipe_read")], False),
        (thread(syscall="wait4"), [child(pipes=["pipe:[6]"])], False),
        (thread(syscall="read", args=[4, 0]), [child()], False),
    ],
)
def test_a_child_that_writes_into_a_full_pipe_is_said_in_words(
    looks: dict[str, Any], children: list[dict[str, Any]], said: bool
) -> None:
    found = found_in(
        seen(looks, children={"children": children}, fds=PIPE), "blocked.child_process"
    )
    assert (FULL in found.evidence) is said


def test_what_is_not_python_is_guessed_at_only() -> None:
    sections = seen(thread(syscall="clock_nanosleep", sleep_left_s=1e6))
    sections["process"]["python"] = False
    assert best(sections) == ("blocked.sleep", 0.5)
    sections["process"]["threads"] = [thread(syscall="futex", args=UNTIMED)]
    sections["movement"]["threads"] = sections["process"]["threads"]
    assert best(sections) == ("unknown", 0.0)
    sections["process"]["threads"] = [thread(state="T")]
    assert best(sections) == ("stopped.signal", 1.0)


def test_the_idle_worker_of_a_pool_of_processes_is_no_deadlock() -> None:
    sections = seen(
        thread(syscall="futex", args=UNTIMED),
        stacks=[[frame("__enter__", "/x/multiprocessing/synchronize.py"),
                 frame("get", "/x/multiprocessing/queues.py")]],
        memory={"shared_mappings": [{"start": 0, "end": 0x2000}]},
    )  # fmt: skip
    assert best(sections) == ("none.idle", 0.5)


def test_a_main_thread_that_handles_signals_may_be_woken_by_one() -> None:
    sections = seen(
        thread(syscall="futex", args=UNTIMED), stacks=[[frame("wait", "/lib/threading.py")]]
    )
    assert best(sections) == ("wait.no_waker", 0.8)
    sections["process"]["status"]["SigCgt"] = "0000000000004002"
    assert best(sections) == ("wait.no_waker", 0.55)


def test_a_main_thread_that_rests_while_others_work_is_not_the_cause() -> None:
    asleep = thread(10, syscall="clock_nanosleep", sleep_left_s=1e6)
    receives = thread(11, syscall="recvfrom", args=[3, 0])
    sections = seen(
        asleep, receives, stacks=[[frame("rest")], [frame("ask")]], sockets={"sockets": [SOCKET]}
    )
    assert [(one.code, one.confidence) for one in diagnose(sections)] == [
        ("blocked.external", 0.77),
        ("blocked.sleep", 0.45),
    ]
    of_a_pool = frame("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py")
    idle = thread(11, syscall="futex", args=UNTIMED)
    assert best(seen(asleep, idle, stacks=[[frame("rest")], [of_a_pool]])) == (
        "blocked.sleep",
        0.85,
    )


def test_a_thread_past_the_line_that_takes_the_lock_may_hold_it() -> None:
    logging = "/usr/lib/python3.11/logging/__init__.py"
    waits = [frame("acquire", logging, 917, "self.lock.acquire()"), frame("handle", logging, 966)]
    emits = [frame("emit", line=4), frame("handle", logging, 968), frame("first", line=6)]
    sections = seen(
        thread(10, syscall="futex", args=UNTIMED),
        thread(11, syscall="recvfrom", args=[3, 0]),
        stacks=[waits, emits],
        sockets={"sockets": [SOCKET]},
    )
    assert best(sections) == ("blocked.external", 0.7)
    assert diagnose(sections)[0].evidence[-1] == (
        "stacks: thread 11 (python) is past the line where MainThread takes the lock"
    )


def test_a_thread_that_waits_often_and_computes_little_is_hardly_a_loop() -> None:
    looks = thread(state="R")
    sections = seen(
        looks,
        second=[thread(state="R", switches=126)],
        stacks=[[frame("save", line=1)], [frame("save", line=2)]],
        moved=True,
        gil=True,
    )
    assert best(sections) == ("busy.python", 0.5)
