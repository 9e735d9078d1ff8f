"""Two examinations of one process: the second is refused, or ends the first before a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autopsy import clock, exclusive
from autopsy.bundle import read_bundle
from autopsy.collect import procfs
from autopsy.errors import AlreadyExamined
from autopsy.exclusive import Visit, sole_examiner

PROGRAMS = Path(__file__).parents[1] / "programs"
HELD = """
import sys, time
from autopsy import clock
from autopsy.exclusive import Visit, sole_examiner
visit = Visit(int(sys.argv[1]), int(sys.argv[2]), clock.mono() + 60)
with sole_examiner(visit, lambda: print("gave way", flush=True)):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def patient() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "stuck_sleep.py")], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def visit_of(process: subprocess.Popen[bytes], *, before_kill: bool = False) -> Visit:
    ticks = procfs.start_ticks(process.pid)
    assert ticks is not None
    return Visit(process.pid, ticks, clock.mono() + 9, before_kill)


@pytest.fixture
def holder(patient: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that examines the patient and does not come to an end."""
    ticks = procfs.start_ticks(patient.pid)
    with subprocess.Popen(
        [sys.executable, "-c", HELD, str(patient.pid), str(ticks)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def autopsy(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autopsy", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def nothing() -> None:
    """Give way without more ado."""


def free_again(visit: Visit) -> bool:
    try:
        with sole_examiner(visit, nothing):
            return True
    except AlreadyExamined:
        return False


def eventually(told: Callable[[], bool], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not told():
        time.sleep(0.01)
    return told()


def test_a_second_examination_is_refused_and_told_by_whom_and_how_long(
    patient: subprocess.Popen[bytes], holder: subprocess.Popen[bytes]
) -> None:
    refused = autopsy(str(patient.pid))
    assert (refused.returncode, refused.stdout) == (1, "")
    said, remedy = refused.stderr.splitlines()
    who = f"autopsy: process {patient.pid} is already being examined by pid {holder.pid} since 20"
    assert said.startswith(who)
    assert remedy.startswith("remedy: Try again in ")
    assert 30 < float(remedy.split()[4]) <= 60


def test_a_supervisor_is_told_the_same_in_its_line(
    patient: subprocess.Popen[bytes], holder: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    refused = autopsy("capture", str(patient.pid), "--out", str(tmp_path / "a.zip"))
    assert refused.returncode == 1
    line = json.loads(refused.stdout)
    assert line["status"] == "busy"
    assert f"examined by pid {holder.pid} since" in line["reason"]
    assert list(tmp_path.iterdir()) == []


def test_before_a_kill_the_other_gives_way(
    patient: subprocess.Popen[bytes], holder: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    out = tmp_path / "a.zip"
    done = autopsy("capture", str(patient.pid), "--out", str(out), "--before-kill")
    assert done.returncode == 0
    line = json.loads(done.stdout)
    assert (line["status"], line["diagnosis"][0]["code"]) == ("complete", "blocked.sleep")
    assert line["ms"] < 1500
    assert "remark" not in read_bundle(out).sections["facts"]
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"gave way\n"


def test_before_a_kill_one_that_does_not_answer_is_not_waited_for(
    patient: subprocess.Popen[bytes], holder: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    holder.send_signal(signal.SIGSTOP)
    out = tmp_path / "a.zip"
    begun = time.monotonic()
    done = autopsy("capture", str(patient.pid), "--out", str(out), "--before-kill")
    assert time.monotonic() - begun < 4
    assert json.loads(done.stdout)["diagnosis"][0]["code"] == "blocked.sleep"
    bundle = read_bundle(out)
    assert bundle.sections["facts"]["remark"] == f"pid {holder.pid} examined it as well"
    assert f"remark: pid {holder.pid} examined it as well" in bundle.report


def test_a_dead_holder_blocks_nobody(
    patient: subprocess.Popen[bytes], holder: subprocess.Popen[bytes]
) -> None:
    visit = visit_of(patient)
    assert not free_again(visit)
    holder.kill()
    holder.wait()
    assert free_again(visit)


def test_a_dump_at_work_is_ended_by_an_examination_before_a_kill(
    patient: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """The one that gives way only reads from then on, and says why."""
    marker, out = tmp_path / "pid", tmp_path / "first.zip"
    script = tmp_path / "py-spy"
    script.write_text(f"#!/bin/sh\necho $$ > {marker}; exec sleep 100\n")
    script.chmod(0o700)
    command = [sys.executable, "-m", "autopsy", str(patient.pid), "--out", str(out)]
    with subprocess.Popen(
        [*command, "--py-spy", str(script)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as first:
        assert eventually(lambda: marker.exists() and marker.read_text().endswith("\n"))
        second = autopsy(
            "capture", str(patient.pid), "--out", str(tmp_path / "b.zip"), "--before-kill"
        )
        assert json.loads(second.stdout)["status"] == "complete"
        assert first.wait(10) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)
    samples = read_bundle(out).sections["stacks"]["samples"]
    assert [one["method"] for one in samples] == ["memory"] * 2
    assert {one["reason"] for one in samples} == {"it gave way to the examination before a kill"}


def test_many_at_once_one_by_one(patient: subprocess.Popen[bytes]) -> None:
    """However many try, never two are in."""
    visit, inside, most, refused = visit_of(patient), [0], [0], [0]
    counting = threading.Lock()

    def attempt() -> None:
        for _ in range(20):
            try:
                with sole_examiner(visit, nothing):
                    with counting:
                        inside[0] += 1
                        most[0] = max(most[0], inside[0])
                    time.sleep(0.001)
                    with counting:
                        inside[0] -= 1
            except AlreadyExamined:
                with counting:
                    refused[0] += 1

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside[0], most[0]) == (0, 1)
    assert refused[0] > 0
    assert free_again(visit)


def test_a_crowd_before_a_door_that_does_not_open(
    patient: subprocess.Popen[bytes], holder: subprocess.Popen[bytes]
) -> None:
    holder.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED)  # until then it still answers
    said = set()
    for _ in range(12):
        with pytest.raises(AlreadyExamined) as refused, sole_examiner(visit_of(patient), nothing):
            pass
        said.add(refused.value.message)
    beginning = f"process {patient.pid} is already being examined by"
    assert said == {f"{beginning} pid {holder.pid}", f"{beginning} somebody"}


def test_without_such_sockets_it_goes_on(
    patient: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox may forbid them; a lock that cannot be had must not cost the answer."""

    def refuse(address: bytes) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(exclusive, "_bound", refuse)
    with sole_examiner(visit_of(patient), nothing) as remark:
        assert remark == ""


def test_a_name_taken_by_a_stranger_stops_nobody(
    patient: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any local user can take a name; only one who may examine the process is believed."""
    visit = visit_of(patient)
    with sole_examiner(visit, nothing):
        monkeypatch.setattr(exclusive, "_is_trusted", lambda holder, pid: False)
        with sole_examiner(visit, nothing) as remark:
            assert remark == ""
