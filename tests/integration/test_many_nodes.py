"""Two nodes on one PostgreSQL: one dies, stands still, or hears nothing more; the other goes on.

Both are on this host, so a node that is dead is proven dead by its process; one that is stopped or
cut off lives, and only its lease says that its tasks may be taken over.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import stores
from harness import SHORT, SHORT_LEASE, NodeUnderTest, Start, eventually

from supervisor.model.states import State
from supervisor.store.view import AttemptView
from supervisor.worker import tree

LEASE_S = float(str(SHORT_LEASE["lease"]))
#: After the lease of one node the other sweeps, waits for requeue_safety and claims.
TAKEN_OVER_S = 4 * LEASE_S
SAFETY = timedelta(seconds=float(SHORT["SUPERVISOR_REQUEUE_SAFETY"]))
RUNNING, SUCCESS, FAILED, TIMEOUT = State.RUNNING, State.SUCCESS, State.FAILED, State.TIMEOUT

Pair = tuple[NodeUnderTest, NodeUnderTest]


@pytest.fixture
def pair(start_node: Start) -> Pair:
    """Two nodes; the server knows the connections of each by its name."""
    first = start_node(store=stores.SERVER, run=False, node_name="first", **SHORT_LEASE)
    second = start_node(shares=first, run=False, node_name="second", **SHORT_LEASE)
    for node in (first, second):
        node.env["SUPERVISOR_STORE"] = f"{node.url}?application_name={node.name}"
    return first, second


def of_node(node: NodeUnderTest, attempt: AttemptView) -> bool:
    return attempt.node_id.startswith(f"{node.name}-")


def begin_on(node: NodeUnderTest, type: str, path: Path | None = None, **spec: object) -> str:
    """Submit a task while no other node takes it, and wait until its first line has run."""
    params = {} if path is None else {"path": str(path)}
    handle = node.app.submit({"type": type, "params": params, **spec})
    node.started(handle)
    return handle.task_id


def taken_over(node: NodeUnderTest, task_id: str, timeout: float = TAKEN_OVER_S) -> None:
    """Wait until the second attempt of a task has begun, and on this node."""

    def begun() -> bool:
        attempts = node.attempts(task_id)
        return len(attempts) == 2 and attempts[1].started_at is not None

    eventually(begun, timeout, f"{task_id} runs again; {node.log_text()[-1500:]}")
    assert of_node(node, node.attempts(task_id)[1])


def text(path: Path) -> Sequence[str]:
    return path.read_text().split() if path.exists() else []


@contextmanager
def cut_off(node: NodeUnderTest) -> Iterator[None]:
    """Let the server's end of its connections stand still: nothing answers, nothing breaks."""
    rows = node.database.query(
        "SELECT pid FROM pg_stat_activity WHERE application_name = ?", node.name
    )
    pids = [pid for (pid,) in rows]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_the_tasks_of_a_dead_node_run_on_another_at_once(pair: Pair, tmp_path: Path) -> None:
    first, second = pair
    first.start()
    task_id = begin_on(first, "wait", max_retries=1)
    second.start()
    first.kill()
    taken_over(second, task_id, timeout=2 * LEASE_S)
    [lost, _] = second.attempts(task_id)
    proof = "its worker and its node are gone (pid and start time)"
    assert (lost.outcome, lost.reason, lost.proof) == (TIMEOUT, "node_lost", proof)
    assert second.app.cancel(task_id, by="me", reason="seen")
    gone = f"{lost.node_id}: its lease is over and nothing of it runs"
    eventually(lambda: gone in [line.note for line in second.reader.audit()], 2 * LEASE_S)
    assert second.events("sweeper.elected")[-1]["term"] == 2
    first.restart()  # and clears away what it had left on this host
    serve_together(pair)


def test_the_tasks_of_a_node_that_stands_still_move_over(pair: Pair, tmp_path: Path) -> None:
    first, second = pair
    path = tmp_path / "ends"
    first.start()
    task_id = begin_on(first, "wait", path)
    held_id = begin_on(first, "regex", timeout=600, soft_timeout=599)  # it never lets the GIL go
    pids = [first.attempts(one)[0].pid for one in (task_id, held_id)]
    second.start()
    first.signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    eventually(lambda: not any(map(tree.is_alive, pids)), LEASE_S, "its workers are ended for it")
    assert time.monotonic() - stopped_at < LEASE_S
    taken_over(second, task_id)
    [lost, again] = second.attempts(task_id)
    assert (lost.outcome, lost.reason) == (TIMEOUT, "node_lost")
    assert lost.proof.startswith("lease: that of its node ended ")
    assert again.started_at - lost.ended_at >= SAFETY
    first.signal(signal.SIGCONT)
    eventually(lambda: first.events("node.unfenced"), 5, "the first one serves again")
    assert [e["why"] for e in first.events("node.fenced")]
    assert text(path) == []  # it was told nothing: its node stood still
    assert second.attempts(task_id)[1].outcome is None  # and goes on over there
    assert second.app.cancel(task_id, by="me", reason="seen")
    assert second.reader.task(held_id).state is TIMEOUT  # it had no retry
    serve_together(pair)


def serve_together(pair: Pair) -> None:
    """Let both nodes work."""
    first, _ = pair
    handles = [first.submit("sleep", s=0.3) for _ in range(12)]
    for handle in handles:
        assert handle.wait(20).state is SUCCESS
    owners = {first.attempts(h.task_id)[0].node_id.split("-")[0] for h in handles}
    assert owners == {"first", "second"}


def test_a_node_that_is_cut_off_ends_what_it_runs(pair: Pair, tmp_path: Path) -> None:
    first, second = pair
    polite, deaf = tmp_path / "polite", tmp_path / "deaf"
    first.start()
    polite_id = begin_on(first, "wait", polite)
    deaf_id = begin_on(first, "swallow", deaf, timeout=600, soft_timeout=599, max_retries=3)
    pids = [first.attempts(task_id)[0].pid for task_id in (polite_id, deaf_id)]
    second.start()
    with cut_off(first):
        began = time.monotonic()
        eventually(lambda: not any(map(tree.is_alive, pids)), LEASE_S, "its workers are gone")
        assert time.monotonic() - began < LEASE_S
        assert text(polite) == ["ShutdownRequested"]
        assert first.get("/healthz")[0] == 200
        status, body = first.get("/readyz")
        assert status == 503
        assert "fenced: the lease was not renewed for " in body
        for task_id in (polite_id, deaf_id):
            taken_over(second, task_id)
    eventually(lambda: first.events("node.unfenced"), 10, "the first one serves again")
    for task_id in (polite_id, deaf_id):
        [lost, again] = second.attempts(task_id)
        assert (lost.outcome, lost.reason) == (TIMEOUT, "node_lost")
        assert "late_result" in second.notes(task_id)  # its own node would have requeued it
        assert again.outcome is None
        assert second.app.cancel(task_id, by="me", reason="seen")
    assert first.metrics()["supervisor_fences_total", ()] == 1
    assert first.metrics()["supervisor_fenced", ()] == 0
    serve_together(pair)


def test_a_node_whose_database_was_replaced_leaves_and_may_come_again(pair: Pair) -> None:
    first, _ = pair
    for node in pair:
        node.start()
    task_id = begin_on(first, "wait")
    lost = next(node for node in pair if of_node(node, first.attempts(task_id)[0]))
    # As of a backup from before it was started, but for the task.
    lost.database.query("DELETE FROM nodes WHERE node_name = ? RETURNING 1", lost.name)
    assert lost.wait_exit() == 1
    assert "error: the store does not know this node: its database was replaced" in lost.log_text()
    assert lost.endings(task_id)[0][:2] == (FAILED, "preempted")
    lost.start()
    serve_together(pair)


def test_what_falls_due_together_is_worked_off_at_full_speed(start_node: Start) -> None:
    node = start_node(store=stores.SERVER_AND_REDIS)
    due = datetime.now(UTC) + timedelta(seconds=3)
    spec = {"type": "ok", "run_after": due.isoformat()}
    views = node.app.wait([one.task_id for one in node.app.submit_many([spec] * 500)], timeout=60)
    ended = max(view.ended_at for view in views if view.ended_at is not None)
    assert {view.state for view in views} == {SUCCESS}
    assert (ended - due).total_seconds() < 20  # one claim a sweep would take 50 s


def test_the_watchdog_is_watched_itself(pair: Pair) -> None:
    first, _ = pair
    first.start()

    def watchdog() -> int:
        return next((p for p in tree.children(first.pid) if "watchdog" in cmdline(p)), 0)

    before = watchdog()
    os.kill(before, signal.SIGKILL)
    eventually(lambda: watchdog() not in (0, before), LEASE_S, "there is another")
    os.kill(watchdog(), signal.SIGSTOP)
    assert first.stop() == 0


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except OSError:
        return ""


def test_an_end_of_the_dark_counts_if_nobody_took_over(pair: Pair, tmp_path: Path) -> None:
    first, _ = pair
    first.start()
    long = begin_on(first, "wait")
    with cut_off(first):
        eventually(lambda: first.events("node.fenced"), LEASE_S, "it is fenced")
        time.sleep(LEASE_S)  # nobody else is there to sweep
    eventually(lambda: first.events("node.unfenced"), 20, "it serves again")
    eventually(lambda: len(first.attempts(long)) == 2, 20, "it runs again")
    assert first.endings(long)[0][:2] == (FAILED, "preempted")
    assert first.app.get(long).view().retry_count == 0
