"""How busy a thread is on a host short of CPU: what it asks for counts, not what it gets."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import codes, evidence, frame, motion, seen, sleeps, thread

from autopsy.case import Case
from autopsy.cpu import CpuShare

SHORT = "the host is short of CPU"
WINDOW_NS = 250_000_000
SPIN = [frame("spin", "/app/tasks.py", 337)]


def counted(tid: int = 10, share: float = 0.0, queued: float = 0.0, **more: Any) -> dict[str, Any]:
    """Make the second look at a thread that ran and waited to run for these shares of the window.

    The clock of whoever looked is in it, and may say that the window was longer.
    """
    state = {"cpu_ns": int(share * WINDOW_NS), "run_delay_ns": int(queued * WINDOW_NS)}
    return thread(tid, **{"cpu_ticks": int(share * 25), "state": "R", **state, **more})


def before(tid: int = 10, **more: Any) -> dict[str, Any]:
    return counted(tid, **more)


def starved(
    share: float, queued: float, switches: int = 5, *beside: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Make a thread that spins, as far as the CPU goes; of those beside it, the second look."""
    first = [before(one["tid"], name=one["name"]) for one in beside]
    return seen(
        before(),
        *first,
        second=[counted(share=share, queued=queued, switches=switches), *beside],
        stacks=[SPIN, []],
        **{"gil": True, **more},
    )


def puls(queued: float, share: float = 0.0) -> dict[str, Any]:
    """Make the second look at a thread of the supervisor, which wants the GIL now and then."""
    return counted(11, share, queued, name="supervisor-puls", state="S", switches=8)


def share_of(sections: dict[str, Any]) -> CpuShare:
    (one,) = Case(sections).threads
    return one.cpu


#: As a CI machine saw `while True: pass`, with 44% of a core and 5 wake-ups.
ON_CI = starved(0.44, 0.5, 5, puls(0.06), motion=motion(88, lines=2, calls=False, instant=100))


def test_spinner_on_a_host_without_time_for_it() -> None:
    assert codes(ON_CI) == [("busy.python", 0.85)]
    assert evidence(ON_CI, "busy.python") == (
        f"process, movement: thread 10 state R, then R, 5 switches, 44% CPU, 100% wanted: {SHORT}",
        "motion: 88 of 100 looks on one instruction, 2 lines in all",
        "stacks: spin (/app/tasks.py:337)",
    )


def test_its_own_limit_is_told_instead() -> None:
    limit = {"host": {"cgroup": {"cpu": {"throttled_ratio": 0.4}}}}
    assert (
        "44% CPU, 100% wanted: its CPU limit is used up"
        in (evidence({**ON_CI, **limit}, "busy.python")[0])
    )


SHARES = {
    "alone on its CPU": (starved(0.99, 0.01, 0), CpuShare(0.99, 0.01, 0.0)),
    "in the queue for half of it": (starved(0.4, 0.5), CpuShare(0.4, 0.5, 0.1)),
    "never asleep, and its wait goes on": (starved(0.1, 0.2, 0), CpuShare(0.1, 0.2, 0.0)),
    "the GIL was with the supervisor": (starved(0.4, 0.5, 5, puls(0.06)), CpuShare(0.4, 0.5, 0.04)),
    "at work in most looks": (
        starved(0.1, 0.4, 30, motion=motion(30, instant=90)),
        CpuShare(0.1, 0.4, 0.1),
    ),
    "at work in too few looks to tell": (
        starved(0.1, 0.4, 30, motion=motion(9, looks=9, instant=9)),
        CpuShare(0.1, 0.4, 0.5),
    ),
    "for want of the GIL it stands where nothing sleeps": (
        starved(0.0, 0.1, 30, motion=motion(100, instant=100)),
        CpuShare(0.0, 0.1, 0.9),
    ),
}


@pytest.mark.parametrize(("sections", "share"), SHARES.values(), ids=SHARES)
def test_shares(sections: dict[str, Any], share: CpuShare) -> None:
    found = share_of(sections)
    assert (found.got, found.waited) == pytest.approx((share.got, share.waited))
    assert found.asleep == pytest.approx(share.asleep)


def test_whoever_looks_may_be_late() -> None:
    """The window of a thread is the time between the looks at it, not at the process."""
    first, later = before(mono_s=100.0), counted(share=0.5, queued=0.5, mono_s=100.5, switches=1)
    assert share_of(seen(first, second=[later])) == CpuShare(0.25, 0.25, 0.5)


def test_kernel_without_statistics() -> None:
    none = {"cpu_ns": None, "run_delay_ns": None}
    sections = seen(thread(**none), second=[thread(cpu_ticks=12, **none)])
    assert share_of(sections) == CpuShare(0.48)
    assert share_of(sections).wanted == 0.48


WANTED = {
    "all it gets": (CpuShare(0.3, 0.0, 0.7), 0.3, "30% CPU"),
    "as much again": (CpuShare(0.3, 0.4, 0.3), 0.5, "30% CPU"),
    "far more": (CpuShare(0.2, 0.7, 0.1), 2 / 3, f"20% CPU, 67% wanted: {SHORT}"),
    "all, and gets none": (CpuShare(0.0, 1.0, 0.0), 1.0, f"0% CPU, 100% wanted: {SHORT}"),
    "nothing": (CpuShare(0.0, 0.0, 1.0), 0.0, "0% CPU"),
    "nothing known": (CpuShare(), 0.0, "0% CPU"),
}  # fmt: skip


@pytest.mark.parametrize(("share", "wanted", "told"), WANTED.values(), ids=WANTED)
def test_what_it_wants(share: CpuShare, wanted: float, told: str) -> None:
    assert share.wanted == pytest.approx(wanted)
    assert share.told(limited=False) == told


def turns(share: float, queued: float, switches: int) -> dict[str, Any]:
    """Make a thread that works for a moment between short sleeps, on a host short of CPU."""
    return seen(
        sleeps(10, 0.02, cpu_ns=0, run_delay_ns=0),
        second=[counted(share=share, queued=queued, switches=switches)],
        stacks=[[frame("works")], [frame("rests", line=2)]],
        moved=True,
        motion=motion(60, functions=2, lines=4, instant=30),
    )


@pytest.mark.parametrize(
    ("share", "queued", "switches"),
    [(0.3, 0.0, 12), (0.1, 0.6, 8), (0.32, 0.4, 4), (0.05, 0.6, 3), (0.02, 0.55, 2)],
    ids=[
        "not starved",
        "starved",
        "starved, few turns",
        "starved, fewer",
        "starved, next to no CPU",
    ],
)
def test_work_between_sleeps_is_no_endless_loop(share: float, queued: float, switches: int) -> None:
    found = codes(turns(share, queued, switches))
    assert found[0][0] == "none.progressing"
    assert not [code for code, _ in found if code.startswith("busy")]


def test_many_short_waits_are_no_endless_loop() -> None:
    """As a batch of transactions: whoever answers runs on the same CPU, and it queues behind."""
    batch = starved(0.53, 0.24, 1400, motion=motion(60, functions=4, lines=4, instant=10))
    assert codes(batch) == [("none.progressing", 0.6)]


def test_motion_alone_tells_python() -> None:
    """A host too slow for the stacks to be taken in time."""
    sections = starved(0.2, 0.75, 2, motion=motion(70, lines=2, instant=90))
    sections["stacks"] = {"samples": [], "stacks": []}
    assert codes(sections) == [("busy.python", 0.85), ("starved.host", 0.35)]
    assert evidence(sections, "busy.python")[2] == "motion: mostly in f0 (/app/x.py:0)"


@pytest.mark.parametrize(
    ("share", "queued", "expected"),
    [
        (0.2, 0.75, [("busy.python", 0.4), ("starved.host", 0.35)]),
        (0.02, 0.97, [("starved.host", 0.5), ("busy.python", 0.3)]),
    ],
    ids=["it gets some CPU", "it gets none"],
)
def test_nothing_seen_of_its_code(
    share: float, queued: float, expected: list[tuple[str, float]]
) -> None:
    sections = starved(share, queued, 0)
    sections["stacks"] = {"samples": [], "stacks": []}
    assert codes(sections) == expected
