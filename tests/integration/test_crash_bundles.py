"""What is kept of an attempt whose process died: how, and what it had said and done until then."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from harness import NodeUnderTest, eventually

from autopsy.bundle import Bundle
from supervisor.model.states import State

NODE_APP = "tests.programs.tasks_crashing:app"
NODE_SETTINGS = {"workers": 4}

#: type → (reason, how the process ended, the interpreter's own words)
DEATHS = {
    "aborts": ("native_crash", "killed by signal 6 (SIGABRT)", "Fatal Python error: Aborted"),
    "reads_nowhere": (
        "native_crash",
        "killed by signal 11 (SIGSEGV)",
        "Fatal Python error: Segmentation fault",
    ),
    "leaves": ("exited", "exited with code 7", ""),
    "waits_to_be_killed": ("killed_by_signal", "killed by signal 9 (SIGKILL)", ""),
}


@pytest.fixture(scope="module")
def dead(node: NodeUnderTest) -> dict[str, Bundle]:
    """Let all of them die at once, and return what was kept of each."""
    handles = {kind: node.submit(kind) for kind in DEATHS}
    waiting = handles["waits_to_be_killed"]
    node.started(waiting)
    (attempt,) = node.attempts(waiting.task_id)
    eventually(lambda: not [h for k, h in handles.items() if k in others() and not over(h)], 20)
    os.kill(attempt.pid, signal.SIGKILL)
    for handle in handles.values():
        assert handle.wait(20).state is State.FAILED
        eventually(lambda one=handle: node.reader.autopsies(one.task_id), 10, "a bundle")  # type: ignore[misc]
    return {kind: node.bundle(handle.task_id) for kind, handle in handles.items()}


def others() -> list[str]:
    return [kind for kind in DEATHS if kind != "waits_to_be_killed"]


def over(handle: Any) -> bool:
    return bool(handle.state() is State.FAILED)


@pytest.mark.parametrize("kind", DEATHS)
def test_how_it_died(dead: dict[str, Bundle], kind: str) -> None:
    reason, how, words = DEATHS[kind]
    facts = dead[kind].sections["facts"]
    assert (facts["type"], facts["verdict"], facts["exit"]) == (kind, reason, how)
    assert how.split(" (")[0].removeprefix("exited ") in dead[kind].heading.why
    told = facts["last_words"] or ""
    assert told.startswith(words)
    assert bool(told) == bool(words)
    if words:
        assert f"in {kind}\n" in told + "\n"
        assert words in dead[kind].report
    assert facts["max_rss_bytes"] > 2**20
    assert dead[kind].report.startswith(f"Autopsy of process {facts['pid']}: {how}\n")


@pytest.mark.parametrize("kind", DEATHS)
def test_what_it_said(dead: dict[str, Bundle], kind: str) -> None:
    sections, report = dead[kind].sections, dead[kind].report
    records = sections["logs"]["records"]
    assert [(one["logger"], one["text"]) for one in records] == [("work", "step 3 of 9")]
    assert sections["output"]["text"].startswith("about to fail\n")
    assert "step 3 of 9" in report
    assert "about to fail" in report


@pytest.mark.parametrize("kind", DEATHS)
def test_what_was_seen_of_it(dead: dict[str, Bundle], kind: str) -> None:
    facts = dead[kind].sections["facts"]
    assert facts["progress"] == {"done": 3, "total": 9}
    assert len(facts["looks"]) >= 3
    ages = [look["age_s"] for look in facts["looks"]]
    assert ages == sorted(ages)
    assert {look["progress_done"] for look in facts["looks"]} >= {3}
    assert "progress 3 of 9 when last seen" in dead[kind].report


@pytest.mark.parametrize("kind", DEATHS)
def test_where_it_had_been(dead: dict[str, Bundle], kind: str) -> None:
    """The last minutes of its stacks, one sample a second, lie in memory that outlives it."""
    stacks = dead[kind].sections["ring"]["stacks"]
    assert [stack for stack in stacks if {"_lead_up", kind} <= _functions(stack)]
    assert not [stack for stack in stacks if "_boot" in _functions(stack)]


def _functions(stack: list[dict[str, Any]]) -> set[str]:
    return {frame["function"] for frame in stack}
