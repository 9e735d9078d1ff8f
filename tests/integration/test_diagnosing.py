"""Evidence of what lives on, beside evidence before a kill: which of them waits for which."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from harness import NodeUnderTest, Start, eventually

from autopsy.collect import procfs
from supervisor.client import Handle
from supervisor.model.states import State

#: A verdict is held while the machine is busy with other things.
pytestmark = pytest.mark.light

APP = "tests.programs.tasks_judged:app"
HOLDER = """
import sys, time
from autopsy import clock
from autopsy.exclusive import Visit, sole_examiner
with sole_examiner(Visit(int(sys.argv[1]), int(sys.argv[2]), clock.mono() + 60), lambda: None):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def examined_by_somebody(pid: int) -> Iterator[int]:
    """Examine a process from a program of our own, for as long as the block takes."""
    command = [sys.executable, "-c", HOLDER, str(pid), str(procfs.start_ticks(pid))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"held\n"
        try:
            yield program.pid
        finally:
            program.kill()


def stuck_pid(node: NodeUnderTest, handle: Handle) -> int:
    node.started(handle)
    return node.attempts(handle.task_id)[0].pid


def told(handle: Handle, reason: str) -> list[str]:
    return [line.note or "" for line in handle.history() if line.reason == reason]


def test_a_suspect_that_somebody_examines_is_left_to_him(start_node: Start, tmp_path: Path) -> None:
    node = start_node(APP, progress_timeout=2.0, timeout=200)
    handle = node.submit("says_nothing", path=str(tmp_path / "never"))
    with examined_by_somebody(stuck_pid(node, handle)) as holder:
        # Long, since a verdict is held while the machine of the test is busy with other things.
        (skipped,) = eventually(lambda: node.events("autopsy.skipped"), 60)
        assert f"already being examined by pid {holder} since " in skipped["why"]
        refused = node.cli("autopsy", "capture", handle.task_id)
        assert refused.returncode == 1
        said, remedy = refused.stderr.splitlines()[:2]
        assert f" is already being examined by pid {holder} since " in said
        assert remedy.startswith("remedy: Try again in ")
    assert handle.state() is State.RUNNING
    handle.cancel(by="anna", reason="seen enough")
    assert handle.wait(20).state is State.CANCELED
    assert node.reader.autopsies(handle.task_id) == []
    (note,) = told(handle, "autopsy")
    assert note.startswith("not examined: process ")


def test_the_kill_does_not_wait_for_the_examination_of_a_suspect(start_node: Start) -> None:
    """That one hangs; the evidence before the kill is whole, and in time, and remarks on it."""
    node = start_node(APP, progress_timeout=1.0, timeout=200, autopsy_budget=6, cancel_grace=0.5)
    handle = node.submit("hears_nothing", s=90.0)
    pid = stuck_pid(node, handle)
    (hanging,) = eventually(lambda: node.captures_of(pid), 60, "the suspect is examined")
    os.kill(hanging, signal.SIGSTOP)
    handle.cancel(by="anna", reason="seen enough")
    view = handle.wait(20)
    assert (view.state, view.reason) == (State.CANCELED, "canceled")
    (attempt,) = node.attempts(handle.task_id)
    asked = next(line.at for line in handle.history() if line.reason == "cancel_requested")
    assert attempt.ended_at is not None
    # half a second of grace, half a second of waiting for the other, a capture on two busy cores
    assert attempt.ended_at - asked < timedelta(seconds=0.5 + 0.5 + 3)
    taken = node.bundle(handle.task_id)
    assert (taken.heading.status, taken.heading.diagnosis[0].code) == ("complete", "blocked.sleep")
    if "remark" in taken.sections["facts"]:  # it was stopped before or after it had the lock
        assert taken.sections["facts"]["remark"] == f"pid {hanging} examined it as well"


def test_a_kill_ends_an_examination_on_demand(start_node: Start) -> None:
    """`autopsy PID` in the middle of its work gives way and still brings what it saw."""
    node = start_node(APP, timeout=2.0, soft_timeout=1.9)
    handle = node.submit("hears_nothing", s=60.0)
    with examined_by_somebody(stuck_pid(node, handle)):
        view = handle.wait(20)
    assert (view.state, view.verdict) == (State.TIMEOUT, "timeout")
    (record,) = node.reader.autopsies(handle.task_id)
    assert (record.status, record.diagnosis) == ("complete", "blocked.sleep")
    assert "remark" not in node.bundle(handle.task_id).sections["facts"]
