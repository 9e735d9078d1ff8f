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


def test_an_alarm_that_outlives_its_body_changes_nothing(
    node: NodeUnderTest, before: dict[str, object]
) -> None:
    assert result(node.run("leave_an_alarm")) == [0] * 100_000
    assert result(node.run("leave_a_blocked_alarm")) == before["pid"]
    assert result(node.run("look")) == before


def test_alarms_all_the_time_end_at_most_their_own_body(
    node: NodeUnderTest, before: dict[str, object]
) -> None:
    for _ in range(10):
        view = node.run("leave_alarms")
        assert (view.reason, view.error) in (("returned", None), ("raised", "alarm"))
    assert result(node.run("look")) == before


def test_an_error_of_the_worker_itself_is_called_one(node: NodeUnderTest) -> None:
    view = node.run("break_the_worker")
    assert (view.state, view.reason) == (State.FAILED, "exited")
    assert view.error == (
        "the worker exited with code 6 in the middle of the attempt "
        "(an error of the worker itself: TypeError: broken \\udcff)"
    )
    assert 'raise TypeError("broken' in (node.reader.log(view.task_id) or "")
    last = eventually(lambda: node.events("worker.exited"), 5)[-1]
    assert (last["exit"], last["reason"]) == ("exited with code 6", "crashed")


def test_death_by_the_signal_that_tells_it_is_the_end_that_was_asked_for(
    node: NodeUnderTest,
) -> None:
    crashes = [row for row in node.metrics() if row[0] == "supervisor_crashes_total"]
    handle = node.submit("let_the_signal_kill")
    node.started(handle)
    handle.cancel(by="ann", reason="enough")
    assert (handle.wait(10).state, handle.view().reason) == (State.CANCELED, "canceled")
    soft = node.submit("let_the_signal_kill", spec={"soft_timeout": 0.3, "timeout": 10})
    assert (soft.wait(10).state, soft.view().reason) == (State.TIMEOUT, "soft_timeout")
    assert soft.view().error == "ended by its soft time limit"
    assert node.endings(handle.task_id) == [("CANCELED", "canceled", "exited", True)]
    assert node.endings(soft.task_id) == [("TIMEOUT", "soft_timeout", "exited", True)]
    for ended in (handle, soft):
        (attempt,) = node.attempts(ended.task_id)
        assert (attempt.detail or "").startswith("the signal that tells a body (SIGRTMIN+5) ended")
    exits = eventually(lambda: node.events("worker.exited")[-2:], 5)
    assert [event["reason"] for event in exits] == ["interrupted"] * 2
    assert [row for row in node.metrics() if row[0] == "supervisor_crashes_total"] == crashes


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
