"""Whatever a task prints, it never waits for a reader, and the end of it can be read."""

from __future__ import annotations

import os
from pathlib import Path

from harness import NodeUnderTest, eventually, ran_s

from supervisor.model.states import State

TAIL = 64 * 1024


def printed(node: NodeUnderTest, kind: str) -> str:
    view = node.run("prints", kind=kind)
    assert (view.state, view.error) == (State.FAILED, "so that its output is kept")
    (attempt,) = node.attempts(view.task_id)
    assert ran_s(attempt) < 10
    text = node.reader.log(view.task_id)
    assert text is not None
    assert len(text.encode()) <= TAIL + 200
    answer = node.cli("logs", view.task_id)
    assert answer.returncode == 0
    shown = text.replace("\r", "\n")  # as our own reading of the pipe has it
    assert answer.stdout.rstrip("\n") == shown.rstrip("\n")
    assert text.rstrip().endswith("WARNING shop: a log line after")
    return text


def test_flood(node: NodeUnderTest) -> None:
    text = printed(node, "flood")
    first, *lines = text.splitlines()
    assert first.startswith("[… ")
    assert first.endswith(" bytes of earlier output dropped …]")
    assert "line 399999 of a flood" in lines[-2]


def test_no_newline(node: NodeUnderTest) -> None:
    text = printed(node, "no_newline")
    assert text.startswith("[… ")
    assert "y" * 60_000 in text


def test_bad_bytes(node: NodeUnderTest) -> None:
    text = printed(node, "bad_bytes")
    assert "good \ufffd\ufffd bad" in text
    assert "WARNING shop: a log line before" in text


def test_a_child_truncates_it(node: NodeUnderTest) -> None:
    """`> /dev/stdout` shrinks the file under everybody: nothing breaks, what follows is read."""
    assert "after the cut" in printed(node, "truncate")


def test_output_of_a_child(node: NodeUnderTest) -> None:
    assert "from a child" in printed(node, "child")


def test_carriage_returns(node: NodeUnderTest) -> None:
    assert "99998\r99999\r" in printed(node, "carriage")


def test_closed_stdout(node: NodeUnderTest) -> None:
    """A body may close it; the next body on that worker has it again."""
    assert "stderr still works" in printed(node, "closed")
    for _ in range(4):
        assert "from a child" in printed(node, "child")


def test_live(node: NodeUnderTest) -> None:
    """A partial line of a running task is seen, and the task is none the slower for it."""
    handle = node.submit("prints", kind="no_newline", then="wait")
    node.started(handle)
    eventually(lambda: "a log line after" in node.cli("logs", handle.task_id).stdout, 5)
    live = node.cli_json("logs", handle.task_id)
    assert (live["task_id"], live["attempt"], live["live"]) == (handle.task_id, 1, True)
    assert "y" * 60_000 in live["text"]
    handle.cancel(by="anna", reason="seen")
    assert handle.wait(5).state is State.CANCELED


def test_memory_of_a_flood_is_given_back(node: NodeUnderTest) -> None:
    """Output lives in memory; what is older than the tail may not stay there."""
    view = node.run("prints", kind="flood")
    pid = node.attempts(view.task_id)[0].pid

    def kept_bytes() -> int:
        total = 0
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                if "autopsy-out" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                    total = max(total, os.stat(f"/proc/{pid}/fd/{fd}").st_blocks * 512)
            except OSError:
                continue
        return total

    assert Path(f"/proc/{pid}").exists(), "the worker that printed must still be there"
    node.run("sleep", s=1.2)
    node.run("sleep", s=1.2)
    assert kept_bytes() < 4 * 2**20
