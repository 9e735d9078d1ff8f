"""Stopping, losing and reloading a node: what becomes of its tasks and of everything below it."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
    seen,
)

from supervisor.client import Handle
from supervisor.model.states import State
from supervisor.node.process import session_members
from supervisor.worker import tree

SHUTDOWN = (RUNNING, FAILED, "node", "shutdown")
REQUEUED = (FAILED, PENDING, "node", "requeued")
CLAIMED = (PENDING, RUNNING, "node", "claimed")
RETURNED = (RUNNING, SUCCESS, "node", "returned")


# -- SIGKILL of the node


def test_node_killed_in_mid_run(start_node: Start, tmp_path: Path) -> None:
    """No worker lives a second later; the next node judges the orphans and runs them again."""
    node = start_node(workers=2, requeue_safety=20)
    runs = tmp_path / "runs"
    handle = node.submit("sleep", spec={"timeout": 20}, s=1.5, path=str(runs))
    kin = tmp_path / "kin"
    family = node.submit("family", spec={"max_retries": 0}, path=str(kin), then="hang")
    node.started(handle)
    eventually(lambda: (tmp_path / "kin.ready").exists(), 5)
    workers = node.worker_pids()
    assert len(workers) == 2
    lost_id = node.node_id()

    node.kill()
    eventually(
        lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in workers),
        1,
        "workers are gone",
    )
    assert handle.state() is State.RUNNING  # nobody has judged it yet, and it says so

    node.start()
    ready_at = time.monotonic()
    ended = eventually(lambda: node.attempts(handle.task_id)[0].ended_at, 2, "the orphan is judged")
    assert time.monotonic() - ready_at < 2
    eventually(lambda: not any(one.alive for one in seen(kin)), 2, "grandchildren are gone")
    assert ended is not None
    view = handle.wait(15)
    assert (view.state, view.attempt, view.retry_count) == (State.SUCCESS, 2, 1)
    assert node.moves(handle.task_id) == [
        *begun(), (RUNNING, TIMEOUT, "node", "node_lost"), (TIMEOUT, PENDING, "node", "retry"),
        CLAIMED, RETURNED,
    ]  # fmt: skip
    proof = "its worker and its node are gone (pid and start time)"
    assert node.endings(handle.task_id) == [
        (TIMEOUT, "node_lost", proof, True), (SUCCESS, "returned", "reported", False),
    ]  # fmt: skip
    assert runs.read_text().split() == ["began", "began", "done"]

    gone = family.wait(5)
    assert (gone.state, gone.reason) == (State.TIMEOUT, "node_lost")
    assert node.endings(family.task_id) == [(TIMEOUT, "node_lost", proof, True)]
    (lost,) = [n for n in node.reader.nodes() if n.node_id == lost_id]
    assert (lost.ended_at is not None, lost.note) == (True, f"found dead by {node.node_id()}")


def test_newborns_of_a_killed_node(start_node: Start, tmp_path: Path) -> None:
    """Killed amid their birth, with slow forks: who would be handed to it does not wait for it."""
    lines = ("import os, time", "from supervisor import App", "app = App()")
    slow = "os.register_at_fork(after_in_child=lambda: time.sleep(0.5))"
    (tmp_path / "slow_births.py").write_text("\n".join([*lines, slow, ""]))
    node = start_node("slow_births:app", pythonpath_extra=tmp_path, run=False)
    node.start(wait=False)
    eventually(lambda: node.events("worker.spawned"), 10, "the middle process is gone")
    assert node.query("SELECT count(*) FROM workers") == [(0,)], "nobody has looked around yet"
    assert len(node.processes()) > 2, "the node, its zygote and the newborns"
    node.kill()
    eventually(lambda: not node.processes(), 1.5, "the newborns are gone")
    node.start()


def test_members_of_a_dead_leader_s_session() -> None:
    """They are found without any mark; a number that is somebody else's by now finds nobody."""
    words = ["sh", "-c", "sleep 60 & echo $!; read line"]
    with subprocess.Popen(
        words, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}
    ) as leader:
        assert leader.stdout is not None
        assert leader.stdin is not None
        member = int(leader.stdout.readline())
        born = tree.start_ticks(leader.pid)
        assert born is not None
        try:
            assert set(session_members({leader.pid: born})) == {leader.pid, member}
            assert list(session_members({leader.pid: born - 1})) == []
            leader.stdin.close()
            leader.wait()
            assert list(session_members({leader.pid: born})) == [member]
            assert list(session_members({leader.pid: born + 1_000_000})) == []
            assert list(session_members({})) == []
        finally:
            os.kill(member, signal.SIGKILL)


def test_a_stranger_has_the_number_of_a_lost_worker(start_node: Start) -> None:
    """Numbers come round again: neither it nor its session is touched, and the orphan is judged."""
    node = start_node(workers=1)
    handle = node.submit("sleep", spec={"max_retries": 0})
    node.started(handle)
    node.kill()
    words = ["sh", "-c", "sleep 60 & echo $!; read line"]
    with subprocess.Popen(
        words, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as stranger:
        assert stranger.stdout is not None
        child = int(stranger.stdout.readline())
        try:
            with closing(sqlite3.connect(node.store_path)) as db:
                for table in ("attempts", "workers"):
                    db.execute(f"UPDATE {table} SET pid = ?", (stranger.pid,))
                db.commit()
            node.start()
            view = handle.wait(5)
            assert (view.state, view.reason) == (State.TIMEOUT, "node_lost")
            assert stranger.poll() is None
            assert tree.is_alive(child)
        finally:
            os.kill(child, signal.SIGKILL)
            stranger.communicate(b"\n", 5)


def test_killed_and_started_five_times(start_node: Start, tmp_path: Path) -> None:
    """The number of processes stays the same, and a task that never ends is never doubled."""
    node = start_node(workers=2, retry_base=0.05, retry_max=0.05)
    handle = node.submit("sleep", spec={"max_retries": 50})
    node.started(handle)
    for lives in range(2, 7):
        node.kill()
        node.start()
        eventually(lambda n=lives: _attempt_runs(handle, n), 5, f"attempt {lives} runs")
        eventually(lambda: len(node.processes()) == 4, 3, "node, zygote and two workers")
    moves = node.moves(handle.task_id)
    lost = [(RUNNING, TIMEOUT, "node", "node_lost"), (TIMEOUT, PENDING, "node", "retry"), CLAIMED]
    assert moves == [*begun(), *lost * 5]
    assert [e[0] for e in node.endings(handle.task_id)] == [TIMEOUT] * 5 + [None]
    node.app.cancel(handle.task_id, by="anna", reason="enough")
    assert handle.wait(5).state is State.CANCELED


def _attempt_runs(handle: Handle, number: int) -> bool:
    view = handle.view()
    return view.attempt == number and view.started_at is not None


def test_canceled_while_no_node_runs(start_node: Start, tmp_path: Path) -> None:
    """The wish on a lost attempt holds: CANCELED, never run again."""
    node = start_node()
    handle = node.submit("sleep", path=str(tmp_path / "runs"))
    node.started(handle)
    node.kill()
    assert handle.cancel(by="anna", reason="not needed").answer == "requested"
    node.start()
    assert handle.wait(5).state is State.CANCELED
    assert node.moves(handle.task_id) == [*begun(), (RUNNING, CANCELED, "anna", "canceled")]
    assert (tmp_path / "runs").read_text().split() == ["began"]


def test_second_node_on_one_store_is_refused(start_node: Start) -> None:
    node = start_node()
    answer = node.cli("run", node.app_name, timeout=15)
    assert answer.returncode == 1
    assert f"another node (pid {node.pid}) runs on this store" in answer.stderr
    assert "remedy:" in answer.stderr
    assert node.run("ok", value=2).result_json == "2"


def test_a_port_that_is_taken_is_refused(start_node: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        node = start_node(run=False, metrics_listen=listen)
        answer = node.cli("run", node.app_name, timeout=15)
    assert (answer.returncode, answer.stderr.splitlines()) == (
        1,
        [
            f"error: metrics_listen: cannot listen on {listen}: Address already in use",
            "remedy: Give this node a port of its own with --metrics-listen, or none.",
        ],
    )


# -- a stop in order


def test_stop_lets_a_running_task_finish(start_node: Start, tmp_path: Path) -> None:
    node = start_node()
    handle = node.submit("sleep", s=1.5)
    node.started(handle)
    waiting = [node.submit("sleep", s=1.5) for _ in range(4)]
    assert node.stop() == 0
    assert handle.state() is State.SUCCESS
    assert node.moves(handle.task_id) == [*begun(), RETURNED]
    assert [w.state() for w in waiting].count(State.PENDING) >= 3  # no more were begun
    last = node.reader.nodes()[0]
    assert (last.ended_at is not None, last.note) == (True, "received SIGTERM")


def test_stop_asks_for_a_checkpoint(start_node: Start, tmp_path: Path) -> None:
    """Told to leave after the grace: back to PENDING, no retry used, its checkpoint kept."""
    path = tmp_path / "marks"
    node = start_node(drain_grace=0.3)
    handle = node.submit("resumes", path=str(path))
    node.started(handle)
    assert node.stop() == 0
    view = handle.view()
    assert (view.state, view.retry_count, view.attempt) == (State.PENDING, 0, 1)
    assert node.moves(handle.task_id) == [*begun(), SHUTDOWN, REQUEUED]
    assert node.endings(handle.task_id) == [(FAILED, "shutdown", "reported", False)]

    node.start()
    view = handle.wait(10)
    assert (view.state, view.attempt, view.result_json) == (State.SUCCESS, 2, '{"page":7}')
    assert path.read_text().splitlines() == ["attempt 1 from None", "attempt 2 from {'page': 7}"]
    assert node.moves(handle.task_id) == [*begun(), SHUTDOWN, REQUEUED, CLAIMED, RETURNED]


@pytest.mark.parametrize(
    ("kind", "word"), [("told", "ShutdownRequested"), ("atold", "CancelledError")]
)
def test_stop_is_neither_cancel_nor_timeout(
    start_node: Start, tmp_path: Path, kind: str, word: str
) -> None:
    path = tmp_path / "marks"
    node = start_node(drain_grace=0)
    handle = node.submit(kind, path=str(path))
    node.started(handle)
    assert node.stop() == 0
    view = handle.view()
    assert (view.state, view.retry_count) == (State.PENDING, 0)
    assert node.moves(handle.task_id) == [*begun(), SHUTDOWN, REQUEUED]
    assert path.read_text().split() == [word]


@pytest.mark.parametrize("kind", ["hopeless_cancel", "amid_deaf"])
def test_stop_kills_the_stubborn(start_node: Start, tmp_path: Path, kind: str) -> None:
    """Within the sum of the phases, with evidence, and it will run again."""
    node = start_node(drain_grace=0, checkpoint_budget=0.5, release_budget=0.5, exit_budget=0.5)
    spec = {"timeout": 60, "max_retries": 1}
    handle = node.submit(kind, spec=spec, path=str(tmp_path / "marks"))
    node.started(handle)
    began = time.monotonic()
    assert node.stop() == 0
    assert time.monotonic() - began < 0.5 * 2 + 4 + 5
    assert handle.view().state is State.PENDING
    assert node.moves(handle.task_id) == [*begun(), SHUTDOWN, REQUEUED]
    assert node.endings(handle.task_id) == [(FAILED, "shutdown", "exited", True)]
    assert node.bundle(handle.task_id).heading.pid == node.attempts(handle.task_id)[0].pid


def test_second_and_third_signal(start_node: Start, tmp_path: Path) -> None:
    """The second ends the grace (the body is told at once), the third goes to evidence and kill."""
    node = start_node(drain_grace=60, checkpoint_budget=60, exit_budget=60)
    polite = node.submit("told", path=str(tmp_path / "polite"))
    stubborn = node.submit("hopeless_cancel", path=str(tmp_path / "stubborn"))
    for handle in (polite, stubborn):
        node.started(handle)
    node.signal(signal.SIGINT)
    eventually(lambda: node.events("node.stopping"), 3)
    time.sleep(0.3)
    assert polite.state() is State.RUNNING
    node.signal(signal.SIGTERM)
    eventually(lambda: polite.state() is State.PENDING, 15, "the second signal told the body")
    assert (tmp_path / "polite").read_text().split() == ["ShutdownRequested"]
    assert stubborn.state() is State.RUNNING
    began = time.monotonic()
    node.signal(signal.SIGTERM)
    assert node.wait_exit(30) == 0
    assert time.monotonic() - began < 30  # the phases that it leaves out are a minute each
    assert stubborn.view().state is State.FAILED  # it may not run twice: a person decides
    assert node.endings(stubborn.task_id) == [(FAILED, "shutdown", "exited", True)]
    assert [e["signal"] for e in node.events("signal.received")] == ["SIGINT", "SIGTERM", "SIGTERM"]


def test_release_hooks_run_at_a_stop(start_node: Start, tmp_path: Path) -> None:
    app = write_app(tmp_path, "released", "first", hook=str(tmp_path / "hook"))
    node = start_node(app, pythonpath_extra=tmp_path)
    assert node.run("greet").result_json == '"first"'
    assert node.stop() == 0
    said = (tmp_path / "hook").read_text().splitlines()  # by two workers at once
    assert sorted(said) == ["exit", "exit", "released", "released"]
    assert (said[0], said[-1]) == ("released", "exit")
    exits = [(e["exit"], e["reason"]) for e in node.events("worker.exited")]
    assert exits == [("exited with code 0", "stopped")] * 2


# -- reload


def write_app(where: Path, name: str, greeting: str, *, hook: str = "") -> str:
    lines = [
        "import atexit, time",
        "from supervisor import App",
        "app = App()",
        "@app.task()",
        f"def greet(ctx): return {greeting!r}",
        "@app.task()",
        f"def slow(ctx): time.sleep(1.5); return {greeting!r}",
    ]
    if hook:
        lines += [
            f"def say(what): open({hook!r}, 'a').write(what + chr(10))",
            "@app.on_release",
            "def released(): say('released')",
            "atexit.register(say, 'exit')",
        ]
    (where / f"{name}.py").write_text("\n".join(lines) + "\n")
    return f"{name}:app"


def test_reload_brings_new_code(start_node: Start, tmp_path: Path) -> None:
    """What runs finishes undisturbed on the old code, what starts later uses the new."""
    app = write_app(tmp_path, "reloaded", "old")
    node = start_node(app, pythonpath_extra=tmp_path)
    assert node.run("greet").result_json == '"old"'
    slow = node.submit("slow")
    node.started(slow)
    before = set(node.worker_pids())
    write_app(tmp_path, "reloaded", "new")
    for _ in range(5):  # in a burst: one reload, or a few, but never none
        node.signal(signal.SIGHUP)
        time.sleep(0.05)
    eventually(lambda: node.run("greet").result_json == '"new"', 10, "new code runs")
    assert slow.wait(10).result_json == '"old"'
    assert node.moves(slow.task_id) == [*begun(), RETURNED]
    eventually(
        lambda: len(node.worker_pids()) == 2 and before.isdisjoint(node.worker_pids()), 10,
        "all workers are of the new generation",
    )  # fmt: skip
    assert {node.run("greet").result_json for _ in range(6)} == {'"new"'}
    reasons = [e["reason"] for e in node.events("worker.exited")]
    assert set(reasons) == {"stopped"}


def test_reload_of_a_broken_app_changes_nothing(start_node: Start, tmp_path: Path) -> None:
    app = write_app(tmp_path, "breaks", "old")
    node = start_node(app, pythonpath_extra=tmp_path)
    assert node.run("greet").result_json == '"old"'
    before = set(node.worker_pids())
    (tmp_path / "breaks.py").write_text("import nothing_of_this_name\n")
    node.signal(signal.SIGHUP)
    eventually(lambda: node.events("app.refused"), 10)
    refused = node.events("app.refused")[0]
    assert refused["error"] == (
        "importing 'breaks' raised ModuleNotFoundError: No module named 'nothing_of_this_name' "
        f"(at {tmp_path}/breaks.py:1)"
    )
    assert refused["follows"] == "the old app goes on"
    assert {node.run("greet").result_json for _ in range(4)} == {'"old"'}
    assert set(node.worker_pids()) == before
    os.kill(before.pop(), signal.SIGKILL)  # births still work, with the old code
    eventually(lambda: len(node.worker_pids()) == 2, 10, "the lost worker is replaced")
    assert {node.run("greet").result_json for _ in range(4)} == {'"old"'}
    write_app(tmp_path, "breaks", "new")  # and once it is mended, a reload brings it
    node.signal(signal.SIGHUP)
    eventually(lambda: node.run("greet").result_json == '"new"', 10, "the mended app runs")


def test_worker_ignores_hup_and_int(node: NodeUnderTest) -> None:
    handle = node.submit("sleep", s=0.5)
    node.started(handle)
    pid = node.attempts(handle.task_id)[0].pid
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    assert handle.wait(5).state is State.SUCCESS
    assert node.endings(handle.task_id) == [(SUCCESS, "returned", "reported", False)]


def test_a_claim_that_is_being_written_at_the_stop_is_given_back(start_node: Start) -> None:
    """The claim waits for the store; its workers have left before it is there."""
    node = start_node()
    node.run("ok")
    due = datetime.now(UTC) + timedelta(seconds=0.8)
    spec = {"type": "ok", "run_after": due.isoformat(), "max_retries": 0}
    handles = node.app.submit_many([spec] * 2)
    time.sleep(0.6)
    with node.store_locked():
        time.sleep(0.7)
        node.signal(signal.SIGTERM)
        time.sleep(1.5)
    assert node.wait_exit() == 0
    assert [handle.state() for handle in handles] == [State.PENDING] * 2
    node.restart()
    views = node.app.wait([handle.task_id for handle in handles], 20)
    assert [(view.state, view.retry_count) for view in views] == [(State.SUCCESS, 0)] * 2
