"""What a crash costs, where it takes more than to die at one instruction (see test_failpoints).

A submitter that is killed at any moment of many, a bell that rings for nothing, an assignment that
is sure not to have been read, the exact trail of an ending that was never written, scratch files.

A late result that meets a newer attempt is in test_partition and in the ledger's contract. Not
covered: the power cut of the machine; processes are killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import (
    PENDING,
    REPOSITORY,
    RUNNING,
    SUCCESS,
    TIMEOUT,
    NodeUnderTest,
    Start,
    begun,
    eventually,
    on_both_stores,
)

from supervisor.client import Handle
from supervisor.model.record import Due
from supervisor.model.states import State
from supervisor.queue import open_bell

LOST = [(RUNNING, TIMEOUT, "node", "node_lost"), (TIMEOUT, PENDING, "node", "retry")]
CLAIMED = (PENDING, RUNNING, "node", "claimed")
RETURNED = (RUNNING, SUCCESS, "node", "returned")


def ran_again(node: NodeUnderTest, handle: Handle) -> None:
    """After the restart: the lost attempt is judged, and the task runs to its end once more."""
    view = handle.wait(15)
    assert (view.state, view.attempt, view.retry_count) == (State.SUCCESS, 2, 1)
    assert node.moves(handle.task_id) == [*begun(), *LOST, CLAIMED, RETURNED]
    first, second = node.endings(handle.task_id)
    assert (first[:2], first[3]) == ((TIMEOUT, "node_lost"), True)
    assert second == (SUCCESS, "returned", "reported", False)


# -- submit

IN_TRANSACTION = """
import sys, time
from supervisor.clock import SystemClock
from supervisor.model.spec import TaskSpec
from supervisor.store import Ledger, open_store
store = open_store(sys.argv[1], create=False)
clock = SystemClock()
with Ledger(store, clock).transaction() as tx:
    tx.submit([TaskSpec(type="ok", dedup_key=f"half:{n}") for n in range(100)], clock.now())
    print("written", flush=True)
    time.sleep(600)
"""
SUBMITTER = """
import sys
from supervisor import App
app = App(store=sys.argv[1])
for n in range(100_000):
    handle = app.submit({"type": "ok", "dedup_key": f"{sys.argv[2]}:{n}"})
    print(handle.task_id, flush=True)
"""


def program(node: NodeUnderTest, text: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text, node.url, *args],
        cwd=REPOSITORY, env=node.env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@on_both_stores
def test_submitter_killed_inside_its_transaction(start_node: Start) -> None:
    """Nothing of it is there, nobody waits for its lock, and the caller repeats safely."""
    node = start_node()
    with program(node, IN_TRANSACTION) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.kill()
    assert node.run("ok").state is State.SUCCESS
    assert node.query("SELECT count(*) FROM tasks WHERE dedup_key LIKE 'half:%'") == [(0,)]
    assert node.query("SELECT count(*) FROM audit_log WHERE task_id IS NOT NULL") == [(3,)]
    again = node.submit("ok", spec={"dedup_key": "half:1"})
    assert again.created
    assert again.wait(5).state is State.SUCCESS


@on_both_stores
def test_submitters_killed_anywhere(start_node: Start) -> None:
    """Whatever was answered is there, whole; whatever was not is there whole or not at all."""
    node = start_node()
    answered: set[str] = set()
    for n in range(8):
        with program(node, SUBMITTER, str(n)) as process:
            assert process.stdout is not None
            answered.add(process.stdout.readline().strip())
            time.sleep(0.02 * n)
            process.kill()
            answered |= {line for line in process.stdout.read().split("\n")[:-1] if line}
    stored = {row[0] for row in node.query("SELECT task_id FROM tasks")}
    assert answered <= stored
    assert len(stored) - len(answered) <= 8  # at most the one each was about to tell
    node.app.wait(sorted(stored), 30)
    first = node.query(
        "SELECT count(DISTINCT task_id) FROM audit_log"
        " WHERE from_state IS NULL AND to_state = 'PENDING'"
    )
    assert first == [(len(stored),)]
    states = node.query("SELECT state, count(*) FROM tasks GROUP BY state")
    assert states == [("SUCCESS", len(stored))]
    assert node.query("SELECT count(*) FROM attempts") == [(len(stored),)]
    eventually(lambda: node.query("SELECT count(*) FROM outbox") == [(0,)], 5, "all is published")


# -- relay and doorbell


@on_both_stores
def test_the_bell_is_rung_for_nothing(start_node: Start, tmp_path: Path) -> None:
    """A thousand rings for one task, and for one that nobody has submitted: it runs once."""
    node = start_node()
    path = tmp_path / "ran"
    handle = node.submit("touch", path=str(path))
    view = handle.view()
    level = (view.queue, view.priority, view.type)
    dues = [Due(level, task_id, 0.0) for task_id in (handle.task_id, "task_of_nobody")]
    with open_bell(node.place.queue, node.url, node.reader.store.identity) as bell:
        for _ in range(1000):
            bell.ring("due", dues)
            bell.ring("cancel")
    assert handle.wait(5).state is State.SUCCESS
    assert path.read_text() == "x\n"
    assert node.moves(handle.task_id) == [*begun(), RETURNED]


# -- claim and assign


def test_node_killed_with_an_unread_assignment(start_node: Start, tmp_path: Path) -> None:
    """Claimed and handed out, not one line run: judged as lost, and run by the next node."""
    node = start_node(workers=1)
    node.run("ok")
    (pid,) = node.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    path = tmp_path / "ran"
    handle = node.submit("touch", path=str(path))
    eventually(lambda: handle.state() is State.RUNNING, 1)
    node.kill()
    assert not path.exists()
    node.start()
    ran_again(node, handle)
    assert path.read_text() == "x\n"
    assert node.attempts(handle.task_id)[0].started_at is None


# -- finish


def test_node_killed_before_the_ending_is_written(start_node: Start, tmp_path: Path) -> None:
    """The body had returned: it runs again, and the audit says why (at least once, honestly)."""
    node = start_node()
    path = tmp_path / "ran"
    handle = node.submit("sleep", s=0.3, path=str(path))
    node.started(handle)
    with node.store_locked():
        eventually(lambda: "done" in path.read_text(), 5)
        time.sleep(0.2)
        node.kill()
    node.start()
    ran_again(node, handle)
    assert path.read_text().split() == ["began", "done"] * 2


# -- files


@on_both_stores
@pytest.mark.parametrize("victim", ["worker", "node"])
def test_scratch_space_of_the_killed_is_removed(start_node: Start, victim: str) -> None:
    node = start_node(workers=1)
    limits = {} if victim == "worker" else {"timeout": 30, "soft_timeout": 29}
    handle = node.submit("litters", spec={"max_retries": 0, **limits})
    eventually(lambda: any(f.endswith("large") for f in node.leftover_files()), 5)
    if victim == "node":
        node.kill()
        node.start()
    assert handle.wait(15).state is State.TIMEOUT
    eventually(lambda: node.leftover_files() == [], 5, "the scratch space is gone")
