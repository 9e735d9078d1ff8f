"""Captures of real stuck programs, with a real py-spy and with ones that misbehave."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from autopsy import memfd
from autopsy.bundle import Bundle, read_bundle
from autopsy.capture import Order, capture
from autopsy.collect import process as process_look
from autopsy.collect import procfs, runner
from autopsy.collect.patient import Patient
from autopsy.collect.pyspy import Dumper
from autopsy.errors import NoSuchPatient, PatientReplaced
from autopsy.memfd import Kept
from autopsy.ring import create_log_ring
from autopsy.section import Payload

PROGRAMS = Path(__file__).parents[1] / "programs"

Started = Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]


@contextmanager
def started(
    name: str, *arguments: str, pass_fds: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a stuck program and end it; when it is yielded it is at rest, or busy."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAMS / name), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=pass_fds,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready")
            if name != "stuck_busy.py" and "busy" not in arguments:
                wait_until_asleep(process.pid)
            yield process
        finally:
            process.kill()


def wait_until_asleep(pid: int) -> None:
    """Wait until no thread moves: what follows "ready" takes time on a busy host."""
    before, deadline = None, time.monotonic() + 20
    while time.monotonic() < deadline:
        now = [(one["tid"], one["state"], one["switches"]) for one in process_look.threads(pid)]
        if now == before and {state for _, state, _ in now} == {"S"}:
            return
        before = now
        time.sleep(0.02)
    raise AssertionError(f"process {pid} does not come to rest: {before}")


def run_autopsy(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autopsy", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def captured_line(pid: int, out: Path, *options: str, stdin: str = "") -> dict[str, Any]:
    """Run the capture of a supervisor and return its one line."""
    done = run_autopsy("capture", str(pid), "--out", str(out), *options, stdin=stdin)
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    line: dict[str, Any] = json.loads(done.stdout)
    return line


def functions(bundle: Bundle) -> set[str]:
    return {frame["function"] for stack in bundle.sections["stacks"]["stacks"] for frame in stack}


@pytest.mark.parametrize(
    ("program", "code", "function"),
    [
        ("stuck_two_locks.py", "deadlock.in_process", "move"),
        ("stuck_busy.py", "busy.python", "count"),
        ("stuck_sleep.py", "blocked.sleep", "nap"),
        ("stuck_peer.py", "blocked.external", "<module>"),
    ],
)
def test_a_stuck_program_is_diagnosed(
    tmp_path: Path, program: str, code: str, function: str
) -> None:
    with started(program) as process:
        line = captured_line(process.pid, tmp_path / "a.zip", "--budget", "5")
        assert process.poll() is None
    assert line["status"] == "complete"
    assert line["diagnosis"][0]["code"] == code
    assert line["bytes"] == (tmp_path / "a.zip").stat().st_size
    bundle = read_bundle(tmp_path / "a.zip")
    assert bundle.heading.diagnosis[0].code == code
    assert function in functions(bundle)
    first, second = bundle.sections["stacks"]["samples"][:2]
    assert second["at_ms"] - first["at_ms"] >= 250
    assert list(tmp_path.iterdir()) == [tmp_path / "a.zip"]


def test_the_holder_of_the_lock_that_main_waits_for_is_named() -> None:
    with started("stuck_lock_holder.py") as process:
        captured = capture(Order(process.pid, budget_s=5))
    best = captured.heading.diagnosis[0]
    assert (best.code, best.confidence) == ("blocked.sleep", 0.85)
    program = PROGRAMS / "stuck_lock_holder.py"
    lines = program.read_text().splitlines()
    held_at = next(n for n, line in enumerate(lines, 1) if line.strip().startswith("with "))
    waits = best.evidence[-1]
    assert waits.startswith("thread_locks: MainThread waits for the lock ")
    assert waits.endswith(f" (holder) holds since {program}:{held_at}")


def test_a_child_that_cannot_write_is_said_in_words_and_user_code_comes_first() -> None:
    with started("stuck_full_pipe.py") as process:
        (child,) = procfs.child_ids(process.pid)
        while "pipe_write" not in (procfs.read_text(f"/proc/{child}/wchan") or ""):
            time.sleep(0.01)
        captured = capture(Order(process.pid, budget_s=5))
        os.kill(child, signal.SIGKILL)
    best = captured.heading.diagnosis[0]
    assert (best.code, best.confidence) == ("blocked.child_process", 0.9)
    full = "children: a child blocks writing into a pipe that this process does not read: "
    assert [line for line in best.evidence if line.startswith(f"{full}{child} (")]
    assert best.evidence[-1].startswith(f"stacks: <module> ({PROGRAMS / 'stuck_full_pipe.py'}:")


def test_a_peer_and_a_child_are_seen_from_outside(tmp_path: Path) -> None:
    with started("stuck_peer.py") as process:
        captured = capture(Order(process.pid, budget_s=5))
    payloads = {section.name: section.payload for section in captured.sections}
    (child,) = payloads["children"]["children"]
    assert (child["ppid"], child["depth"], child["syscall"]) == (process.pid, 1, "pause")
    listening, connected = payloads["sockets"]["sockets"]
    assert (listening["state"], connected["state"]) == ("LISTEN", "ESTABLISHED")
    assert connected["peer"] == listening["local"]
    assert any(listening["local"] in line for line in captured.heading.diagnosis[0].evidence)
    assert payloads["fds"]["count"] >= 5


def test_a_stopped_process_is_left_stopped(tmp_path: Path) -> None:
    with started("stuck_busy.py") as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        line = captured_line(process.pid, tmp_path / "a.zip", "--budget", "5")
        stat = procfs.stat(f"/proc/{process.pid}/stat")
        assert stat is not None
        assert stat.state == "T"
    assert line["diagnosis"] == [
        {
            "code": "stopped.signal",
            "confidence": 1.0,
            "evidence": ["process: state T (stopped), TracerPid 0"],
        }
    ]
    assert "count" in functions(read_bundle(tmp_path / "a.zip"))


def test_a_process_that_ends_during_the_capture_still_gets_a_bundle(tmp_path: Path) -> None:
    with started("stuck_briefly.py") as patient:

        def registry(dumper: Dumper, kept: Kept) -> Sequence[runner.Collector]:
            first, *others = runner.registry(dumper, kept)

            def look_and_end(seen: Patient) -> Payload:
                payload = first.function(seen)
                assert patient.stdin is not None
                patient.stdin.close()
                os.waitid(os.P_PID, patient.pid, os.WEXITED | os.WNOWAIT)
                return payload

            return (runner.Collector(first.name, look_and_end, 10.0), *others)

        order = Order(patient.pid, out=tmp_path / "a.zip", budget_s=10)
        captured = capture(order, registry=registry)
        assert patient.wait() == 3
    bundle = read_bundle(tmp_path / "a.zip")
    assert [one.code for one in captured.heading.diagnosis] == ["none.exited"]
    assert bundle.sections["process"]["threads"][0]["state"] == "S"
    assert bundle.sections["movement"]["alive"] is False


def test_an_unreaped_process_is_recognised(tmp_path: Path) -> None:
    with started("stuck_briefly.py") as process:
        assert process.stdin is not None
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        captured = capture(Order(process.pid, budget_s=5))
    assert [one.code for one in captured.heading.diagnosis] == ["zombie.process"]
    statuses = {section.name: str(section.status) for section in captured.sections}
    assert (statuses["stacks"], statuses["memory"]) == ("skipped", "skipped")


@pytest.fixture
def shared_memory() -> Iterator[tuple[int, int, int]]:
    fds = (
        create_log_ring(16),
        memfd.create_appended(memfd.DUMP),
        memfd.create_appended(memfd.OUTPUT),
    )
    yield fds
    for fd in fds:
        os.close(fd)


def test_logs_and_output_are_read_from_shared_memory_redacted(
    tmp_path: Path, shared_memory: tuple[int, int, int]
) -> None:
    arguments = [str(fd) for fd in shared_memory]
    with started("stuck_agent.py", *arguments, pass_fds=shared_memory) as process:
        line = captured_line(process.pid, tmp_path / "a.zip", "--budget", "5")
    assert line["diagnosis"][0]["code"] == "wait.no_waker"
    bundle = read_bundle(tmp_path / "a.zip")
    first, second = bundle.sections["logs"]["records"]
    assert (first["seq"], first["level"], first["logger"]) == (1, 40, "app")
    assert first["text"] == "about to wait with password=[redacted]"
    assert second["text"].endswith("ZeroDivisionError: division by zero")
    assert bundle.sections["output"] == {
        "written_bytes": 39,
        "left_out_bytes": 0,
        "text": "output of the task, token: [redacted]\n",
    }
    assert b"hunter2" not in (tmp_path / "a.zip").read_bytes()
    assert "hunter2" not in bundle.report


def test_the_last_words_of_a_dead_process_are_read_where_they_were_kept(
    tmp_path: Path, shared_memory: tuple[int, int, int]
) -> None:
    log_fd, _, output_fd = shared_memory
    arguments = [str(fd) for fd in shared_memory]
    with started("stuck_agent.py", *arguments, pass_fds=shared_memory) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        kept = Kept(f"/proc/{os.getpid()}/fd/{log_fd}", f"/proc/{os.getpid()}/fd/{output_fd}")
        captured = capture(Order(process.pid, budget_s=5, kept=kept))
    reaped = capture(Order(process.pid, budget_s=5, kept=kept, facts_only=True))
    assert [section.name for section in reaped.sections] == ["facts", "logs", "output"]
    for sections in (captured.sections, reaped.sections):
        payloads = {section.name: section.payload for section in sections}
        assert [record["seq"] for record in payloads["logs"]["records"]] == [1, 2]
        assert payloads["output"]["written_bytes"] == 39


def fake_py_spy(directory: Path, script: str) -> str:
    path = directory / "py-spy"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'Permission denied (os error 13)' >&2; exit 1", "needs SYS_PTRACE"),
        ("echo strange >&2; exit 1", "exit code 1 and said: strange"),
        ("echo junk", "not a dump"),
        ("printf '[{'", "not a dump"),
        ("exec sleep 100", "did not answer within 1000 ms"),
        ("trap '' TERM INT; while :; do sleep 0.1; done", "did not answer within 1000 ms"),
        ("exec head -c 100000000 /dev/zero", "printed more than 32 MiB"),
        ("exec head -c 100000000 /dev/zero >&2", "printed more than 32 MiB"),
        ("kill -SEGV $$", "ended by signal 11"),
        (None, "py-spy cannot be started: "),
    ],
)
def test_a_py_spy_that_misbehaves_costs_nothing(
    tmp_path: Path, script: str | None, reason: str
) -> None:
    """The stacks are read from memory then; each sample says why py-spy gave none."""
    path = "/nonexistent/py-spy" if script is None else fake_py_spy(tmp_path, script)
    with started("stuck_peer.py") as process:
        begun = time.monotonic()
        line = captured_line(process.pid, tmp_path / "a.zip", "--budget", "5", "--py-spy", path)
        assert time.monotonic() - begun < 3
        assert process.poll() is None
    assert line["status"] == "complete"
    assert line["diagnosis"][0]["code"] == "blocked.external"
    bundle = read_bundle(tmp_path / "a.zip")
    samples = bundle.sections["stacks"]["samples"]
    assert [sample["method"] for sample in samples] == ["memory"] * 2
    assert all(reason in sample["reason"] for sample in samples)
    assert [frame["function"] for frame in bundle.sections["stacks"]["stacks"][0]] == ["<module>"]


def test_without_py_spy_a_busy_patients_own_faulthandler_gives_the_stacks(
    shared_memory: tuple[int, int, int],
) -> None:
    """What moves is read exactly only by itself."""
    arguments = [*(str(fd) for fd in shared_memory), "busy"]
    with started("stuck_agent.py", *arguments, pass_fds=shared_memory) as process:
        captured = capture(Order(process.pid, budget_s=5, py_spy="/nonexistent/py-spy"))
        assert process.poll() is None
    (payload,) = [section.payload for section in captured.sections if section.name == "stacks"]
    assert [sample["method"] for sample in payload["samples"]] == ["faulthandler"] * 2
    assert "py-spy cannot be started" in payload["samples"][0]["reason"]
    assert "count" in [frame["function"] for frame in payload["stacks"][0]]


WITHOUT_PTRACE = ("setpriv", "--inh-caps", "-sys_ptrace", "--bounding-set", "-sys_ptrace")


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which(WITHOUT_PTRACE[0]) is None,
    reason="only root can give up the permission and still start the program with it",
)
def test_without_permission_every_gap_says_why_and_kept_memory_still_speaks(
    tmp_path: Path, shared_memory: tuple[int, int, int]
) -> None:
    arguments = [str(fd) for fd in shared_memory]
    kept = [
        word
        for option, fd in zip(("--log-ring", "--dump", "--output"), shared_memory, strict=True)
        for word in (option, f"/dev/fd/{fd}")
    ]
    out = tmp_path / "a.zip"
    with started("stuck_agent.py", *arguments, pass_fds=shared_memory) as process:
        command = [*WITHOUT_PTRACE, sys.executable, "-m", "autopsy", "capture", str(process.pid)]
        subprocess.run(
            [*command, "--out", str(out), *kept],
            pass_fds=shared_memory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        assert process.poll() is None
    bundle = read_bundle(out)
    reasons = {entry.name: entry.reason for entry in bundle.entries if entry.status == "skipped"}
    no_permission = "no permission to see its descriptors: needs SYS_PTRACE"
    assert (reasons["fds"], reasons["sockets"]) == (no_permission, no_permission)
    assert all("SYS_PTRACE" in reason for reason in reasons.values()), reasons
    assert bundle.heading.status == "partial"
    assert bundle.sections["stacks"]["samples"][0]["method"] == "faulthandler"
    assert "needs SYS_PTRACE" in bundle.sections["stacks"]["samples"][0]["reason"]
    assert "wait_for_nothing" in functions(bundle)
    assert len(bundle.sections["logs"]["records"]) == 2
    assert [(one.code, one.confidence) for one in bundle.heading.diagnosis] == [
        ("wait.no_waker", 0.3)
    ]


def test_a_process_left_stopped_by_a_blocking_dump_is_resumed(tmp_path: Path) -> None:
    script = 'for last; do :; done; kill -STOP "$last"; exec sleep 100'
    with started("stuck_busy.py") as process:
        capture(Order(process.pid, budget_s=5, py_spy=fake_py_spy(tmp_path, only_blocking(script))))
        stat = procfs.stat(f"/proc/{process.pid}/stat")
        assert stat is not None
        assert stat.state == "R"


def only_blocking(script: str) -> str:
    return f'case "$*" in *--nonblocking*) exit 1;; esac; {script}'


def test_a_collector_that_hangs_does_not_outlast_the_budget(tmp_path: Path) -> None:
    hang = threading.Event()

    def registry(dumper: Dumper, kept: Kept) -> Sequence[runner.Collector]:
        hanging = runner.Collector("hanging", lambda patient: {"never": hang.wait()}, 60.0)
        broken = runner.Collector("broken", lambda patient: {"x": 1 // 0}, 1.0)
        return (*runner.registry(dumper, kept), hanging, broken)

    with started("stuck_sleep.py") as process:
        begun = time.monotonic()
        captured = capture(
            Order(process.pid, out=tmp_path / "a.zip", budget_s=1.5), registry=registry
        )
        took = time.monotonic() - begun
    hang.set()
    assert took < 1.5
    assert captured.status == "partial"
    entries = {entry.name: entry for entry in read_bundle(tmp_path / "a.zip").entries}
    assert entries["hanging"].status == "timeout"
    assert "budget" in entries["hanging"].reason
    assert (entries["broken"].status, entries["broken"].reason) == (
        "error",
        "ZeroDivisionError: integer division or modulo by zero",
    )
    assert entries["stacks"].status == "ok"


@pytest.mark.alone
def test_a_short_budget_is_kept_and_nothing_is_left_running(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    script = fake_py_spy(tmp_path, f"echo $$ > {marker}; exec sleep 100")
    with started("stuck_sleep.py") as process:
        out = tmp_path / "a.zip"
        line = captured_line(process.pid, out, "--budget", "1", "--py-spy", script)
    assert 500 < line["ms"] < 1000
    assert line["sections"]["stacks"] == "timeout"
    assert line["status"] == "partial"
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)


@pytest.mark.alone
def test_facts_are_stored_redacted_and_alone_they_are_fast(tmp_path: Path) -> None:
    facts = {"task": "t1", "attempt": 2, "why": "timeout", "args": {"password": "hunter2"}}
    with started("stuck_sleep.py") as process:
        ticks = procfs.start_ticks(process.pid)
        line = captured_line(
            process.pid,
            tmp_path / "a.zip",
            "--facts",
            "-",
            "--facts-only",
            "--start-ticks",
            str(ticks),
            stdin=json.dumps(facts),
        )
    assert line["status"] == "partial"
    assert line["sections"] == {"facts": "ok"}
    assert line["ms"] < 150
    bundle = read_bundle(tmp_path / "a.zip")
    assert bundle.sections == {"facts": {**facts, "args": {"password": "[redacted]"}}}
    assert bundle.heading.start_ticks == ticks
    assert "Why it was looked at: timeout" in bundle.report


def test_a_reused_pid_is_refused() -> None:
    with started("stuck_sleep.py") as process:
        ticks = procfs.start_ticks(process.pid)
        assert ticks is not None
        with pytest.raises(PatientReplaced):
            capture(Order(process.pid, start_ticks=ticks + 1))
    with pytest.raises(NoSuchPatient):
        capture(Order(process.pid))
