"""Cancel and force-fail in every moment of a task's life, and what tells the three wishes apart."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import (
    CANCELED,
    FAILED,
    PENDING,
    RUNNING,
    TIMEOUT,
    NodeUnderTest,
    Start,
    begun,
    eventually,
)

from supervisor.client import Handle
from supervisor.model.states import State

STOPPED = (RUNNING, CANCELED, "anna", "canceled")
REPORTED = (CANCELED, "canceled", "reported", False)
LADDER = [
    "cancel_requested", "cancel_delivered", "cancel_acknowledged",
    "cancel_stopped", "cancel_verified",
]  # fmt: skip
FORCED = (CANCELED, "canceled", "exited", True)


def cancel(handle: Handle) -> tuple[str, State | None]:
    answer = handle.cancel(by="anna", reason="changed my mind")
    return answer.answer, answer.state


@contextmanager
def both_workers_busy(node: NodeUnderTest) -> Iterator[list[Handle]]:
    handles = [node.submit("sleep", spec={"priority": 9}) for _ in range(2)]
    for handle in handles:
        node.started(handle)
    yield handles
    node.app.cancel([h.task_id for h in handles], by="tester", reason="over")
    for view in node.app.wait([h.task_id for h in handles], 10):
        assert view.state is State.CANCELED


def test_pending_never_runs_a_line(node: NodeUnderTest, tmp_path: Path) -> None:
    path = tmp_path / "marker"
    with both_workers_busy(node):
        handle = node.submit("touch", path=str(path))
        assert cancel(handle) == ("canceled", State.CANCELED)
        assert node.moves(handle.task_id) == [
            (None, PENDING, "unknown", "submitted"), (PENDING, CANCELED, "anna", "canceled"),
        ]  # fmt: skip
        assert node.attempts(handle.task_id) == []
        assert cancel(handle)[0] == "already ended"
    node.run("ok")
    assert not path.exists()


@pytest.mark.parametrize("kind", ["wait", "sleep", "amid", "holds_regex", "holds_c"])
def test_running_cooperative(node: NodeUnderTest, kind: str) -> None:
    handle = node.submit(kind)
    node.started(handle)
    began = time.monotonic()
    assert cancel(handle) == ("requested", State.RUNNING)
    view = handle.wait(5)
    assert time.monotonic() - began < 1
    assert (view.state, view.reason, view.mark) == (State.CANCELED, "canceled", None)
    assert node.moves(handle.task_id) == [*begun(), STOPPED]
    assert node.endings(handle.task_id) == [REPORTED]
    assert node.notes(handle.task_id) == LADDER
    assert cancel(handle) == ("already ended", State.CANCELED)


def test_running_hopeless(node: NodeUnderTest, tmp_path: Path) -> None:
    handle = node.submit("hopeless_cancel", path=str(tmp_path / "began"))
    node.started(handle)
    began = time.monotonic()
    assert cancel(handle) == ("requested", State.RUNNING)
    assert cancel(handle)[0] == "already requested"
    pid = node.attempts(handle.task_id)[0].pid
    reads = set()
    while (state := handle.state()) is not State.CANCELED:
        reads.add(state)
        assert time.monotonic() - began < 1 + 4 + 1, "grace, capture and a second are over"
    assert reads == {State.RUNNING}
    assert not os.path.exists(f"/proc/{pid}")  # CANCELED is read only once it is verified gone
    assert node.endings(handle.task_id) == [FORCED]
    assert node.moves(handle.task_id) == [*begun(), STOPPED]
    assert [line.reason for line in node.app.history(handle.task_id)] == [
        "submitted", "claimed", *LADDER[:3], "cancel_forced", "verdict", "autopsy", *LADDER[3:],
        "canceled",
    ]  # fmt: skip
    assert node.bundle(handle.task_id).sections["facts"]["stop_wish"] == {
        "kind": "cancel", "by": "anna", "reason": "changed my mind",
    }  # fmt: skip
    ladder = node.cli_json("show", handle.task_id)["cancel"]
    assert [step["step"] for step in ladder] == [*LADDER[:3], "cancel_forced", *LADDER[3:]]
    assert (ladder[0]["by"], ladder[0]["note"]) == ("anna", "changed my mind")
    times = [step["at"] for step in ladder]
    assert times == sorted(times)
    shown = node.cli("show", handle.task_id).stdout
    told = shown[shown.index("stop request") :]
    assert re.search(
        r"""stop request
    \S+ \S+  cancel_requested  anna  changed my mind
    \S+ \S+  cancel_delivered  supervisor  told to the worker
    \S+ \S+  cancel_acknowledged  supervisor  the body has seen the cancel
    \S+ \S+  cancel_forced  supervisor  the grace of 1 s is used up: evidence, then SIGKILL .*
    \S+ \S+  cancel_stopped  supervisor  its process was ended
    \S+ \S+  cancel_verified  supervisor  nothing of the attempt runs any more, \d\.\d\d s after .*
""",
        told,
    ), told


@pytest.mark.parametrize(("kind", "ending"), [("sleep", "reported"), ("hopeless_cancel", "exited")])
def test_force_fail(node: NodeUnderTest, kind: str, ending: str) -> None:
    handle = node.submit(kind)
    node.started(handle)
    (answer,) = node.app.fail(handle.task_id, by="anna", reason="stuck since noon")
    assert (answer.answer, answer.state) == ("requested", State.RUNNING)
    view = handle.wait(10)
    assert (view.state, view.reason, view.attempt) == (State.FAILED, "forced", 1)
    assert node.moves(handle.task_id) == [*begun(), (RUNNING, FAILED, "anna", "forced")]
    assert node.endings(handle.task_id) == [(FAILED, "forced", ending, ending == "exited")]


def test_fail_of_a_waiting_task_is_refused(node: NodeUnderTest) -> None:
    handle = node.submit("ok", spec={"run_after": "2999-01-01T00:00:00Z"})
    (answer,) = node.app.fail(handle.task_id, by="anna", reason="x")
    assert (answer.answer, answer.state, answer.done) == ("not running", State.PENDING, False)
    assert cancel(handle)[0] == "canceled"


def test_body_that_looks_at_the_flag_only(node: NodeUnderTest, tmp_path: Path) -> None:
    """It returns after it was asked: SUCCESS, and the audit says that the cancel came too late."""
    path = tmp_path / "marks"
    handle = node.submit("flag_only", path=str(path))
    node.started(handle)
    assert cancel(handle)[0] == "requested"
    view = handle.wait(5)
    assert (view.state, view.result_json) == (State.SUCCESS, '"left by itself"')
    assert path.read_text() == "saw the flag\n"
    assert node.app.history(handle.task_id)[-1].note == (
        "cancel by anna came too late: the body had returned"
    )
    steps = [step["step"] for step in node.cli_json("show", handle.task_id)["cancel"]]
    assert (steps[0], steps[-1]) == ("cancel_requested", "cancel_too_late")
    assert not {"cancel_stopped", "cancel_verified", "cancel_forced"} & set(steps)
    (attempt,) = node.attempts(handle.task_id)
    assert attempt.ended_at is not None
    late = f"too late, finished at {attempt.ended_at.isoformat()}"
    assert late in node.cli("show", handle.task_id).stdout


def test_worker_dies_of_itself_after_the_request(node: NodeUnderTest) -> None:
    """Never retried, and it does not hang in between either."""
    handle = node.submit("hopeless_cancel", spec={"max_retries": 3})
    node.started(handle)
    assert cancel(handle)[0] == "requested"
    os.kill(node.attempts(handle.task_id)[0].pid, signal.SIGKILL)
    view = handle.wait(3)
    assert (view.state, view.attempt) == (State.CANCELED, 1)
    assert node.moves(handle.task_id) == [*begun(), STOPPED]
    assert node.endings(handle.task_id) == [(CANCELED, "killed_by_signal", "exited", True)]


def test_node_dies_after_the_request(start_node: Start) -> None:
    """The next node ends the attempt by its proof; the ladder says how, and the wish is obeyed."""
    node = start_node(workers=1, cancel_grace=30)
    handle = node.submit("hopeless_cancel")
    node.started(handle)
    assert cancel(handle)[0] == "requested"
    eventually(lambda: node.notes(handle.task_id) == LADDER[:3], 5, "the body has seen it")
    node.kill()
    node.restart()
    view = handle.wait(10)
    assert (view.state, view.attempt) == (State.CANCELED, 1)
    ladder = node.cli_json("show", handle.task_id)["cancel"]
    assert [step["step"] for step in ladder] == [*LADDER[:3], "ended"]
    assert ladder[-1]["note"] == (
        "the node that ran it died (its worker and its node are gone (pid and start time))"
    )
    assert node.stop() == 0


def test_fifty_in_one_call(node: NodeUnderTest, tmp_path: Path) -> None:
    """48 waiting ones, one that has ended and one that never was, each with its own answer."""
    ended = node.run("ok")
    with both_workers_busy(node):
        waiting = [node.submit("touch", path=str(tmp_path / f"{n}")) for n in range(48)]
        unknown = "task_" + "0" * 32
        ids = [*(h.task_id for h in waiting), ended.task_id, unknown]
        answers = node.app.cancel(ids, by="anna", reason="all of them")
        assert [a.task_id for a in answers] == ids
        assert [a.answer for a in answers] == ["canceled"] * 48 + ["already ended", "not found"]
        assert answers[-1].detail == "no task has this id"
    assert list(tmp_path.iterdir()) == []


def test_command_line(node: NodeUnderTest) -> None:
    waiting = node.submit("ok", spec={"run_after": "2999-01-01T00:00:00Z"})
    assert node.cli("cancel", waiting.task_id).returncode == 2  # no reason, no cancel
    answer = node.cli(
        "cancel", waiting.task_id, "--by", "anna", "--reason", "wrong month", "--json"
    )
    assert (answer.returncode, waiting.state()) == (0, State.CANCELED)
    again = node.cli("cancel", waiting.task_id, "--by", "anna", "--reason", "again")
    assert again.returncode == 1
    assert "already ended" in again.stdout


def test_cancel_races_the_start(node: NodeUnderTest, tmp_path: Path) -> None:
    """In the gap between claim and first line: canceled, or ran; never both silently."""
    seen = set()
    for n in range(150):
        path = tmp_path / f"{n}"
        handle = node.submit("touch", path=str(path))
        if n % 3:
            time.sleep(n % 7 / 1000)
        answer, _ = cancel(handle)
        view = handle.wait(5)
        ran = path.exists()
        seen.add((answer, view.state.value, ran))
        last = node.app.history(handle.task_id)[-1]
        if view.state is State.SUCCESS:
            assert ran
            late = last.note == "cancel by anna came too late: the body had returned"
            assert answer == "already ended" or late
        else:
            assert view.state is State.CANCELED
            assert (last.operator, last.reason) == ("anna", "canceled")
            if answer == "canceled":
                assert not ran
    assert seen <= {
        ("canceled", CANCELED, False),
        ("requested", CANCELED, False),
        ("requested", CANCELED, True),
        ("requested", "SUCCESS", True),
        ("already ended", "SUCCESS", True),
    }


# -- three wishes, told apart


@pytest.mark.parametrize(("kind", "word"), [("told", "SoftTimeout"), ("atold", "CancelledError")])
def test_soft_limit_is_a_timeout_and_retried(
    node: NodeUnderTest, tmp_path: Path, kind: str, word: str
) -> None:
    path = tmp_path / "marks"
    view = node.submit(kind, spec={"soft_timeout": 0.3, "timeout": 20}, path=str(path)).wait(10)
    assert (view.state, view.reason, view.attempt) == (State.TIMEOUT, "soft_timeout", 2)
    ended = (RUNNING, TIMEOUT, "node", "soft_timeout")
    assert node.moves(view.task_id) == [
        *begun(), ended, (TIMEOUT, PENDING, "node", "retry"),
        (PENDING, RUNNING, "node", "claimed"), ended,
    ]  # fmt: skip
    assert path.read_text().split() == [word, word]


@pytest.mark.parametrize(("kind", "word"), [("told", "TaskCanceled"), ("atold", "CancelledError")])
def test_cancel_is_not_retried(node: NodeUnderTest, tmp_path: Path, kind: str, word: str) -> None:
    path = tmp_path / "marks"
    handle = node.submit(kind, path=str(path))
    node.started(handle)
    cancel(handle)
    assert (handle.wait(5).state, handle.view().attempt) == (State.CANCELED, 1)
    assert path.read_text().split() == [word]


@pytest.mark.parametrize("kind", ["told", "atold"])
def test_cancel_wins_over_the_soft_limit(node: NodeUnderTest, tmp_path: Path, kind: str) -> None:
    """Both within 50 ms of each other, the cancel before or after."""
    for early_s in (0.05, 0.0, -0.05):
        path = str(tmp_path / f"{early_s}")
        handle = node.submit(
            kind, spec={"soft_timeout": 0.5, "timeout": 20, "max_retries": 0}, path=path
        )
        started = node.started(handle).started_at
        assert started is not None
        age = time.time() - started.timestamp()
        time.sleep(max(0.0, 0.5 - early_s - age))
        answer, _ = cancel(handle)
        view = handle.wait(5)
        moves = node.moves(handle.task_id)
        if answer == "requested":
            assert (view.state, moves[-1]) == (State.CANCELED, STOPPED)
        else:  # the soft limit had ended it already
            assert (view.state, view.reason) == (State.TIMEOUT, "soft_timeout")


def test_async_body_that_swallows_is_killed(node: NodeUnderTest, tmp_path: Path) -> None:
    path = tmp_path / "cancel"
    handle = node.submit("amid_deaf", path=str(path))
    node.started(handle)
    cancel(handle)
    assert handle.wait(10).state is State.CANCELED
    assert node.endings(handle.task_id) == [FORCED]
    assert "swallowed" in path.read_text()

    path = tmp_path / "soft"
    view = node.submit(
        "amid_deaf", spec={"soft_timeout": 0.3, "timeout": 1, "max_retries": 0}, path=str(path)
    ).wait(15)
    assert (view.state, view.reason) == (State.TIMEOUT, "timeout")
    assert node.endings(view.task_id) == [(TIMEOUT, "timeout", "exited", True)]
    assert "swallowed" in path.read_text()


# -- in the gap, on purpose


def test_assigned_to_a_worker_that_stands_still(start_node: Start, tmp_path: Path) -> None:
    """The only worker is stopped while idle: what it was handed is taken back, or canceled."""
    node = start_node(workers=1)
    node.run("ok")
    (pid,) = node.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    try:
        handle = node.submit("touch", path=str(tmp_path / "canceled"))
        eventually(lambda: handle.state() is State.RUNNING, 3, "it is assigned")
        assert handle.view().assigned
        assert cancel(handle) == ("requested", State.RUNNING)
        assert handle.wait(5).state is State.CANCELED
        assert node.endings(handle.task_id) == [(CANCELED, "never_started", "taken_back", False)]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert node.run("ok").state is State.SUCCESS
    assert not (tmp_path / "canceled").exists()


def test_cancel_during_drain(start_node: Start) -> None:
    """A stopping node still hears a cancel, and is done as soon as its last task is."""
    node = start_node(drain_grace=30)
    handle = node.submit("sleep")
    node.started(handle)
    node.signal(signal.SIGTERM)
    eventually(lambda: node.events("node.stopping"), 3)
    began = time.monotonic()
    assert cancel(handle)[0] == "requested"
    assert node.wait_exit(10) == 0
    assert time.monotonic() - began < 5
    assert handle.state() is State.CANCELED
    assert node.moves(handle.task_id) == [*begun(), STOPPED]


def test_idle_worker_that_stands_still_is_replaced(start_node: Start, tmp_path: Path) -> None:
    """What it does not read within a second runs on the worker that takes its place."""
    node = start_node(workers=1)
    node.run("ok")
    (pid,) = node.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    view = node.run("touch", path=str(tmp_path / "ran"))
    assert (view.state, view.attempt, view.retry_count, view.crash_count) == (
        State.SUCCESS,
        2,
        0,
        0,
    )
    assert node.moves(view.task_id) == [
        *begun(), (RUNNING, FAILED, "node", "never_started"), (FAILED, PENDING, "node", "requeued"),
        (PENDING, RUNNING, "node", "claimed"), (RUNNING, "SUCCESS", "node", "returned"),
    ]  # fmt: skip
    assert (tmp_path / "ran").read_text() == "x\n"
    assert not os.path.exists(f"/proc/{pid}")
    assert [record.pid for record in node.reader.autopsies()] == [pid]


def test_soft_limit_reaches_a_body_that_holds_the_interpreter(node: NodeUnderTest) -> None:
    """Its own helper thread never gets to tell it: the node knocks from outside."""
    view = node.run("holds_regex_too_long")
    assert (view.state, view.reason) == (State.TIMEOUT, "soft_timeout")
    assert node.endings(view.task_id) == [(TIMEOUT, "soft_timeout", "reported", False)]
