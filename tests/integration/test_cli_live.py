"""Reading a running attempt from outside: live output, and evidence taken by hand.

The test process itself plays the worker: the shared memory a worker leaves open is opened here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autopsy.collect.procfs import start_ticks
from autopsy.memfd import OUTPUT, create_appended
from supervisor.cli.group import build
from supervisor.clock import SystemClock
from supervisor.model import outcome
from supervisor.model.record import Ending, NodeRecord, Owner, Started
from supervisor.model.retry import RetryPolicy
from supervisor.model.spec import TaskSpec
from supervisor.node.process import own_identity
from supervisor.store import Ledger, Reader, Store, TaskView, WorkerRecord, open_store
from supervisor.words.living import LiveOutput, live_output
from supervisor.worker import vitals

PARAMS = '{"password":"blue-horse-battery"}'


class Patient:
    """A worker that is this process, with one RUNNING task."""

    def __init__(self, folder: Path, *, elsewhere: bool = False) -> None:
        """Make the task; `elsewhere` writes down that the node is of another host."""
        own = own_identity()
        self.node = replace(own, boot_id="another") if elsewhere else own
        self.folder = folder
        self.url = f"sqlite:///{folder}/a.db"
        self.clock = SystemClock()
        self.output = create_appended(OUTPUT)
        self._signs_fd = vitals.create()
        self.signs = vitals.Vitals(self._signs_fd)
        self.task_id = self._claim(start_ticks(os.getpid()) or 0)

    def _claim(self, ticks: int) -> str:
        now = self.clock.now()
        with (
            closing(open_store(self.url, create=True)) as store,
            Ledger(store, self.clock).transaction() as tx,
        ):
            record = NodeRecord(
                node_id="n1", node_name="far", process=self.node, version="0.1.0", started_at=now
            )
            tx.register_node(record)
            [submitted] = tx.submit([TaskSpec(type="export", params_json=PARAMS)], now)
            tx.record_workers(
                [
                    WorkerRecord(
                        worker_id="w1", node_id="n1", pid=os.getpid(), start_ticks=ticks,
                        started_at=now,
                    )
                ]
            )  # fmt: skip
            tx.claim(
                [Owner("w1", os.getpid(), ticks)],
                node_id="n1", queues=None, types={"export"}, now=now,
            )  # fmt: skip
        return submitted.task_id

    def begin(self) -> None:
        """Run the first line of the task, as the worker and the node tell it."""
        started_ns, now = round(self.clock.mono() * 1e9), self.clock.now()
        self.signs.begin(7, started_ns, os.fstat(self.output).st_size)
        with (
            closing(open_store(self.url, create=False)) as store,
            Ledger(store, self.clock).transaction() as tx,
        ):
            started = Started(
                task_id=self.task_id, attempt=1, started_at=now,
                timeout=60, soft_timeout=54,
            )  # fmt: skip
            tx.started([started])

    def go_on(self) -> None:
        """Leave the task and begin another one."""
        self.signs.end()
        self.signs.begin(8, round(self.clock.mono() * 1e9), os.fstat(self.output).st_size)

    def replace_worker(self) -> None:
        """Make the store believe that another process had this pid."""
        with (
            closing(open_store(self.url, create=False)) as store,
            Ledger(store, self.clock).transaction() as tx,
        ):
            tx.record_workers(
                [
                    WorkerRecord(
                        worker_id="w1", node_id="n1", pid=os.getpid(), start_ticks=1,
                        started_at=self.clock.now(),
                    )
                ]
            )  # fmt: skip

    def finish(self) -> None:
        with (
            closing(open_store(self.url, create=False)) as store,
            Ledger(store, self.clock).transaction() as tx,
        ):
            tx.finish(
                [
                    Ending(
                        task_id=self.task_id, attempt=1, outcome=outcome.returned("null"),
                        policy=RetryPolicy(), ended_at=self.clock.now(),
                    )
                ]
            )  # fmt: skip

    def record(self) -> WorkerRecord:
        ticks = start_ticks(os.getpid()) or 0
        return WorkerRecord(
            worker_id="w1", node_id="n1", pid=os.getpid(), start_ticks=ticks,
            started_at=self.clock.now(),
        )  # fmt: skip

    def view(self, store: Store) -> TaskView:
        found = Reader(store).task(self.task_id)
        assert found is not None
        return found

    def write(self, text: bytes) -> None:
        os.write(self.output, text)

    def run(self, *args: str) -> Result:
        env = {"SUPERVISOR_STORE": self.url}
        return CliRunner(env=env).invoke(build(), list(args))

    def close(self) -> None:
        self.signs.close()
        os.close(self._signs_fd)
        os.close(self.output)


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    monkeypatch.chdir(tmp_path)
    made = Patient(tmp_path)
    yield made
    made.close()


def test_only_the_output_of_this_attempt_is_shown(patient: Patient) -> None:
    patient.write(b"of an earlier task\n")
    patient.begin()
    patient.write("one\nzwö\n".encode())
    result = patient.run("logs", patient.task_id, "--json")
    assert json.loads(result.stdout) == {
        "task_id": patient.task_id, "attempt": 1, "live": True, "text": "one\nzwö\n",
    }  # fmt: skip
    assert patient.run("logs", patient.task_id).stdout == "one\nzwö\n"


def test_following_ends_with_the_attempt_and_misses_nothing(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.begin()
    patient.write(b"first\n")
    looked: list[bytes] = []
    read = LiveOutput.read

    def read_and_live_on(output: LiveOutput) -> bytes:
        chunk = read(output)
        looked.append(chunk)
        if looked == [b"first\n"]:
            patient.write(b"second\n")
            patient.finish()
            patient.go_on()
            patient.write(b"of the next task\n")
        return chunk

    monkeypatch.setattr(LiveOutput, "read", read_and_live_on)
    result = patient.run("logs", patient.task_id, "--follow")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "first\nsecond\n"


def test_a_secret_that_comes_in_pieces_is_not_shown(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.begin()
    patient.write(b"it is blue-horse-battery\n")
    assert patient.run("logs", patient.task_id).stdout == "it is [redacted]\n"
    patient.write(b"again: blue-hor")
    read = LiveOutput.read
    looked: list[bytes] = []

    def read_and_live_on(output: LiveOutput) -> bytes:
        looked.append(read(output))
        if len(looked) == 1:
            patient.write(b"se-battery\n100 %")
            patient.finish()
        return looked[-1]

    monkeypatch.setattr(LiveOutput, "read", read_and_live_on)
    result = patient.run("logs", patient.task_id, "--follow")
    assert result.stdout == "it is [redacted]\nagain: [redacted]\n100 %"


def test_a_worker_that_went_on_too_quickly_is_told(patient: Patient) -> None:
    patient.begin()
    with (
        closing(open_store(patient.url, create=False)) as store,
        live_output(store, patient.record(), patient.view(store), 1 << 16) as output,
    ):
        assert output.read() == b""
        patient.write(b"mine")
        patient.go_on()
        patient.go_on()
        patient.write(b"not mine")
        assert (output.read(), output.cut) == (b"", True)


def test_the_output_of_the_next_task_is_never_shown(patient: Patient) -> None:
    patient.begin()
    patient.clock.sleep(0.03)
    patient.go_on()
    patient.write(b"of the next task\n")
    result = patient.run("logs", patient.task_id)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "has gone on to another task; printing what is kept" in result.stderr


def test_an_assigned_task_has_written_nothing_yet(patient: Patient) -> None:
    patient.write(b"of an earlier task\n")
    result = patient.run("logs", patient.task_id)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "is assigned and has not started" in result.stderr


def test_another_process_of_the_same_pid_is_never_read(patient: Patient) -> None:
    patient.begin()
    patient.write(b"secret\n")
    patient.replace_worker()
    result = patient.run("logs", patient.task_id)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "is no process of this host any more; printing what is kept" in result.stderr
    refused = patient.run("autopsy", "capture", patient.task_id)
    assert (refused.exit_code, "node n1 will say how it ended" in refused.stderr) == (1, True)


def test_a_process_of_another_host_is_never_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    far = Patient(tmp_path, elsewhere=True)
    try:
        far.begin()
        far.signs.progress(3, 10, round(far.clock.mono() * 1e9))
        far.write(b"secret\n")
        logs = far.run("logs", far.task_id)
        refused = far.run("autopsy", "capture", far.task_id)
        shown = json.loads(far.run("show", far.task_id, "--json").stdout)
        [running] = json.loads(far.run("top", "--json").stdout)["running"]
    finally:
        far.close()
    there = f"{far.task_id} runs on host far (or in another container of this one)"
    assert (logs.exit_code, logs.stdout) == (0, "")
    assert f"note: {there}; printing what is kept" in logs.stderr
    assert refused.exit_code == 1
    assert refused.stderr.splitlines() == [
        f"error: {there}",
        f"remedy: Run it there: `supervisor autopsy capture {far.task_id}`.",
    ]
    assert (shown["progress"], running["progress"]) == (None, None)


def test_a_bundle_taken_by_hand_is_listed_with_its_task(patient: Patient) -> None:
    taken = patient.run("autopsy", "capture", patient.task_id, "--by", "alice", "--json")
    assert taken.exit_code == 0, taken.output
    record = json.loads(taken.stdout)["autopsy"]
    assert Path(record["path"]).parent == patient.folder / "autopsies"
    assert (record["task_id"], record["attempt"], record["pid"]) == (
        patient.task_id, 1, os.getpid(),
    )  # fmt: skip
    listed = json.loads(patient.run("autopsy", "list", "--json").stdout)["autopsies"]
    assert listed == [record]
    shown = patient.run("autopsy", "show", patient.task_id)
    assert "Why it was looked at: asked for by alice" in shown.stdout


def test_an_attempt_goes_on_after_its_capture(patient: Patient) -> None:
    assert patient.run("autopsy", "capture", patient.task_id).exit_code == 0
    document = json.loads(patient.run("show", patient.task_id, "--json").stdout)
    assert document["state"] == "RUNNING"
    assert len(document["autopsies"]) == 1


def test_progress_is_shown_while_it_runs(patient: Patient) -> None:
    patient.begin()

    def told() -> tuple[object, object]:
        shown = json.loads(patient.run("show", patient.task_id, "--json").stdout)
        [running] = json.loads(patient.run("top", "--json").stdout)["running"]
        return tuple(
            None if one is None else (one["done"], one["total"], 0 <= one["still_s"] < 60)
            for one in (shown["progress"], running["progress"])
        )  # type: ignore[return-value]

    assert told() == ((None, None, True), (None, None, True))
    assert "  progress   none reported\n" in patient.run("show", patient.task_id).stdout
    patient.signs.progress(3, 10, round(patient.clock.mono() * 1e9) - 90_000_000_000)
    shown = json.loads(patient.run("show", patient.task_id, "--json").stdout)["progress"]
    assert (shown["done"], shown["total"], 90 <= shown["still_s"] < 100) == (3.0, 10.0, True)
    text = patient.run("show", patient.task_id).stdout
    assert re.search(r"^  progress   3 of 10, 1 m 3\d s ago$", text, re.MULTILINE)
    assert re.search(r"  3 of 10, 1 m 3\d s ago +- +w1$", patient.run("top").stdout, re.MULTILINE)
    patient.signs.progress(4, float("nan"), round(patient.clock.mono() * 1e9))
    assert told() == ((4.0, None, True), (4.0, None, True))
    patient.signs.progress(float("inf"), 0, round(patient.clock.mono() * 1e9))
    assert told() == ((None, None, True), (None, None, True))


def test_progress_of_another_task_or_process_is_never_shown(patient: Patient) -> None:
    patient.begin()
    patient.signs.progress(3, 10, 1)
    patient.clock.sleep(0.03)
    patient.go_on()

    def told() -> object:
        return json.loads(patient.run("show", patient.task_id, "--json").stdout)["progress"]

    assert told() is None
    patient.replace_worker()
    assert told() is None
