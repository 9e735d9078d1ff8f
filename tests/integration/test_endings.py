"""One task of each ending that needs no kill: what row, attempts, audit and command line say."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from harness import (
    CANCELED,
    FAILED,
    PENDING,
    RUNNING,
    SUCCESS,
    TIMEOUT,
    NodeUnderTest,
    Start,
    begun,
    eventually,
    ran_s,
)

from supervisor.model.states import State
from supervisor.store import TaskView
from supervisor.store.view import AttemptView

RAISED = (FAILED, "raised", "reported", False)
RETURNED = (SUCCESS, "returned", "reported", False)
RETRY = (FAILED, PENDING, "node", "retry")
CLAIMED = (PENDING, RUNNING, "node", "claimed")


@pytest.mark.parametrize("kind", ["ok", "aok"])
def test_success(node: NodeUnderTest, kind: str) -> None:
    handle = node.submit(kind, spec={"submitted_by": "anna"}, value={"rows": [1, None, "ü"]})
    view = handle.wait(10)
    assert (view.state, view.reason, view.attempt) == (State.SUCCESS, "returned", 1)
    assert handle.result() == {"rows": [1, None, "ü"]}
    assert node.moves(handle.task_id) == [*begun("anna"), (RUNNING, SUCCESS, "node", "returned")]
    assert node.endings(handle.task_id) == [RETURNED]
    (attempt,) = node.attempts(handle.task_id)
    assert ran_s(attempt) >= 0
    assert attempt.started_at is not None
    assert attempt.claimed_at <= attempt.started_at


def test_context(node: NodeUnderTest, tmp_path: Path) -> None:
    """Progress, checkpoint, scratch space, and children now and on success."""
    marks = tmp_path / "marks"
    handle = node.submit("full", spec={"submitted_by": "anna"}, path=str(marks))
    assert handle.wait(10).state is State.SUCCESS
    result = handle.result()
    child = result.pop("child")
    assert result == {"attempt": 1, "by": "anna", "was": None}
    scratch = [Path(line) for line in marks.read_text().split()]
    assert scratch[1].parent == scratch[0]
    eventually(lambda: list(scratch[0].iterdir()) == [], what="the scratch space is empty")

    rows = node.query(
        "SELECT task_id, params, submitted_by FROM tasks WHERE parent_id = ? ORDER BY task_id",
        handle.task_id,
    )
    by_value = {json.loads(params)["value"]: (task_id, by) for task_id, params, by in rows}
    assert set(by_value) == {"now", "later"}
    assert by_value["now"] == (child, handle.task_id)
    for task_id, _ in by_value.values():
        assert node.app.wait(task_id, 10)[0].state is State.SUCCESS


def test_no_child_without_success(node: NodeUnderTest, tmp_path: Path) -> None:
    view = node.run("childless", path=str(tmp_path / "child"))
    assert view.state is State.FAILED
    assert node.query("SELECT count(*) FROM tasks WHERE parent_id = ?", view.task_id) == [(0,)]
    assert not (tmp_path / "child").exists()


def test_retry_then_success(node: NodeUnderTest, tmp_path: Path) -> None:
    view = node.run("flaky", path=str(tmp_path / "marks"), fails=2)
    assert (view.state, view.attempt, view.retry_count) == (State.SUCCESS, 3, 2)
    assert view.result_json == "3"
    failed = (RUNNING, FAILED, "node", "raised")
    assert node.moves(view.task_id) == [
        *begun(), failed, RETRY, CLAIMED, failed, RETRY, CLAIMED,
        (RUNNING, SUCCESS, "node", "returned"),
    ]  # fmt: skip
    assert node.endings(view.task_id) == [RAISED, RAISED, RETURNED]
    one, two, three = node.attempts(view.task_id)
    assert 0.2 <= _waited_s(one, two) < 5
    assert 0.4 <= _waited_s(two, three) < 5


def _waited_s(before: AttemptView, after: AttemptView) -> float:
    assert before.ended_at is not None
    assert after.started_at is not None
    return (after.started_at - before.ended_at).total_seconds()


def test_retries_used_up(node: NodeUnderTest) -> None:
    view = node.run("boom", text="still no")
    assert (view.state, view.reason, view.retry_count) == (State.FAILED, "raised", 1)
    assert (view.error_type, view.error, view.quarantined) == ("ValueError", "still no", False)
    failed = (RUNNING, FAILED, "node", "raised")
    assert node.moves(view.task_id) == [*begun(), failed, RETRY, CLAIMED, failed]
    assert node.endings(view.task_id) == [RAISED, RAISED]
    assert "ValueError: still no" in (node.attempts(view.task_id)[1].traceback or "")


def test_rerun_of_a_dead_letter(node: NodeUnderTest) -> None:
    view = node.run("boom")
    (answer,) = node.app.rerun(view.task_id, by="anna", reason="fixed")
    assert (answer.answer, answer.state) == ("rerun", State.PENDING)
    again = node.app.wait(view.task_id, 10)[0]
    assert (again.state, again.attempt, again.retry_count) == (State.FAILED, 4, 1)
    assert (FAILED, PENDING, "anna", "rerun") in node.moves(view.task_id)


def test_no_retry_for(node: NodeUnderTest) -> None:
    view = node.run("picky")
    assert (view.state, view.attempt, view.error_type) == (State.FAILED, 1, "KeyError")
    assert node.moves(view.task_id) == [*begun(), (RUNNING, FAILED, "node", "raised")]


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        ("object", "result_invalid", "result.when: is not JSON: a builtins.object"),
        ("nan", "result_invalid", "result.ratio[1]: is not a JSON number"),
        ("large", "result_too_large", "the most is 262144"),
    ],
)
def test_result_refused(node: NodeUnderTest, kind: str, reason: str, words: str) -> None:
    view = node.run("odd_result", kind=kind)
    assert (view.state, view.reason, view.attempt) == (State.FAILED, reason, 1)
    assert words in (view.error or "")
    assert node.endings(view.task_id) == [(FAILED, reason, "reported", False)]


ODD_ERRORS: list[tuple[str, str, str]] = [
    ("two_args", "NeedsTwo", "a-b"),
    ("lock", "ValueError", "<unlocked _thread.lock object"),
    ("str_raises", "BadText", "<its str() raised RuntimeError>"),
    ("reduce", "Reducer", "plain text"),
    ("huge", "ValueError", "characters cut"),
    ("recursion", "RecursionError", "maximum recursion depth exceeded"),
    ("chain", "ValueError", "number 999"),
    ("group", "ExceptionGroup", "several (2 sub-exceptions)"),
    ("emoji", "Broken💥", "bang"),
    ("surrogate", "ValueError", "bad \\udc80 text \\x00 nul"),
    ("system_exit", "SystemExit", "3"),
    ("keyboard", "KeyboardInterrupt", ""),
    ("base", "BaseException", "from the root"),
    ("canceled_error", "CancelledError", ""),
]


@pytest.fixture(scope="module")
def odd_errors(node: NodeUnderTest) -> dict[str, Any]:
    handles = {kind: node.submit("odd_error", kind=kind) for kind, _, _ in ODD_ERRORS}
    return {kind: handle.wait(30) for kind, handle in handles.items()}


@pytest.mark.parametrize(("kind", "error_type", "words"), ODD_ERRORS)
def test_error_that_is_hard_to_carry(
    node: NodeUnderTest, odd_errors: dict[str, Any], kind: str, error_type: str, words: str
) -> None:
    view = odd_errors[kind]
    assert (view.state, view.reason, view.error_type) == (State.FAILED, "raised", error_type)
    assert words in (view.error or "")
    (attempt,) = [a for a in node.attempts(view.task_id) if not a.requeued]  # look-ahead moves on
    assert ran_s(attempt) < 10
    assert len(view.error or "") <= 16 * 1024
    assert 0 < len(attempt.traceback or "") <= 64 * 1024 + 100
    if kind == "huge":
        assert (view.error or "").endswith("aend")


@pytest.mark.parametrize("body", ["sleep", "check"])
def test_soft_timeout(node: NodeUnderTest, tmp_path: Path, body: str) -> None:
    marks = tmp_path / "marks"
    view = node.run("polite", path=str(marks), body=body)
    assert (view.state, view.reason) == (State.TIMEOUT, "soft_timeout")
    assert marks.read_text().split() == ["SoftTimeout", "cleaned"]
    assert node.moves(view.task_id) == [*begun(), (RUNNING, TIMEOUT, "node", "soft_timeout")]
    assert node.endings(view.task_id) == [(TIMEOUT, "soft_timeout", "reported", False)]
    (attempt,) = node.attempts(view.task_id)
    assert (attempt.timeout, attempt.soft_timeout) == (20, 0.4)
    assert 0.4 <= ran_s(attempt) < 10


def test_no_soft_limit_means_none(node: NodeUnderTest, tmp_path: Path) -> None:
    """The task's own None beats the type's 0.4 s; only the hard limit ends it."""
    marks = tmp_path / "marks"
    handle = node.submit("polite", spec={"soft_timeout": None, "timeout": 1.0}, path=str(marks))
    view = handle.wait(10)
    assert (view.state, view.reason) == (State.TIMEOUT, "timeout")
    assert not marks.exists()
    (attempt,) = node.attempts(view.task_id)
    assert (attempt.timeout, attempt.soft_timeout) == (1.0, None)


def test_soft_limit_passes_a_broad_except(node: NodeUnderTest) -> None:
    """`except Exception` around every step does not swallow it."""
    view = node.run("careless")
    assert (view.state, view.reason) == (State.TIMEOUT, "soft_timeout")
    assert node.endings(view.task_id) == [(TIMEOUT, "soft_timeout", "reported", False)]


def test_error_whose_text_never_comes(node: NodeUnderTest) -> None:
    """Its str() sleeps: the limit still holds, and nobody else waits."""
    limits = {"timeout": 1.0, "soft_timeout": 0.9}
    handle = node.submit("odd_error", spec=limits, kind="str_sleeps")
    assert node.run("ok", value=1).state is State.SUCCESS
    view = handle.wait(10)
    assert (view.state, view.reason) == (State.TIMEOUT, "timeout")
    assert node.endings(view.task_id) == [(TIMEOUT, "timeout", "exited", True)]


def test_returned_after_the_soft_limit(node: NodeUnderTest) -> None:
    view = node.run("late_but_done")
    assert (view.state, view.result_json) == (State.SUCCESS, '"finished after all"')
    (attempt,) = node.attempts(view.task_id)
    assert attempt.detail == "returned after its soft time limit"


def test_fork_that_returns_reports_once(node: NodeUnderTest) -> None:
    view = node.run("forks_and_returns")
    assert (view.state, view.result_json) == (State.SUCCESS, '"from the parent"')
    assert node.endings(view.task_id) == [RETURNED]


# -- crashes

UNSENT = "not by the node"
#: how → (reason, what the error says, how the interpreter's own words begin)
CRASHES = {
    "kill": (
        "killed_by_signal",
        rf"the worker was killed by signal 9 \(SIGKILL\), {UNSENT}; the OOM killer's counter .*",
        None,
    ),
    "term": (
        "killed_by_signal",
        rf"the worker was killed by signal 15 \(SIGTERM\), {UNSENT}",
        None,
    ),
    "exit": (
        "exited",
        (
            r"the worker exited with code 7 in the middle of the attempt "
            r"\(os._exit, or native code called exit\)"
        ),
        None,
    ),
    "abort": (
        "native_crash",
        r"the worker was killed by signal 6 \(SIGABRT\): native code called abort .*",
        "Fatal Python error: Aborted\n",
    ),
    "null": (
        "native_crash",
        r"the worker was killed by signal 11 \(SIGSEGV\): native code used memory .*",
        "Fatal Python error: Segmentation fault\n",
    ),
    "cpu": (
        "killed_by_signal",
        r"the worker was killed by signal 24 \(SIGXCPU\): it had used up its CPU time .*",
        None,
    ),
}


@pytest.mark.parametrize("how", CRASHES)
def test_crash_is_retried(node: NodeUnderTest, tmp_path: Path, how: str) -> None:
    """Each with its own reason; the third kind of words is what faulthandler could still write."""
    reason, words, dump = CRASHES[how]
    counted = ("supervisor_crashes_total", (("reason", reason),))
    before = node.metrics()[counted]
    view = node.run("crash", how=how, path=str(tmp_path / "marks"))
    assert (view.state, view.attempt, view.crash_count, view.result_json) == (
        State.SUCCESS, 2, 1, '"survived"',
    )  # fmt: skip
    assert node.moves(view.task_id) == [
        *begun(), (RUNNING, FAILED, "node", reason), RETRY, CLAIMED,
        (RUNNING, SUCCESS, "node", "returned"),
    ]  # fmt: skip
    assert node.endings(view.task_id) == [(FAILED, reason, "exited", True), RETURNED]
    (first, _) = node.attempts(view.task_id)
    assert first.error_type == "WorkerCrashed"
    assert re.fullmatch(words, first.error or ""), first.error
    if dump is None:
        assert first.traceback is None
    else:
        assert (first.traceback or "").startswith(dump)
        assert "tasks_endings.py" in (first.traceback or "")
        assert "supervisor/worker" not in (first.traceback or "")
    assert first.usage["max_rss_bytes"] > 2**20
    assert "last words" in (node.reader.log(view.task_id, 1) or "")
    assert node.metrics()[counted] == before + 1
    shown = node.cli("show", view.task_id).stdout
    assert f"attempt 1  FAILED  {reason}" in shown


def test_crash_leaves_a_bundle(start_node: Start) -> None:
    """Of what outlives the process; a second crash of the type right after it gets none."""
    node = start_node(workers=1)
    handles = [node.submit("crash", spec={"max_retries": 0}, how="null") for _ in range(2)]
    ids = [handle.wait(15).task_id for handle in handles]
    eventually(lambda: node.reader.autopsies(ids[0]), 5, "the bundle is known")
    (record,) = node.reader.autopsies(ids[0])
    (attempt,) = node.attempts(ids[0])
    assert (record.attempt, record.pid, record.verdict, record.status) == (
        1, attempt.pid, "native_crash", "partial",
    )  # fmt: skip
    assert record.path.endswith(f"/{ids[0]}-1-crash.zip")
    bundle = node.bundle(ids[0])
    assert bundle.heading.why == attempt.error
    assert bundle.sections["facts"]["task_id"] == ids[0]
    assert "last words" in bundle.report
    assert bundle.sections["facts"]["last_words"] == attempt.traceback
    assert bundle.sections["facts"]["max_rss_bytes"] == attempt.usage["max_rss_bytes"]
    assert "autopsy" in node.notes(ids[0])
    assert node.reader.autopsies(ids[1]) == []
    assert node.stop() == 0


@pytest.mark.parametrize("how", ["null", "exit"])
def test_quarantine_after_three_crashes(node: NodeUnderTest, how: str) -> None:
    """Crashes are counted apart from errors, and a rerun by a person starts the count anew."""
    quarantined = ("supervisor_tasks_quarantined_total", (("type", "crash"),))
    before = node.metrics()[quarantined]
    reason = CRASHES[how][0]
    view = node.run("crash", how=how)
    assert (view.state, view.reason, view.attempt, view.quarantined, view.crash_count) == (
        State.FAILED, reason, 3, True, 3,
    )  # fmt: skip
    assert node.endings(view.task_id) == [(FAILED, reason, "exited", True)] * 3
    moves = [line for line in node.app.history(view.task_id) if line.to_state is not None]
    assert moves[-1].note == "quarantined after 3 crashes"
    eventually(lambda: node.metrics()[quarantined] == before + 1, 3, "the quarantine is counted")
    assert "quarantined: it has killed its worker 3 times" in node.cli("show", view.task_id).stdout

    (answer,) = node.app.rerun([view.task_id], by="anna", reason="mended")
    assert answer.answer == "rerun"
    again = eventually(lambda: _ended_after(node, view.task_id, 3), 20)
    assert (again.state, again.attempt, again.quarantined, again.crash_count) == (
        State.FAILED, 6, True, 3,
    )  # fmt: skip


def test_quarantine_by_kills_from_outside(node: NodeUnderTest) -> None:
    """Whoever kills it: after three times it is not run again unasked."""
    handle = node.submit("sleep", spec={"max_retries": 9})
    for attempt in (1, 2, 3):
        running = eventually(lambda n=attempt: _running(node, handle.task_id, n), 15)
        os.kill(running.pid, signal.SIGKILL)
    view = handle.wait(10)
    assert (view.state, view.reason, view.attempt, view.quarantined, view.retry_count) == (
        State.FAILED, "killed_by_signal", 3, True, 2,
    )  # fmt: skip


def test_errors_are_no_crashes(node: NodeUnderTest) -> None:
    """MemoryError under RLIMIT_AS is an exception like any other; the worker lives on."""
    view = node.run("runs_out_of_address_space")
    assert (view.state, view.reason, view.error_type, view.crash_count, view.quarantined) == (
        State.FAILED, "raised", "MemoryError", 0, False,
    )  # fmt: skip
    assert node.endings(view.task_id) == [RAISED] * 4


def _running(node: NodeUnderTest, task_id: str, attempt: int) -> AttemptView | None:
    attempts = node.attempts(task_id)
    if not attempts:
        return None
    last = attempts[-1]
    begun = last.attempt == attempt and last.started_at is not None and last.ended_at is None
    return last if begun else None


def _ended_after(node: NodeUnderTest, task_id: str, attempt: int) -> TaskView | None:
    view = node.app.get(task_id).view()
    return view if view.attempt > attempt and view.state is State.FAILED else None


# -- the command line says the same


def test_command_line_agrees(node: NodeUnderTest) -> None:
    """`show --json` and `history --json` against the reader, for one task of each ending."""
    rows = node.query("SELECT min(task_id) FROM tasks GROUP BY state, reason ORDER BY 1 LIMIT 5")
    ids = [row[0] for row in rows]
    assert len(ids) == 5
    for task_id in ids:
        view, shown = node.app.get(task_id).view(), node.cli_json("show", task_id)
        assert (shown["task_id"], shown["state"], shown["reason"]) == (
            task_id, view.state, view.reason,
        )  # fmt: skip
        assert shown["result"] == json.loads(view.result_json or "null")
        assert shown["params"] == json.loads(view.params_json)
        assert [
            (a["attempt"], a["outcome"], a["reason"], a["proof"], a["effects_unknown"])
            for a in shown["attempts"]
        ] == [
            (a.attempt, a.outcome, a.reason, a.proof, a.effects_unknown)
            for a in node.attempts(task_id)
        ]
        told = node.cli_json("history", task_id)
        lines = told if isinstance(told, list) else told["history"]
        assert [(x["from_state"], x["to_state"], x["operator"], x["reason"]) for x in lines] == [
            (x.from_state, x.to_state, x.operator, x.reason) for x in node.app.history(task_id)
        ]


def test_nothing_reads_canceled(node: NodeUnderTest) -> None:
    assert node.query("SELECT count(*) FROM tasks WHERE state = ?", CANCELED) == [(0,)]
