"""What programs read from --json: values in place of texts, and nothing that was never there."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from test_cli import Desk

from supervisor.cli.group import build
from supervisor.model import outcome
from supervisor.model.retry import RetryPolicy
from supervisor.store import AutopsyRecord


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def test_logs_name_the_attempt_that_they_are_of(desk: Desk) -> None:
    task_id = desk.submit("export")
    once = RetryPolicy(max_retries=1, base_s=0.0)
    failure = outcome.raised("E", "no", "")
    desk.end(task_id, desk.claim("export"), failure, "one\n", once)
    expected = {"task_id": task_id, "attempt": 1, "live": False, "text": "one\n"}
    assert desk.ok("logs", task_id) == expected
    desk.end(task_id, desk.claim("export"), outcome.returned("1"))
    assert desk.ok("logs", task_id) == expected, "of the latest that has any"
    other = desk.submit("tidy")
    nothing = {"task_id": other, "attempt": None, "live": False, "text": ""}
    assert desk.ok("logs", other) == nothing
    desk.end(other, desk.claim("tidy"), outcome.returned("1"))
    assert desk.ok("logs", other) == {**nothing, "attempt": 1}


def test_a_queue_that_was_never_paused_has_no_time_of_it(desk: Desk) -> None:
    desk.submit("export", "--queue", "q")
    [before] = desk.ok("queues")["queues"]
    assert (before["queue"], before["by"], before["at"]) == ("q", None, None)
    desk.ok("pause", "q", "--reason", "x", "--by", "ada")
    [after] = desk.ok("queues")["queues"]
    assert after["by"] == "ada"
    assert datetime.fromisoformat(after["at"]).tzinfo is not None


def test_a_diagnosis_is_a_value(desk: Desk) -> None:
    task_id = desk.failed()
    causes = [{"code": "blocked.sleep", "confidence": 0.9}]
    record = AutopsyRecord(
        autopsy_id="autopsy-1", task_id=task_id, attempt=1, node_id="n1", pid=1, path="/none.zip",
        status="captured", verdict="stalled", diagnosis="blocked.sleep",
        diagnosis_json=json.dumps(causes), created_at=datetime(2026, 1, 2, tzinfo=UTC),
        bytes=9, ms=3,
    )  # fmt: skip
    client = desk.client()
    client.record_autopsy(record)
    client.close()
    [listed] = desk.ok("autopsy", "list")["autopsies"]
    [shown] = desk.ok("show", task_id)["autopsies"]
    assert listed == shown
    assert (shown["diagnosis"], shown["diagnosis_json"]) == ("blocked.sleep", causes)


def test_check_knows_the_flags_of_run_and_the_node_that_runs(desk: Desk) -> None:
    desk.ok("db", "upgrade")
    alone = desk.ok("check", "--metrics-listen", "127.0.0.1:0", "--drain-grace", "1000")
    told = {one["about"]: one["text"] for one in alone["findings"]}
    assert "node" not in told
    assert "1067 s" in told["grace"]
    desk.node_runs("n1")
    found = {one["about"]: one for one in desk.ok("check")["findings"]}
    assert found["node"]["level"] == "warn"
    assert found["node"]["text"].startswith("node host (pid ")
    assert found["node"]["text"].endswith(") runs on this store")


@pytest.mark.parametrize(
    "path", ["list --limit", "list --state", "run --json", "autopsy list --limit"]
)
def test_every_flag_says_what_it_is(path: str) -> None:
    *names, flag = path.split()
    command: click.Command = build()
    for name in names:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name) or command
    [option] = [one for one in command.params if flag in one.opts]
    assert getattr(option, "help", None)
    assert (flag == "--json") is ("Log lines" in option.help)  # type: ignore[attr-defined]
