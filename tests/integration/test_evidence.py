"""What the evidence of one attempt says: what that attempt saw and did, and nothing of others."""

from __future__ import annotations

from typing import Any

import pytest
from harness import NodeUnderTest, eventually

from autopsy.bundle import Bundle
from supervisor.client import Handle
from supervisor.store import TaskView

NODE_APP = "tests.programs.tasks_talking:app"
NODE_SETTINGS = {"workers": 1, "recycle_after_tasks": 100}
SECRETS = [f"secret-{number}" for number in range(4)]


def after_others(node: NodeUnderTest, kind: str, **spec: Any) -> tuple[Handle, TaskView]:
    """Run a task on a worker that has run others, to its end."""
    for secret in SECRETS:
        node.run("says", text=secret)
    handle = node.submit(kind, spec=spec, text="mine")
    return handle, handle.wait(30)


def bundle_of(node: NodeUnderTest, handle: Handle) -> Bundle:
    eventually(lambda: node.reader.autopsies(handle.task_id), 10, "a bundle")
    return node.bundle(handle.task_id)


@pytest.fixture(scope="module")
def killed(node: NodeUnderTest) -> Handle:
    """A task that was killed; the next one of its type would get no bundle so soon."""
    return after_others(node, "is_killed")[0]


@pytest.fixture(scope="module")
def hung(node: NodeUnderTest) -> Handle:
    return after_others(node, "hangs", timeout=1.5, soft_timeout=1)[0]


@pytest.mark.parametrize("ended", ["hung", "killed"])
def test_a_bundle_tells_only_of_its_own_attempt(
    node: NodeUnderTest, request: pytest.FixtureRequest, ended: str
) -> None:
    handle: Handle = request.getfixturevalue(ended)
    sections = bundle_of(node, handle).sections
    logged = [(record["logger"], record["text"]) for record in sections["logs"]["records"]]
    assert logged == [("talk", "mine was logged")]
    printed, _, rest = sections["output"]["text"].partition("\n")
    assert printed == "mine was printed"
    assert rest.endswith(" WARNING talk: mine was logged\n")
    assert sections["output"]["written_bytes"] == len(sections["output"]["text"])
    assert not [secret for secret in SECRETS if secret in str(sections)]
    report = bundle_of(node, handle).report
    assert not [secret for secret in SECRETS if secret in report]
    assert report.count("mine was logged") == 1


def test_evidence_that_is_asked_for_tells_only_of_its_own_attempt(node: NodeUnderTest) -> None:
    for secret in SECRETS:
        node.run("says", text=secret)
    handle = node.submit("hangs", text="mine")
    node.started(handle)
    taken = node.cli_json("autopsy", "capture", handle.task_id, "--native")
    assert taken["autopsy"]["verdict"] == "asked"
    report = taken["report"]
    node.app.cancel([handle.task_id], by="anna", reason="seen")
    assert not [secret for secret in SECRETS if secret in report]
    assert "mine was printed" in report
    assert "MainThread, with native calls" in report


def test_a_killed_attempt_says_how_far_it_came(node: NodeUnderTest, killed: Handle) -> None:
    (attempt,) = node.attempts(killed.task_id)
    assert (attempt.usage["progress_done"], attempt.usage["progress_total"]) == (46, 300)
    facts = bundle_of(node, killed).sections["facts"]
    assert facts["progress"] == {"done": 46, "total": 300}
    assert facts["exit"] == "killed by signal 9 (SIGKILL)"
    assert facts["exit_detail"] == attempt.detail
    report = bundle_of(node, killed).report
    assert "progress 46 of 300 when last seen" in report
    assert "what the probes had seen (" in report
    bundle_of(node, killed)
    shown = node.cli("show", killed.task_id).stdout.splitlines()
    (listed,) = [line for line in shown if line.startswith("autopsy ")]
    assert "  attempt 1  killed_by_signal  partial, " in listed
    assert "  progress   46 of 300 when last seen" in shown
    (usage,) = [line for line in shown if line.startswith("  usage ")]
    assert "progress" not in usage
    (told,) = [line for line in shown if line.startswith("  checkpoint ")]
    assert told.startswith('  checkpoint {"text":"mine"} (attempt 1, ')
    saved = node.cli_json("show", killed.task_id)["checkpoint"]
    assert (saved["attempt"], saved["value"]) == (1, '{"text":"mine"}')


def test_the_list_shows_how_a_crash_ended(node: NodeUnderTest, killed: Handle) -> None:
    bundle_of(node, killed)
    (row,) = node.cli("autopsy", "list", killed.task_id).stdout.splitlines()[1:]
    assert row.split()[-5:-2] == ["killed_by_signal", "killed_by_signal", "partial"]


def test_one_that_obeyed_its_soft_limit_has_no_bundle_and_is_told_so(node: NodeUnderTest) -> None:
    view = node.submit("obeys", spec={"soft_timeout": 0.5}, text="mine").wait(20)
    refused = node.cli("autopsy", "show", view.task_id)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[:2] == [
        f"error: no autopsy of {view.task_id}: attempt 1 obeyed its soft time limit",
        (
            f"remedy: Its traceback in `supervisor show {view.task_id}` says where it was; "
            "a bundle is taken only before a kill or by `supervisor autopsy capture`."
        ),
    ]
    (attempt,) = node.attempts(view.task_id)
    told = attempt.traceback or ""
    assert "time.sleep(60)" in told
    assert "supervisor/worker" not in told
