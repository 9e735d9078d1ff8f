"""A body may do anything to its process: its own ending is true, and the next task is unharmed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from harness import NodeUnderTest, eventually

from supervisor.model.states import State
from supervisor.store import TaskView

NODE_APP = "tests.programs.tasks_hostile:app"
NODE_SETTINGS = {"workers": 1}


def result(view: TaskView) -> Any:
    """What the body returned; it must have."""
    assert (view.state, view.result_json is None) == (State.SUCCESS, False)
    return json.loads(view.result_json or "")


@pytest.fixture
def before(node: NodeUnderTest) -> dict[str, object]:
    found = result(node.run("look"))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("body", ["close_output", "change_all"])
def test_the_next_task_finds_the_process_as_it_was(
    node: NodeUnderTest, before: dict[str, object], body: str
) -> None:
    assert result(node.run(body)) == before["pid"]
    assert result(node.run("look")) == before
    failed = node.run("say_and_fail", word="heard")
    assert "heard" in (node.reader.log(failed.task_id) or "")


@pytest.mark.parametrize(
    ("body", "answer"), [("use_up_descriptors", "all used"), ("replace_scratch", "replaced")]
)
def test_a_result_counts_even_if_cleaning_up_after_it_fails(
    node: NodeUnderTest, body: str, answer: str
) -> None:
    view = node.run(body)
    assert result(view) == answer
    assert node.endings(view.task_id) == [("SUCCESS", "returned", "reported", False)]
    assert node.run("look").state is State.SUCCESS


def test_a_thread_that_outlives_its_attempt_cannot_speak_for_the_next(
    node: NodeUnderTest, tmp_path: Path
) -> None:
    begun, told = tmp_path / "begun", tmp_path / "told"
    node.run("leave_a_thread", until=str(begun), told=str(told))
    handle = node.run("wait_for_thread", begun=str(begun), told=str(told))
    assert result(handle) == {"last": None}
    assert told.read_text().split() == ["Refused", "Refused"]
    children = node.query(f"SELECT count(*) FROM tasks WHERE parent_id = '{handle.task_id}'")
    checkpoints = node.query(f"SELECT count(*) FROM checkpoints WHERE task_id = '{handle.task_id}'")
    assert (children, checkpoints) == ([(0,)], [(0,)])


def test_a_check_in_a_thread_does_not_use_up_the_cancel(node: NodeUnderTest) -> None:
    handle = node.submit("check_in_a_thread")
    node.started(handle)
    handle.cancel(by="ann", reason="enough")
    assert handle.wait(5).state is State.CANCELED
    (ending,) = node.endings(handle.task_id)
    assert ending[2] == "reported"


@pytest.mark.parametrize(("how", "answer"), [("one", "InvalidSpec"), ("many", "Refused")])
def test_too_much_to_submit_is_refused_to_the_body(
    node: NodeUnderTest, how: str, answer: str
) -> None:
    handle = node.run("submit_too_much", how=how)
    assert result(handle) == answer


def test_each_log_holds_the_output_of_its_own_task_only(node: NodeUnderTest) -> None:
    words = [f"word-{number:03d}-" for number in range(300)]
    handles = {word: node.submit("say_and_fail", word=word) for word in words}
    for handle in handles.values():
        handle.wait(20)
    eventually(lambda: all(node.reader.log(h.task_id) for h in handles.values()), 5, "logs")
    mixed = {
        word: log
        for word, handle in handles.items()
        if (log := node.reader.log(handle.task_id)) != f"{word}\n"
    }
    assert mixed == {}
