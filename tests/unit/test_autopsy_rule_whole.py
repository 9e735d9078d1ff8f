"""What the kernel proves: a dead, stopped or frozen process, a wait that no signal reaches."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import codes, evidence, frame, seen, thread

WORKS = [frame("save")]
DISK = thread(state="D", wchan="io_schedule")


def stopped(state: str, tracer: str = "0", **process: Any) -> dict[str, Any]:
    sections = seen(thread(state=state), stacks=[WORKS])
    sections["process"].update(status={"TracerPid": tracer}, **process)
    return sections


def ended(reaped: bool, **how: int) -> dict[str, Any]:
    sections = seen(thread(), second=[], stacks=[WORKS])
    sections["movement"].update(alive=False, reaped=reaped, **how)
    return sections


def dead(**how: int) -> dict[str, Any]:
    sections = seen(thread(10, state="Z"), thread(11, state="X"))
    sections["movement"].update(how)
    return sections


TABLE: dict[str, tuple[dict[str, Any], list[tuple[str, float]], tuple[str, ...]]] = {
    "dead and not reaped": (
        dead(),
        [("zombie.process", 1.0)],
        ("process: every thread is in state Z: dead, not reaped",),
    ),
    "dead by a signal": (
        dead(exit_signal=9),
        [("zombie.process", 1.0)],
        (
            "process: every thread is in state Z: dead, not reaped",
            "movement: it was ended by signal 9",
        ),
    ),
    "its first thread alone is dead": (
        seen(thread(10, state="Z"), thread(11, syscall="wait4"), stacks=[[], WORKS]),
        [("blocked.child_process", 0.9)],
        (
            "process: thread 11 (python) state S in wait4 (wchan )",
            "children: none was seen",
            "stacks: save (/app/x.py:1)",
        ),
    ),
    "gone": (
        ended(reaped=True),
        [("none.exited", 1.0)],
        ("movement: the process is gone; it was alive before",),
    ),
    "ended with a code": (
        ended(reaped=False, exit_code=3),
        [("none.exited", 1.0)],
        (
            "movement: the process has exited and is not reaped yet; it was alive before",
            "movement: it ended with exit code 3",
        ),
    ),
    "stopped": (
        stopped("T"),
        [("stopped.signal", 1.0)],
        ("process: state T (stopped), TracerPid 0",),
    ),
    "traced": (
        stopped("t", tracer="42"),
        [("stopped.traced", 1.0)],
        ("process: state t, TracerPid 42",),
    ),
    "stopped while somebody traces it": (
        stopped("T", tracer="42"),
        [("stopped.traced", 1.0)],
        ("process: state T, TracerPid 42",),
    ),
    "traced, and running": (
        stopped("S", tracer="42"),
        [("unknown", 0.0)],
        (
            (
                "process: thread 10 (python) state S in no call (wchan ), 0% CPU, 0 switches: "
                "save (/app/x.py:1)"
            ),
        ),
    ),
    "frozen": (
        stopped("S", frozen=True),
        [("stopped.frozen", 1.0)],
        ("process: its cgroup is frozen",),
    ),
    "at a disk": (
        seen(DISK, stacks=[WORKS]),
        [("uninterruptible", 0.95)],
        (
            "process, movement: thread 10 in state D in io_schedule in both looks",
            "stacks: save (/app/x.py:1)",
        ),
    ),
    "at a disk again and again": (
        seen(DISK, second=[{**DISK, "switches": 1}], stacks=[WORKS]),
        [("uninterruptible", 0.5)],
        (
            "process, movement: thread 10 in state D in io_schedule in both looks",
            "stacks: save (/app/x.py:1)",
        ),
    ),
    "at a mount whose server does not answer": (
        seen(thread(wchan="rpc_wait_bit_killable"), stacks=[WORKS]),
        [("uninterruptible", 0.9)],
        (
            "process: thread 10 waits for a file-system server in rpc_wait_bit_killable",
            "stacks: save (/app/x.py:1)",
        ),
    ),
    "at a disk in the first look only": (
        seen(DISK, second=[thread()], stacks=[WORKS]),
        [("unknown", 0.0)],
        (
            (
                "process: thread 10 (python) state D in no call (wchan io_schedule), 0% CPU, "
                "0 switches: save (/app/x.py:1)"
            ),
        ),
    ),
}


@pytest.mark.parametrize(("sections", "expected", "lines"), TABLE.values(), ids=TABLE)
def test_the_state_of_the_process_is_told(
    sections: dict[str, Any], expected: list[tuple[str, float]], lines: tuple[str, ...]
) -> None:
    assert codes(sections) == expected
    assert evidence(sections, expected[0][0]) == lines


def test_what_is_hidden_is_said() -> None:
    sections = seen(thread())
    sections["process"]["hidden"] = True
    assert evidence(sections, "unknown")[0] == (
        "process: its system calls are hidden from us: needs SYS_PTRACE"
    )
