"""Programs that are given next to no CPU: some ask for all of it, one rests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from harness import eventually
from ward import patient

from autopsy.capture import Captured, Order, capture
from autopsy.case import Case, Thread
from autopsy.collect import process

#: It takes a CPU away from everybody.
pytestmark = pytest.mark.alone

RIVALS = 5
SETTLING_NS = 30_000_000

SPINS = """
def spin():
    while True:
        pass
say_ready()
spin()
"""
SPINS_BESIDE = """
import threading
def spin(n):
    while True:
        n = n + 1
threading.Thread(target=spin, args=(1,), daemon=True).start()
say_ready()
spin(0)
"""
RESTS = """
import time
def work():
    total = 0
    for n in range(100000):
        total += n
    return total
def rest():
    time.sleep(0.02)
def turns():
    while True:
        work()
        rest()
say_ready()
turns()
"""


@pytest.fixture(scope="module")
def crowded() -> Iterator[int]:
    """Return a CPU that some processes use all the time."""
    cpu = max(os.sched_getaffinity(0))
    source = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    with ExitStack() as stack:
        for _ in range(RIVALS):
            rival = stack.enter_context(subprocess.Popen([sys.executable, "-c", source]))
            stack.callback(rival.kill)
        yield cpu


def _ran_ns(pid: int) -> int:
    return int(process.threads(pid)[0]["cpu_ns"])


def examined(source: str, cpu: int) -> tuple[Captured, Thread]:
    """Examine a program that has to share a CPU with all the others; return its main thread too."""
    with patient(source) as one:
        for tid in os.listdir(f"/proc/{one.pid}/task"):
            os.sched_setaffinity(int(tid), {cpu})
        began_ns = _ran_ns(one.pid)
        # By then it is at what it does for ever.
        eventually(lambda: _ran_ns(one.pid) - began_ns > SETTLING_NS, 20, "it has run for a while")
        captured = capture(Order(one.pid, budget_s=8))
    return captured, Case({one.name: one.payload for one in captured.sections}).threads[0]


def test_what_never_rests_is_busy(crowded: int) -> None:
    captured, main = examined(SPINS, crowded)
    assert captured.heading.diagnosis[0].code == "busy.python", captured.report
    assert main.running
    assert main.cpu.got < 0.6 < main.cpu.wanted
    assert "wanted: the host is short of CPU" in captured.report


def test_threads_that_share_the_gil_are_busy(crowded: int) -> None:
    """Each sleeps while the other one has it, and waits for the CPU with it."""
    captured, main = examined(SPINS_BESIDE, crowded)
    assert captured.heading.diagnosis[0].code == "busy.python", captured.report
    assert main.cpu.got < 0.6


def test_what_rests_in_between_is_not(crowded: int) -> None:
    captured, main = examined(RESTS, crowded)
    codes = [one.code for one in captured.heading.diagnosis]
    assert main.running is False, captured.report
    assert not [code for code in codes if code.startswith("busy")], captured.report
    assert "none.progressing" in codes[:2], captured.report
