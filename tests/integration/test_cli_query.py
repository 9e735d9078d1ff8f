"""`supervisor list` takes the query language of the pages, and points at what it cannot read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from supervisor import App
from supervisor.cli.group import build


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tasks.db"


def run(url: str, *args: str) -> Result:
    return CliRunner(env={"SUPERVISOR_STORE": url}).invoke(build(), ["list", *args])


def ids(url: str, *args: str) -> Any:
    result = run(url, "--json", *args)
    assert result.exit_code == 0, result.output
    return [task["task_id"] for task in json.loads(result.stdout)["tasks"]]


def test_a_query_finds_tasks_both_ways(url: str) -> None:
    app = App(store=url)
    made = [
        app.submit({"type": kind, "params": {}, "tags": [kind]}).task_id
        for kind in ("report.daily", "mail", "report.weekly")
    ]
    app.client.cancel(made[1], by="ann", reason="no mail")
    app.client.close()
    assert ids(url, "type:report.*") == [made[2], made[0]]
    assert ids(url, "type:report.*", "tag:report.daily") == [made[0]]
    assert ids(url, "state:canceled,pending", "--oldest", "--limit", "2") == made[:2]
    assert ids(url, "--oldest", "--after", made[0]) == made[1:]
    assert ids(url, "--", "-state:canceled") == [made[2], made[0]]
    assert "canceled by ann: no mail" in run(url, "mail").stdout
    first = run(url, "--oldest", "--limit", "1").stdout
    assert f"more: --after {made[0]}" in first


def test_what_cannot_be_read_is_pointed_at(url: str) -> None:
    app = App(store=url)
    app.submit({"type": "mail", "params": {}})
    app.client.close()
    wrong = run(url, "mail stat:failed")
    assert wrong.exit_code == 2
    assert "\n  mail stat:failed\n       ^^^^^\n" in wrong.output
    assert "There is no qualifier `stat:`. Did you mean `state:`?" in wrong.output
    hostile = run(url, "x\x1b[2J:1")
    assert hostile.exit_code == 0  # it is a text: no name of a qualifier stands before the colon
    assert "\x1b" not in run(url, "state:\x1b[2J").output
    both = run(url, "--before", "task_" + "0" * 32, "--after", "task_" + "0" * 32)
    assert (both.exit_code, "two directions" in both.output) == (2, True)
