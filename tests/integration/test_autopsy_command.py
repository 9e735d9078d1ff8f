"""The command line: exit codes, remedies, help, and both forms of output."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autopsy.cause import MEANINGS, Code

PROGRAMS = Path(__file__).parents[1] / "programs"


def run_autopsy(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autopsy", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("word",), 2),
        (("1", "--no-such-option"), 2),
        (("1", "--budget", "0"), 2),
        (("capture", "1"), 2),
        (("capture", "1", "--out", "x.zip", "--facts", "/nonexistent"), 2),
        (("4194305",), 1),
        (("show", "/nonexistent.zip"), 1),
        (("show", __file__), 1),
    ],
)
def test_errors_have_a_remedy_and_an_exit_code(arguments: tuple[str, ...], code: int) -> None:
    done = run_autopsy(*arguments)
    assert done.returncode == code
    said, remedy = done.stderr.splitlines()
    assert said.startswith("autopsy: ")
    assert remedy.startswith("remedy: ")
    assert done.stdout == ""


@pytest.mark.parametrize("command", [(), ("1",), ("show",), ("capture",)])
def test_help_is_everywhere(command: tuple[str, ...]) -> None:
    done = run_autopsy(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: autopsy")


def test_a_failed_capture_still_prints_its_line(tmp_path: Path) -> None:
    done = run_autopsy("capture", "4194305", "--out", str(tmp_path / "a.zip"))
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "path": str(tmp_path / "a.zip"),
        "status": "failed",
        "reason": "no process has pid 4194305",
        "is_python": None,
        "diagnosis": [],
        "ms": 0,
        "bytes": 0,
        "sections": {},
    }
    assert list(tmp_path.iterdir()) == []


def test_a_budget_too_short_for_anything_ends_in_a_failed_line(tmp_path: Path) -> None:
    out = tmp_path / "a.zip"
    done = run_autopsy("capture", "1", "--out", str(out), "--budget", "0.001")
    assert done.returncode == 1
    assert done.stdout.count("\n") == 1
    line = json.loads(done.stdout)
    assert (line["status"], line["reason"]) == (
        "failed",
        "not finished within the budget of 0.001 s",
    )


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = run_autopsy("capture", "1", "--facts-only", "--out", str(tmp_path / "no" / "a.zip"))
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "failed"
    assert "remedy: Name a file in a directory that exists" in done.stderr


def test_a_person_examines_a_process_and_shows_the_bundle(tmp_path: Path) -> None:
    out = tmp_path / "a.zip"
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "stuck_sleep.py")], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            asleep = Path(f"/proc/{process.pid}/wchan")
            while asleep.read_text() != "hrtimer_nanosleep":
                time.sleep(0.01)
            examined = run_autopsy(str(process.pid), "--out", str(out))
            as_json = run_autopsy(str(process.pid), "--json")
        finally:
            process.kill()
    title = f"Autopsy of process {process.pid}: blocked.sleep (85% sure)"
    assert examined.stdout.splitlines()[0] == title
    assert "nap" in examined.stdout
    assert run_autopsy("show", str(out)).stdout.rstrip("\n") == examined.stdout.rstrip("\n")
    summary = json.loads(as_json.stdout)
    assert summary["path"] is None
    assert summary["diagnosis"][0]["code"] == "blocked.sleep"
    whole = json.loads(run_autopsy("show", str(out), "--json").stdout)
    assert whole["pid"] == process.pid
    assert whole["statuses"]["stacks"] == "ok"
    assert set(whole["sections"]) == set(whole["statuses"])


def test_a_process_that_is_not_python_is_said_to_be_none() -> None:
    with subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL) as process:
        try:
            while (
                not Path(f"/proc/{process.pid}/exe").resolve().name.endswith(("sleep", "busybox"))
            ):
                time.sleep(0.01)
            examined = run_autopsy(str(process.pid))
            as_json = run_autopsy(str(process.pid), "--json")
        finally:
            process.kill()
    assert (examined.returncode, as_json.returncode) == (0, 0)
    title = f"Autopsy of process {process.pid}: not a Python process; "
    assert examined.stdout.splitlines()[0].startswith(title)
    summary = json.loads(as_json.stdout)
    assert summary["is_python"] is False
    assert max(one["confidence"] for one in summary["diagnosis"]) <= 0.5


def test_the_report_says_what_a_code_means_and_what_to_do(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "stuck_sleep.py")], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            examined = run_autopsy(str(process.pid), "--out", str(tmp_path / "a.zip"))
        finally:
            process.kill()
    lines = examined.stdout.splitlines()
    heading = lines.index("blocked.sleep  85%")
    assert lines[heading + 1] == f"  {MEANINGS[Code.BLOCKED_SLEEP].sentence}"
    assert lines[heading + 2] == f"  What to do: {MEANINGS[Code.BLOCKED_SLEEP].remedy}"
    assert any("its sleep ends in " in line for line in lines)
    assert json.loads(run_autopsy("show", str(tmp_path / "a.zip"), "--json").stdout)["is_python"]
