"""Whatever a task starts ends with its attempt: children, other sessions, daemons, pools."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import (
    CANCELED,
    FAILED,
    PENDING,
    SUCCESS,
    TIMEOUT,
    NodeUnderTest,
    Start,
    eventually,
    none_lives,
    seen,
)

from supervisor.model.states import State

PTRACE_SEIZE, WAIT_ALL = 0x4206, 0x40000000  # sources: ptrace(2), __WALL in waitpid(2)
FAMILY_SIZE = 6  # sleep, setsid python, shell, two pool workers, double-forked daemon


@pytest.fixture
def stranger(tmp_path: Path) -> subprocess.Popen[bytes]:
    """A process that is no descendant of the node: it must never be touched."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process  # type: ignore[misc]
        assert process.poll() is None, "a stranger was killed"


def test_gone_after_normal_return(
    node: NodeUnderTest, tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    kin = tmp_path / "kin"
    view = node.run("family", path=str(kin), then="return")
    assert (view.state, view.result_json) == (State.SUCCESS, str(FAMILY_SIZE))
    assert len(seen(kin)) == FAMILY_SIZE
    none_lives(kin, 0.5)  # the ending is reported after the tree is gone
    (attempt,) = node.attempts(view.task_id)
    assert attempt.usage["killed_children"] >= FAMILY_SIZE
    assert os.path.exists(f"/proc/{attempt.pid}")  # the worker itself goes on


def test_gone_after_cancel(
    node: NodeUnderTest, tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    kin = tmp_path / "kin"
    handle = node.submit("family", path=str(kin), then="wait")
    eventually(lambda: (tmp_path / "kin.ready").exists())
    handle.cancel(by="anna", reason="enough")
    assert handle.wait(10).state is State.CANCELED
    none_lives(kin, 0.5)
    assert node.endings(handle.task_id) == [(CANCELED, "canceled", "reported", False)]


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_gone_after_a_kill(
    node: NodeUnderTest, tmp_path: Path, how: str, stranger: subprocess.Popen[bytes]
) -> None:
    kin = tmp_path / "kin"
    limits = {"timeout": 2.5, "soft_timeout": 2.0} if how == "timeout" else {}
    handle = node.submit("family", spec=limits, path=str(kin), then="hang")
    eventually(lambda: (tmp_path / "kin.ready").exists())
    if how == "cancel":
        handle.cancel(by="anna", reason="enough")
    view = handle.wait(15)
    none_lives(kin, 0.5)
    expected = (CANCELED, "canceled") if how == "cancel" else (TIMEOUT, "timeout")
    assert (view.state, view.reason) == expected
    assert node.endings(handle.task_id) == [(*expected, "exited", True)]
    listed = str(node.bundle(handle.task_id).sections["children"])
    for member in seen(kin):
        assert str(member.pid) in listed, "the bundle lists the tree as it was before the kill"


def test_gone_after_a_crash(node: NodeUnderTest, tmp_path: Path) -> None:
    """SIGKILL of the worker alone: what it had started is adopted by the node and ended."""
    kin = tmp_path / "kin"
    handle = node.submit("family", path=str(kin), then="hang")
    eventually(lambda: (tmp_path / "kin.ready").exists())
    os.kill(node.attempts(handle.task_id)[0].pid, 9)
    view = handle.wait(5)
    assert (view.state, view.reason) == (State.FAILED, "killed_by_signal")
    assert node.endings(handle.task_id) == [(FAILED, "killed_by_signal", "exited", True)]
    none_lives(kin, 3)


WITHOUT_KILL = ("setpriv", "--bounding-set=-kill", "--inh-caps=-kill")


@pytest.fixture
def without_kill() -> tuple[str, ...]:
    """What starts a node that cannot end processes of others; only root may start such."""
    words = [*WITHOUT_KILL, "setpriv", "--reuid=65534", "--clear-groups", "true"]
    try:
        may = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        may = False
    if not may:
        pytest.xfail("no process of another user may be started on this machine")
    return WITHOUT_KILL


def shown(node: NodeUnderTest) -> tuple[float, float]:
    """Return the orphans and the unreaped that the node shows."""
    found = node.metrics()
    return found["supervisor_zombies", (("kind", "orphan"),)], found["supervisor_unreaped", ()]


def test_dead_child_that_a_debugger_holds_is_unreaped_and_no_orphan(
    start_node: Start, tmp_path: Path
) -> None:
    """The kernel gives a dead process to its parent only after its tracer has asked."""
    kin = tmp_path / "kin"
    node = start_node("tests.programs.tasks_hanging:app")
    handle = node.submit("spin", kin=str(kin))
    node.started(handle)
    eventually(lambda: len(seen(kin)) == FAMILY_SIZE - 1, 5)
    traced = seen(kin)[-1].pid
    if ctypes.CDLL(None).ptrace(PTRACE_SEIZE, traced, 0, 0) != 0:
        pytest.xfail("no process may be traced on this machine")
    try:
        os.kill(node.attempts(handle.task_id)[0].pid, 9)
        eventually(lambda: shown(node) == (0, 1), 5, "it is shown as not reaped")
    finally:
        assert os.waitpid(traced, WAIT_ALL)[0] == traced
    eventually(lambda: shown(node) == (0, 0), 5, "it is reaped")


@pytest.mark.parametrize(
    ("how", "state"), [("cancel", CANCELED), ("timeout", TIMEOUT), ("return", SUCCESS)]
)
def test_child_of_another_user(
    start_node: Start, without_kill: tuple[str, ...], tmp_path: Path, how: str, state: str
) -> None:
    """As by sudo: it is beyond us and shown as such; task and worker end all the same."""
    kin = tmp_path / "kin"
    node = start_node("tests.programs.tasks_hanging:app", prefix=without_kill)
    limits = {"timeout": 1.5, "soft_timeout": 1.0} if how == "timeout" else {}
    then = "return" if how == "return" else "hang"
    handle = node.submit("as_other_user", spec=limits, path=str(kin), then=then)
    try:
        eventually(lambda: len(seen(kin)) == 2, 5)
        if how == "cancel":
            handle.cancel(by="anna", reason="enough")
        assert handle.wait(10).state == state
        ours, theirs = seen(kin)
        assert (ours.alive, theirs.alive) == (False, True)
        if how != "return":
            assert not os.path.exists(f"/proc/{node.attempts(handle.task_id)[0].pid}")
            eventually(lambda: shown(node) == (1, 0), 5, "it is shown as an orphan")
        assert node.run("ok").state is State.SUCCESS
        assert node.events("loop.failed") == []
    finally:
        for one in seen(kin)[1:]:
            os.kill(one.pid, 9)


def test_multiprocessing_works_in_a_task(node: NodeUnderTest) -> None:
    view = node.run("pool_sum")
    assert (view.state, view.result_json) == (State.SUCCESS, "6")
    assert node.endings(view.task_id) == [(SUCCESS, "returned", "reported", False)]


def test_no_defunct_children_stay(node: NodeUnderTest) -> None:
    """The node is the reaper of all that is orphaned below it."""

    def defunct() -> list[int]:
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                text = Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            state, parent = text[text.rindex(")") + 2 :].split()[:2]
            if state == "Z" and int(parent) == node.pid:
                found.append(pid)
        return found

    eventually(lambda: defunct() == [], 4, "no defunct child of the node")
    assert node.app.get(node.submit("ok").task_id).wait(5).state is not PENDING
