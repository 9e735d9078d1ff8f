"""The rules and routes in the programs that will read them: promtool, amtool, an Alertmanager."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import eventually
from monitoring_servers import Alertmanager, Webhook, fetch, start_alertmanager, webhook
from rules import files, incidents, mutation, promtool

from supervisor.monitoring import alerts
from supervisor.monitoring.alertmanager import NOBODY, RECEIVERS, Receivers, render
from supervisor.monitoring.rule import added_labels

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "alerts"
#: A test that is not killed by its checks costs a reason here.
LEAST_KILLED = 0.9


def amtool(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([promtool.program("amtool"), *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_rules_parse_and_have_no_fault_that_promtool_knows() -> None:
    assert promtool.check(*sorted(ALERTS.glob("*.rules.yml"))) == ""


@pytest.mark.parametrize("name", files.CASES)
def test_each_alert_fires_in_its_case_and_is_silent_in_its_look_alike(name: str) -> None:
    passed, output = promtool.run_file(ALERTS / "tests" / f"{name}.test.yml")
    assert passed, output


@pytest.mark.timeout(300)
def test_annotations_are_as_they_were_seen() -> None:
    """Each with what it depends on of the rules as they are exported: with all it takes minutes."""
    seen = yaml.safe_load((ALERTS / "tests" / "annotations.test.yml").read_text())
    exported = [
        yaml.safe_load((ALERTS / "tests" / path).read_text()) for path in seen["rule_files"]
    ]
    wrong = []
    for test in seen["tests"]:
        names = files.needed(
            {one["alertname"] for one in test["alert_rule_test"]}, files.all_groups()
        )
        kept = [
            {**group, "rules": rules}
            for one in exported
            for group in one["groups"]
            if (rules := [rule for rule in group["rules"] if name_of(rule) in names])
        ]
        made = {
            "rules.yml": {"groups": kept},
            "test.yml": {
                **seen,
                "rule_files": ["rules.yml"],
                "tests": [test],
                "group_eval_order": [group["name"] for group in kept],
            },
        }
        passed, output = promtool.run(made, "test.yml")
        wrong += [] if passed else [output]
    assert wrong == []


def name_of(rule: dict[str, Any]) -> str:
    return str(rule.get("alert") or rule["record"])


@pytest.mark.alone  # promtool keeps both cores busy: beside others it takes minutes
@pytest.mark.timeout(300)
def test_a_rule_that_is_broken_is_noticed() -> None:
    made = {name: mutation.of_file(name) for name in files.CASES}
    with ThreadPoolExecutor(2) as pool:  # each waits for a process of its own
        found = list(pool.map(mutation.survivors, made, made.values()))
    left = [f"{m.original}: {m.what}" for some in found for m in some]
    tried = sum(map(len, made.values()))
    killed = 1 - len(left) / tried
    print(f"{tried} mutants, {killed:.1%} killed; left:", *left, sep="\n  ")
    assert killed >= LEAST_KILLED, left


@pytest.mark.parametrize(
    "name", ["database", "failures", "memory"], ids=lambda name: name.replace(" ", "-")
)
def test_a_trend_is_told_long_before_its_limit(name: str) -> None:
    incident = next(one for one in incidents.INCIDENTS if one.name == name)
    lead = incidents.lead(incident, minutes=incidents.BEGIN + 90)
    assert lead.minutes is not None
    assert lead.minutes >= 17


@pytest.mark.parametrize(
    "alert", ["DependencySlowing", "TaskDurationRising", "TaskQueueWaitRising"]
)
def test_a_quiet_morning_raises_no_trend(alert: str) -> None:
    assert incidents.false_alarms(alert, minutes=360, seed=42) == 0


def test_the_routes_are_a_file_that_alertmanager_takes() -> None:
    code, output = amtool("check-config", str(ALERTS / "alertmanager.yml"))
    assert code == 0, output


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ({"alertname": "Watchdog", "severity": "none"}, "deadman"),
        ({"alertname": "TaskStuckPastTimeout", "severity": "critical"}, "pager"),
        ({"alertname": "ZombieShareHigh", "severity": "critical", "notify": "sms"}, "sms,pager"),
        (
            {"alertname": "TaskCancelRateHigh", "severity": "warning", "route": "product"},
            "product",
        ),
        ({"alertname": "QueuePaused", "severity": "info"}, NOBODY),
        ({"alertname": "TaskQueueGrowing", "severity": "warning"}, "chat"),
        ({"alertname": "SomebodyElses"}, "chat"),
        ({"alertname": "SomebodyElses", "severity": "page"}, "chat"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["alertname"],
)
def test_an_alert_goes_where_it_should(labels: dict[str, str], receivers: str) -> None:
    code, output = amtool(
        *("config", "routes", "test", f"--config.file={ALERTS / 'alertmanager.yml'}"),
        f"--verify.receivers={receivers}",
        *(f"{name}={value}" for name, value in labels.items()),
    )
    assert code == 0, output


def test_every_alert_has_a_receiver_of_its_severity() -> None:
    told = {
        "critical": {"pager", "sms,pager"},
        "warning": {"chat", "product"},
        "info": {NOBODY},
        "none": {"deadman"},
    }
    for alert in alerts.all_alerts():
        labels = {"alertname": alert.name, **added_labels(alert)}
        _, output = amtool(
            *("config", "routes", "test", f"--config.file={ALERTS / 'alertmanager.yml'}"),
            *(f"{name}={value}" for name, value in labels.items()),
        )
        assert output.splitlines()[0] in told[str(alert.severity)], alert.name


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Alertmanager, Webhook]]:
    with webhook() as receiver:
        urls = {name: f"{receiver.url}/{name}" for name in RECEIVERS}
        config = render(Receivers(urls=urls))
        for wait in ("10s", "30s", "1m", "5m", "10m"):
            config = config.replace(f"group_wait: {wait}\n", "group_wait: 0s\n")
            config = config.replace(f"group_interval: {wait}\n", "group_interval: 1s\n")
        server = start_alertmanager(config)
        try:
            yield server, receiver
        finally:
            server.stop()


def raise_in(server: Alertmanager, *labels: dict[str, str]) -> None:
    now = datetime.now(UTC).isoformat()
    body = json.dumps([{"labels": one, "startsAt": now} for one in labels]).encode()
    request = urllib.request.Request(
        f"{server.url}/api/v2/alerts", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


#: What silences, what is silenced by it, and what is like it and is told.
INHIBITED = {
    "a paused queue": (
        {"alertname": "QueuePaused", "severity": "info", "queue": "q"},
        {"alertname": "TaskQueueWaitLong", "severity": "warning", "queue": "q"},
        {"alertname": "TaskQueueWaitLong", "severity": "warning", "queue": "other"},
    ),
    "a wave of zombies": (
        {"alertname": "ZombieShareHigh", "severity": "critical", "notify": "sms"},
        {"alertname": "ZombieTasks", "severity": "warning", "kind": "lost"},
        {"alertname": "TaskDead", "severity": "warning", "type": "export"},
    ),
    "a node that is down": (
        {"alertname": "SupervisorDown", "severity": "critical", "instance": "a"},
        {"alertname": "ClockSkew", "severity": "warning", "instance": "a"},
        {"alertname": "ClockSkew", "severity": "warning", "instance": "b"},
    ),
    "a task past its timeout": (
        {"alertname": "TaskStuckPastTimeout", "severity": "critical", "type": "export"},
        {"alertname": "TaskRunningNearTimeout", "severity": "warning", "type": "export"},
        {"alertname": "TaskRunningNearTimeout", "severity": "warning", "type": "resize"},
    ),
    "a limit that is passed": (
        {"alertname": "DependencySlow", "severity": "warning", "service": "pay"},
        {"alertname": "DependencySlowing", "severity": "warning", "service": "pay"},
        {"alertname": "DependencySlowing", "severity": "warning", "service": "mail"},
    ),
}


@pytest.mark.parametrize("story", INHIBITED)
def test_what_is_only_a_consequence_is_told_to_nobody(
    pair: tuple[Alertmanager, Webhook], story: str
) -> None:
    server, receiver = pair
    job = {"job": story}
    cause, consequence, alike = ({**labels, **job} for labels in INHIBITED[story])
    raise_in(server, cause)
    eventually(
        lambda: any(one["labels"] == cause for one in server.alerts()), timeout=10, what="the cause"
    )
    raise_in(server, consequence, alike)
    eventually(lambda: receiver.of(alike["alertname"], **alike), timeout=10, what=story)
    time.sleep(0.3)  # what is told at all is told by now: both came at the same time
    assert receiver.of(consequence["alertname"], **consequence) == []
    suppressed = {
        tuple(sorted(one["labels"].items()))
        for one in server.alerts()
        if one["status"]["state"] == "suppressed"
    }
    assert suppressed >= {tuple(sorted(consequence.items()))}


def test_the_watchdog_is_told_though_nothing_is_scraped(
    pair: tuple[Alertmanager, Webhook],
) -> None:
    server, receiver = pair
    raise_in(server, {"alertname": "SupervisorAbsent", "severity": "critical", "job": "x"})
    raise_in(server, {"alertname": "Watchdog", "severity": "none"})
    told = eventually(lambda: receiver.of("Watchdog"), timeout=10, what="the watchdog")
    assert {one.path for one in told} == {"/deadman"}
    assert fetch(f"{server.url}/-/healthy")[0] == 200
