"""The command line: exit codes, remedies, help, and both forms of output."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
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


def test_it_leaves_in_time_though_nobody_listens(tmp_path: Path) -> None:
    """As when the node that started it has died."""
    arguments = ("capture", "1", "--out", str(tmp_path / "a.zip"), "--budget", "0.001")
    with subprocess.Popen(
        [sys.executable, "-m", "autopsy", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(10) == 1


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


@contextmanager
def napping() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "troubled.py"), "plain"], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().split()[1])
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["no/a.zip", "device", "directory"])
def test_a_bundle_that_cannot_be_written_costs_the_bundle_only(tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    (tmp_path / "directory").mkdir()
    (tmp_path / "device").symlink_to("/dev/full")
    with napping() as pid:
        done = run_autopsy(str(pid), "--out", str(out))
    assert done.returncode == 1
    assert done.stdout.startswith(f"Autopsy of process {pid}: blocked.sleep")
    said, remedy = done.stderr.splitlines()
    assert said.startswith("autopsy: ")
    assert str(out) in said
    assert remedy.startswith("remedy: Name a file")
    assert Path("/dev/full").is_char_device()


def test_an_interrupt_ends_it_and_nothing_else(tmp_path: Path) -> None:
    marker, script = tmp_path / "pid", tmp_path / "py-spy"
    script.write_text(f"#!/bin/sh\necho $$ > {marker}; exec sleep 100\n")
    script.chmod(0o700)
    with napping() as pid:
        command = [sys.executable, "-m", "autopsy", str(pid), "--py-spy", str(script)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as examining:
            while not (marker.exists() and marker.read_text().endswith("\n")):
                time.sleep(0.01)
            examining.send_signal(signal.SIGINT)
            out, err = examining.communicate(timeout=10)
        assert Path(f"/proc/{pid}").exists()
    assert (examining.returncode, out) == (130, b"")
    assert err == b"autopsy: interrupted; the process that was examined runs on\n"
    assert not Path(f"/proc/{marker.read_text().strip()}").exists()


def test_a_budget_that_is_too_short_says_so() -> None:
    with napping() as pid:
        done = run_autopsy(str(pid), "--budget", "0.01")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "autopsy: not finished within the budget of 0.01 s",
        "remedy: Give it more: --budget SECONDS.",
    ]


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """Run the command with a terminal for all its output; return what it wrote there."""
    ours, theirs = pty.openpty()
    given = {**os.environ, "TERM": "xterm", **environment}
    given = {name: value for name, value in given.items() if name != "NO_COLOR" or environment}
    with subprocess.Popen(
        [sys.executable, "-m", "autopsy", *arguments], stdout=theirs, stderr=theirs, env=given
    ):
        os.close(theirs)
        written = bytearray()
        with contextlib.suppress(OSError):  # EIO: the terminal's other side has gone
            while piece := os.read(ours, 65536):
                written += piece
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def test_on_a_terminal_it_shows_that_it_works_and_sets_headings_off(tmp_path: Path) -> None:
    script = tmp_path / "py-spy"
    script.write_text("#!/bin/sh\nsleep 100\n")  # so that there is something to wait for
    script.chmod(0o700)
    with napping() as pid:
        shown = on_a_terminal(str(pid), "--py-spy", str(script))
        plain = on_a_terminal(str(pid), NO_COLOR="1")
    assert f"\r\033[Kexamining process {pid}: 0." in shown
    _, _, rest = shown.rpartition("\r\033[K")
    assert rest.startswith(f"\033[1mAutopsy of process {pid}: blocked.sleep (85% sure)\033[0m\n")
    assert "\033[1mProcess\033[0m\n\033[2m-------\033[0m\n" in rest
    assert "\033[1m" not in plain


def test_native_calls_are_shown_on_demand() -> None:
    with napping() as pid:
        done = run_autopsy(str(pid), "--native")
    lines = done.stdout.splitlines()
    first = lines.index(f"Thread {pid} MainThread, with native calls") + 1
    assert lines[first].split()[0].endswith("nanosleep")
    assert "nap" in [line.split()[0] for line in lines[first : first + 4]]


def test_greenlets_are_said_to_be_invisible(tmp_path: Path) -> None:
    """By the library that a process has loaded; here a file takes its place."""
    library = tmp_path / "greenlet" / "_greenlet.so"
    library.parent.mkdir()
    library.write_bytes(bytes(4096))
    text = (
        "import mmap, sys, time; file = open(sys.argv[1]); "
        "kept = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ); "
        "print('ready', flush=True); time.sleep(1000)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text, str(library)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        done = run_autopsy(str(process.pid))
        process.kill()
    told = "greenlet is loaded: greenlets may exist, and those that do not run are not visible"
    assert told in done.stdout


def test_the_report_as_a_page_at_once_from_the_bundle_and_printed(tmp_path: Path) -> None:
    out, page, again = tmp_path / "a.zip", tmp_path / "a.html", tmp_path / "b.html"
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "stuck_sleep.py")], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            examined = run_autopsy(str(process.pid), "--out", str(out), "--html", str(page))
        finally:
            process.kill()
    assert (examined.returncode, examined.stderr) == (0, "")
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert f"Autopsy of process {process.pid}: blocked.sleep" in page.read_text()
    assert run_autopsy("show", str(out), "--html", str(again)).stdout == ""
    assert again.read_text() == page.read_text()
    assert run_autopsy("show", str(out), "--html", "-").stdout == page.read_text() + "\n"
    refused = run_autopsy("show", str(out), "--html", str(tmp_path / "no" / "c.html"))
    assert refused.returncode == 1
    assert "remedy: Name a file in a directory that exists" in refused.stderr
    assert run_autopsy("show", str(out), "--html", "x", "--json").returncode == 2


def test_a_bundle_is_as_large_as_it_may_be(tmp_path: Path) -> None:
    out = tmp_path / "a.zip"
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "stuck_sleep.py")], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            run_autopsy(str(process.pid), "--out", str(out), "--max-bytes", "16000")
        finally:
            process.kill()
    with zipfile.ZipFile(out) as archive:
        names = [one for one in archive.infolist() if one.filename != "manifest.json"]
        listed = json.loads(archive.read("manifest.json"))["sections"]
    assert sum(one.file_size for one in names) <= len(listed) * 2048 + 24000
    assert any("since the whole was too large" in one["reason"] for one in listed)
