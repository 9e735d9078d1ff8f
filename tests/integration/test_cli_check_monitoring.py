"""`supervisor check` on the files of Prometheus, Alertmanager and Grafana, as a person runs it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from supervisor.cli.group import build

PROMETHEUS = """
rule_files: [rules/*.yml]
alerting: {alertmanagers: [{static_configs: [{targets: [a:9093]}]}]}
scrape_configs:
  - {job_name: supervisor, static_configs: [{targets: ["127.0.0.1:9464"]}]}
"""
RULES = """
groups:
  - name: tasks
    rules:
      - {record: "queue:supervisor_in_queue:sum", expr: sum by (queue) (supervisor_in_queue)}
      - {alert: Many, expr: "queue:supervisor_in_queue:sum > 20"}
"""
ALERTMANAGER = "route: {receiver: chat}\nreceivers: [{name: chat}]\n"
DASHBOARD = {
    "panels": [{"title": "P", "targets": [{"refId": "A", "expr": "queue:supervisor_in_queue:sum"}]}]
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "dashboards").mkdir()
    (tmp_path / "prometheus.yml").write_text(PROMETHEUS)
    (tmp_path / "rules" / "own.yml").write_text(RULES)
    (tmp_path / "alertmanager.yml").write_text(ALERTMANAGER)
    (tmp_path / "dashboards" / "own.json").write_text(json.dumps(DASHBOARD))
    return tmp_path


def check(files: Path, *args: str) -> Result:
    named = {
        "--prometheus": "prometheus.yml",
        "--rules": "rules",
        "--dashboards": "dashboards",
        "--alertmanager": "alertmanager.yml",
    }
    words = [word for flag, name in named.items() for word in (flag, str(files / name))]
    env = {"SUPERVISOR_STORE": f"sqlite:///{files}/none.db"}
    return CliRunner(env=env).invoke(build(), ["check", *words, *args])


def findings(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return found


def test_files_that_fit_are_told_to_fit_and_nothing_else_is_looked_at(files: Path) -> None:
    result = check(files)
    assert result.exit_code == 0
    listen = "127.0.0.1:9464"
    assert result.stdout.splitlines() == [
        "ok    rules: 2 rules in 1 file ask for what is there",
        "ok    dashboards: 1 file asks for what is there",
        (
            f"ok    prometheus: {files}/prometheus.yml scrapes nodes at {listen} and loads "
            "1 file of rules"
        ),
        f"ok    alertmanager: {files}/alertmanager.yml has a receiver for every route",
    ]


def test_a_mistake_names_file_group_rule_and_remedy(files: Path) -> None:
    path = files / "rules" / "own.yml"
    path.write_text(RULES.replace("(supervisor_in_queue)", "(supervisor_inqueue)"))
    result = check(files, "--json")
    assert result.exit_code == 2
    (failed,) = [one for one in findings(result) if one["level"] == "fail"]
    remedy = "`supervisor rules export DIR` writes those of this version."
    assert failed == {
        "about": "rules",
        "level": "fail",
        "text": f"{path}: group tasks, rule queue:supervisor_in_queue:sum: there is no metric "
        "supervisor_inqueue",
        "remedy": f"Did you mean supervisor_in_queue? {remedy}",
        "code": 2,
        "where": {"file": str(path), "group": "tasks", "rule": "queue:supervisor_in_queue:sum"},
    }


def test_settings_say_where_nodes_listen(files: Path) -> None:
    result = check(files, "--metrics-listen", "127.0.0.1:9999")
    assert result.exit_code == 2
    assert (
        "none of its targets has the port 9999 of metrics_listen: 127.0.0.1:9464" in result.stdout
    )


def test_a_dashboard_may_ask_for_the_records_of_this_version(files: Path) -> None:
    page = {"panels": [{"title": "P", "targets": [{"refId": "A", "expr": "supervisor:in_queue"}]}]}
    (files / "dashboards" / "own.json").write_text(json.dumps(page))
    (told,) = [one for one in findings(check(files, "--json")) if one["level"] == "fail"]
    assert told["where"]["panel"] == "P"
    env = {"SUPERVISOR_STORE": f"sqlite:///{files}/none.db"}
    words = ["check", "--dashboards", str(files / "dashboards")]
    alone = CliRunner(env=env).invoke(build(), words)
    assert (alone.exit_code, alone.stdout) == (
        0,
        "ok    dashboards: 1 file asks for what is there\n",
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("prometheus.yml", "a: [", "it is no YAML: while parsing a flow"),
        ("dashboards/own.json", "{", "it is no JSON: Expecting property name"),
        ("rules/own.yml", "\x00", "it is no YAML: unacceptable character"),
        ("alertmanager.yml", "route: {receiver: pager}", "there is no receiver pager"),
        ("rules/own.yml", "[" * 5000, "it is nested too deeply"),
        ("prometheus.yml", "a: " + "{b: " * 5000, "it is nested too deeply"),
        ("dashboards/own.json", "[" * 5000 + "]" * 5000, "it is nested too deeply"),
        ("alertmanager.yml", "route: &a {receiver: x, routes: [*a]}", "it is nested too deeply"),
        ("rules/own.yml", "!!timestamp x", "it is no YAML: "),
    ],
)
def test_a_file_that_cannot_be_used_fails(files: Path, name: str, text: str, said: str) -> None:
    (files / name).write_text(text)
    result = check(files)
    assert result.exit_code == 2
    assert f"{files}/{name}: {said}" in result.stdout


@pytest.mark.parametrize("labels", ["5", "severity", "[a, b]", "true"])
def test_labels_that_are_no_mapping_are_told(files: Path, labels: str) -> None:
    path = files / "rules" / "own.yml"
    path.write_text(RULES.replace("{alert: Many,", f"{{alert: Many, labels: {labels},"))
    result = check(files, "--json")
    assert result.exit_code == 2
    (failed,) = [one for one in findings(result) if one["level"] == "fail"]
    assert failed["text"] == f"{path}: group tasks, rule Many: its labels are no mapping"


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
@pytest.mark.parametrize("flag", ["--rules", "--dashboards", "--prometheus", "--alertmanager"])
def test_a_device_is_no_file(device: str, flag: str) -> None:
    result = CliRunner().invoke(build(), ["check", flag, device])
    assert result.exit_code == 2
    about = flag.removeprefix("--")
    assert result.stdout == (
        f"fail  {about}: {device}: it is a device, no file\n      remedy: Name a file.\n"
    )


def test_a_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = threading.Thread(target=pipe.write_text, args=(RULES,))
    told.start()
    result = CliRunner().invoke(build(), ["check", "--rules", str(pipe)])
    told.join()
    assert result.stdout == "ok    rules: 2 rules in 1 file ask for what is there\n"


def test_an_empty_folder_is_no_good_news(files: Path) -> None:
    (files / "rules" / "own.yml").unlink()
    result = check(files)
    assert result.exit_code == 2
    assert f"fail  rules: {files}/rules: no *.yml or *.yaml in it" in result.stdout


def test_with_an_app_all_the_rest_is_looked_at_as_well(files: Path) -> None:
    told = {
        one["about"] for one in findings(check(files, "tests.programs.tasks_endings:app", "--json"))
    }
    assert {"host", "settings", "store", "app", "rules", "prometheus"} <= told


def test_what_lies_beside_rules_in_an_export_is_no_rule_file(files: Path) -> None:
    (files / "rules" / "alertmanager.yml").write_text(ALERTMANAGER)
    result = check(files)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "ok    rules: 2 rules in 1 file ask for what is there",
    )
