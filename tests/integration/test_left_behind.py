"""What attempts leave behind: measured, told by name, and reclaimed where it is theirs for sure."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import NodeUnderTest, Start, eventually

from supervisor.model.states import State
from supervisor.store import TaskView

NODE_APP = "tests.programs.tasks_leaks:app"
NODE_SETTINGS = {"workers": 1}
SHARED = Path("/dev/shm")


def usage(node: NodeUnderTest, view: TaskView) -> dict[str, float]:
    """Return what the last attempt left behind, by number."""
    last = node.attempts(view.task_id)[-1].usage
    return {name: value for name, value in last.items() if name not in ("cpu_s", "max_rss_bytes")}


def told(node: NodeUnderTest, view: TaskView) -> str:
    return node.attempts(view.task_id)[-1].detail or ""


def counted(node: NodeUnderTest, kind: str) -> float:
    return node.metrics()[("supervisor_left_behind_total", (("kind", kind),))]


# -- measured


def test_a_tidy_one_leaves_nothing(node: NodeUnderTest) -> None:
    node.run("tidy", s=0.06)
    view = node.run("tidy", s=0.06)
    assert usage(node, view) == {}
    assert told(node, view) == ""


def test_descriptors(node: NodeUnderTest) -> None:
    """Counted and named once: the next attempt is not told of what it found there."""
    before = counted(node, "fd")
    view = node.run("opens", n=3)
    assert usage(node, view) == {"leaked_fds": 3}
    assert re.fullmatch(r"left behind: 3 × /etc/hostname \(fd [\d, –]+\)", told(node, view)), told(
        node, view
    )
    assert counted(node, "fd") == before + 3
    noticed = node.events("growth.noticed")[-1]
    assert (noticed["task_id"], noticed["fds"], noticed["threads"]) == (view.task_id, 3, 0)
    assert node.app.history(view.task_id)[-1].note == told(node, view)
    shown = node.cli("show", view.task_id).stdout
    assert "leaked_fds 3" in shown
    assert "3 × /etc/hostname (fd " in shown
    assert usage(node, node.run("tidy", s=0.06)) == {}


def test_threads(node: NodeUnderTest) -> None:
    view = node.run("sprouts", n=2)
    assert usage(node, view) == {"leaked_threads": 2}
    assert told(node, view) == "left behind: thread sprout-0, thread sprout-1"


def test_children_are_ended_and_named(node: NodeUnderTest) -> None:
    before = counted(node, "child")
    view = node.run("spawns")
    assert usage(node, view)["killed_children"] == 1
    assert re.search(r"process \d+ \(sleep\), ended", told(node, view)), told(node, view)
    assert counted(node, "child") == before + 1


def test_children_are_of_this_attempt_what_else_is_found_may_be_older(node: NodeUnderTest) -> None:
    node.run("tidy", s=0.06)  # what was there is told
    node.run("tidy")
    view = node.run("spawns")
    assert re.fullmatch(r"left behind: process \d+ \(sleep\), ended", told(node, view))

    def found() -> str:
        node.run("opens", n=2, s=0.0)  # on a busy machine it may take long enough to be looked at
        return told(node, node.run("spawns"))

    both = re.compile(
        r"left behind: process \d+ \(sleep\), ended; 2 × /etc/hostname \(fd [\d, –]+\) "
        r"\(by this or the attempt before it\)"
    )
    eventually(lambda: both.fullmatch(found()), 15, "what may be older is told after the children")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("file", r"fd \d+ → /.*/left-by-test-\\udcff\\udcfe"),
        ("thread", r"thread odd-\\udcff\\x00"),
        ("native thread", r"thread \d+ \(native, est-\\udcff\\udcfe\)"),
        ("segment", r"fd \d+ → /dev/shm/\S+, shared memory left-by-test-\\udcff\\udcfe"),
    ],
)
def test_names_that_are_no_text(
    node: NodeUnderTest, clean: None, tmp_path: Path, kind: str, words: str
) -> None:
    """A result counts whatever the names of what is left; the worker goes on."""
    before = node.run("tidy", s=0.06).result_json
    view = node.run("names_oddly", kind=kind)
    assert (view.state, view.result_json) == (State.SUCCESS, before), view.error
    assert re.match(f"left behind: {words}", told(node, view)), told(node, view)
    assert node.run("tidy").result_json == before


def test_scratch_files_are_counted(node: NodeUnderTest) -> None:
    """A task may leave files in its scratch space: that is what it is for."""
    before = counted(node, "file")
    view = node.run("scribbles")
    assert usage(node, view) == {"cleared_files": 2}
    assert told(node, view) == ""
    assert counted(node, "file") == before + 2


def test_short_attempts_are_looked_at_now_and_then(node: NodeUnderTest) -> None:
    """What is found after sixteen of them is told with how many may have done it."""
    node.run("tidy", s=0.06)
    views = [node.run("opens", n=1, s=0.0) for _ in range(40)]
    found = [(view, usage(node, view)) for view in views]
    reports = [(view, left["leaked_fds"]) for view, left in found if left]
    assert [n for _, n in reports] == [16.0, 16.0]
    assert told(node, reports[0][0]).endswith("(by this or any of the 15 attempts before it)")


def test_a_worker_that_grows_is_replaced(start_node: Start) -> None:
    node = start_node(NODE_APP, workers=1, recycle_growth_fds=20, recycle_growth_threads=4)
    pids = {node.run("opens", n=8).result_json for _ in range(2)}
    assert len(pids) == 1
    last = node.run("opens", n=8).result_json
    assert {last} == pids, "the attempt that goes over the limit is not disturbed"
    eventually(lambda: node.run("tidy").result_json != last, 5, "another worker takes over")
    first = node.run("sprouts", n=6).result_json
    eventually(lambda: node.run("tidy").result_json != first, 5, "and so for threads")
    exits = [event["reason"] for event in node.events("worker.exited")]
    assert exits == ["recycled", "recycled"]
    assert node.stop() == 0


# -- shared memory


@pytest.fixture
def clean() -> Iterator[None]:
    """Remove what a test knows to be left, so that nothing of it stays on this host."""
    before = set(os.listdir(SHARED))
    yield
    for name in set(os.listdir(SHARED)) - before:
        if name.startswith(("task_", "left-by-test-")):
            (SHARED / name).unlink()


def name_in(marks: Path) -> str:
    (name,) = eventually(lambda: marks.read_text().split() if marks.exists() else [], 5)
    return name


@pytest.mark.parametrize("kind", ["shares", "child_shares"])
@pytest.mark.parametrize("then", ["raise", "hang", "wait", "kill"])
def test_segments_of_an_attempt_that_gave_no_result_go(
    node: NodeUnderTest, tmp_path: Path, kind: str, then: str
) -> None:
    """By exception, by a forced and a cooperative cancel, and by a SIGKILL from outside."""
    marks = tmp_path / "marks"
    handle = node.submit(kind, path=str(marks), then=then)
    name = name_in(marks)
    assert name.startswith(f"{handle.task_id}-1-")
    if then in ("hang", "wait"):
        node.started(handle)
        handle.cancel(by="anna", reason="enough")
    assert handle.wait(15).state in (State.FAILED, State.CANCELED)
    eventually(lambda: not (SHARED / name).exists(), 3, "the segment is gone")


def test_segments_go_after_the_death_of_the_node(start_node: Start, tmp_path: Path) -> None:
    node = start_node(NODE_APP, workers=1)
    marks = tmp_path / "marks"
    handle = node.submit("shares", path=str(marks), then="hang", close=False)
    name = name_in(marks)
    node.kill()
    assert (SHARED / name).exists()
    node.restart()
    assert handle.wait(10).reason == "node_lost"
    eventually(lambda: not (SHARED / name).exists(), 3, "the segment is gone")
    assert node.stop() == 0


def test_a_segment_that_was_returned_stays_and_is_told(
    node: NodeUnderTest, tmp_path: Path, clean: None
) -> None:
    """It may be a result: nobody but its maker can know."""
    marks = tmp_path / "marks"
    view = node.run("shares", path=str(marks))
    name = name_in(marks)
    assert view.state is State.SUCCESS
    assert (SHARED / name).exists()
    assert usage(node, view) == {"leaked_segments": 1}
    assert told(node, view) == f"left behind: shared memory {name}"


def test_system_v_segments_are_told(node: NodeUnderTest) -> None:
    view = node.run("shares_systemv")
    number = int(view.result_json or "-1")
    try:
        assert usage(node, view) == {"leaked_segments": 1}
        assert told(node, view) == f"left behind: shared memory System V {number} (8192 bytes)"
    finally:
        ctypes.CDLL(None).shmctl(number, 0, None)  # IPC_RMID


def test_segments_of_others_are_never_touched(
    node: NodeUnderTest, tmp_path: Path, clean: None
) -> None:
    """Neither one that a dead attempt had attached to, nor one that it gave a name of its own."""
    foreign = SHARED / f"left-by-test-{os.getpid()}"
    foreign.write_bytes(b"x" * 4096)
    handle = node.submit("attaches", path=str(tmp_path / "a"), name=foreign.name, then="kill")
    assert handle.wait(10).state is State.FAILED
    own = SHARED / f"left-by-test-{os.getpid()}-own"
    handle = node.submit("shares", path=str(tmp_path / "b"), name=own.name, then="kill")
    assert handle.wait(10).state is State.FAILED
    node.run("tidy")
    assert foreign.read_bytes() == b"x" * 4096
    assert own.exists()


def test_a_new_attempt_finds_no_dead_tracker(node: NodeUnderTest) -> None:
    """Each may use shared memory anew, without a word of multiprocessing about the last one's."""
    for _ in range(3):
        view = node.run("shares_strictly")
        assert (view.state, view.result_json) == (State.SUCCESS, "false"), view.error
        assert "killed_children" not in usage(node, view)
