"""The command `archive` on a store in a file and on a server: killed at any step, beside a node."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from harness import COMMAND, REPOSITORY, NodeUnderTest, Start, eventually, on_both_stores

from supervisor.cli.group import build
from supervisor.model.states import LIVE, State
from supervisor.store.archive_file import ColdFile

NOW = datetime.now(UTC)
STEPS = [
    ("_settle", 1),  # the first file is written, and has no name yet
    ("_named", 1),  # it was read back
    ("_settle", 2),  # in the second file
    ("_empty_store_of", 1),  # the file has a name, and nothing is deleted
    ("_forget", 3),  # in the middle of deleting
    ("_named", 2),  # all of a file is deleted, and its name does not say so
    ("_note", 1),  # at the end
]
PER_FILE = 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cold"


def in_store(node: NodeUnderTest) -> set[str]:
    return {str(row[0]) for row in node.place.query("SELECT task_id FROM tasks")}


def in_files(folder: Path) -> Counter[str]:
    """Count the whole records of each task; fail on a file that cannot be read."""
    files = [ColdFile(path) for path in folder.glob("*.jsonl.gz")]
    assert all(file.verify().records == len(file.entries()) for file in files)
    entries = [entry for file in files for entry in file.entries() if entry.kind == "task"]
    return Counter(entry.task_id or "" for entry in entries)


def killed(node: NodeUnderTest, step: str, nth: int) -> None:
    """Run the command; it is killed before the nth call of a step."""
    program = [sys.executable, "-m", "tests.programs.archive_killed", step, str(nth)]
    done = subprocess.run(
        [*program, str(PER_FILE), "--", "archive", "--older-than", "0"],
        env={**node.env, "PYTHONPATH": str(REPOSITORY)},
        cwd=REPOSITORY,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def said(node: NodeUnderTest, *args: str) -> Result:
    """Run a command in this process, sooner than in one of its own."""
    return CliRunner(env=node.env).invoke(build(), args)


def answered(node: NodeUnderTest, *args: str) -> Any:
    result = said(node, *args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def one_more(node: NodeUnderTest) -> None:
    """End a task that keeps the newest audit row, which stays in the store."""
    node.run("ok")


@on_both_stores
def test_killed_at_any_step_it_loses_and_doubles_nothing(start_node: Start, folder: Path) -> None:
    node = start_node(archive_dir=folder)
    ids = {handle.task_id for handle in node.app.submit_many([{"type": "ok"}] * 250)}
    eventually(lambda: node.reader.counts(NOW).by_state[State.SUCCESS] == 250, 60)
    one_more(node)
    for step, nth in STEPS:
        killed(node, step, nth)
        files = in_files(folder)
        assert ids <= in_store(node) | set(files)
        assert set(files.values()) <= {1}
    done = node.cli_json("archive", "--older-than", "0")
    assert done["changed_meanwhile"] == 0
    assert sorted(in_files(folder).elements()) == sorted(ids | set(in_files(folder)))
    assert not ids & in_store(node)
    assert [path.name for path in folder.iterdir() if ".jsonl.gz" not in path.name] == [
        "archive.lock"
    ]
    assert list(folder.glob("*.moving*")) == []


@on_both_stores
def test_beside_a_node_at_work_every_task_is_in_one_place(start_node: Start, folder: Path) -> None:
    node = start_node(archive_dir=folder)
    ids: set[str] = set()
    moved = 0
    for _ in range(3):
        ids |= {handle.task_id for handle in node.app.submit_many([{"type": "ok"}] * 100)}
        moved += node.cli_json("archive", "--older-than", "0")["deleted_tasks"]
    eventually(lambda: not any(node.reader.counts(NOW).by_state[state] for state in LIVE), 60)
    one_more(node)
    moved += node.cli_json("archive", "--older-than", "0")["deleted_tasks"]
    files = in_files(folder)
    assert set(files.values()) == {1}
    assert len(files) == moved
    assert ids <= set(files) | in_store(node)
    assert not set(files) & in_store(node)
    assert node.stop() == 0


@on_both_stores
def test_what_was_moved_is_shown_by_the_commands_that_show_tasks(
    start_node: Start, folder: Path
) -> None:
    node = start_node(archive_dir=folder)
    done = node.submit("boom", text="gone wrong", spec={"tags": ["a"], "submitted_by": "anna"})
    failed = done.wait(20).task_id
    before = {name: answered(node, name, failed) for name in ("show", "history", "logs")}
    assert before["show"]["archived"] is False
    one_more(node)
    dry = node.cli_json("archive", "--older-than", "0", "--dead-letters", "--dry-run")
    assert (dry["tasks"], dry["files"], folder.exists()) == (1, [], False)
    moved = node.cli_json("archive", "--older-than", "0", "--dead-letters")
    (file,) = moved["files"]
    assert (moved["tasks"], moved["deleted_tasks"]) == (1, 1)
    assert failed not in in_store(node)
    after = {name: answered(node, name, failed[-8:]) for name in ("show", "history", "logs")}
    changed = {"archived": True, "files": [file]}
    assert after["show"] == {**before["show"], **changed}
    assert after["history"] == {**before["history"], "files": [file]}
    assert after["logs"] == before["logs"]
    assert f"archived   {file}" in said(node, "show", failed).stdout
    assert said(node, "history", failed).stdout.splitlines()[-1] == f"from {file}"
    listed = said(node, "list", "--find", failed[-12:])
    assert listed.stdout.splitlines() == ["no tasks", f"archived: {failed}  FAILED  {file}"]
    (found,) = answered(node, "archive", "search", "--text", "GONE WRONG")["found"]
    assert (found["task_id"], found["file"], found["state"]) == (failed, file, "FAILED")
    again = node.cli("rerun", failed, "--reason", "fixed", "--json")
    (answer,) = json.loads(again.stdout)["tasks"]
    assert (again.returncode, answer["state"], answer["detail"]) == (
        1,
        "FAILED",
        f"it is in the archive: {file}",
    )
    gone = said(node, "show", "task_" + "0" * 32)
    assert (gone.exit_code, "no task" in gone.stderr) == (1, True)
    notes = said(node, "archive", "search", "--since", "2999-01-01")
    assert notes.stdout == "nothing found\n"


def test_a_file_that_is_damaged_is_told_and_left_out(start_node: Start, folder: Path) -> None:
    node = start_node(archive_dir=folder)
    task_id = node.run("ok").task_id
    one_more(node)
    (file,) = node.cli_json("archive", "--older-than", "0")["files"]
    content = Path(file).read_bytes()
    Path(file).write_bytes(content[:-1])
    shown = node.cli("show", task_id)
    assert shown.returncode == 1
    assert f"note: the cold file {file} cannot be read" in shown.stderr
    Path(file).write_bytes(content)
    assert node.cli_json("show", task_id)["state"] == "SUCCESS"


def test_a_disk_that_is_full_leaves_everything_in_the_store(
    start_node: Start, folder: Path
) -> None:
    node = start_node(archive_dir=folder)
    ids = {node.run("ok", value=secrets.token_hex(20_000)).task_id for _ in range(4)}
    one_more(node)
    full = subprocess.run(
        ["prlimit", "--fsize=65536", *COMMAND, "archive", "--older-than", "0"],
        env=node.env,
        cwd=node.root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (full.returncode, "cannot write to the archive" in full.stderr) == (69, True)
    assert ids <= in_store(node)
    assert [path.name for path in folder.iterdir()] == ["archive.lock"]
    assert node.cli_json("archive", "--older-than", "0")["deleted_tasks"] == 4


def test_flags_before_the_word_search_are_told_not_ignored(start_node: Start) -> None:
    node = start_node(run=False)
    node.cli("db", "upgrade")
    told = node.cli("archive", "--json", "search")
    assert (told.returncode, "flags stand behind `search`" in told.stderr) == (2, True)
