"""Every way the command line can refuse: message, remedy, exit code, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from supervisor.cli.group import COMMANDS, Edge, build, report
from supervisor.errors import (
    BootFailed,
    ConfigError,
    InvalidSpec,
    Problem,
    Refused,
    StoreUnavailable,
    SupervisorError,
    WireBroken,
)

NO_ID = "task_" + "0" * 32
READING = (
    ["list"], ["show", NO_ID], ["logs", NO_ID], ["history", NO_ID], ["queues"], ["top"],
    ["cancel", NO_ID, "--reason", "x"], ["rerun", NO_ID, "--reason", "x"],
    ["fail", NO_ID, "--reason", "x"], ["pause", "q", "--reason", "x"], ["resume", "q"],
    ["autopsy", "list"], ["autopsy", "show", NO_ID], ["autopsy", "export", NO_ID],
    ["autopsy", "capture", NO_ID],
)  # fmt: skip
REFUSED = [
    (["show", NO_ID], 1, f"no task {NO_ID}"),
    (["show", "ä"], 1, "no task ä"),
    (["history", NO_ID], 1, f"no task {NO_ID}"),
    (["logs", NO_ID], 1, f"no task {NO_ID}"),
    (["autopsy", "show", "nothing"], 1, "no autopsy and no task"),
    (["autopsy", "export", "nothing"], 1, "no autopsy and no task"),
    (["autopsy", "capture", NO_ID], 1, f"no task {NO_ID}"),
    (["submit", "9a"], 1, "type: must be a name"),
    (["submit", "a", "--timeout", "5", "--soft-timeout", "5"], 1, "soft_timeout: must be below"),
    (["submit", "a", "--soft-timeout", "inf"], 2, "'inf' is neither seconds nor none"),
    (["submit", "a", "--param", "n=3", "--param", "n=4"], 2, "the param 'n' is given twice"),
    (["submit", "a", "--params", '{"n":3}', "--param", "n=4"], 2, "'n' is given twice"),
    (["submit", "a", "--run-after", "tomorrow"], 1, "run_after: must be an ISO 8601 time"),
    (["submit", "a", "--task-id", "x"], 1, "task_id: must be task_"),
    (["submit", "-"], 1, "spec: must be an object"),
    (["confg"], 2, "no command 'confg'; did you mean config?"),
    (["autopsy", "shw"], 2, "No such command 'shw'"),
    (["list", "--lmit", "3"], 2, "No such option '--lmit'"),
    (["list", "--limit", "0"], 2, "0 is not in the range"),
    (["list", "--state", "LOST"], 2, "'LOST' is not one of"),
    (["show"], 2, "Missing argument 'ID'"),
    (["cancel", NO_ID], 2, "Missing option '--reason'"),
    (["pause", "q", "--reason", " "], 2, "Invalid value for '--reason': it is blank"),
    (["cancel", NO_ID, "--reason", ""], 2, "Invalid value for '--reason': it is blank"),
    (["resume", "q", "--by", " "], 2, "Invalid value for '--by': it is blank"),
    (["submit", "a", "--priority", "11"], 2, "11 is not in the range 0<=x<=9"),
    (["list", "--before", "nonsense"], 2, "'nonsense' is not the id of a task"),
    (["cancel", "--reason", "x"], 2, "Missing argument 'ID...'"),
    (["pause", "q", "--reason", "x", "--priority", "10"], 2, "10 is not in the range"),
    (["submit", "a", "--param", "x"], 2, "--param takes NAME=VALUE, not 'x'"),
    (["submit", "a", "--params", "{"], 2, "--params is not JSON"),
    (["submit", "no-such.jsonl"], 2, "no-such.jsonl cannot be read"),
    (["submit", "-", "--queue", "q"], 2, "--queue cannot be given with a file"),
    (["config", "--workers", "0"], 2, "workers: must be a whole number from 1 to 1000"),
    (["config", "--config", "no-such.toml"], 2, "no-such.toml: could not be read"),
    (["list", "--store", "supervisor.db"], 2, "store: must be sqlite:///"),
    (["run", "shop:app", "--retry-max", "5"], 2, "retry_max: must not be below"),
    (["run", "shop:app", "--workers", "many"], 2, "workers: must be a whole number"),
    (["demo", "--for", "0"], 2, "0.0 is not in the range"),
    (["check", "--grace", "-1"], 2, "-1.0 is not in the range"),
]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.chdir(tmp_path)
    return CliRunner(env={"SUPERVISOR_STORE": f"sqlite:///{tmp_path}/supervisor.db"})


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_reading_commands_make_no_store(runner: CliRunner, tmp_path: Path, args: list[str]) -> None:
    result = runner.invoke(build(), args)
    assert result.exit_code == 69
    assert result.stdout == ""
    message, remedy = result.stderr.splitlines()
    assert message == f"error: no store at {tmp_path}/supervisor.db"
    assert remedy.startswith("remedy: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("args", "code", "message"), REFUSED, ids=lambda value: str(value)[:60])
def test_refusals(runner: CliRunner, args: list[str], code: int, message: str) -> None:
    assert runner.invoke(build(), ["db", "upgrade"]).exit_code == 0
    plain = runner.invoke(build(), args, input="3")
    assert (plain.exit_code, plain.stdout) == (code, "")
    first, *rest, last = plain.stderr.splitlines()
    assert all(line.startswith("       ") for line in rest)
    assert first.startswith("error: ")
    assert message in "\n".join([first, *rest])
    assert last.startswith("remedy: ")
    assert len(last) > len("remedy: ")
    as_json = runner.invoke(build(), [*args, "--json"], input="3")
    assert (as_json.exit_code, as_json.stdout) == (code, "")
    document = json.loads(as_json.stderr)
    assert list(document) == ["error", "remedy", "facts"]
    assert message in document["error"]
    assert document["remedy"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("no", remedy="Ask."), 1),
        (InvalidSpec([Problem("a", "is bad")]), 1),
        (WireBroken("broken"), 1),
        (ConfigError("no"), 2),
        (BootFailed("no"), 2),
        (StoreUnavailable("away"), 69),
        (click.UsageError("no"), 2),
        (RuntimeError("oops"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code_and_a_remedy(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error, as_json=False) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error: " in printed.err
    assert "remedy: " in printed.err


def test_every_problem_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    spec = InvalidSpec([Problem("type", "is missing"), Problem("priority", "is bad", "11")])
    report(spec, as_json=False)
    assert capsys.readouterr().err.splitlines() == [
        "error: type: is missing",
        "       priority: is bad (given: 11)",
        "remedy: Correct the named fields and submit again; nothing was written.",
    ]
    settings = ConfigError("a: no; b: no", remedy="Mend.", problems=["a: no", "b: no"])
    report(settings, as_json=False)
    assert capsys.readouterr().err.splitlines() == [
        "error: a: no",
        "       b: no",
        "remedy: Mend.",
    ]


def test_the_error_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    report(SupervisorError("\x1b[2Jgone", remedy="\x07"), as_json=False)
    assert capsys.readouterr().err == "error: \\x1b[2Jgone\nremedy: \\x07\n"


def test_an_interrupt_is_quiet() -> None:
    for error, code in ((KeyboardInterrupt, 130), (click.Abort, 130)):

        @click.pass_context
        def fail(_: click.Context, error: type[BaseException] = error) -> None:
            raise error

        edge = Edge(name="supervisor", commands={"fail": click.Command("fail", callback=fail)})
        result = CliRunner().invoke(edge, ["fail"])
        assert (result.exit_code, result.output.strip()) == (code, "")


def command_line(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "supervisor.cli", *args],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    specs = tmp_path / "specs.jsonl"
    specs.write_text("\n".join('{"type":"a"}' for _ in range(3000)), "utf-8")
    store = f"sqlite:///{tmp_path}/a.db"
    script = f"{sys.executable} -m supervisor.cli submit {specs} --json --store {store} | head -c 9"
    # Unbuffered, Python itself takes a write that the pipe cut short for a whole one.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (141, '{"tasks":', "")


@pytest.mark.alone
def test_help_is_there_before_one_looks_away() -> None:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        done = command_line("--help")
        took.append(time.perf_counter() - began)
        assert done.returncode == 0
    assert min(took) < 0.2, took


def test_help_imports_no_command_and_nothing_heavy() -> None:
    program = (
        "import sys\nfrom supervisor.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ('sqlalchemy', 'rich', 'structlog', 'prometheus_client', 'supervisor.settings')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    ("terminal", "env", "coloured"),
    [(True, {}, True), (True, {"NO_COLOR": "1"}, False), (False, {}, False)],
)
def test_colours_only_where_they_are_wanted(
    tmp_path: Path, terminal: bool, env: dict[str, str], coloured: bool
) -> None:
    ours, theirs = os.openpty()
    given = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR"}}
    stream = theirs if terminal else subprocess.PIPE
    for args in (["check", "--grace", "1"], ["list"]):
        done = subprocess.run(
            [sys.executable, "-m", "supervisor.cli", *args, "--store", f"sqlite:///{tmp_path}/a"],
            stdout=stream, stderr=stream, env={**given, **env, "TERM": "xterm"},
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode in {2, 69}
        printed = os.read(ours, 65536) if terminal else done.stdout + done.stderr
        assert (b"\x1b[" in printed) == coloured, printed
    os.close(ours)
    os.close(theirs)
