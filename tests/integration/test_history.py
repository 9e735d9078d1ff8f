"""A bundle tells what the attempt did before it was killed, from the worker's own notes."""

from __future__ import annotations

from typing import Any

import pytest
from harness import NodeUnderTest, eventually

NODE_APP = "tests.programs.tasks_talking:app"
NODE_SETTINGS = {"workers": 1, "recycle_after_tasks": 100}


@pytest.fixture(scope="module")
def hung(node: NodeUnderTest) -> str:
    """A task that its time limit killed, on a worker that has run another."""
    node.run("says", text="other")
    handle = node.submit("hangs", spec={"timeout": 2.5, "soft_timeout": 2}, text="mine")
    handle.wait(30)
    return handle.task_id


@pytest.fixture(scope="module")
def killed(node: NodeUnderTest) -> str:
    """A task that somebody killed: nothing but what outlives a process is left."""
    handle = node.submit("is_killed", text="mine")
    handle.wait(30)
    return handle.task_id


def sections_of(node: NodeUnderTest, task_id: str) -> dict[str, Any]:
    eventually(lambda: node.reader.autopsies(task_id), 10, "a bundle")
    return node.bundle(task_id).sections


@pytest.mark.parametrize(("ended", "function"), [("hung", "hangs"), ("killed", "is_killed")])
def test_its_own_function_is_in_the_ring(
    node: NodeUnderTest, request: pytest.FixtureRequest, ended: str, function: str
) -> None:
    task_id: str = request.getfixturevalue(ended)
    ring = sections_of(node, task_id)["ring"]
    (attempt,) = node.attempts(task_id)
    assert ring["samples"] >= 1
    (main,) = ring["threads"]
    assert (main["tid"], main["name"]) == (attempt.pid, "MainThread")
    age_s, index, samples = main["runs"][-1]
    assert -10 < age_s < 0 < samples
    assert ring["stacks"][index][0]["function"] == function
    assert ring["stacks"][index][0]["file"].endswith("/tasks_talking.py")
    everything = {frame["function"] for stack in ring["stacks"] for frame in stack}
    assert "says" not in everything


@pytest.mark.parametrize("ended", ["hung", "killed"])
def test_its_growth_is_told_from_its_beginning(
    node: NodeUnderTest, request: pytest.FixtureRequest, ended: str
) -> None:
    grown = sections_of(node, request.getfixturevalue(ended))["growth"]
    assert grown["source"] == "ring"
    assert grown["points"][0] == list(grown["baseline"].values())
    ages = [point[0] for point in grown["points"]]
    assert ages == sorted(ages)
    assert -10 < ages[0] < 0
    assert all(rss > 1 << 20 and threads == 2 for _, rss, threads, _ in grown["points"])


def test_nothing_of_ours_patches_the_locks_of_a_worker(node: NodeUnderTest) -> None:
    """So a lock costs a task what it costs any program; `bench.agent` measures it."""
    handle = node.submit("locks")
    handle.wait(30)
    assert handle.result() == {
        "made by": [
            "_thread.allocate_lock",
            "threading.RLock",
            "threading.Condition",
            "threading.Thread.start",
        ],
        "lock": "<class '_thread.lock'>",
        "hooks": [None] * 4,
    }
