"""What the command line says of tasks whose node was killed: never that they go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from supervisor.cli.group import build
from supervisor.clock import SystemClock
from supervisor.model.record import NodeRecord, Owner, ProcessIdentity, Started
from supervisor.model.spec import TaskSpec
from supervisor.store import Ledger, WorkerRecord, open_store
from supervisor.store.ledger import Transaction
from supervisor.worker import tree
from supervisor.worker.presence import is_gone, own_place

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Place:
    """A store with one RUNNING task, whose node is a process of this test."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/a.db"
        self.node = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        here = own_place()
        self.process = ProcessIdentity(
            pid=self.node.pid,
            start_ticks=tree.start_ticks(self.node.pid) or 0,
            boot_id=here.boot_id,
            pid_ns=here.pid_ns,
        )
        self.task_id = ""

    def write(self, *, elsewhere: bool = False) -> None:
        process = self.process
        if elsewhere:
            process = ProcessIdentity(
                pid=process.pid, start_ticks=1, boot_id="another", pid_ns=process.pid_ns
            )
        with (
            closing(open_store(self.url, create=True)) as store,
            Ledger(store, SystemClock()).transaction() as tx,
        ):
            self._write(tx, process)

    def _write(self, tx: Transaction, process: ProcessIdentity) -> None:
        tx.register_node(
            NodeRecord(
                node_id="n1", node_name="host", process=process, version="0.1.0",
                started_at=STARTED,
            )
        )  # fmt: skip
        [submitted] = tx.submit([TaskSpec(type="export")], STARTED)
        self.task_id = submitted.task_id
        worker = WorkerRecord(
            worker_id="w1", node_id="n1", pid=process.pid, start_ticks=1, started_at=STARTED
        )
        tx.record_workers([worker])
        tx.claim(
            [Owner("w1", process.pid, 1)],
            node_id="n1", queues=None, types={"export"}, now=STARTED,
        )  # fmt: skip
        tx.started(
            [
                Started(
                    task_id=self.task_id, attempt=1, started_at=STARTED + timedelta(seconds=1),
                    timeout=60, soft_timeout=54,
                )
            ]
        )  # fmt: skip

    def kill(self) -> None:
        if self.node.poll() is None:
            self.node.kill()
        self.node.communicate()

    def run(self, *args: str) -> Result:
        return CliRunner(env={"SUPERVISOR_STORE": self.url}).invoke(build(), list(args))

    def ok(self, *args: str) -> Any:
        result = self.run(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path)
    yield made
    made.kill()


def gone_said(place: Place) -> tuple[bool, bool, bool, bool]:
    """Return what list, show, the nodes of top and the tasks of top say."""
    top = place.ok("top")
    return (
        place.ok("list")["tasks"][0]["node_gone"],
        place.ok("show", place.task_id)["node_gone"],
        top["nodes"][0]["gone"],
        top["running"][0]["node_gone"],
    )


def test_a_node_that_runs_is_not_called_gone(place: Place) -> None:
    place.write()
    assert gone_said(place) == (False, False, False, False)
    [answer] = place.ok("cancel", place.task_id, "--reason", "x")["tasks"]
    assert (answer["answer"], answer["detail"]) == ("requested", "")
    assert place.ok("queues")["node_runs"] is True


def test_a_node_of_another_boot_is_never_called_gone(place: Place) -> None:
    place.write(elsewhere=True)
    place.kill()
    assert gone_said(place) == (False, False, False, False)


def test_a_killed_node_is_called_gone_everywhere(place: Place) -> None:
    place.write()
    place.kill()
    pid = place.process.pid
    assert gone_said(place) == (True, True, True, True)
    shown = place.run("show", place.task_id).stdout.splitlines()
    assert shown[1] == (
        f"  node       gone (pid {pid}): RUNNING is its last word; "
        "start a node and it will be judged"
    )
    [row] = [x for x in place.run("list").stdout.splitlines() if x.startswith("task_")]
    assert (row.split()[1], row.endswith("node gone")) == ("RUNNING", True)
    top = place.run("top").stdout.splitlines()
    assert top[4].split() == ["host", str(pid), "gone", "0", "1", "-"]
    assert top[5] == "no node runs: start one with `supervisor run`"
    assert top[8].split() == [place.task_id, "export", "1", "-", "-", "node", "gone", "w1"]
    queues = place.run("queues").stdout.splitlines()
    assert queues[-1] == "no node runs: RUNNING is the last word of one that is gone"


def test_a_wish_that_no_node_hears_says_so(place: Place) -> None:
    place.write()
    place.kill()
    waits = "no node runs: it takes effect when one starts"
    for verb, answer, detail in (
        ("cancel", "requested", waits),
        ("fail", "already requested", f"cancel was requested before; {waits}"),
    ):
        result = place.run(verb, place.task_id, "--reason", "x", "--json")
        [said] = json.loads(result.stdout)["tasks"]
        assert (said["answer"], said["detail"]) == (answer, detail)


def test_a_capture_without_a_process_names_the_right_remedy(place: Place) -> None:
    place.write()
    place.kill()
    result = place.run("autopsy", "capture", place.task_id)
    pid = place.process.pid
    assert (result.exit_code, result.stderr.splitlines()) == (
        1,
        [
            f"error: the node of {place.task_id} is gone (pid {pid}), and its worker with it",
            "remedy: There is no process to look at: start a node and it will be judged.",
        ],
    )


def test_what_proves_that_a_process_is_gone(place: Place) -> None:
    here, own = own_place(), place.process
    assert is_gone(own, here) is False
    reused = ProcessIdentity(
        pid=own.pid, start_ticks=own.start_ticks - 1, boot_id=own.boot_id, pid_ns=own.pid_ns
    )
    assert is_gone(reused, here) is True
    place.node.kill()
    os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(own, here) is True  # defunct: nobody has collected it yet
    place.kill()
    assert is_gone(own, here) is True
    other_namespace = ProcessIdentity(
        pid=own.pid, start_ticks=own.start_ticks, boot_id=own.boot_id, pid_ns=own.pid_ns + 1
    )
    assert is_gone(other_namespace, here) is False
